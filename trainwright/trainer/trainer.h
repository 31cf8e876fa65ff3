#pragma once
// How a trainer behaves, as data.
//
// Two trainers given the same model and layout keep different bytes, hide different communication
// and refuse different layouts. What differs is a fact in data/trainers/*.json, one file per
// trainer and version range, each fact with its source; no code branches on a trainer's name. A
// source that begins with "learned:" marks what only measured rows could tell.
//
// Bytes of one parameter, with d the ranks that share its states (dp * cp; experts: expert dp):
//   weight + weight_copies + gradient + (master + states + gradient_at_step) / d      ZeRO stage 1
// Stage 2 divides the gradient too, stage 3 the weight. Megatron, bf16: 2 + 4 + (4 + 8) / d.
//
// What it refuses is a list of rules (rule.h).
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainwright/base/json.h"
#include "trainwright/base/result.h"
#include "trainwright/trainer/code.h"
#include "trainwright/trainer/rule.h"

namespace trainwright {

struct PrecisionFacts {
  std::string kind;                      // of symbols(Variable::Precision)
  std::string weight;                    // dtype as stored
  std::string compute;                   // dtype as kernels read it, as gathered by FSDP
  std::string master;                    // dtype of the second, exact copy; "none" if there is none
  std::vector<std::string> gradients;    // dtypes of the buffer that lives all step, default first
  bool gradient_copied_at_step = false;  // narrower gradients become fp32 for the step
  double weight_copies = 0;  // bytes per parameter of cast or transposed weights kept beside it
  double input_copy = 0;     // bytes per element kept of a matrix' input instead of it; 0: itself
  std::string setting, source;  // what to set, empty if the default; where it is written
};

struct OptimizerFacts {
  std::string kind;                 // of symbols(Variable::Optimizer)
  std::vector<std::string> states;  // dtypes, or "as-weight"; one number per parameter each
  std::string master;               // dtype, where it replaces the precision's; else empty
  std::string setting, source;
};

struct Overlap {
  OverlapKind kind = OverlapKind::TensorParallel;
  Use use = Use::Never;
  std::string setting, source;
};

struct TrainerSchedule {
  std::string kind;       // of symbols(Variable::Schedule)
  std::string name;       // what the trainer calls it
  std::string placement;  // of symbols(Variable::Placement)
  std::string source;
};

// Communication is cut into buckets of max(least, per_dp * dp) units.
struct Bucket {
  std::string purpose;  // "gradient-reduce", "parameter-gather", "prefetch", ...
  std::string unit;     // "parameters" or "bytes"
  std::int64_t least = 0;
  std::int64_t per_dp = 0;
  std::string setting, source;
};

// Memory that a library takes once and keeps, so many times, in bytes: on accelerators of Hopper's
// generation and later, and on earlier ones.
struct Workspace {
  std::string library;     // "cublas", "transformer-engine"
  std::int64_t count = 1;  // one per handle and stream
  std::int64_t bytes = 0, before_hopper = 0;
  bool grouped_gemm = false;  // only where experts are one grouped product
  bool own_products = false;  // only on ranks with products of the framework's own: head, routers
  std::string setting, source;
};

// A choice among named things: a sharding mode, a recompute module, a kind of offload.
struct Choice {
  std::string kind;
  // Of a sharding: "buffer" (all step, reduced in place), "autograd" (from a first backward to the
  // step), "flattened" (and copied into one bucket at the step), "copied" (and as large buckets all
  // step), "bucketed" (a buffer and one bucket), "accumulated" (a buffer to which autograd's own
  // are added when a backward pass has ended), "accumulated-copied" (and buckets as large as
  // those).
  std::string gradients;
  std::string setting, source;
};

struct PipelineFacts {
  bool outputs_freed_early = false;      // a stage's output is dropped once sent
  bool buffers_per_micro_batch = false;  // to receive every micro-batch, not those in flight
  bool sends_live_until_step_end = false;
  bool last_gradient_stays = false;  // the input gradient sent last, until the next one is there
  bool last_input_stays = false;     // each chunk's last input and its gradient, between steps too
  std::int64_t first_stage_less_layers = 0;  // how many layers the embedding is worth by default
  std::int64_t last_stage_less_layers = 0;   // and the head
  std::string source;
};

struct AllocatorFacts {
  bool expandable_segments = false;
  // A tensor that was all-reduced over tp is free again only when the collective's stream has come
  // by; hosts run far ahead, so that is after the pass (PyTorch's record_stream).
  bool sums_linger = false;
  // What the library of products takes from it for each thread, at its first product: the one that
  // runs forward, and autograd's. 0: unknown, and part of the constant workspace.
  std::int64_t product_workspace = 0;
  std::string setting, source;
};
struct Trainer {
  std::string name;   // "megatron-core"
  std::string title;  // "Megatron-Core"
  std::vector<std::string> aliases;
  Version from;            // this file holds for from <= version, up to and with `to`, whose
  Version to;              // patch releases are included
  Version version;         // the one asked for; `to` when none was
  std::string rank_order;  // innermost first: "tp-cp-ep-dp-pp"
  std::string rank_order_source;
  std::vector<PrecisionFacts> precisions;
  std::vector<OptimizerFacts> optimizers;
  std::vector<Kernel> kernels;
  std::vector<Loss> losses;  // the default first
  CodeFacts code;
  std::vector<Overlap> overlaps;
  std::vector<TrainerSchedule> schedules;
  std::vector<Choice> shardings;          // of symbols(Variable::Sharding)
  std::vector<Choice> recomputes;         // of symbols(Variable::Recompute)
  std::vector<Choice> recompute_modules;  // by the trainer's own names
  std::vector<Choice> cp_kinds;           // of symbols(Variable::CpKind)
  std::vector<Choice> offloads;           // "optimizer", "activations", "parameters"
  std::vector<Choice> communicators;      // the groups a rank opens a communicator for
  std::vector<Bucket> buckets;
  std::vector<Workspace> workspaces;
  PipelineFacts pipeline;
  AllocatorFacts allocator;
  std::vector<std::pair<std::string, std::string>> settings;  // our name -> the trainer's name
  std::vector<Rule> rules;                                    // those that hold for `version`
};

// Bytes of one parameter under a precision and an optimizer; see the top of the file.
struct ParameterBytes {
  double weight = 0;
  double weight_copies = 0;
  double gradient = 0;
  double master = 0;
  double states = 0;
  double gradient_at_step = 0;
};
// Kinds as in `symbols`; `gradient` is a dtype, empty for the precision's default. Diagnoses what
// the trainer does not offer, with what it does.
Result<ParameterBytes> parameter_bytes(const Trainer& trainer, std::string_view precision,
                                       std::string_view optimizer, std::string_view gradient = {});

// Bytes of one number of that dtype ("bf16" -> 2, "none" -> 0); nullopt for an unknown name.
std::optional<double> dtype_bytes(std::string_view dtype);

// How the trainer uses a kernel or an overlap; Use::Never when its file does not list it.
const Kernel* find_kernel(const Trainer& trainer, KernelKind kind);  // nullptr: not listed
Use overlap_use(const Trainer& trainer, OverlapKind kind);

std::string_view name_of(Use use);
std::string_view name_of(KernelKind kind);   // "flash-attention"
std::string_view name_of(OverlapKind kind);  // "tensor-parallel"

// One file of data/trainers.
struct TrainerFile {
  std::string origin;  // its path, which begins every place in a diagnostic
  std::string text;
};
// Reads a set of files that may build on each other ("based_on": a file's name without .json).
// `rules.json` holds the rules of every trainer. All faults of all files at once. Ordered by name,
// then version.
//
// Beside facts that only measured rows could tell, "unlearned" may hold the values that would have
// been taken without them; Learned::Left reads those instead, to see what the rows are worth.
enum class Learned { Taken, Left };
Result<std::vector<Trainer>> read_trainers(std::span<const TrainerFile> files,
                                           Learned learned = Learned::Taken);
// The same for data_dir/trainers/*.json.
Result<std::vector<Trainer>> load_trainers(const std::string& data_dir,
                                           Learned learned = Learned::Taken);

// "megatron@0.12", or "megatron" for the newest; names and aliases in any case. Only the rules that
// hold for that version stay.
Result<Trainer> pick_trainer(std::string_view text, std::span<const Trainer> trainers);
Result<Trainer> find_trainer(std::string_view text, const std::string& data_dir);

Json to_json(const Trainer& trainer);

}  // namespace trainwright
