// What axolotl, LLaMA-Factory and scripts of Hugging Face's Trainer are told, in our words.
#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/count.h"
#include "trainwright/base/text.h"
#include "trainwright/export/export.h"
#include "trainwright/export/pattern.h"

namespace trainwright {
namespace {

// Names of settings as the Trainer has them: "per_device_train_batch_size" of an option, too.
class Said {
 public:
  explicit Said(const std::vector<Setting>& settings) {
    for (const Setting& setting : settings) {
      std::string key = setting.key.substr(setting.key.starts_with("--") ? 2 : 0);
      std::replace(key.begin(), key.end(), '-', '_');
      values_.emplace_back(std::move(key), setting.values);
    }
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
    const auto number = parse_integer(text(keys));
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

enum class Program { Axolotl, LlamaFactory, Trainer };
std::string_view name_of(Program program) {
  return program == Program::Axolotl        ? "axolotl"
         : program == Program::LlamaFactory ? "LLaMA-Factory"
                                            : "Hugging Face's Trainer";
}
std::optional<Program> program_of(const Said& said) {
  if (said.has("base_model")) return Program::Axolotl;
  if (said.has("finetuning_type") || said.has("cutoff_len")) return Program::LlamaFactory;
  if (said.has("per_device_train_batch_size")) return Program::Trainer;
  return std::nullopt;
}

// "adapter: qlora, lora_r: 32" is lora=32,base=nf4; empty where all weights are trained.
std::string adapters_of(const Said& said, Program program) {
  const std::string kind = said.text({"adapter", "finetuning_type"});
  const bool wanted = kind.ends_with("lora") || said.on({"use_peft"}) ||
                      (program == Program::Trainer && said.has("lora_r"));
  if (!wanted) return "";
  constexpr std::int64_t kUsualRank = 8;  // of LLaMA-Factory's lora_rank and peft's r
  std::string job =
      fmt::format("lora={}", said.number({"lora_r", "lora_rank"}).value_or(kUsualRank));
  const auto targets = said.list({"lora_target_modules", "lora_target"});
  const bool all = targets.empty() || targets.front() == "all" || said.on({"lora_target_linear"});
  if (!all) job += ':' + join(targets, "+");
  const std::string bits = said.text({"quantization_bit"});
  if (said.on({"load_in_4bit"}) || bits == "4" || kind == "qlora")
    job += ",base=nf4";
  else if (said.on({"load_in_8bit"}) || bits == "8")
    job += ",base=int8";
  return job;
}

std::string optimizer_of(const Said& said) {
  const std::string name = lower_case(said.text({"optim", "optimizer"}));
  if (name.find("8bit") != std::string::npos) return "adamw-8bit";
  for (const char* one : {"adafactor", "muon", "sgd"}) {
    if (name.starts_with(one)) return one;
  }
  return "";
}

std::string sharding_of(const Said& said) {
  const std::string fsdp = said.text({"fsdp", "fsdp_config.fsdp_sharding_strategy"});
  const bool on = !fsdp.empty() || said.has("fsdp_version") || said.has("fsdp_config.fsdp_version");
  if (!on) return "";
  const bool offloads = fsdp.find("offload") != std::string::npos ||
                        said.on({"fsdp_config.offload_params", "fsdp_config.fsdp_offload_params"});
  const bool whole = lower_case(fsdp).find("grad_op") == std::string::npos &&
                     lower_case(said.text({"fsdp_config.reshard_after_forward"})) != "false";
  return fmt::format("sharding=fsdp,zero={}{}", whole ? 3 : 2,
                     offloads ? ",offload=optimizer+parameters" : "");
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
  const auto mbs = heard("mbs", {"per_device_train_batch_size", "micro_batch_size"});
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

std::optional<FineTuning> understand_fine_tuning(const std::vector<Setting>& settings,
                                                 std::optional<std::int64_t> world,
                                                 std::string_view beside) {
  const Said said(settings);
  const auto program = program_of(said);
  if (!program) return std::nullopt;
  FineTuning fine;
  Understood& understood = fine.understood;
  std::vector<std::string> entries;
  add_batch(said, world, beside, entries, understood);
  // LLaMA-Factory recomputes unless told otherwise (src/llamafactory/model/model_utils/
  // checkpointing.py prepare_model_for_training).
  const bool recomputes = *program == Program::LlamaFactory
                              ? !said.on({"disable_gradient_checkpointing"})
                              : said.on({"gradient_checkpointing"}) ||
                                    said.text({"gradient_checkpointing"}) == "offload" ||
                                    said.on({"fsdp_config.activation_checkpointing"});
  if (recomputes) entries.emplace_back("recompute=full");
  const bool bf16 = said.on({"bf16"}) || said.text({"bf16"}) == "full" || said.on({"pure_bf16"});
  const bool fp16 = !bf16 && said.on({"fp16"});
  entries.emplace_back(fp16 ? "precision=fp16" : "precision=bf16");
  understood.notes.push_back(fmt::format("Read as a file of {}.", name_of(*program)));
  if (!bf16 && !fp16) {
    understood.notes.emplace_back(
        "Neither bf16 nor fp16 is set: bf16 is assumed (--layout precision=... says otherwise).");
  }
  if (said.on({"use_liger_kernel", "enable_liger_kernel", "liger_fused_linear_cross_entropy"}))
    entries.emplace_back("loss=liger");
  if (const std::string sharding = sharding_of(said); !sharding.empty())
    entries.push_back(sharding);
  fine.deepspeed = said.text({"deepspeed"});
  fine.trainer = fine.deepspeed.empty() ? "accelerate" : "accelerate-deepspeed";
  understood.layout = join(entries, ",");
  understood.model = said.text({"base_model", "model_name_or_path"});
  if (said.text({"attn_implementation", "flash_attn"}) == "eager") understood.attention = "eager";
  understood.job = adapters_of(said, *program);
  if (const std::string optimizer = optimizer_of(said); !optimizer.empty())
    understood.job += fmt::format("{}optimizer={}", understood.job.empty() ? "" : ",", optimizer);
  return fine;
}

}  // namespace trainwright
