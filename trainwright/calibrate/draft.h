#pragma once
// Private to the module: a case in the making, and what the makers of all sources share.
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainwright/calibrate/case.h"

namespace trainwright::detail {

// A trainer of the data, with kernels and a loss switched as a run had them.
struct TrainerChoice {
  std::string name;  // "nanotron@0.4"
  std::vector<std::pair<KernelKind, bool>> kernels;
  std::string loss;  // empty: the trainer's default
  // Bytes of one workspace of a library, where the run had set or left it out.
  std::vector<std::pair<std::string, std::int64_t>> workspaces = {};
  bool made_wide = false;  // the run built its model in fp32
};

struct Draft {
  Case made;
  Model model;
  std::string cluster;  // as `--on` has it
  TrainerChoice trainer;
};
// A draft, or the reason why there is none.
using DraftOrReason = tl::expected<Draft, std::string>;

inline tl::unexpected<std::string> skip(std::string reason) {
  return tl::unexpected<std::string>(std::move(reason));
}

// Pipeline ranks for which an explicit list of layers is made.
inline constexpr std::int64_t kMostListedStages = 4096;

// How a column of degrees is read: absent ones are 1.
std::int64_t or_one(const std::optional<std::int64_t>& degree);

// Starts a draft: degrees, batch, sequence, sharding, recompute and precision as the columns have
// them, on top of what the trainer does unasked. Skips what is missing or beyond the bounds.
DraftOrReason start(const MeasuredRun& run, const Knowledge& knowledge, TrainerChoice trainer,
                    std::string cluster, tl::expected<Model, std::string> model);

// The newest file of that trainer and version; nullptr if there is none.
const Trainer* known_trainer(const Knowledge& knowledge, std::string_view text);

// A shape by its numbers; each number must be there.
struct Shape {
  std::string name;
  std::optional<std::int64_t> layers, hidden, ffn, heads, kv_heads, head_dim, vocabulary;
  std::int64_t positions = 0;
  bool tied = false;
};
Shape shape_of(const MeasuredRun& run);
using ModelOrReason = tl::expected<Model, std::string>;
// LayerNorm, biases, GELU, learned positions, as Megatron-LM builds a GPT; no dropout.
ModelOrReason gpt_model(const Shape& shape);
// RMSNorm, no biases, gated SiLU, rotary positions.
ModelOrReason llama_model(const Shape& shape);
// A model of the zoo cut to so many layers, of which the first `dense` are like its first one and
// the others like its last one; without multi-token prediction.
ModelOrReason trimmed(const Knowledge& knowledge, std::string_view name, std::int64_t layers,
                      std::int64_t dense);

// "printed with so many decimals" as a reading of memory.
enum class PrintedUnit { GB, GiB };
MemoryReading printed(double value, PrintedUnit unit, int decimals, MemoryKind kind, ReadAt at,
                      std::int64_t index = 0);

DraftOrReason aleph_alpha(const MeasuredRun& run, const Knowledge& knowledge);
DraftOrReason nanotron(const MeasuredRun& run, const Knowledge& knowledge);
DraftOrReason bloom_prequel(const MeasuredRun& run, const Knowledge& knowledge);
DraftOrReason sailor(const MeasuredRun& run, const Knowledge& knowledge);
DraftOrReason simumax_b200(const MeasuredRun& run, const Knowledge& knowledge);
DraftOrReason korthikanti(const MeasuredRun& run, const Knowledge& knowledge);
DraftOrReason megatron_golden(const MeasuredRun& run, const Knowledge& knowledge);
DraftOrReason zero_bubble(const MeasuredRun& run, const Knowledge& knowledge);
DraftOrReason vocabulary_parallel(const MeasuredRun& run, const Knowledge& knowledge);
DraftOrReason flagperf(const MeasuredRun& run, const Knowledge& knowledge);
DraftOrReason zbh1_3090(const MeasuredRun& run, const Knowledge& knowledge);

}  // namespace trainwright::detail
