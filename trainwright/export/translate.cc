// From a plan to settings: degrees, batch, sharding, precision, recompute.
#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/export/say.h"

namespace trainwright {
namespace detail {
namespace {

bool fits_form(const std::vector<Setting>& settings, SettingsForm form) {
  return std::all_of(settings.begin(), settings.end(), [&](const Setting& setting) {
    return form == SettingsForm::Options || !setting.key.starts_with("--");
  });
}

// The first that there is: for this value on one accelerator or under this sharding, for this value
// at all, of the offer, for the key.
const std::string* setting_for(const Speech& speech, const Saying& saying) {
  const Trainer& trainer = speech.plan.trainer;
  const Layout& layout = speech.plan.layout;
  const std::string value = saying.key + '.' + saying.value;
  const std::string* alone =
      world_size(layout) == 1 ? find_setting(trainer, value + ".alone") : nullptr;
  if (alone != nullptr) return alone;
  const std::string sharding(name_of(layout.sharding));
  if (const std::string* one = find_setting(trainer, value + '.' + sharding)) return one;
  if (const std::string* one = find_setting(trainer, value)) return one;
  return saying.offer != nullptr ? saying.offer : find_setting(trainer, saying.key);
}

std::optional<std::vector<Setting>> settings_for(const Speech& speech, const Saying& saying) {
  const std::string* text = setting_for(speech, saying);
  if (text == nullptr || *text == "-") return std::nullopt;
  auto settings = filled(*text, saying.filling);
  if (!settings || !fits_form(*settings, speech.target.form)) return std::nullopt;
  return settings;
}

// Several values of one option, as "--pipeline_parallel_config a b".
bool gathers(const Setting& setting) { return setting.key.ends_with("_config"); }

void add(Speech& speech, Setting setting) {
  auto& list = speech.said.settings;
  const auto same = std::find_if(list.begin(), list.end(),
                                 [&](const Setting& one) { return one.key == setting.key; });
  if (same == list.end()) {
    list.push_back(std::move(setting));
  } else if (gathers(setting)) {
    same->values.insert(same->values.end(), setting.values.begin(), setting.values.end());
  } else if (same->values != setting.values) {
    cannot_say(speech, setting.of, fmt::format("{} would have two values", setting.key), {});
  }
}

}  // namespace

void cannot_say(Speech& speech, std::string what, std::string why,
                const std::function<void(Layout&)>& unsay) {
  speech.said.unsayable.push_back({std::move(what), std::move(why)});
  if (unsay) unsay(speech.said.nearest);
}

bool has_setting(const Speech& speech, std::string_view key) {
  return find_setting(speech.plan.trainer, key) != nullptr;
}

void say(Speech& speech, const Saying& saying) {
  std::optional<std::vector<Setting>> settings = settings_for(speech, saying);
  if (settings) {
    if (!settings->empty()) settings->front().why = saying.why;
    for (Setting& setting : *settings) {
      setting.of = saying.key;
      add(speech, std::move(setting));
    }
  } else if (saying.needed) {
    const Trainer& trainer = speech.plan.trainer;
    cannot_say(speech, fmt::format("{}={}", saying.key, saying.value),
               fmt::format("{} {} has no setting for it", trainer.title, to_text(trainer.version)),
               saying.unsay);
  }
}

std::string place_text(const Plan& plan, GroupKind kind) {
  if (world_size(plan.layout) != accelerator_count(plan.cluster)) return "";
  const GroupPlacement place = place_group(plan.layout, kind, plan.cluster);
  if (place.group.size == 1) return "";
  const std::string& tier = plan.cluster.groups[place.hardware].tiers[place.spanned].name;
  return fmt::format("{} ranks over {}", place.group.size, tier);
}

namespace {

struct Number {
  const char* key;
  std::int64_t value;
  bool always = false;  // also when it is 1
  std::string why = {};
  std::function<void(Layout&)> unsay = {};
};

void say_number(Speech& speech, const Number& number) {
  const std::string text = std::to_string(number.value);
  const bool one = number.value == 1 && !number.always;
  if (one && !has_setting(speech, fmt::format("{}.1", number.key))) return;
  const bool known = has_setting(speech, number.key);
  say(speech, {.key = number.key,
               .value = text,
               .filling = {.number = text, .usual = text},
               .needed = !one && (known || number.value > 1),
               .why = number.why,
               .unsay = number.unsay});
}

void say_degrees(Speech& speech) {
  const Plan& plan = speech.plan;
  const Layout& layout = plan.layout;
  const auto place = [&](GroupKind kind) { return place_text(plan, kind); };
  say_number(speech, {"tp", layout.tp, false, place(GroupKind::Tp), {}});
  say_number(speech, {"cp", layout.cp, false, place(GroupKind::Cp), {}});
  if (has_experts(plan.model)) {
    say_number(speech, {"ep", layout.ep, false, place(GroupKind::Ep), {}});
    if (has_setting(speech, "etp") || (layout.etp != 1 && layout.etp != layout.tp)) {
      say_number(speech, {"etp", layout.etp, true, "left out it would be tp",
                          [](Layout& near) { near.etp = near.tp; }});
    }
    const auto kind = is_flex(layout.dispatcher) ? DispatcherKind::Flex : layout.dispatcher;
    const auto* backend = find_kind(plan.trainer.flex_backends, layout.dispatcher);
    say(speech, {.key = "dispatcher",
                 .value = std::string(name_of(layout.dispatcher)),
                 .filling = {.place = static_cast<std::size_t>(kind)},
                 .offer = backend == nullptr ? nullptr : &backend->setting,
                 .needed = layout.dispatcher != DispatcherKind::AllToAll,
                 .why = "trainers differ in what they do unasked",
                 .unsay = [](Layout& near) { near.dispatcher = DispatcherKind::AllToAll; }});
  }
  const bool on = layout.sp && layout.tp > 1;
  const std::string* sp = find_setting(plan.trainer, "sp");
  if (on || (sp != nullptr && sp->find('|') != std::string::npos)) {
    say(speech, {.key = "sp",
                 .value = on ? "on" : "off",
                 .filling = {.place = on ? 1 : 0},
                 .needed = on && sp != nullptr,
                 .why = on ? "norms and dropout over the ranks of tp" : ""});
  }
}

void say_context(Speech& speech) {
  const Layout& layout = speech.plan.layout;
  if (layout.cp == 1) return;
  const std::string cp = std::to_string(layout.cp);
  const auto* offer = find_kind(speech.plan.trainer.cp_kinds, layout.cp_kind);
  say(speech, {.key = "cp_kind",
               .value = std::string(name_of(layout.cp_kind)),
               .filling = {.number = cp, .usual = cp},
               .offer = offer == nullptr ? nullptr : &offer->setting});
  if (layout.cp_kind == CpKind::UlyssesRing && layout.cp_ulysses > 0) {
    const std::int64_t inner = layout.cp_ulysses;
    say(speech, {.key = "cp_ulysses",
                 .value = std::to_string(inner),
                 .filling = {.list = {std::to_string(inner), std::to_string(layout.cp / inner)}},
                 .why = "all-to-all inside, a ring of these"});
  }
}

void say_batch(Speech& speech) {
  const Plan& plan = speech.plan;
  const Layout& layout = plan.layout;
  const std::int64_t count = micro_batch_count(layout);
  const std::int64_t local = layout.mbs * (layout.pp > 1 ? count : 1);
  const auto offered = [&](const Number& number) {
    if (has_setting(speech, number.key)) say_number(speech, number);
  };
  offered({"mbs", layout.mbs, true, fmt::format("{} micro-batches a step", count), {}});
  if (layout.pp > 1) {
    offered({"pipeline_mbs", layout.mbs, true, fmt::format("{} micro-batches a step", count), {}});
    offered({"pipeline_batch", local, true, "sequences of one rank and step", {}});
  }
  offered({"local_batch", local, true, "sequences of one rank and step", {}});
  offered({"micro_batches", count, true, "of one rank and step", {}});
  offered({"gbs", layout.gbs, true, fmt::format("over dp {}", layout.dp), {}});
  offered({"seq", layout.seq, true, {}, {}});
}

// Of weights, gradients and states over data-parallel ranks.
void say_sharding(Speech& speech, bool told_by_optimizer) {
  const Plan& plan = speech.plan;
  const Layout& layout = plan.layout;
  const auto* offer = find_kind(plan.trainer.shardings, layout.sharding);
  const auto zero = static_cast<std::size_t>(layout.zero);
  if (!told_by_optimizer) {
    say(speech, {.key = "sharding",
                 .value = std::string(name_of(layout.sharding)),
                 .filling = {.number = std::to_string(layout.zero), .place = zero},
                 .offer = offer == nullptr ? nullptr : &offer->setting,
                 .why = layout.zero == 0 ? ""
                                         : fmt::format("ZeRO {}: {}", layout.zero,
                                                       place_text(plan, GroupKind::Shard))});
  }
  const auto offered = [&](const Number& number) {
    if (has_setting(speech, number.key)) say_number(speech, number);
  };
  offered({"dp", layout.dp, true, {}, {}});
  // Where shards are counted, copies are what is left of dp.
  const bool counted = has_setting(speech, "dp_shard");
  if (counted) {
    const std::int64_t shards = std::max<std::int64_t>(dp_shard(layout), 1);
    say_number(speech, {"dp_shard", shards, layout.zero > 0, {}, {}});
    offered({"dp_replicate", layout.dp / shards, false, {}, {}});
  } else {
    const std::int64_t copies =
        layout.zero > 0 ? layout.dp_replicate : 1;  // without shards: of nothing
    say_number(speech, {"dp_replicate", copies, false, "copies of the shards",
                        [](Layout& near) { near.dp_replicate = 1; }});
  }
  offered({"world", world_size(layout), true, {}, {}});
  offered({"nodes", node_count(plan.cluster), true, {}, {}});
}

// The dtype that has to be asked for: another one than unasked, or the first of a trainer's file
// that has a setting. Empty if none has.
std::string gradients_to_say(const Plan& plan) {
  Layout silent = plan.layout;
  silent.gradients = GradientDtype::AsTrainer;
  std::string asked = gradient_dtype(plan.layout, plan.trainer);
  if (asked != gradient_dtype(silent, plan.trainer)) return asked;
  const auto* precision = find_kind(plan.trainer.precisions, plan.layout.precision);
  const bool first = precision != nullptr && precision->gradients.front() == asked;
  return first && find_setting(plan.trainer, "gradients." + asked) != nullptr ? asked : "";
}

// Whether the optimizer's own setting says that its states are sharded.
bool say_precision(Speech& speech) {
  const Plan& plan = speech.plan;
  const Layout& layout = plan.layout;
  const auto* precision = find_kind(plan.trainer.precisions, layout.precision);
  const std::string kind(name_of(layout.precision)), gradients = gradients_to_say(plan);
  // Some settings say a dtype of gradients together with the precision.
  const bool both = has_setting(speech, fmt::format("gradients.{}.{}", gradients, kind));
  if (!both) {
    say(speech, {.key = "precision",
                 .value = kind,
                 .offer = precision == nullptr ? nullptr : &precision->setting,
                 .unsay = [](Layout& near) { near.precision = PrecisionKind::Bf16; }});
  }
  if (!gradients.empty()) {
    say(speech, {.key = "gradients",
                 .value = both ? gradients + '.' + kind : gradients,
                 .why = "added up and reduced",
                 .unsay = [](Layout& near) { near.gradients = GradientDtype::AsTrainer; }});
  }
  if (both && speech.target.launcher == Launcher::Bridge) {
    speech.said.notes.emplace_back(
        "the recipe has to hold mixed_precision as an object, as perf_recipes do, not by its name: "
        "a name has no fields to set");
  }
  const auto* optimizer = find_kind(plan.trainer.optimizers, plan.job.optimizer);
  say(speech, {.key = "optimizer",
               .value = std::string(name_of(plan.job.optimizer)),
               .filling = {.place = layout.zero > 0 ? 1 : 0},
               .offer = optimizer == nullptr ? nullptr : &optimizer->setting});
  return optimizer != nullptr && layout.zero > 0 &&
         optimizer->setting.find('|') != std::string::npos;
}

std::vector<std::string> module_words(const Trainer& trainer, const Recompute& recompute) {
  const std::string* names = find_setting(trainer, "modules");
  std::vector<std::string> words;
  if (names == nullptr) return words;
  const auto all = split(*names, '|');
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (recompute.modules.has(static_cast<RecomputeModule>(i))) words.emplace_back(all[i]);
  }
  return words;
}

void say_recompute(Speech& speech) {
  const Plan& plan = speech.plan;
  Recompute recompute = plan.layout.recompute;
  const auto& by_stage = plan.layout.recompute_by_stage;
  if (!by_stage.empty()) {
    const auto most =
        *std::max_element(by_stage.begin(), by_stage.end(),
                          [](const Recompute& a, const Recompute& b) { return a.kind < b.kind; });
    if (std::count(by_stage.begin(), by_stage.end(), most) !=
        static_cast<std::ptrdiff_t>(by_stage.size())) {
      cannot_say(speech, "recompute by stage", "settings hold for every stage alike",
                 [most](Layout& near) {
                   near.recompute_by_stage.clear();
                   near.recompute = most;
                 });
    }
    recompute = most;
  }
  const auto* offer = find_kind(plan.trainer.recomputes, recompute.kind);
  const std::string n = std::to_string(recompute.n);
  const bool counted = offer != nullptr && offer->setting.find('N') != std::string::npos;
  if (recompute.n > 1 && !counted) {
    cannot_say(speech, fmt::format("recompute={}", to_text(recompute)),
               "it takes no number of layers", [](Layout& near) { near.recompute.n = 1; });
  }
  say(speech, {.key = "recompute",
               .value = std::string(name_of(recompute.kind)),
               .filling = {.number = n, .list = module_words(plan.trainer, recompute), .usual = {}},
               .offer = offer == nullptr ? nullptr : &offer->setting,
               .needed = recompute.kind != RecomputeKind::None,
               .unsay = [](Layout& near) { near.recompute = {RecomputeKind::Full, {}, 1}; }});
}

void say_order(Speech& speech) {
  const Layout usual = usual_layout(speech.plan.trainer);
  if (speech.plan.layout.order == usual.order) return;
  say(speech, {.key = "order",
               .value = to_text(speech.plan.layout.order),
               .unsay = [order = usual.order](Layout& near) { near.order = order; }});
}

// peft's docs/source/accelerate/deepspeed.md and fsdp.md.
void say_packed_base(Speech& speech) {
  const auto& lora = speech.plan.job.lora;
  const Layout& layout = speech.plan.layout;
  if (!lora || lora->base != FrozenBase::Nf4 || !sharding_of(layout, speech.plan.trainer).weights)
    return;
  const char* dtype = layout.precision == PrecisionKind::Bf16 ? "bfloat16" : "float32";
  speech.said.notes.push_back(fmt::format(
      "weights in 4 bits are sharded only if their numbers are packed in the dtype of all others: "
      "BitsAndBytesConfig(bnb_4bit_quant_storage=torch.{0}), from_pretrained(dtype=torch.{0}){1}",
      dtype,
      layout.sharding == ShardingKind::Zero ? ", zero3_init_flag: true in accelerate's file" : ""));
}

void say_job(Speech& speech) {
  const Job& job = speech.plan.job;
  const bool parts = job.lora || job.frozen_layers > 0 || !job.frozen.empty();
  if (!parts) return;
  if (speech.target.script_chooses_weights) {
    speech.said.notes.push_back(
        fmt::format("the script has to train what the plan counts on: {}", to_text(job)));
    say_packed_base(speech);
  } else {
    cannot_say(speech, to_text(job), "which weights are trained is no setting of this target", {});
  }
}

// Only a kernel that the trainer would not run unasked.
void say_attention(Speech& speech) {
  const auto kernel = speech.plan.attention;
  if (!kernel || *kernel == usual_attention(speech.plan.trainer, speech.plan.model.family)) return;
  const std::string name(name_of(*kernel));
  if (speech.target.script_chooses_weights && !has_setting(speech, "attention." + name)) {
    speech.said.notes.push_back(
        fmt::format("the script has to run {} attention, which the plan counts on", name));
    return;
  }
  say(speech, {.key = "attention", .value = name, .why = "as asked: --attention " + name});
}

// What a script of Hugging Face's Trainer has to be told as well: it refuses a file of settings
// that its own arguments contradict.
void say_script(Speech& speech) {
  const Layout& layout = speech.plan.layout;
  if (layout.pp > 1) return;  // such a script runs no pipeline
  const auto offered = [&](const std::string& key, std::int64_t number) {
    const std::string text = std::to_string(number);
    if (!has_setting(speech, key)) return;
    say(speech, {.key = key, .value = text, .filling = {.number = text, .usual = text}});
  };
  if (has_setting(speech, "script")) say(speech, {.key = "script", .value = {}});
  offered("script.mbs", layout.mbs);
  offered("script.micro_batches", micro_batch_count(layout));
  say(speech, {.key = "script.precision",
               .value = std::string(name_of(layout.precision)),
               .needed = false});
}

// What is left for the user to write, which launch.sh asks for.
void say_blanks(Speech& speech) {
  const Plan& plan = speech.plan;
  const Launcher target = speech.target.launcher;
  if (target == Launcher::Megatron) {
    const auto arguments = megatron_model(plan.model, plan.layout.seq, plan.trainer.version);
    if (arguments) {
      for (std::string& note : megatron_model_notes(plan.model)) {
        speech.said.notes.push_back(std::move(note));
      }
      return;
    }
    speech.said.notes.push_back(fmt::format("MODEL in settings.sh is left blank: {}",
                                            arguments.error().diagnostics.front().what));
  }
  // ops/adam/fused_adam.py: lr=1e-3; transformers' integrations/deepspeed.py fill_match fills in
  // only keys that are there.
  const auto& settings = speech.said.settings;
  const bool steps = std::any_of(settings.begin(), settings.end(),
                                 [](const Setting& one) { return one.key == "optimizer.type"; });
  if (target == Launcher::Deepspeed && steps) {
    speech.said.notes.emplace_back(
        "ds_config.json names no learning rate, and DeepSpeed's own is 1e-3, whatever Hugging "
        "Face's Trainer is told: write \"params\": {\"lr\": \"auto\"} beside the optimizer's "
        "type for the Trainer, a number for other scripts");
  }
  if (target != Launcher::Titan || has_setting(speech, "model." + plan.model.name)) return;
  speech.said.notes.push_back(
      speech.target.form == SettingsForm::Toml
          ? "the settings name no model, and torchtitan would train its own debugmodel: NAME and "
            "FLAVOR of launch.sh are left blank"
          : "the settings name no model: MODULE and CONFIG of launch.sh are left blank");
}

}  // namespace
}  // namespace detail

Translation translate(const Plan& plan, const Target& target) {
  detail::Speech speech{
      plan, target, {.settings = {}, .unsayable = {}, .nearest = plan.layout, .notes = {}}};
  const auto named = [&](const std::string& key) {
    if (detail::has_setting(speech, key)) detail::say(speech, {.key = key, .value = {}});
  };
  named("model." + plan.model.name);
  detail::say_degrees(speech);
  detail::say_context(speech);
  detail::say_stages(speech);
  detail::say_batch(speech);
  detail::say_sharding(speech, detail::say_precision(speech));
  detail::say_recompute(speech);
  detail::say_switches(speech);
  detail::say_order(speech);
  detail::say_attention(speech);
  detail::say_job(speech);
  detail::say_script(speech);
  detail::say_blanks(speech);
  if (plan.layout.pp > 1) named("with_pp");
  // Graphs that were asked for are not switched off by it.
  const bool graphs = plan.layout.on.has(Switch::Graphs) &&
                      detail::find_setting(plan.trainer, "with_ep.graphs") != nullptr;
  if (plan.layout.ep > 1) named(graphs ? "with_ep.graphs" : "with_ep");
  named("always");
  return std::move(speech.said);
}

}  // namespace trainwright
