// The tables of keys. A key's meaning is a phrase for people; bounds and names are what is read.
#include "trainwright/layout/keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "trainwright/base/text.h"
#include "trainwright/layout/kinds.h"
#include "trainwright/layout/layout.h"

namespace trainwright {
namespace {

using Takes = EntryKey::Takes;

constexpr IntegerRange kDegree = {.least = 1, .most = kMostDegree};
constexpr IntegerRange kBatch = {.least = 1, .most = kMostBatch};
constexpr IntegerRange kCount = {.least = 0, .most = kMostDegree};

EntryKey number(std::string_view name, IntegerRange range, std::string_view meaning,
                std::string_view left_out, std::string_view example) {
  return {name, Takes::Number, meaning, left_out, example, range};
}
EntryKey flag(std::string_view name, std::string_view meaning) {
  return {name, Takes::Flag, meaning, "off", name};
}
template <Named E>
EntryKey choice(E, std::string_view name, std::string_view meaning, std::string_view left_out,
                std::string_view example) {
  return {name, Takes::Name, meaning, left_out, example, {}, all_names(E{})};
}
template <Named E>
EntryKey set_of(E, std::string_view name, std::string_view meaning, std::string_view left_out,
                std::string_view example) {
  return {name, Takes::Names, meaning, left_out, example, {}, all_names(E{})};
}
EntryKey other(std::string_view name, std::string_view form, std::string_view meaning,
               std::string_view left_out, std::string_view example) {
  return {name, Takes::Other, meaning, left_out, example, {}, {}, form};
}

using Keys = std::vector<EntryKey>;

void add(Keys& to, const Keys& more) { to.insert(to.end(), more.begin(), more.end()); }

Keys degree_keys() {
  return {
      number("tp", kDegree, "tensor parallelism: ranks that split each matrix", "1", "tp=8"),
      flag("sp", "sequence parallelism within tp"),
      number("pp", kDegree, "pipeline parallelism: ranks that split the layers", "1", "pp=4"),
      number("vpp", kDegree, "virtual pipeline: stages on each pipeline rank", "1", "vpp=2"),
      number("cp", kDegree, "context parallelism: ranks that split the sequence", "1", "cp=2"),
      number("ep", kDegree, "expert parallelism: ranks that split the experts", "1", "ep=8"),
      number("etp", kDegree, "tensor parallelism within experts", "as tp", "etp=1"),
      number("dp", kDegree, "data parallelism", "what the cluster leaves", "dp=16"),
      number("dp_shard", kDegree, "ranks that share one sharded copy", "dp / dp_replicate",
             "dp_shard=8"),
      number("dp_replicate", kDegree, "sharded copies", "dp / dp_shard", "dp_replicate=2"),
      number("zero", {.least = 0, .most = 3},
             "what data-parallel ranks shard: 1 optimizer states, 2 gradients too, 3 weights too",
             "0, or what sharding implies", "zero=1"),
      choice(ShardingKind{}, "sharding", "how they shard it", "ddp, or zero with zero=1 to 3",
             "sharding=fsdp"),
      flag("fsdp", "short for sharding=fsdp"),
      flag("hsdp", "short for sharding=hsdp; needs dp_shard or dp_replicate"),
  };
}

Keys batch_keys() {
  return {
      number("mbs", kBatch, "sequences in a micro-batch of one rank", "1", "mbs=2"),
      number("gbs", kBatch, "sequences in a step", "mbs x dp", "gbs=1024"),
      number("seq", kBatch, "tokens in a sequence; 4k is 4,096", "2048", "seq=8k"),
  };
}

Keys memory_keys() {
  return {
      other("recompute",
            "none, selective, feed-forward, op-selective, full, full:N (N layers at a time), "
            "block:N (the first N layers of a stage), every-nth:N, modules:A+B with A, B of "
            "core-attention, norm, mlp, mla-up-projection, moe, moe-activation, shared-experts; "
            "or one per stage: full*2/none*6",
            "what is computed again in the backward pass", "none", "recompute=modules:norm+moe"),
      set_of(Offload{}, "offload", "what moves to host memory", "nothing", "offload=optimizer"),
      choice(PrecisionKind{}, "precision", "of products; fp8 means the trainer's usual recipe",
             "bf16", "precision=fp8-blockwise"),
      choice(GradientDtype{}, "gradients",
             "what gradients are added up and reduced in, of those of `show trainer`", "as-trainer",
             "gradients=bf16"),
      other("loss", "a name of `show trainer`", "which of the trainer's losses runs",
            "its usual one", "loss=chunked"),
  };
}

Keys pipeline_keys() {
  return {
      choice(ScheduleKind{}, "schedule", "order of forward and backward passes",
             "1f1b, or interleaved-1f1b with vpp", "schedule=zb-v"),
      choice(StagePlacement{}, "placement", "how stages go around the ranks",
             "as the schedule needs", "placement=v"),
      number("micro_batch_group", kCount, "micro-batches per turn of an interleaved schedule", "pp",
             "micro_batch_group=8"),
      number("first_layers", kCount, "layers of the first pipeline rank", "an even share",
             "first_layers=7"),
      number("last_layers", kCount, "layers of the last pipeline rank", "an even share",
             "last_layers=7"),
      other("layers", "layers of each stage, with repeats", "an uneven split of the layers", "even",
            "layers=5/6*14/3"),
      {"count_embedding", Takes::FlagOrNumber, "layers that the embedding counts as in the split",
       "as the trainer does", "count_embedding", kCount},
      {"count_loss", Takes::FlagOrNumber, "layers that the head and its loss count as",
       "as the trainer does", "count_loss=2", kCount},
      number("mtp_stage", kCount, "stage of the multi-token-prediction modules", "the last one",
             "mtp_stage=7"),
      flag("vocab_parallel", "embedding and head are split over all pipeline ranks"),
  };
}

Keys detail_keys() {
  return {
      choice(CpKind{}, "cp_kind", "how context-parallel ranks exchange keys and values", "ring",
             "cp_kind=ulysses"),
      number("cp_ulysses", kCount, "of ulysses-ring: ranks that exchange all-to-all", "0",
             "cp_ulysses=4"),
      choice(DispatcherKind{}, "dispatcher",
             "how tokens reach their experts; flex means the trainer's usual backend there, of "
             "deepep, hybridep and nccl-ep",
             "all-to-all", "dispatcher=hybridep"),
      set_of(Switch{}, "on", "switched on", "as the trainer does", "on=overlap-tp+compile"),
      set_of(Switch{}, "off", "switched off", "as the trainer does", "off=overlap-gradient-reduce"),
      number("max_connections", kCount, "CUDA_DEVICE_MAX_CONNECTIONS", "not known",
             "max_connections=1"),
      other("order", "tp, dp and pp, and if need be cp and ep, joined by '-'",
            "order of the ranks, neighbours first", "as the trainer does", "order=tp-cp-ep-dp-pp"),
  };
}

}  // namespace

std::span<const EntryKey> layout_keys() {
  static const Keys known = [] {
    Keys keys = degree_keys();
    add(keys, batch_keys());
    add(keys, memory_keys());
    add(keys, pipeline_keys());
    add(keys, detail_keys());
    return keys;
  }();
  return known;
}

std::span<const EntryKey> job_keys() {
  static const Keys known = {
      choice(OptimizerKind{}, "optimizer", "what updates the weights", "adamw", "optimizer=muon"),
      other(
          "lora",
          "a rank, or rank:targets. Targets are joined by '+': query, down; q_proj, down_proj, "
          "all-linear; linear_qkv, linear_fc2",
          "trains low-rank adapters instead of the model",
          "no adapters; without targets every linear layer but routers and the head, as all-linear "
          "of peft: experts are among them where they are modules",
          "lora=16:q_proj+v_proj"),
      other("qlora", "as lora", "lora with base=nf4", "no adapters", "qlora=16"),
      choice(FrozenBase{}, "base", "what the frozen matrices under adapters are stored in",
             "as-weights", "base=int8"),
      choice(Prepared{}, "prepared",
             "peft: prepare_model_for_kbit_training was called, which makes embedding, norms and "
             "head fp32 and with them what passes from layer to layer; trl: by SFTTrainer of TRL "
             "before 0.27, which casts embedding and head back",
             "as-trainer", "prepared=peft"),
      flag("quantised_experts",
           "experts are stored in the base's bits, too, where bitsandbytes leaves them in 16 "
           "(axolotl: quantize_moe_experts)"),
      set_of(Part{}, "trained",
             "embedding and head that are trained whole beside adapters, as copies of the frozen "
             "ones (modules_to_save of peft, additional_target of LLaMA-Factory)",
             "nothing", "trained=embedding+head"),
      choice(AdapterDtype{}, "lora_dtype", "of the adapters", "as-trainer", "lora_dtype=fp32"),
      flag("lora_dropout", "dropout before the adapters"),
      choice(LoadedAs{}, "loaded",
             "dtype that the weights are loaded in (dtype or torch_dtype of from_pretrained); FSDP "
             "makes those that are trained fp32",
             "as-trainer", "loaded=bf16"),
      set_of(Part{}, "frozen", "parts that are not trained", "nothing", "frozen=router"),
      number("frozen_layers", kCount, "the first layers, whole, that are not trained", "0",
             "frozen_layers=8"),
  };
  return known;
}

std::string values_text(const EntryKey& key) {
  switch (key.takes) {
    case Takes::Number:
      return fmt::format("{} to {}", key.range.least, with_thousands(key.range.most));
    case Takes::Flag: return "stands alone";
    case Takes::FlagOrNumber: return "alone for 1, or a number";
    case Takes::Name: return enumerate(to_strings(key.names), "or");
    case Takes::Names: return "some of " + enumerate(to_strings(key.names)) + ", joined by '+'";
    case Takes::Other: break;
  }
  return std::string(key.form);
}

}  // namespace trainwright
