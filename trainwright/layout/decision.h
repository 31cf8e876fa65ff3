#pragma once
// The decision and the job, as values. Part of layout.h: include that one.
//
// What a layout chooses from among a trainer's offers are the enumerators of trainer.h, so that a
// layout, a trainer's facts and its rules speak of the same things.
#include <array>
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/model/model.h"
#include "trainwright/schedule/schedule.h"
#include "trainwright/trainer/trainer.h"

namespace trainwright {

// A set of enumerators, in one word.
template <class E>
struct Flags {
  std::uint32_t bits = 0;

  constexpr Flags() = default;
  constexpr Flags(std::initializer_list<E> members) {
    for (const E member : members) insert(member);
  }
  constexpr bool has(E member) const { return (bits >> static_cast<unsigned>(member) & 1U) != 0; }
  constexpr void insert(E member) { bits |= std::uint32_t{1} << static_cast<unsigned>(member); }
  constexpr bool empty() const { return bits == 0; }
  constexpr int count() const { return std::popcount(bits); }
  friend constexpr bool operator==(const Flags&, const Flags&) = default;
};

// clang-format off
enum class RecomputeModule {
  CoreAttention, Norm, Mlp, MlaUpProjection, Moe, MoeActivation, SharedExperts,
};
// What a layout may ask for or refuse; where it is silent the trainer does as it always does.
enum class Switch {
  OverlapTp, OverlapGradientReduce, OverlapParameterGather, OverlapGatherWithStep, OverlapP2p,
  OverlapEp, OverlapSharedExperts, DelayWeightGradient, GroupedGemm, Compile, DistributeSaved,
  Fp8ParameterGather,
  Graphs,      // whole layers or steps are launched by CUDA graphs
  PartGraphs,  // those parts of layers whose shapes never change: attention, routers
};
enum class Axis { Tp, Cp, Ep, Dp, Pp };
// clang-format on
std::span<const std::string_view> all_names(RecomputeModule);
std::span<const std::string_view> all_names(Switch);
std::optional<OverlapKind> overlap_of(Switch what);  // that it switches, if it is one
std::span<const std::string_view> all_names(Axis);
using RankOrder = std::array<Axis, 5>;  // innermost first: its members have neighbouring ranks

struct Recompute {
  RecomputeKind kind = RecomputeKind::None;
  Flags<RecomputeModule> modules;  // of Modules
  std::int64_t n = 1;              // of EveryNth, Block and Full
  friend bool operator==(const Recompute&, const Recompute&) = default;
};

// Every degree is at least 1. Copying one allocates nothing unless stages differ by list.
struct Layout {
  std::int64_t tp = 1, pp = 1, dp = 1, cp = 1;  // tensor, pipeline, data, context; the world
  std::int64_t vpp = 1;                         // stages per pipeline rank
  std::int64_t ep = 1, etp = 1;                 // expert, tensor inside experts; folded, see above
  bool sp = false;                              // sequence parallelism inside tp
  std::int64_t zero = 0;  // 1 shards states, 2 gradients too, 3 weights too; FSDP is 2 or 3
  ShardingKind sharding = ShardingKind::Ddp;
  std::int64_t dp_replicate = 1;  // copies of the sharded state; dp / dp_replicate ranks share one
  std::int64_t mbs = 1, gbs = 1;  // sequences in a micro-batch of one rank, and in a step
  std::int64_t seq = 2048;        // tokens in a sequence

  Recompute recompute;                        // of every stage
  bool recomputes_unasked = false;            // the trainer does: then a text says what this does
  std::vector<Recompute> recompute_by_stage;  // or, if not empty, of each of pp * vpp stages
  std::int64_t first_layers = 0;              // on the first pipeline rank; 0: like the others
  std::int64_t last_layers = 0;               // on the last one
  std::vector<std::int64_t> layers;           // or explicit: of each of pp * vpp stages
  std::int64_t count_embedding = 0;           // layers the embedding is worth when dealing out
  std::int64_t count_loss = 0;                // and the head with its loss
  std::optional<std::int64_t> mtp_stage;      // nullopt: the last one
  bool vocab_parallel = false;                // embedding and head over all pipeline ranks

  ScheduleKind schedule = ScheduleKind::None;
  StagePlacement placement = StagePlacement::Single;
  std::int64_t micro_batch_group = 0;  // that pass one chunk before the next starts; 0: pp
  Flags<Offload> offload;
  PrecisionKind precision = PrecisionKind::Bf16;
  GradientDtype gradients = GradientDtype::AsTrainer;
  CpKind cp_kind = CpKind::Ring;
  std::int64_t cp_ulysses = 0;  // of UlyssesRing: members of cp that exchange all-to-all
  DispatcherKind dispatcher = DispatcherKind::AllToAll;
  Flags<Switch> on, off;
  std::string loss;  // by the trainer's name for it; empty: its usual one
  std::optional<std::int64_t> max_connections;  // CUDA_DEVICE_MAX_CONNECTIONS
  RankOrder order = {Axis::Tp, Axis::Cp, Axis::Ep, Axis::Dp, Axis::Pp};
  friend bool operator==(const Layout&, const Layout&) = default;
};
// Whether they differ in nothing but the pipeline: its schedule, its chunks, how layers are dealt
// out. Such layouts have the same lists of work, groups of ranks and shares of weights.
bool differ_in_pipeline_alone(const Layout& a, const Layout& b);

// The matrices of layers, by the names of model.h's `layer_weights`.
// clang-format off
enum class LayerMatrix {
  Query, Key, Value, AttentionGate, AttentionOutput, QueryDown, QueryUp, KvDown, KvUp, Beta, Decay,
  Gate, Up, Down, Router, ExpertGate, ExpertUp, ExpertDown, SharedGate, SharedUp, SharedDown,
  SharedScale, LatentDown, LatentUp, MambaIn, MambaOut,
};
// clang-format on

// Low-rank adapters of rank r: y = W x + s B A x with A r x in and B out x r, so r (in + out)
// parameters beside an in x out matrix (arXiv:2106.09685, section 4.1). `targets` names matrices in
// any of the words of `matrices_named`; none: every matrix of every layer but routers and what
// `target_matrices` leaves out. Trainers
// make them in the dtype of the weights or in another (peft: fp32).
enum class AdapterDtype { AsTrainer, AsWeight, Fp32 };
std::span<const std::string_view> all_names(AdapterDtype);
// The dtype that a program loads a model's weights in.
enum class LoadedAs { AsTrainer, Bf16, Fp16, Fp32 };
std::span<const std::string_view> all_names(LoadedAs);
struct Lora {
  std::int64_t rank = 16;
  std::vector<std::string> targets;
  AdapterDtype dtype = AdapterDtype::AsTrainer;
  FrozenBase base = FrozenBase::AsWeights;
  bool quantised_experts = false;           // experts too, where they are parameters
  Prepared prepared = Prepared::AsTrainer;  // only with a base of bitsandbytes: nf4 or int8
  Flags<Part> trained =
      {};                // embedding, head: whole copies that are trained beside the frozen ones
  bool dropout = false;  // of their input; how much does not matter here
  friend bool operator==(const Lora&, const Lora&) = default;
};
// Of one word: ours ("query", "expert_down"), those of Hugging Face's modules ("q_proj",
// "gate_up_proj", "c_attn") or Megatron's ("linear_qkv"), in any of which several matrices may be
// one; where a word fits several parts of a layer (down_proj: dense, experts, shared) it means all
// of them. Empty for an unknown word.
Flags<LayerMatrix> matrices_named(std::string_view word);
// Without targets: all but routers, and experts where they are parameters and no modules.
Flags<LayerMatrix> target_matrices(const Lora& lora, bool experts_are_parameters = false);
std::span<const std::string_view> all_names(LayerMatrix);               // as in `layer_weights`
std::optional<LayerMatrix> layer_matrix(std::string_view weight_name);  // as in `layer_weights`

// Bytes of one in x out matrix with its scales and tables.
//   nf4    4 bits, a scale for 64 numbers; scales in 8 bits, an fp32 scale for 256 of them; their
//          mean and two tables of 16 and 256 fp32 (QLoRA, arXiv:2305.14314; bitsandbytes 0.50)
//   int8   an fp32 scale for each output (LLM.int8(), arXiv:2208.07339; bitsandbytes 0.50)
//   fp8    an fp32 scale for each 128 x 128 block (arXiv:2412.19437; transformers' FP8Linear)
//   mxfp4  blocks of 32 along the inputs; nvfp4: of 16, and an fp32 scale (four_bits.h)
Bytes stored_bytes(FrozenBase base, std::int64_t in, std::int64_t out);  // not AsWeights
// Of these, what every rank has whole however weights are sharded: bitsandbytes holds scales and
// tables beside the parameter (nn/modules.py Params4bit.quant_state, Int8Params.SCB), fp8's scales
// are parameters themselves.
Bytes unsharded_bytes(FrozenBase base, std::int64_t in, std::int64_t out);  // not AsWeights

// What is trained and how, whatever the layout. Frozen weights have no gradient, no states, no
// master copy and no weight-gradient work; with LoRA everything but the adapters is frozen, and
// frozen layers have none.
struct Job {
  OptimizerKind optimizer = OptimizerKind::AdamW;
  Flags<Part> frozen;
  std::int64_t frozen_layers = 0;  // the first so many layers, whole
  std::optional<Lora> lora;
  LoadedAs loaded = LoadedAs::AsTrainer;
  friend bool operator==(const Job&, const Job&) = default;
};

}  // namespace trainwright
