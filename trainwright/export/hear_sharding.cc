// From settings to our words: sharding, other spellings, and what is left over.
#include <fmt/format.h>

#include "trainwright/base/text.h"
#include "trainwright/export/hear.h"
#include "trainwright/export/misspelt.h"
#include "trainwright/model/megatron_options.h"

namespace trainwright::detail {
namespace {

// How many ranks share one copy, where a number says so: the rest of them if it is negative.
std::int64_t shard_count(const Hearing& hearing, std::int64_t said, std::int64_t copies) {
  if (said >= 0 || !hearing.world) return said;
  std::int64_t others = 1;
  for (const std::int64_t degree : {hearing.tp, hearing.pp, hearing.cp, copies}) {
    if (degree > 0 && __builtin_mul_overflow(others, degree, &others)) return 1;
  }
  return std::max<std::int64_t>(*hearing.world / others, 1);
}

// Where shards are counted, their number says what it is: FSDP, with copies HSDP; copies alone are
// DDP where that can be run. Context parallelism shards as well.
ShardingKind told_apart(const Hearing& hearing, ShardingKind kind, std::int64_t shards,
                        std::int64_t copies) {
  const bool by_number = find_setting(hearing.trainer, "dp_shard") != nullptr;
  if (!by_number || kind == ShardingKind::Zero || kind == ShardingKind::MegatronFsdp) return kind;
  const bool ddp_runs = has_rule(hearing.trainer, "ddp-alone");
  const bool fsdp_offered = find_kind(hearing.trainer.shardings, ShardingKind::Fsdp) != nullptr;
  if (copies > 1 && shards == 1 && ddp_runs) return ShardingKind::Ddp;
  const bool sharded = shards > 1 || shards < 0 || (shards == 1 && hearing.cp > 1);
  if (kind == ShardingKind::Ddp && sharded && fsdp_offered) kind = ShardingKind::Fsdp;
  const bool told = kind != ShardingKind::Ddp || !fsdp_offered;
  if (copies > 1 && told) return ShardingKind::Hsdp;
  return kind == ShardingKind::Hsdp ? ShardingKind::Fsdp : kind;
}

// The stage of ZeRO that an offer's place stands for; "default" of FSDP is what a pipeline makes of
// it: 2 with one, 3 without.
std::int64_t stage_of(const Hearing& hearing, ShardingKind sharding, const Filling& filling) {
  const bool fsdp = sharding == ShardingKind::Fsdp || sharding == ShardingKind::Hsdp;
  const auto place = static_cast<std::int64_t>(filling.place.value_or(0));
  if (fsdp && filling.place && place < 2) return hearing.pp > 1 ? 2 : 3;
  return place;
}

// What would be counted as if it were not there.
void refuse_uncounted(Hearing& hearing) {
  const std::string* text = find_setting(hearing.trainer, "uncounted");
  if (text == nullptr) return;
  for (const Setting& idle : parse_settings(*text)) {
    for (const Setting& given : hearing.given) {
      if (given.key != idle.key || given.values == idle.values) continue;
      hearing.faults.push_back(
          {given.where.empty() ? given.key : given.where,
           fmt::format("{} is {}, which changes memory and time and is not counted here yet",
                       given.key, given.values.empty() ? "set" : join(given.values, " ")),
           fmt::format("ask without it for what the same run takes with {}",
                       join(idle.values, " "))});
    }
  }
}

}  // namespace

void hear_sharding(Hearing& hearing) {
  refuse_uncounted(hearing);
  const std::int64_t copies = hear_number(hearing, "dp_replicate").value_or(1);
  if (is_heard(hearing, "sharding")) {  // in another spelling
    if (copies > 1) heard(hearing, "dp_replicate", std::to_string(copies));
    return;
  }
  Filling filling;
  const auto kind = best_offer(hearing, "sharding", hearing.trainer.shardings, filling);
  const std::int64_t shards =
      shard_count(hearing, hear_number(hearing, "dp_shard").value_or(0), copies);
  if (!kind) return;
  const ShardingKind sharding = told_apart(hearing, *kind, shards, copies);
  if (sharding != *kind) {
    const auto* offer = find_kind(hearing.trainer.shardings, sharding);
    if (offer != nullptr) filling = found_in(offer->setting, hearing.given).value_or(filling);
  }
  const bool optimizer_says = hearing.zero_by_optimizer && sharding == ShardingKind::Ddp;
  heard(hearing, "sharding", name_of(optimizer_says ? ShardingKind::Zero : sharding));
  if (optimizer_says) heard(hearing, "zero", "1");
  if (const std::int64_t stage = stage_of(hearing, sharding, filling); stage > 0)
    heard(hearing, "zero", std::to_string(stage));
  if (sharding != ShardingKind::Ddp && copies > 1)
    heard(hearing, "dp_replicate", std::to_string(copies));
}

namespace {

// "sharding=hsdp,zero=3,dp_replicate=NODES": a name in capitals is the number of another key, N the
// number that was found.
void hear_reading(Hearing& hearing, std::string_view entries, const Filling& found) {
  bool news = false;
  for (const std::string_view entry : split(entries, ',')) {
    const std::size_t equals = std::min(entry.find('='), entry.size());
    const std::string_view key = entry.substr(0, equals);
    std::string value(entry.substr(std::min(equals + 1, entry.size())));
    if (value == "NODES") value = std::to_string(hear_number(hearing, "nodes").value_or(1));
    if (value == "N") {
      const auto number = whole_number(found.number);
      if (!number) not_read(hearing, key, found.number);
      if (!number) continue;
      value = std::to_string(*number);
    }
    news |= !is_heard(hearing, key);
    if (key == "attention")
      hearing.attention = value;
    else if (key == "dp_replicate" && value == "1")
      std::replace(hearing.entries.begin(), hearing.entries.end(), std::string("sharding=hsdp"),
                   std::string("sharding=fsdp"));  // one node holds them all
    else
      heard(hearing, key, value);
  }
  const std::string* why = find_setting(hearing.trainer, fmt::format("why.{}", entries));
  if (news && why != nullptr) hearing.notes.push_back(*why);
}

}  // namespace

void hear_readings(Hearing& hearing, std::string_view beginning) {
  constexpr std::string_view kRead = "read.";
  for (const auto& [ours, theirs] : hearing.trainer.settings) {
    if (!ours.starts_with(std::string(kRead).append(beginning))) continue;
    for (const std::string_view one : split(theirs, ';')) {
      const auto found = found_in(one, hearing.given);
      if (!found || found->said == 0) continue;
      hear_reading(hearing, std::string_view(ours).substr(kRead.size()), *found);
      break;
    }
  }
  std::size_t most = 0;
  for (const auto& [ours, theirs] : hearing.trainer.settings) {
    constexpr std::string_view kAttention = "attention.";
    if (!ours.starts_with(kAttention) || theirs == "-") continue;
    const auto found = found_in(theirs, hearing.given);
    if (!found || found->said <= most) continue;
    most = found->said;
    hearing.attention = ours.substr(kAttention.size());
  }
}

namespace {

// Parts of names, in small letters and with '_' for '-', that sound of memory or time.
constexpr std::string_view kSound[] = {"parallel",    "recompute",
                                       "offload",     "fp8",
                                       "fp4",         "graph",
                                       "precision",   "zero_",
                                       "shard",       "bucket",
                                       "capacity",    "compile",
                                       "overlap",     "fusion",
                                       "flash",       "_attn",
                                       "grad_reduce", "attention_backend",
                                       "activation_", "memory",
                                       "lora",        "peft",
                                       "freeze",      "adapter",
                                       "dtype",       "quant",
                                       "float8",      "rampup",
                                       "wrap_policy", "config_file",
                                       "fsdp2",       "megatron_fsdp",
                                       "custom_fsdp", "checkpoint_activations"};
// Of variables of the environment, which scripts have for all kinds of things.
constexpr std::string_view kSoundOfEnvironment[] = {"alloc_conf", "nvte_"};

// Ends of names that sound so and are not: which layers float8 would leave out, how hosts pin
// pages.
constexpr std::string_view kHarmless[] = {"filter_fqns", "pin_memory", "contiguous_gradients"};

bool sounds_of_it(const Setting& setting) {
  std::string name = lower_case(setting.key);
  std::replace(name.begin(), name.end(), '-', '_');
  const auto in = [&](std::string_view part) { return name.find(part) != std::string::npos; };
  if (std::any_of(std::begin(kHarmless), std::end(kHarmless),
                  [&](std::string_view end) { return name.ends_with(end); }))
    return false;
  return is_environment(setting)
             ? std::any_of(std::begin(kSoundOfEnvironment), std::end(kSoundOfEnvironment), in)
             : std::any_of(std::begin(kSound), std::end(kSound), in);
}

bool decides_nothing(const Hearing& hearing, const std::string& key) {
  return std::any_of(hearing.given.begin(), hearing.given.end(), [&](const Setting& one) {
    return one.key == key && one.of == kUnasked && one.values == std::vector<std::string>{"ANY"};
  });
}

// Switched off, or left to the trainer.
bool says_nothing(const Setting& setting) {
  constexpr std::string_view kNothing[] = {"false", "none", "no", "auto", "off", "null", "0", "[]"};
  return setting.values.size() == 1 &&
         std::find(std::begin(kNothing), std::end(kNothing), lower_case(setting.values.front())) !=
             std::end(kNothing);
}

// Keys of patterns that hold as a whole.
std::vector<std::string> understood_keys(const Hearing& hearing) {
  std::vector<std::string> keys;
  const auto take = [&](const std::string& text, bool always) {
    if (text == "-" || text.empty() || (!always && !found_in(text, hearing.given))) return;
    for (const Setting& setting : parse_settings(text)) {
      const auto said = std::find_if(hearing.given.rbegin(), hearing.given.rend(),
                                     [&](const Setting& one) { return one.key == setting.key; });
      const bool other = said != hearing.given.rend() && said->values != setting.values;
      if (!other || !decides_nothing(hearing, setting.key)) keys.push_back(setting.key);
    }
  };
  const Trainer& trainer = hearing.trainer;
  for (const auto& [ours, theirs] : trainer.settings) {
    const bool prose = ours.starts_with("why.") || ours.starts_with("recipes.");
    if (prose || ours.starts_with("unasked") || ours == "modules") continue;
    const bool always = ours == "always" || ours.starts_with("with_") ||
                        ours.starts_with("model.") || ours.starts_with("script");
    for (const std::string_view one : split(theirs, ';')) take(std::string(one), always);
  }
  const auto take_offers = [&](const auto& offers) {
    for (const auto& offer : offers) take(offer.setting, false);
  };
  take_offers(trainer.precisions);
  take_offers(trainer.optimizers);
  take_offers(trainer.shardings);
  take_offers(trainer.recomputes);
  take_offers(trainer.cp_kinds);
  take_offers(trainer.offloads);
  take_offers(trainer.overlaps);
  take_offers(trainer.losses);
  take_offers(trainer.flex_backends);
  if (const Kernel* kernel = find_kernel(trainer, KernelKind::GroupedGemm))
    take(kernel->setting, false);
  std::sort(keys.begin(), keys.end());
  return keys;
}

// Options of Megatron-LM (megatron/training/arguments.py of August 2026) that are a letter or two
// from ones that are heeded.
constexpr std::string_view kOwnWords[] = {"--vocab-file"};

bool is_theirs(std::string_view key) {
  return std::find(std::begin(kOwnWords), std::end(kOwnWords), key) != std::end(kOwnWords);
}

}  // namespace

void hear_unknown(const Hearing& hearing, const Target& target,
                  const std::vector<std::string>& model_keys, Understood& understood) {
  const auto known = known_keys(hearing.trainer, target);
  // Whatever is heeded might be meant.
  std::vector<std::string> words = known;
  if (target.launcher == Launcher::Megatron) {
    for (std::string& word : megatron_model_options()) words.push_back(std::move(word));
  }
  const auto heeded = understood_keys(hearing);
  const auto has = [](const std::vector<std::string>& sorted, const std::string& key) {
    return std::binary_search(sorted.begin(), sorted.end(), key);
  };
  auto& named = understood.not_heeded;
  for (const Setting& setting : hearing.given) {
    if (setting.of == kUnasked || has(heeded, setting.key)) continue;
    if (std::find(model_keys.begin(), model_keys.end(), setting.key) != model_keys.end()) continue;
    if (has(known, setting.key) && says_nothing(setting)) continue;
    const bool strange = !has(known, setting.key) && !is_theirs(setting.key);
    if (const auto meant = strange ? meant_by(setting.key, words) : std::nullopt) {
      understood.notes.push_back(
          fmt::format("{} is not heeded: did you mean {}?", setting.key, *meant));
      continue;
    }
    const bool ours = has(known, setting.key) && !decides_nothing(hearing, setting.key);
    const bool matters = !says_nothing(setting) && (ours || sounds_of_it(setting));
    const bool named_before = std::find(named.begin(), named.end(), setting.key) != named.end();
    if (matters && !named_before)
      named.push_back(setting.key);
    else if (!is_environment(setting) && !named_before)
      ++understood.ignored;
  }
}

}  // namespace trainwright::detail
