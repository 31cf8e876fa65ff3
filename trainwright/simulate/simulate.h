#pragma once
// Seconds of one training step, from the same operator lists that memory is counted from.
// 1. Every operator, collective and transfer has a time at the rates that kernels reach on the
//    accelerator and its links (cost.h). Summed up by what they are, these are the *pieces* of a
//    step; they hang on model, cluster, trainer and layout alone.
// 2. What kernels cannot tell is told by a few constants of the software stack (StackConstants).
//    A stage's pass takes, with g the seconds on the device and h those of the host that launches,
//
//      g = products + accumulated + attention + streams + loss + kernels x gap + collectives
//      t = (g^4 + h^4)^(1/4)          the host is a floor under the device, not an addend
//      h = calls x host x pace + hops x hop + modules x host_per_module
//    accumulated is what weight gradients are added to, gap lies between two queued kernels, calls
//    are the host's, pace is its over an H100's; hops between members of tp where ranks leave their
//    node, modules where ZeRO-3 has hooks. CUDA graphs need no host.
// 3. The pipeline's clock runs over the stages. For m micro-batches on p ranks of v chunks, t_r the
//    time of a micro-batch on rank r with its transfers:
//
//      1f1b          (m - 1) max t_r + sum t_r
//      gpipe         the same for forward and backward apart
//      interleaved   m max t_r + (p - 1) / v x mean t_r
//      all others    the clock of schedule.h over their actions; beyond 4 p micro-batches each
//                    takes as long as the slowest rank
//
// 4. Gradients and weights travel behind the passes where the trainer overlaps them; copies out of
//    and into their buffers are streams. Then comes the optimizer (Muon with products of its own),
//    at the host's pace if its states are there. Activations there cross in every pass, shown where
//    that takes longer or the trainer waits. All ranks wait for each other:
//
//      step = ((pipeline + data + optimizer) x (1 + growth x log2(max(1, ranks / 8))) + fixed)
//             x scale [x tuned in a vendor's own recipe]
//
// Experts work, and rows travel to them and back, as long as on the busiest rank of ep in each
// layer (expert_load.h); balanced unless asked otherwise. The parts add up to the step. Pieces cost
// O(lists + stages); a step from pieces O(stages), or the clock's O(4 p^2 v) actions.
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
#include "trainwright/cost/cost.h"
#include "trainwright/layout/layout.h"
#include "trainwright/simulate/stack.h"
#include "trainwright/work/expert_load.h"
#include "trainwright/work/work.h"

namespace trainwright {

// Where the time of a pass goes. Seconds on the device at kernel rates.
// clang-format off
enum class Piece : std::uint8_t {
  Products, AttentionCores, Streams, Loss,  // kernels: matrices, attention, memory-bound ones, the loss
  Tensor, TensorSums, Context, Expert, Vocabulary,  // collectives that nothing hides; sums: all-reduces
  Beside, ExpertBeside,                    // those that run while a product does, or all else does
  Ring,                                    // those of a ring, which run while attention does
};
// clang-format on
inline constexpr std::size_t kPieces = static_cast<std::size_t>(Piece::Ring) + 1;
struct PassPieces {
  std::array<Seconds, kPieces> seconds{};
  Seconds accumulated;  // what is moved to add gradients up, beside the product that makes them
  double kernels = 0;   // on the device
  double calls = 0;     // of the host: operators and collectives
  double hops = 0;      // between members of tp: n - 1 for each of their collectives
  double modules = 0;   // that hold weights
  Seconds& at(Piece piece) { return seconds[static_cast<std::size_t>(piece)]; }
  Seconds at(Piece piece) const { return seconds[static_cast<std::size_t>(piece)]; }
  PassPieces& operator+=(const PassPieces& more);
  friend bool operator==(const PassPieces&, const PassPieces&) = default;
};
PassPieces operator*(PassPieces pieces, double times);

struct StagePieces {
  // With what is run again in the second.
  PassPieces forward = {}, backward_input = {}, backward_weight = {};
};
// What data parallelism moves on one pipeline rank, and its optimizer.
struct RankPieces {
  Seconds reduced, gathered;                         // once a step
  Seconds every_forward, every_backward, offloaded;  // in each micro-batch; activations each way
  // Of these, what crosses the network.
  Seconds reduced_apart, gathered_apart, forward_apart, backward_apart;
  Seconds crossed;                                  // gradients to the host, in each micro-batch
  Seconds copied_forward, copied_backward, copied;  // out of and into their buffers; once a step
  Seconds optimizer, orthogonal;                    // bytes it moves; products that Muon adds
  Seconds host_step, embedding;  // states there, gradients of its copies: no stack's constants
};
struct StepPieces {
  using StageAt = trainwright::StageAt;
  std::vector<StagePieces> kinds;                         // of contents, as the inventory has them
  std::vector<StageAt> stages;                            // in the order of the layers
  void add(const StagePieces& stage, std::int64_t rank);  // of a kind of its own
  std::vector<RankPieces> ranks;                          // by pipeline rank
  std::vector<std::int64_t> first_alike;                  // as the inventory has it; empty: unknown
  ScheduleKind schedule = ScheduleKind::None;
  std::int64_t pp = 1, vpp = 1, micro_batches = 1, group = 0, world = 1;
  double host_share = 1;         // of kernels that the host launches, CUDA graphs the others
  double host_pace = 1;          // of the accelerator's host over an H100's
  Seconds gap, host_per_module;  // where the host sees to sharded weights module by module
  Seconds transfer;              // of one tensor to the next stage
  bool tensor_apart = false, stages_apart = false, context_apart = false,
       expert_apart = false;  // on several nodes
  bool tuned = false;         // a vendor's own recipe
  Regime regime;              // how sure the answer is
  bool transfers_overlap = false, reduce_overlaps = false, gather_overlaps = false,
       offload_overlaps = false;
  bool buckets_on_first = false;  // ranks behind the first of a pipeline have one bucket per chunk
  std::optional<Schedule> order;  // of schedule=csv
  std::optional<double> idle = std::nullopt;  // micro-batches that fit into it, where known
  Seconds bound;  // the slowest rank's products at the accelerator's peak
  Tokens tokens;
  // By the whole cluster: what the model and the job need, for MFU, and with what is run again.
  Flops needed, executed;
  FlopsPerSecond peak;  // of the whole cluster
};

struct TimeConstants {  // all that no list can tell
  Kernels kernels;
  Stacks stacks;
};
// Of a data directory; with the stacks of another file if one is given.
Result<TimeConstants> load_time_constants(const std::string& data_directory,
                                          const std::optional<std::string>& file = {});

struct StepQuestion {
  const Model& model;
  const Cluster& cluster;
  const Trainer& trainer;
  const Layout& layout;
  const Job& job;
  const Kernels& kernels;
  std::optional<AttentionKernel> attention = std::nullopt;
  const Schedule* schedule = nullptr;  // of schedule=csv
  ExpertLoad expert_load = {};
  bool tuned = false;  // a vendor's own recipe
};
// Diagnoses layers that cannot be dealt out and sizes beyond any device.
Result<StepPieces> step_pieces(const StepQuestion& question);

// For many layouts of one question: lists are made and timed once. Not for several threads.
class StepModel {
 public:
  // All of them must outlive it.
  StepModel(const Model& model, const Cluster& cluster, const Trainer& trainer, const Job& job,
            const Kernels& kernels, std::optional<AttentionKernel> attention = std::nullopt,
            ExpertLoad expert_load = {});
  ~StepModel();
  StepModel(StepModel&&) noexcept;
  StepModel& operator=(StepModel&&) noexcept;
  Result<StepPieces> pieces(const Layout& layout, const Schedule* schedule = nullptr);
  // As if one stage on one rank held all layers, on the layout's links: for least_step. What
  // travels between replicas is none in the first and told by the second.
  Result<StepPieces> whole(const Layout& layout);
  Result<RankPieces> whole_rank(const Layout& layout);
  WorkCache& work(const StoredAs& storage);  // its lists, for others who read them

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// clang-format off
enum class TimePart : std::uint8_t {
  Products, AttentionCores, Streams, Loss,  // kernels: matrices, attention, memory-bound ones, the loss
  Gaps, Host,                          // between kernels on the device; waiting for the host
  Tensor, Context, Expert,             // collectives that are not hidden
  Pipeline, Bubble,                    // transfers between stages, and waiting for others
  Data, Offload,                       // gradients and weights, what goes to the host: not hidden
  Optimizer, Waiting, Fixed,           // of ranks for each other; whatever the step
};
// clang-format on
inline constexpr std::size_t kTimeParts = static_cast<std::size_t>(TimePart::Fixed) + 1;
std::string_view name_of(TimePart part);

struct StepTime {
  Seconds step, low, high;                  // with a 90 % interval
  std::array<Seconds, kTimeParts> parts{};  // of the slowest rank; they add up to `step`
  Seconds bound;  // products at the accelerator's peak: no layout of that work is faster
  Tokens tokens;  // of a step
  std::int64_t ranks = 1;
  double mfu = 0, hfu = 0;  // of all peaks: what the model needs; with what is run again
  double unsure = 1;        // half the interval's width in logarithms, over the stack's spread
};
StepTime step_time(const StepPieces& pieces, const StackConstants& stack);
// The same with the share of the bubble as these constants have it: for fits, which ask often.
StepPieces with_known_idle(StepPieces pieces, const StackConstants& stack);
double tokens_per_second_per_rank(const StepTime& time);
Json to_json(const StepTime& time);

}  // namespace trainwright
// The rest of the public face: the order of a step's actions, and of any other.
#include "trainwright/simulate/pipeline.h"
#include "trainwright/simulate/unspecified.h"
