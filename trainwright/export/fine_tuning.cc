// What axolotl, LLaMA-Factory and scripts of Hugging Face's Trainer are told, in our words.
#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/count.h"
#include "trainwright/base/text.h"
#include "trainwright/export/export.h"
#include "trainwright/export/pattern.h"

namespace trainwright {
namespace {

class Said {
 public:
  explicit Said(const std::vector<Setting>& settings) {
    for (const Setting& setting : settings)
      values_.emplace_back(plain_key(setting.key), setting.values);
  }
  bool has_section(std::string_view name) const {
    return std::any_of(values_.begin(), values_.end(),
                       [&](const auto& one) { return one.first.starts_with(name); });
  }
  bool has(std::string_view key) const { return find(key) != nullptr; }
  // The first of these keys that is there; mostly empty.
  std::string_view first(std::initializer_list<std::string_view> keys) const {
    const auto at = std::find_if(keys.begin(), keys.end(), [&](auto key) { return has(key); });
    return at == keys.end() ? std::string_view() : *at;
  }
  // Of that key.
  std::string text(std::initializer_list<std::string_view> keys) const {
    for (const std::string_view key : keys) {
      const auto* values = find(key);
      if (values != nullptr) return values->empty() ? "true" : values->front();
    }
    return "";
  }
  std::optional<std::int64_t> number(std::initializer_list<std::string_view> keys) const {
    const auto number = detail::whole_number(text(keys));
    return number && *number > 0 ? number : std::nullopt;
  }
  bool on(std::initializer_list<std::string_view> keys) const {
    const std::string value = lower_case(text(keys));
    return value == "true" || value == "auto" || value == "1" || value == "yes";
  }
  std::vector<std::string> list(std::initializer_list<std::string_view> keys) const {
    for (const std::string_view key : keys) {
      const auto* values = find(key);
      if (values == nullptr || values->empty()) continue;
      if (values->size() > 1) return *values;
      if (const auto items = detail::list_items(values->front())) return *items;
      std::vector<std::string> items;
      for (const std::string_view one : split(values->front(), ',')) items.emplace_back(trim(one));
      return items;
    }
    return {};
  }

 private:
  const std::vector<std::string>* find(std::string_view key) const {
    for (auto at = values_.rbegin(); at != values_.rend(); ++at) {
      if (at->first == key) return &at->second;
    }
    return nullptr;
  }
  std::vector<std::pair<std::string, std::vector<std::string>>> values_;
};

// A module that peft trains as a copy, by the names that modules of transformers have
// (models/*/modeling_*.py); empty for others than embedding and head.
std::string_view part_of_module(std::string_view module) {
  for (const std::string_view name : {"embed_tokens", "wte", "embed_in", "word_embeddings"})
    if (module == name) return "embedding";
  return module == "lm_head" || module == "embed_out" ? "head" : "";
}

std::vector<std::string> whole_modules_of(const Said& said) {
  return said.list({"lora_modules_to_save", "additional_target"});
}

std::string trained_parts_of(const Said& said) {
  std::vector<std::string> parts;
  for (const std::string& module : whole_modules_of(said)) {
    if (!part_of_module(module).empty()) parts.emplace_back(part_of_module(module));
  }
  return join(parts, "+");
}

std::vector<std::string> uncounted_modules(const Said& said) {
  std::vector<std::string> notes;
  for (const std::string& module : whole_modules_of(said)) {
    if (part_of_module(module).empty())
      notes.push_back(fmt::format("{} is not counted as trained beside adapters.", module));
  }
  return notes;
}

// "adapter: qlora, lora_r: 32" is lora=32,base=nf4; empty where all weights are trained.
std::string adapters_of(const Said& said, FineTuner program) {
  const std::string kind = said.text({"adapter", "finetuning_type"});
  const bool wanted = kind.ends_with("lora") || said.on({"use_peft"}) ||
                      (program == FineTuner::Trainer && said.has("lora_r"));
  if (!wanted) return "";
  // LLaMA-Factory's lora_rank and peft's r; TRL 1.16.0 trainer/model_config.py lora_r.
  const std::int64_t usual_rank = program == FineTuner::Trl ? 16 : 8;
  std::string job =
      fmt::format("lora={}", said.number({"lora_r", "lora_rank"}).value_or(usual_rank));
  auto targets = said.list({"lora_target_modules", "lora_target"});
  const bool theirs = program == FineTuner::LlamaFactory || said.on({"lora_target_linear"});
  // peft 0.21.2 utils/constants.py TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING: of nearly
  // all families that it has targets for.
  if (targets.empty() && !theirs) targets = {"q_proj", "v_proj"};
  const bool all = targets.empty() || targets.front() == "all" || targets.front() == "all-linear" ||
                   said.on({"lora_target_linear"});
  if (!all) job += ':' + join(targets, "+");
  const std::string bits = said.text({"quantization_bit"});
  if (said.on({"load_in_4bit"}) || bits == "4" || kind == "qlora")
    job += ",base=nf4";
  else if (said.on({"load_in_8bit"}) || bits == "8")
    job += ",base=int8";
  if (said.on({"quantize_moe_experts"})) job += ",quantised_experts";
  if (const std::string parts = trained_parts_of(said); !parts.empty()) job += ",trained=" + parts;
  if (parse_number(said.text({"lora_dropout"})).value_or(0) > 0) job += ",lora_dropout";
  return job;
}

// The dtype that the model is loaded in, where the file says it.
std::string loaded_of(const Said& said) {
  if (said.on({"pure_bf16"})) return "loaded=bf16";
  const std::string dtype = lower_case(said.text({"dtype", "torch_dtype"}));
  for (const auto& [theirs, ours] :
       {std::pair{"bfloat16", "bf16"}, {"float16", "fp16"}, {"float32", "fp32"}, {"auto", "bf16"}})
    if (dtype == theirs) return fmt::format("loaded={}", ours);
  return "";
}

// By our names already (imports.h).
std::string optimizer_of(const Said& said) {
  if (said.on({"use_muon"})) return "muon";
  if (said.on({"adafactor"})) return "adafactor";
  const std::string name = said.text({"optim", "optimizer"});
  return name == "adamw" ? "" : name;
}

// "full_shard auto_wrap" of transformers, FULL_SHARD or its number of accelerate
// (utils/constants.py FSDP_SHARDING_STRATEGY, from 1).
enum class Strategy { Whole, GradientsOnly, None, Hybrid, HybridGradientsOnly };
Strategy strategy_of(const Said& said) {
  std::string text = lower_case(said.text({"fsdp"}));
  if (const std::string own = lower_case(said.text({"fsdp_config.sharding_strategy"}));
      !own.empty())
    text = own;
  const auto has = [&](std::string_view word) { return text.find(word) != std::string::npos; };
  if (has("hybrid_shard_zero2") || text == "5") return Strategy::HybridGradientsOnly;
  if (has("hybrid_shard") || text == "4") return Strategy::Hybrid;
  if (has("no_shard") || text == "3") return Strategy::None;
  if (has("grad_op") || text == "2") return Strategy::GradientsOnly;
  return Strategy::Whole;
}

bool has_fsdp(const Said& said, FineTuner program) {
  const std::string fsdp = lower_case(said.text({"fsdp"}));
  if (!fsdp.empty() && fsdp != "false" && fsdp != "[]") return true;
  if (said.has("fsdp_version") || said.has("fsdp_config.fsdp_version")) return true;
  // Of axolotl any key will do (core/builders/base.py), of the Trainer only `fsdp`.
  return said.has("fsdp_config.sharding_strategy") ||
         (program == FineTuner::Axolotl && said.has_section("fsdp_config."));
}

std::string sharding_of(const Said& said, FineTuner program, std::int64_t nodes) {
  if (!has_fsdp(said, program)) return "";
  const Strategy strategy = strategy_of(said);
  if (strategy == Strategy::None) return "sharding=ddp";
  const bool offloads = lower_case(said.text({"fsdp"})).find("offload") != std::string::npos ||
                        said.on({"fsdp_config.offload_params", "fsdp_config.cpu_offload"});
  const bool kept = strategy == Strategy::GradientsOnly ||
                    strategy == Strategy::HybridGradientsOnly ||
                    lower_case(said.text({"fsdp_config.reshard_after_forward"})) == "false";
  const bool hybrid = strategy == Strategy::Hybrid || strategy == Strategy::HybridGradientsOnly;
  // Shards within a node, copies between them.
  const std::int64_t copies = said.number({"dp_replicate_size"}).value_or(hybrid ? nodes : 1);
  return fmt::format("sharding={},zero={}{}{}", copies > 1 ? "hsdp" : "fsdp", kept ? 2 : 3,
                     copies > 1 ? fmt::format(",dp_replicate={}", copies) : "",
                     offloads ? ",offload=optimizer+parameters" : "");
}

// What is not shared out layer by layer, as all of ours is.
std::string wrapping_note(const Said& said) {
  const std::string policy = said.text({"fsdp_config.auto_wrap_policy"});
  const bool by_layer = policy.empty() || policy == "TRANSFORMER_BASED_WRAP";
  return by_layer ? ""
                  : fmt::format("fsdp_config.auto_wrap_policy {} is counted as units of a layer.",
                                policy);
}

// Sequences of a step are those of a micro-batch, times micro-batches, times ranks with their own.
void add_batch(const Said& said, std::optional<std::int64_t> world, std::string_view beside,
               std::vector<std::string>& entries, Understood& understood) {
  const auto ours = [&](const char* key, std::optional<std::int64_t> theirs) {
    const auto asked = entry_of(beside, key);
    return asked ? parse_count(*asked) : theirs;
  };
  const auto their_tp = said.number({"tensor_parallel_size"});
  const auto their_cp = said.number({"context_parallel_size"});
  if (their_tp) entries.push_back(fmt::format("tp={}", *their_tp));
  if (their_cp) entries.push_back(fmt::format("cp={}", *their_cp));
  const auto degree = [&](const char* key, std::optional<std::int64_t> theirs) {
    return std::clamp<std::int64_t>(ours(key, theirs).value_or(1), 1, kMostDegree);
  };
  const std::int64_t together = degree("tp", their_tp) * degree("cp", their_cp);
  const auto heard = [&](const char* key, std::initializer_list<std::string_view> theirs) {
    const auto number = said.number(theirs);
    const std::string_view name = said.first(theirs);
    if (!number && !name.empty())
      understood.unreadable.push_back({key, std::string(name), said.text(theirs)});
    return number;
  };
  const auto mbs =
      heard("mbs", {"per_device_train_batch_size", "per_gpu_train_batch_size", "micro_batch_size"});
  const auto seq = heard(
      "seq", {"sequence_len", "cutoff_len", "max_seq_length", "max_length", "model_max_length"});
  const std::int64_t steps = heard("gbs", {"gradient_accumulation_steps"}).value_or(1);
  if (mbs) entries.push_back(fmt::format("mbs={}", *mbs));
  if (seq) entries.push_back(fmt::format("seq={}", *seq));
  const auto ask_for = [&](const char* key) {
    const bool told = std::any_of(understood.unreadable.begin(), understood.unreadable.end(),
                                  [&](const Unreadable& one) { return one.key == key; });
    if (!told) understood.not_said.emplace_back(key);
  };
  if (!mbs) ask_for("mbs");
  if (!seq) ask_for("seq");
  const bool counted =
      said.number({"gradient_accumulation_steps"}) || !said.has("gradient_accumulation_steps");
  const auto micro = ours("mbs", mbs);
  const bool in_range =
      counted && micro && *micro > 0 && *micro <= kMostBatch && steps <= kMostBatch / *micro;
  if (in_range && world && *world % together == 0) {
    entries.push_back(fmt::format(
        "gbs={}", std::min<std::int64_t>(*micro * steps * (*world / together), kMostBatch)));
  } else {
    ask_for("gbs");
  }
}

}  // namespace

std::string deepspeed_entries(const std::vector<Setting>& settings, std::string_view section) {
  const auto value = [&](std::string_view key) -> std::string {
    const auto at = std::find_if(settings.begin(), settings.end(), [&](const Setting& one) {
      return one.key.starts_with(section) && one.key.substr(section.size()) == key;
    });
    return at == settings.end() || at->values.empty() ? "" : at->values.front();
  };
  std::vector<std::string> entries;
  if (const std::string stage = value("zero_optimization.stage"); parse_integer(stage))
    entries.push_back("zero=" + stage);
  // Off the accelerator either way.
  const auto away = [&](const char* part) {
    const std::string device = value(fmt::format("zero_optimization.{}.device", part));
    return device == "cpu" || device == "nvme";
  };
  const bool states = away("offload_optimizer"), weights = away("offload_param");
  if (states || weights) {
    entries.push_back(fmt::format("offload={}{}{}", states ? "optimizer" : "",
                                  states && weights ? "+" : "", weights ? "parameters" : ""));
  }
  return join(entries, ",");
}

namespace {

// Empty where the file is silent: then the program's own default holds (data/trainers, `defaults`).
std::string recompute_of(const Said& said) {
  const std::initializer_list<std::string_view> keys = {"gradient_checkpointing",
                                                        "activation_checkpointing"};
  if (said.on(keys) || said.text(keys) == "offload" || said.text(keys) == "offload_disk" ||
      said.on({"fsdp_config.activation_checkpointing"}))
    return "recompute=full";
  const bool off = !said.first(keys).empty() || said.on({"disable_gradient_checkpointing"});
  return off ? "recompute=none" : "";
}

std::string trainer_of(FineTuner program, bool deepspeed) {
  const std::string name = program == FineTuner::Axolotl        ? "axolotl"
                           : program == FineTuner::LlamaFactory ? "llama-factory"
                           : program == FineTuner::Trl          ? "trl"
                                                                : "accelerate";
  return deepspeed ? name + "-deepspeed" : name;
}

std::string attention_of(const Said& said) {
  const bool eager =
      said.text({"attn_implementation", "flash_attn"}) == "eager" || said.on({"eager_attention"});
  return eager ? "eager" : "";
}

}  // namespace

std::optional<FineTuner> fine_tuner_named(std::string_view name) {
  for (const auto& [theirs, program] : {std::pair{"axolotl", FineTuner::Axolotl},
                                        {"llama-factory", FineTuner::LlamaFactory},
                                        {"trl", FineTuner::Trl},
                                        {"trainer", FineTuner::Trainer}}) {
    if (name == theirs) return program;
  }
  return std::nullopt;
}

FineTuning understand_fine_tuning(FineTuner program, const std::vector<Setting>& settings,
                                  std::optional<std::int64_t> world, std::string_view beside,
                                  std::int64_t nodes) {
  const Said said(settings);
  FineTuning fine;
  Understood& understood = fine.understood;
  std::vector<std::string> entries;
  add_batch(said, world, beside, entries, understood);
  if (std::string recompute = recompute_of(said); !recompute.empty())
    entries.push_back(std::move(recompute));
  const bool bf16 = said.on({"bf16"}) || said.text({"bf16"}) == "full" || said.on({"pure_bf16"});
  const bool fp16 = !bf16 && said.on({"fp16"});
  entries.emplace_back(fp16 ? "precision=fp16" : "precision=bf16");
  if (!bf16 && !fp16 && program != FineTuner::Trl) {
    understood.notes.emplace_back(
        "Neither bf16 nor fp16 is set: bf16 is assumed (--layout precision=... says otherwise).");
  }
  if (said.on({"use_liger_kernel", "enable_liger_kernel", "liger_fused_linear_cross_entropy"}))
    entries.emplace_back("loss=liger");
  const std::string sharding = sharding_of(said, program, nodes);
  if (!sharding.empty()) entries.push_back(sharding);
  if (std::string note = wrapping_note(said); !sharding.empty() && !note.empty())
    understood.notes.push_back(std::move(note));
  fine.deepspeed = said.text({"deepspeed"});
  const std::string inside = deepspeed_entries(settings, "deepspeed.");
  if (!inside.empty()) entries.push_back(inside);
  const bool deepspeed = !fine.deepspeed.empty() || said.has_section("deepspeed.");
  for (std::string& note : uncounted_modules(said)) understood.notes.push_back(std::move(note));
  fine.trainer = trainer_of(program, deepspeed);
  understood.layout = join(entries, ",");
  understood.model = said.text({"base_model", "model_name_or_path"});
  understood.attention = attention_of(said);
  understood.job = adapters_of(said, program);
  const auto add = [&](const std::string& entry) {
    if (!entry.empty()) understood.job += (understood.job.empty() ? "" : ",") + entry;
  };
  add(loaded_of(said));
  if (const std::string optimizer = optimizer_of(said); !optimizer.empty())
    add("optimizer=" + optimizer);
  return fine;
}

}  // namespace trainwright
