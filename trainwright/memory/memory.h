#pragma once
// Bytes of every rank, and the chance that they do not fit.
//
// All ranks of one pipeline rank do the same work, so a layout has at most pp classes of ranks, and
// 131,072 ranks cost what their classes cost. For each class:
//
//   standing    weights, gradients, optimizer states, communicators, the context: there all step;
//   moments     what else is alive together at one point of the step. A pipeline rank walks through
//               its actions; before each, some micro-batches are in flight on each of its chunks,
//               some of them half done (I has run, W has not):
//                 sum over chunks (whole x kept + half x held) + what the action itself needs.
//               The peak is the highest moment, not a sum of maxima, and it has a name:
//               micro-batch, action, operator. The optimizer's step is one more moment.
//
// Three readings of the same peak, because published figures differ in which they mean:
//   allocated   tensors (torch.cuda.max_memory_allocated);
//   reserved    what the caching allocator took from the device for them;
//   driver      reserved + communicators + context (nvidia-smi). This is what must fit.
//
// Terms that follow from the list of work are exact; the others (workspaces, communicators,
// context, fragmentation) carry a spread with a source. Together they give an interval and the
// chance of OOM.
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/base/json.h"
#include "trainwright/base/result.h"
#include "trainwright/base/units.h"
#include "trainwright/layout/layout.h"
#include "trainwright/schedule/schedule.h"
#include "trainwright/work/work.h"

namespace trainwright {

// clang-format off
enum class Category : std::uint8_t {
  Weights,           // as stored, and copies kept beside them (fp8, transposed)
  MainWeights,       // the exact copy the optimizer updates
  Gradients,         // the buffer that lives all step
  OptimizerStates,
  Activations,       // kept for the backward pass of micro-batches in flight
  Transients,        // of the operators that run at the peak, recomputed tensors included
  Logits,            // head and loss at the peak
  GatherBuffers,     // FSDP: weights gathered, flat buffers
  ReduceBuffers,     // FSDP: gradients on their way; buckets of data parallelism
  PointToPoint,      // tensors between stages
  StepBuffers,       // of the optimizer's step
  Workspace,         // of libraries: matrix products, attention
  AllocatorSlack,    // reserved - allocated
  Communicators,     // outside the allocator
  Context,           // driver, kernels, libraries; outside the allocator
};
// clang-format on
inline constexpr std::size_t kCategories = static_cast<std::size_t>(Category::Context) + 1;
std::string_view name_of(Category category);
constexpr bool is_allocated(Category category) { return category < Category::AllocatorSlack; }

using CategoryBytes = std::array<Bytes, kCategories>;

// Numbers that no list can tell, each with unit, bounds and source in
// data/calibrations/memory.json; `calibrate` fits them to measured runs.
struct MemoryConstants {
  double context = 0;            // bytes of driver, kernels and libraries
  double communicator = 0;       // bytes of one communicator, whatever its size
  double communicator_rank = 0;  // and per member of its group on other nodes
  double workspace = 0;          // bytes that libraries allocate once (cuBLAS, cuDNN)
  double slack_least = 0;        // bytes reserved beyond allocated in a search, and
  double slack_share = 0;        // so many times the peak of the largest list (one layer) by itself
  double expert_imbalance = 1;   // busiest rank's tokens over the mean
  double spread = 0.02;  // standard deviation of the log of driver bytes, all terms together
  friend bool operator==(const MemoryConstants&, const MemoryConstants&) = default;
};
Result<MemoryConstants> read_memory_constants(const Json& json, const std::string& origin);
Result<MemoryConstants> load_memory_constants(const std::string& data_directory);

// Where a class's peak is.
struct Moment {
  enum class Kind : std::uint8_t { Forward, BackwardInput, BackwardWeight, Backward, Step };
  Kind kind = Kind::Forward;
  std::int64_t chunk = 0;               // of the rank
  std::int64_t micro_batch = 0;         // the first one that reaches it
  std::int64_t in_flight = 0;           // micro-batches of all chunks, this one included
  std::string_view operator_name = {};  // empty at the step
};
std::string_view name_of(Moment::Kind kind);

struct RankClass {
  std::int64_t pipeline_rank = 0;
  std::int64_t ranks = 1;  // that are like this one
  std::int64_t layers = 0;
  bool embedding = false, head = false;
  CategoryBytes bytes{};  // at the moment of the peak; their sum is `driver`
  Moment moment = {};
  Bytes allocated = {}, reserved = {}, driver = {};
  Bytes between_steps = {};  // allocated when a step has ended: states, and what stays of the last
  // The most in the first step, at whose end the optimizer makes its states.
  Bytes first_allocated = {}, first_reserved = {};
};

struct MemoryEstimate {
  std::vector<RankClass> classes;  // by pipeline rank
  std::size_t worst = 0;           // the class with the most driver bytes
  Bytes capacity;                  // what a program can use on the accelerator
  Bytes low, high;                 // 90 % interval of the worst class's driver bytes
  double oom = 0;                  // chance that the worst class needs more than the capacity
};

// Slack by replaying the step of each distinct class through the allocator, or by the quantile that
// was fitted on such replays, as in a search.
enum class Slack : std::uint8_t { Replayed, Quantile };

// A job on a cluster under a layout, which must be legal. What is not asked is as the trainer does.
struct MemoryQuestion {
  const Model& model;
  const Cluster& cluster;
  const Trainer& trainer;
  const Layout& layout;
  const Job& job;
  std::optional<AttentionKernel> attention = std::nullopt;
  MemoryConstants constants = {};
  const Schedule* schedule = nullptr;  // of schedule=csv, and checked; else made from the layout
  Slack slack = Slack::Replayed;
  // Only this pipeline rank is replayed, the others have the quantile.
  std::optional<std::int64_t> replayed_rank = std::nullopt;
};
// Diagnoses layers that cannot be dealt out, what the trainer does not offer, and sizes beyond any
// device. O(actions x operators) with replay.
Result<MemoryEstimate> estimate_memory(const MemoryQuestion& question);

// The chance that a need of `driver` bytes, known up to a factor whose log has the standard
// deviation `spread`, is more than `capacity`; and the bytes it exceeds with that chance. Errors of
// a prediction are shares of it (a tensor missed in one layer is missed in all), hence a
// log-normal.
double chance_of_oom(Bytes driver, Bytes capacity, double spread);
Bytes exceeded_with(double chance, Bytes driver, double spread);

// The nearest layout that is legal and runs out of memory with a chance of at most `kSafeChance`.
// Near is what costs least in speed: sequence parallelism, smaller micro-batches, cheap recompute,
// more sharding, more pipeline, full recompute, more tensor and context parallelism on the same
// ranks, states on the host, and any sum of these. O(tried x classes), at most 20,000 are tried;
// nullopt when none of them fits.
inline constexpr double kSafeChance = 0.05;
struct Change {
  std::string what;  // "mbs=1", "recompute=full,pp=8,dp=4"
  Layout layout;
  Bytes driver;  // of the worst class
};
std::optional<Change> smallest_change_that_fits(const MemoryQuestion& question);

// For searches: no lists, no replay, nothing allocated once slices and moments are known. Equal to
// estimate_memory with Slack::Quantile. One per model, trainer, job and thread.
class MemoryModel {
 public:
  // All of them must outlive it.
  MemoryModel(const Model& model, const Cluster& cluster, const Trainer& trainer, const Job& job,
              const MemoryConstants& constants,
              std::optional<AttentionKernel> attention = std::nullopt);
  ~MemoryModel();
  MemoryModel(MemoryModel&&) noexcept;
  MemoryModel& operator=(MemoryModel&&) noexcept;

  // Driver bytes of the worst class; nullopt where estimate_memory fails.
  std::optional<Bytes> worst(const Layout& layout);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Json to_json(const MemoryEstimate& estimate);

}  // namespace trainwright
