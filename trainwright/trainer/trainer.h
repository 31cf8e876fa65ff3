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
#include "trainwright/schedule/schedule.h"
#include "trainwright/trainer/code.h"
#include "trainwright/trainer/kinds.h"
#include "trainwright/trainer/libraries.h"
#include "trainwright/trainer/optimizer.h"
#include "trainwright/trainer/precision.h"
#include "trainwright/trainer/rule.h"

namespace trainwright {

struct TrainerSchedule {
  ScheduleKind kind = ScheduleKind::None;
  std::string name;  // what the trainer calls it
  StagePlacement placement = StagePlacement::Single;
  std::string source;
};

// Communication is cut into buckets of max(least, per_dp * dp) units.
struct Bucket {
  BucketPurpose purpose = BucketPurpose::GradientReduce;
  BucketUnit unit = BucketUnit::Parameter;
  std::int64_t least = 0;
  std::int64_t per_dp = 0;
  bool first_only = false;  // on the first pipeline rank and chunk; the others have one for all
  std::string setting, source;
};

// A way that a trainer offers, and how to ask for it.
template <class Kind>
struct Offer {
  Kind kind{};
  std::string setting, source;
};
struct ShardingFacts {
  ShardingKind kind = ShardingKind::Ddp;
  GradientLife gradients = GradientLife::Buffer;
  bool gradients_as_weight = false;  // unasked they have the weight's dtype
  std::vector<KernelKind> without;   // kernels that it excludes
  std::string setting, source;
  Seconds host_per_module = {};  // in every pass, where it takes care of weights module by module
};
// A thing by the trainer's own name, or a group of ranks.
struct Choice {
  std::string kind;
  std::string setting, source;
};

// What a program does where nothing is said, unlike the trainer that its file is based on.
struct Defaults {
  RecomputeKind recompute = RecomputeKind::None;
  std::string source;
};

struct Trainer {
  std::string name;   // "megatron-core"
  std::string title;  // "Megatron-Core"
  std::vector<std::string> aliases;
  // Trainers that no file describes, by their names ("slime|miles"), and what to ask for instead.
  std::vector<std::pair<std::string, std::string>> elsewhere;
  bool unlisted = false;  // it is there for a paper's table: known by name, in no list
  // By which rules, fitted constants and exports know it: its name, or that of what it starts.
  std::string stack;
  Defaults defaults;
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
  std::vector<ShardingFacts> shardings;
  std::vector<Offer<RecomputeKind>> recomputes;
  std::vector<Choice> recompute_modules;  // by the trainer's own names
  std::vector<Offer<CpKind>> cp_kinds;
  std::vector<FlexBackend> flex_backends;  // the usual one first
  std::vector<Offer<Offload>> offloads;
  std::vector<Communicator> communicators;  // that a rank opens
  LibraryFacts libraries;
  std::vector<Bucket> buckets;
  std::vector<Workspace> workspaces;
  AdapterFacts adapters;
  PipelineFacts pipeline;                     // under `libraries.torch`
  std::vector<PipelineSince> pipeline_since;  // by version, the file's own first; may be empty
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
  OptimizerStates states;  // by weight
  double gradient_at_step = 0;
};
// `gradient` is a dtype, empty for the precision's default. Diagnoses what the trainer does not
// offer, with what it does.
Result<ParameterBytes> parameter_bytes(const Trainer& trainer, PrecisionKind precision,
                                       OptimizerKind optimizer, std::string_view gradient = {});

// The same for a parameter that is made in that dtype, whatever the precision says, as adapters may
// be: gradient and states follow it where they follow the weight, and fp32 needs no exact copy.
Result<ParameterBytes> parameter_bytes_in(std::string_view dtype, const Trainer& trainer,
                                          PrecisionKind precision, OptimizerKind optimizer);

// Whether a fact that memory hangs on (dtypes, kernels, losses, layers, shardings, the pipeline) is
// assumed or learned and not read in the trainer's own source.
bool rests_on_assumptions(const Trainer& trainer);

// Bytes of one number of that dtype ("bf16" -> 2, "none" -> 0); nullopt for an unknown name.
std::optional<double> dtype_bytes(std::string_view dtype);

// How the trainer uses an overlap; Use::Never when its file does not list it. The entry of a
// kernel, a bucket, or any list of entries with a `kind`; nullptr when it is not there.
Use overlap_use(const Trainer& trainer, OverlapKind kind);
const Kernel* find_kernel(const Trainer& trainer, KernelKind kind);
const Bucket* find_bucket(const Trainer& trainer, BucketPurpose purpose);
bool has_rule(const Trainer& trainer, std::string_view id);
// Where published recipes of the trainer share a thing ("overlap-tp", "mxfp8"), by its file;
// nullopt where they do not.
std::optional<Expression> shared_by_recipes(const Trainer& trainer, std::string_view what);
template <class Entry, class Kind>
const Entry* find_kind(const std::vector<Entry>& entries, Kind kind) {
  for (const Entry& entry : entries) {
    if (entry.kind == kind) return &entry;
  }
  return nullptr;
}

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
// hold for that version stay. "torchtitan@0.3,torch=2.15" is on another PyTorch than the file says.
Result<Trainer> pick_trainer(std::string_view text, std::span<const Trainer> trainers);
// On that PyTorch: its facts of pipelines, too.
void set_torch(Trainer& trainer, Version torch);
// One of them as a run had it switched, with "based_on" as pick_trainer takes it:
//   {"based_on": "megatron-core@0.16", "kernels": {"flash-attention": false}, "loss": "te-fused",
//    "workspaces": {"cublas": 8519680}, "code": {"sums_copy": true},
//    "libraries": {"transformer_engine": "2.11"}, "flash": 2, "attention_takes": 1.8,
//    "gradients": "bf16"}
// Kernels are then always or never used; a workspace's bytes are those of one handle; attention
// takes 1.8 times as long as by FlashAttention 2; precisions that offer it add gradients in bf16.
Result<Trainer> read_trainer_variant(const Json& json, const std::string& origin,
                                     std::span<const Trainer> trainers);
// A name, the path of such an object (*.json), or its text.
Result<Trainer> trainer_named(std::string_view words, std::span<const Trainer> trainers);
Result<Trainer> find_trainer(std::string_view words, const std::string& data_dir);

Json to_json(const Trainer& trainer);

}  // namespace trainwright
