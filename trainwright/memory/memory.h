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
// Switches that take memory, each never less than without it:
//   overlap-ep    one layer's forward pass on top: the next micro-batch keeps its first layers as
//                 a backward pass frees its last ones. One more is in warm-up, but none runs
//                 forward before another runs back, so no more are in flight
//   graphs        the pool of the graph keeps what the passes need at their highest moment, so
//                 buffers of the optimizer come on top of it
//   part-graphs   the pool of the graphs keeps the temporaries of what they hold apart from others:
//                 as much again as the most temporaries of a layer, an upper bound. Static inputs
//                 stand for the inputs that eager layers keep, by micro-batch in flight
//   overlap-tp and flex dispatchers: buffers outside the allocator (outside.h)
// Not counted: what the driver keeps for the nodes of graphs, and data of all micro-batches that a
// graph of whole passes reads (Megatron-Core 0.19 full_cuda_graph.py StaticBufferLoader, 8 B a
// token and table). Source: Megatron-Core 0.14, 0.19.0 pipeline_parallel/combined_1f1b.py,
// schedules.py get_pp_rank_microbatches; full_cuda_graph.py, transformer/cuda_graphs.py
// TECudaGraphHelper._get_sample_arguments; Transformer Engine 2.14 pytorch/graph.py
// make_graphed_callables (_reuse_graph_input_output_buffers), PyTorch's private pools of graphs.
//
// Allocated bytes follow from the list of work. Reserved bytes are found by replaying the step
// through the allocator. Before PyTorch 2.8 a tensor that a collective used is free again only when
// the device has come by the collective; how many kernels the host is ahead by then decides what is
// reserved, and nothing in a layout tells it, so a usual lead gives the figure and the longest one
// its upper end. What lies outside the allocator is a range too (outside.h). Each figure therefore
// has a spread below and above it, from which intervals and the chance of OOM follow
// (constants.h).
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/base/json.h"
#include "trainwright/base/result.h"
#include "trainwright/base/units.h"
#include "trainwright/layout/layout.h"
#include "trainwright/memory/chance.h"
#include "trainwright/memory/constants.h"
#include "trainwright/memory/stage_bytes.h"
#include "trainwright/outside/outside.h"
#include "trainwright/schedule/schedule.h"
#include "trainwright/work/expert_load.h"
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

// Where a class's peak is.
struct Moment {
  enum class Kind : std::uint8_t { Forward, BackwardInput, BackwardWeight, Backward, Step };
  Kind kind = Kind::Forward;
  std::int64_t chunk = 0;               // of the rank
  std::int64_t micro_batch = 0;         // the first one that reaches it
  std::int64_t in_flight = 0;           // micro-batches of all chunks, this one included
  std::string_view operator_name = {};  // empty at the step, and where W begins
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
  bool shares_embedding = false;    // with another pipeline rank
  Bytes slack_most = {};            // slack with the host as far ahead as it gets
  std::array<Spread, 3> spreads{};  // by counter
};
Bytes bytes_of(const RankClass& rank, Counter counter);
const Spread& spread_of(const RankClass& rank, Counter counter);

struct MemoryEstimate {
  std::vector<RankClass> classes;  // by pipeline rank
  std::size_t worst = 0;           // the class with the most driver bytes
  Bytes capacity;                  // what a program can use on the accelerator
  Bytes low, high;                 // 90 % interval of the worst class's driver bytes
  double oom = 0;                  // the largest chance of any class to need more than the capacity
  OutsideBytes outside;            // what context and communicators are made of
  Ground ground;
};
// With what lies outside the allocator and all spreads as these constants have them, not replayed.
MemoryEstimate settled(MemoryEstimate estimate, const MemoryConstants& constants);

// Slack by replaying the step of each distinct class through the allocator, or none: what is
// reserved is never less than what is allocated, so that is a lower bound for searches.
enum class Slack : std::uint8_t { Replayed, None };

// A job on a cluster under a layout, which must be legal. What is not asked is as the trainer does.
struct MemoryQuestion {
  const Model& model;
  const Cluster& cluster;
  const Trainer& trainer;
  const Layout& layout;
  const Job& job;
  std::optional<AttentionKernel> attention = std::nullopt;
  const MemoryConstants& constants;
  const Schedule* schedule = nullptr;  // of schedule=csv, and checked; else made from the layout
  Slack slack = Slack::Replayed;
  // Only this pipeline rank is replayed, the others have no slack.
  std::optional<std::int64_t> replayed_rank = std::nullopt;
};
// Diagnoses what cannot be dealt out, is not offered or beyond any device. O(actions x operators).
Result<MemoryEstimate> estimate_memory(const MemoryQuestion& question);

// The nearest layout that is legal and fits at this risk.
// Near is what costs least in speed: sequence parallelism, smaller micro-batches, cheap recompute,
// more sharding, more pipeline, full recompute, more tensor and context parallelism on the same
// ranks, states on the host, and any sum of these. O(tried x classes), at most 20,000 are tried;
// nullopt when none of them fits.
struct Change {
  Layout layout;  // change_to (layout.h) says in which words it differs
  Bytes driver;   // of the worst class
};
std::optional<Change> smallest_change_that_fits(const MemoryQuestion& question,
                                                double risk = kUsualRisk);

// For searches, from caches: as estimate_memory with Slack::None, so no figure is above a replay's.
class MemoryModel {
 public:
  using ListsOf = std::function<WorkCache*(const StoredAs&)>;  // that somebody else makes too
  // All of them must outlive it.
  MemoryModel(const Model& model, const Cluster& cluster, const Trainer& trainer, const Job& job,
              const MemoryConstants& constants,
              std::optional<AttentionKernel> attention = std::nullopt, ListsOf lists = {});
  ~MemoryModel();
  MemoryModel(MemoryModel&&) noexcept;
  MemoryModel& operator=(MemoryModel&&) noexcept;
  struct Least {
    Bytes driver;    // of the fullest class
    double oom = 0;  // of the class most likely to run out of memory
  };
  // Nullopt where estimate_memory fails. Ends at the first class whose chance is above `enough`,
  // mostly the first one: then both are lower bounds of the others too. `capacity`: another one.
  std::optional<Least> least(const Layout&, double enough = 1, std::optional<Bytes> capacity = {});
  // Whether communicators of the first layout, which differs in the order of its ranks alone, may
  // take less than those of the second: else its chance to fit is no better.
  bool may_take_less_outside(const Layout& layout, const Layout& than);
  // Weights, gradients and states of a pipeline rank on average: some rank needs as much.
  std::optional<Bytes> states(const Layout& layout);
  // Of one layer of each kind, by its number: a rank that holds n of them has n times as much.
  std::vector<RealBytes> layer_states(const Layout& layout);
  // Of the layers that which keeps least of a micro-batch for its backward pass.
  std::optional<Bytes> least_kept(const Layout& layout);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Json to_json(const MemoryEstimate& estimate);

}  // namespace trainwright
