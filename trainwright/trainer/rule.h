#pragma once
// What a trainer refuses, as data; part of trainer.h, which includes it.
//
// A rule is two expressions over named whole numbers and a reason, for instance
//   when "vpp > 1", require "micro_batches % micro_batch_group == 0".
// It says nothing where `when` is false and is violated where `when` holds and `require` does not.
//   operators  + - * / % == != < <= > >= and or not in ( )
//   kinds      quoted: schedule == 'zb-v', schedule in ('zb-v', 'v-half')
// Rules are read once and checked at reading: an unknown variable or kind is a diagnostic, so a
// new version of a trainer is a change of data. Whoever holds a layout fills in `Facts`.
#include <array>
#include <bitset>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/base/result.h"

namespace trainwright {

// What a rule may ask about; in data the name is in snake_case (KvHeads is kv_heads). Degrees are
// at least 1, flags 0 or 1, kinds one of `symbols(variable)`.
enum class Variable {
  // clang-format off
  // Degrees. Dp excludes Cp; DpShard * DpReplicate == Dp; Stages == Pp * Vpp.
  World, Dp, Tp, Pp, Vpp, Cp, Ep, Etp, DpShard, DpReplicate, Stages,
  Zero,  // 0 to 3; FSDP is 3
  Sp,    // flag: sequence parallelism inside tp
  // Batch, in sequences; Seq in tokens; MicroBatches of one step and one data-parallel rank.
  Mbs, Gbs, Seq, MicroBatches,
  // Model. Experts is 0 when dense; Ffn is a dense layer's, MoeFfn an expert's width. Flags:
  // OwnHeadDim (the config states head_dim by itself), TiedEmbeddings, Mla, Windows (some layer
  // sees only the last tokens or those of its chunk), ExpertBias. LinearHeads: what a split of a
  // gated delta net's heads must divide, 0 where there is none. MambaBeside (attention, in one
  // layer); MambaHeads and MambaGroups are 0 without Mamba-2.
  Layers, Hidden, Ffn, MoeFfn, Heads, KvHeads, HeadDim, Vocab, Experts, TopK, SharedExperts,
  MtpLayers, OwnHeadDim, TiedEmbeddings, Mla, Windows, ExpertBias, LinearHeads, MambaHeads,
  MambaGroups, MambaBeside,
  // Layers of the first and last pipeline rank when set apart (else 0), fewest on any stage.
  // Flags: embedding and loss count as a layer when layers are dealt out; embedding and head are
  // spread over all pipeline ranks.
  FirstStageLayers, LastStageLayers, LeastStageLayers, CountEmbedding, CountLoss, VocabParallel,
  // The stage of the prediction layers, counted from 0, and the layers on stages behind it.
  MtpStage, LayersBehindMtp,
  MicroBatchGroup,  // micro-batches that pass one chunk before the next chunk starts; usually pp
  // Kinds: how layers are split, pipeline schedule, where stages sit, and so on.
  Split, Schedule,
  SplitBackward,  // flag: a backward pass runs in two parts, I and W
  LossChunks,     // pieces in which head and loss are computed; usually 1
  Placement, Recompute, Precision, Gradients, Optimizer, CpKind, Sharding,
  Dispatcher,   // flex whatever its backend
  FlexBackend,  // flex where the trainer has no names for backends; else as Dispatcher
  Ulysses,          // ranks that hold different heads of the same tokens inside attention
  RecomputeLayers,  // that are recomputed from one kept input; the n of full, block and every-nth
  // Flags: modules that are recomputed; what is kept is spread over tp.
  RecomputeCoreAttention, RecomputeNorm, RecomputeMlp, RecomputeMlaUpProjection, RecomputeMoe,
  RecomputeMoeActivation, RecomputeSharedExperts, DistributeSaved,
  // Flags: what lives in host memory.
  OffloadOptimizer, OffloadActivations, OffloadParameters,
  Prepared,    // flag: norms and what else has not few bits are made fp32 under adapters
  FrozenBase,  // kind: what the frozen matrices beside adapters are stored in
  // Flags: what is hidden behind compute, and what is switched on.
  OverlapTp, OverlapGradientReduce, OverlapParameterGather, OverlapGatherWithStep, OverlapP2p,
  OverlapEp, OverlapSharedExperts, DelayWeightGradient, GroupedGemm, Compile, Fp8ParameterGather,
  Graphs, PartGraphs,
  // Machine: accelerators per node; flags for Blackwell or later, for AMD's CDNA 4 or later; ten
  // times the least compute capability, unknown of other vendors; CUDA_DEVICE_MAX_CONNECTIONS.
  NodeSize, Blackwell, Cdna4, Capability, MaxConnections,
  // Libraries, as 100 x major + minor: 12.9 is 1209.
  TransformerEngine, Cuda,
  // clang-format on
};
inline constexpr std::size_t kVariableCount = static_cast<std::size_t>(Variable::Cuda) + 1;

std::string_view name_of(Variable variable);  // "kv_heads"
std::optional<Variable> variable_named(std::string_view name);
// The kinds a variable may take ("1f1b", "zb-v", ...); empty for numbers and flags. A kind's number
// is its place in this list.
std::span<const std::string_view> symbols(Variable variable);

// What is known of one layout, as far as rules care. A variable never set is unknown.
struct Facts {
  std::array<std::int64_t, kVariableCount> values{};
  std::bitset<kVariableCount> known;

  void set(Variable variable, std::int64_t value);
  // A kind by its name, which must be one of `symbols(variable)`: anything else is our bug.
  void set(Variable variable, std::string_view symbol);
  std::optional<std::int64_t> value(Variable variable) const;
};

// One step of a parsed expression; operands stand before their operator.
struct Instruction {
  // clang-format off
  enum class Op {
    Number, Load,  // operand: the value; the variable
    Negate, Add, Subtract, Multiply, Divide, Remainder,
    Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual, And, Or, Not,
  };
  // clang-format on
  Op op = Op::Number;
  std::int64_t operand = 0;

  friend bool operator==(const Instruction&, const Instruction&) = default;
};

// At most 200 instructions, so evaluating one is a pass over a few numbers, without allocation.
struct Expression {
  std::string text;
  std::vector<Instruction> program;  // empty: always true

  friend bool operator==(const Expression&, const Expression&) = default;
};

// Diagnoses unknown variables and kinds (with the nearest), stray text, too long, too deep.
Result<Expression> parse_expression(std::string_view text, std::string_view where);

// Nullopt when the answer hangs on an unknown variable, a division by zero or an overflow; a false
// side settles `and`, a true side settles `or`, whatever the other is.
std::optional<std::int64_t> evaluate(const Expression& expression, const Facts& facts);

// "0.12.1"; what is left out is 0. Compares as numbers: 0.9 < 0.12.
struct Version {
  int major_part = 0;
  int minor_part = 0;
  int patch_part = 0;

  friend auto operator<=>(const Version&, const Version&) = default;
};
std::optional<Version> parse_version(std::string_view text);
std::string to_text(Version version);  // "0.12", "0.12.1"

// Forbidden: the trainer stops, or trains something else. Advice: it runs, but not as asked.
enum class Severity { Forbidden, Advice };
enum class Verdict { Holds, Violated, NotApplicable, Unknown };

struct Rule {
  std::string id;  // "interleave-needs-pp"; unique within a trainer
  Expression when;
  Expression require;
  Severity severity = Severity::Forbidden;
  std::string reason;  // with {variables}: "{heads} heads do not split {tp} ways"
  std::string hint;    // what would mend it, likewise
  std::string source;
  std::optional<Version> since;  // first version it holds for; nullopt: as old as the file
  std::optional<Version> until;  // last one, with its patch releases

  friend bool operator==(const Rule&, const Rule&) = default;
};

Verdict evaluate(const Rule& rule, const Facts& facts);

// A rule's reason or hint with every {variable} replaced by its value, or by "?" where unknown.
std::string explain(std::string_view text, const Facts& facts);

}  // namespace trainwright
