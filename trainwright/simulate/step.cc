// From the pieces of a step to its seconds.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "trainwright/simulate/simulate.h"

namespace trainwright {
namespace {

using Parts = std::array<Seconds, kTimeParts>;
constexpr std::size_t index(TimePart part) { return static_cast<std::size_t>(part); }

// How sharply the host's floor meets the device's time; sixth powers fit alike.
constexpr double fourth(double x) { return x * x * x * x; }
// Of one micro-batch, what gradients of the layers above may travel behind, seven tenths of the
// backward pass (assumed), and what weights may: the forward pass. Shares of both passes together,
// so that a faster kernel never hides less than it saves.
constexpr double kForward = 1.0 / 3, kBackward = 2.0 / 3;
constexpr double kBehindBackward = 0.7 * kBackward;
constexpr double kBehindForward = kForward;

Seconds sum(const Parts& parts) {
  Seconds all;
  for (const Seconds part : parts) all += part;
  return all;
}

Parts& operator+=(Parts& parts, const Parts& more) {
  for (std::size_t i = 0; i < kTimeParts; ++i) parts[i] += more[i];
  return parts;
}
Parts operator*(Parts parts, double times) {
  for (Seconds& part : parts) part = part * times;
  return parts;
}

// What travels beside other work shows in part, and what other work does not cover in full.
Seconds shown(Seconds traffic, Seconds beside, double exposed) {
  return std::max(traffic * exposed, traffic - beside);
}

// What is left of the gap between kernels in a CUDA graph: Megatron-LM's pull request 6453 measures
// 0.55 us there, traces of queued kernels 0.75 to 1.5 us.
constexpr double kGapInGraph = 0.4;

// What kernels of a layout take beside their work: on the device and on the host, each hop of tp,
// each module; and what collectives take where their groups lie.
struct Around {
  Seconds gap, host, hop, module;
  double tensor = 1, context = 1, expert = 1, stages = 1;
};
Around around_of(const StepPieces& step, const StackConstants& stack) {
  const auto links = [&](bool apart) {
    return stack.at(apart ? StackConstant::Network : StackConstant::InNode);
  };
  const bool apart = step.tensor_apart || step.stages_apart;
  return {.gap = step.gap * (kGapInGraph + (1 - kGapInGraph) * step.host_share),
          .host = stack.host * (stack.at(StackConstant::Host) * step.host_pace * step.host_share),
          .hop = apart ? Seconds(stack.at(StackConstant::Hop)) : Seconds(0),
          .module = step.host_per_module,
          .tensor = links(step.tensor_apart),
          .context = links(step.context_apart),
          .expert = links(step.expert_apart),
          .stages = links(step.stages_apart)};
}

// A pass of a stage, by part.
Parts pass_parts(const PassPieces& pass, const Around& each, const StackConstants& stack) {
  const auto factor = [&](StackConstant which) { return stack.at(which); };
  Parts parts{};
  parts[index(TimePart::Products)] = pass.at(Piece::Products) * factor(StackConstant::Products) +
                                     pass.accumulated * factor(StackConstant::Accumulate);
  parts[index(TimePart::AttentionCores)] =
      pass.at(Piece::AttentionCores) * factor(StackConstant::AttentionCores);
  parts[index(TimePart::Streams)] = pass.at(Piece::Streams) * factor(StackConstant::Streams);
  parts[index(TimePart::Gaps)] = each.gap * pass.kernels;
  parts[index(TimePart::Loss)] = pass.at(Piece::Loss) * factor(StackConstant::Loss);
  parts[index(TimePart::Tensor)] =
      (pass.at(Piece::Tensor) + pass.at(Piece::TensorSums) * factor(StackConstant::Reductions) +
       pass.at(Piece::Beside) * factor(StackConstant::Exposed)) *
      each.tensor;
  parts[index(TimePart::Context)] =
      pass.at(Piece::Context) * each.context + shown(pass.at(Piece::Ring) * each.context,
                                                     parts[index(TimePart::AttentionCores)],
                                                     factor(StackConstant::Exposed));
  // What travels to experts while other work runs is hidden by kernels of any kind.
  parts[index(TimePart::Expert)] =
      pass.at(Piece::Expert) * each.expert + pass.at(Piece::Vocabulary) * each.stages +
      shown(pass.at(Piece::ExpertBeside) * each.expert,
            parts[index(TimePart::Products)] + parts[index(TimePart::AttentionCores)] +
                parts[index(TimePart::Streams)] + parts[index(TimePart::Gaps)],
            factor(StackConstant::Exposed));
  const double device = sum(parts).value();
  const double host =
      (each.host * pass.calls + each.hop * pass.hops + each.module * pass.modules).value();
  const double both = std::sqrt(std::sqrt(fourth(device) + fourth(host)));
  parts[index(TimePart::Host)] = Seconds(std::max(both - device, 0.0));
  return parts;
}

// One micro-batch on a stage, or on all stages of a rank.
struct Visit {
  Parts forward{}, backward{};
  Seconds input, weight;  // the halves of `backward`
};

// `blocking`: the transfer that each pass waits for.
Visit visit_of(const StagePieces& stage, Seconds blocking, const Around& each,
               const StackConstants& stack) {
  Visit visit;
  visit.forward = pass_parts(stage.forward, each, stack);
  visit.forward[index(TimePart::Pipeline)] = blocking;
  visit.backward = pass_parts(stage.backward_input, each, stack);
  visit.backward[index(TimePart::Pipeline)] = blocking;
  visit.input = sum(visit.backward);
  const Parts weight = pass_parts(stage.backward_weight, each, stack);
  visit.weight = sum(weight);
  visit.backward += weight;
  return visit;
}

// The pipeline: what its slowest rank does, and how long all take.
struct Pipeline {
  Parts busy{};      // of the slowest rank, all micro-batches
  Seconds makespan;  // of all of them
  Seconds visit;     // of one micro-batch on the slowest rank
};

Costs costs_of(const StepPieces& step, const std::vector<Visit>& kinds, Seconds transfer) {
  Costs costs;
  for (const StepPieces::StageAt& stage : step.stages) {
    const Visit& visit = kinds[static_cast<std::size_t>(stage.kind)];
    costs.stages.push_back({sum(visit.forward), visit.input, visit.weight,
                            visit.input + visit.weight, Bytes(1), Bytes(1)});
  }
  // Where passes wait for transfers, these are part of them.
  const Seconds apart = step.transfers_overlap ? transfer : Seconds(0);
  costs.boundaries.assign(step.stages.size() - 1, {apart, apart, Bytes(0)});
  return costs;
}

// By the clock, over at most 4 p micro-batches; from there on the slowest rank decides.
std::optional<Seconds> clocked(const StepPieces& step, const std::vector<Visit>& kinds,
                               Seconds transfer, Seconds slowest) {
  const Costs costs = costs_of(step, kinds, transfer);
  if (step.order) return simulate(*step.order, costs).makespan;
  const std::int64_t round = step.pp * 4;
  const std::int64_t timed = std::min(step.micro_batches, round);
  const Shape shape{static_cast<int>(step.pp), static_cast<int>(timed), static_cast<int>(step.vpp)};
  MakeOptions options;
  options.group = static_cast<int>(step.group);
  const auto streamed = simulate_kind(step.schedule, shape, costs, {}, options);
  const Seconds more = slowest * real(step.micro_batches - timed);
  if (streamed) return streamed->makespan + more;
  const auto made = make(step.schedule, shape, options);
  if (!made) return std::nullopt;
  return simulate(*made, costs).makespan + more;
}

// The first rank that does the same.
std::size_t first_alike(const StepPieces& step, std::size_t rank) {
  return step.first_alike.empty() ? rank : static_cast<std::size_t>(step.first_alike[rank]);
}

// Of a micro-batch on all stages of a rank.
struct RankSeconds {
  Seconds forward, backward;
};

Seconds makespan_of(const StepPieces& step, const std::vector<Visit>& kinds,
                    const std::vector<RankSeconds>& ranks, Seconds transfer) {
  Seconds slowest, all, forward, backward, forwards, backwards;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const auto& [ahead, back] = ranks[first_alike(step, r)];
    slowest = std::max(slowest, ahead + back);
    all += ahead + back;
    forward = std::max(forward, ahead);
    backward = std::max(backward, back);
    forwards += ahead;
    backwards += back;
  }
  const double m = real(step.micro_batches), p = real(step.pp), v = real(step.vpp);
  if (step.idle) return slowest * (m + *step.idle);
  if (step.pp == 1 && !step.order) return {};  // no rank waits for another
  if (!step.order) {
    if (step.schedule == ScheduleKind::OneFOneB) return slowest * (m - 1) + all;
    if (step.schedule == ScheduleKind::GPipe) {
      return (forward + backward) * (m - 1) + forwards + backwards;
    }
    if (step.schedule == ScheduleKind::InterleavedOneFOneB) {
      return slowest * m + all * ((p - 1) / (p * v));
    }
  }
  const auto clock = clocked(step, kinds, transfer, slowest);
  return clock ? std::max(*clock, slowest * m) : slowest * m + all * ((p - 1) / (p * v));
}

// What gradients and weights take on a stack's links, of which `apart` crosses the network: larger
// jobs have longer ways and more neighbours there.
struct DataLinks {
  double in_node = 1, network = 1;
  Seconds operator()(Seconds all, Seconds apart) const {
    return (all - apart) * in_node + apart * network;
  }
};
DataLinks data_links(const StepPieces& step, const StackConstants& stack) {
  const double doublings = std::log2(std::max(1.0, real(step.world) / 64));
  return {stack.at(StackConstant::InNode) * stack.at(StackConstant::DataInNode),
          stack.at(StackConstant::Network) * (1 + stack.at(StackConstant::DataGrowth) * doublings)};
}

// Of a transfer between stages what the next one waits for.
Seconds transfer_of(const StepPieces& step, const StackConstants& stack) {
  const StackConstant links = step.stages_apart ? StackConstant::Network : StackConstant::InNode;
  return step.transfer * (stack.at(links) * stack.at(StackConstant::Transfer));
}

// A pass waits for what it gets and sends, all of it or what shows beside other work.
Seconds blocking_of(const StepPieces& step, const StackConstants& stack) {
  return transfer_of(step, stack) *
         (step.transfers_overlap ? stack.at(StackConstant::Exposed) : 1.0);
}

// A rank between two others sends every result and every gradient, one after the other.
Seconds least_transfers(const StepPieces& step) {
  const double sent = step.pp > 2 || step.vpp > 1 ? 2 : 1;
  return step.transfer * (sent * real(step.micro_batches * step.vpp));
}

// All ranks wait for each other, the longer the more there are.
double waiting_factor(const StepPieces& step, const StackConstants& stack) {
  return 1 + stack.at(StackConstant::Growth) * std::log2(std::max(1.0, real(step.world) / 8));
}

// Of a machine, and of a vendor's own recipe on it.
double scale_of(const StepPieces& step, const StackConstants& stack) {
  return stack.at(StackConstant::Scale) * (step.tuned ? stack.at(StackConstant::Tuned) : 1.0);
}

// One micro-batch on each kind of stage.
std::vector<Visit> kind_visits(const StepPieces& step, const StackConstants& stack) {
  const Seconds blocking = blocking_of(step, stack);
  const Around each = around_of(step, stack);
  std::vector<Visit> kinds;
  kinds.reserve(step.kinds.size());
  for (const StagePieces& kind : step.kinds) {
    kinds.push_back(visit_of(kind, blocking, each, stack));
  }
  return kinds;
}

Pipeline pipeline_of(const StepPieces& step, const StackConstants& stack) {
  const Seconds transfer = transfer_of(step, stack);
  const std::vector<Visit> kinds = kind_visits(step, stack);
  std::vector<Visit> ranks(step.ranks.size());
  for (const StepPieces::StageAt& stage : step.stages) {
    const Visit& visit = kinds[static_cast<std::size_t>(stage.kind)];
    const auto r = static_cast<std::size_t>(stage.rank);
    if (first_alike(step, r) != r) continue;
    Visit& rank = ranks[r];
    rank.forward += visit.forward;
    rank.backward += visit.backward;
  }
  const double exposed = stack.at(StackConstant::DataExposed);
  const DataLinks data = data_links(step, stack);
  Pipeline pipeline;
  const Visit* slowest = nullptr;
  std::vector<RankSeconds> seconds(ranks.size());
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (first_alike(step, r) != r) continue;
    Visit& rank = ranks[r];
    const RankPieces& of = step.ranks[r];
    const double streams = stack.at(StackConstant::Streams);
    rank.forward[index(TimePart::Streams)] += of.copied_forward * streams;
    rank.backward[index(TimePart::Streams)] += of.copied_backward * streams;
    rank.forward[index(TimePart::Data)] +=
        shown(data(of.every_forward, of.forward_apart), sum(rank.forward), exposed);
    rank.backward[index(TimePart::Data)] +=
        shown(data(of.every_backward, of.backward_apart), sum(rank.backward), exposed);
    for (Parts* pass : {&rank.forward, &rank.backward}) {
      const Seconds hidden = step.offload_overlaps ? sum(*pass) : Seconds(0);
      (*pass)[index(TimePart::Offload)] = shown(of.offloaded, hidden, 0);
    }
    rank.backward[index(TimePart::Offload)] += of.crossed;
    seconds[r] = {sum(rank.forward), sum(rank.backward)};
    const Seconds total = seconds[r].forward + seconds[r].backward;
    if (slowest != nullptr && total <= pipeline.visit) continue;
    slowest = &rank;
    pipeline.visit = total;
  }
  pipeline.busy = slowest->forward;
  pipeline.busy += slowest->backward;
  pipeline.busy = pipeline.busy * real(step.micro_batches);
  pipeline.makespan = std::max(makespan_of(step, kinds, seconds, transfer), sum(pipeline.busy));
  return pipeline;
}

// What the gradients or weights of a rank may travel behind: the layers of the same pass, a share
// of a visit. In one bucket for a chunk they cannot; then the passes of other chunks hide theirs,
// and those of the last chunk travel while the ranks before this one are still at work (or,
// forward, already are): for each of them one pass of a chunk, the share `pass` of a visit.
Seconds beside(const StepPieces& step, std::size_t rank, Seconds traffic, Seconds visit,
               double layers, double pass) {
  if (rank == 0 || !step.buckets_on_first) return visit * layers;
  const double chunks = real(step.vpp);
  return traffic * ((chunks - 1) / chunks) + visit * (pass * static_cast<double>(rank) / chunks);
}

// Whatever hides it: what a rank sends takes as long as its links take for it.
Seconds least_traffic(const StepPieces& step) {
  const Seconds transfers = least_transfers(step);
  Seconds least;
  for (const RankPieces& rank : step.ranks) {
    const Seconds each = rank.every_forward + rank.every_backward;
    least = std::max(least, each * real(step.micro_batches) + rank.reduced + rank.gathered +
                                rank.embedding + transfers);
  }
  return least;
}

// Of gradients and weights that travel once a step, what is not hidden.
Seconds data_shown(const StepPieces& step, std::size_t index_of_rank, const Pipeline& pipeline,
                   const DataLinks& data, const StackConstants& stack) {
  const RankPieces& rank = step.ranks[index_of_rank];
  const auto left = [&](bool overlaps, Seconds traffic, double layers, double pass) {
    if (!overlaps) return traffic;
    return shown(traffic, beside(step, index_of_rank, traffic, pipeline.visit, layers, pass),
                 stack.at(StackConstant::DataExposed));
  };
  return left(step.reduce_overlaps, data(rank.reduced, rank.reduced_apart), kBehindBackward,
              kBackward) +
         left(step.gather_overlaps, data(rank.gathered, rank.gathered_apart), kBehindForward,
              kForward);
}

}  // namespace

namespace {

StepPieces with_idle(StepPieces step, Seconds makespan, Seconds visit) {
  step.idle = std::max(0.0, makespan / visit - real(step.micro_batches));
  step.order = std::nullopt;
  return step;
}

}  // namespace

PassPieces& PassPieces::operator+=(const PassPieces& more) {
  for (std::size_t i = 0; i < kPieces; ++i) seconds[i] += more.seconds[i];
  accumulated += more.accumulated;
  kernels += more.kernels;
  calls += more.calls;
  hops += more.hops;
  modules += more.modules;
  return *this;
}

PassPieces operator*(PassPieces pieces, double times) {
  for (Seconds& one : pieces.seconds) one = one * times;
  pieces.accumulated = pieces.accumulated * times;
  pieces.kernels *= times;
  pieces.calls *= times;
  pieces.hops *= times;
  pieces.modules *= times;
  return pieces;
}

StepPieces with_known_idle(StepPieces step, const StackConstants& stack) {
  const Pipeline pipeline = pipeline_of(step, stack);
  return with_idle(std::move(step), pipeline.makespan, pipeline.visit);
}

StepPieces with_makespan(StepPieces step, const StackConstants& stack, Seconds makespan) {
  const Seconds visit = pipeline_of(step, stack).visit;
  return with_idle(std::move(step), makespan, visit);
}

std::optional<DrawnPipeline> drawn_pipeline(const StepPieces& step, const StackConstants& stack,
                                            std::int64_t most) {
  if (step.pp == 1 && !step.order) return std::nullopt;
  Costs costs = costs_of(step, kind_visits(step, stack), transfer_of(step, stack));
  if (step.order) return DrawnPipeline{*step.order, std::move(costs)};
  const Shape shape{static_cast<int>(step.pp), static_cast<int>(std::min(step.micro_batches, most)),
                    static_cast<int>(step.vpp)};
  MakeOptions options;
  options.group = static_cast<int>(step.group);
  auto made = make(step.schedule, shape, options);
  if (!made) return std::nullopt;
  return DrawnPipeline{*std::move(made), std::move(costs)};
}

void StepPieces::add(const StagePieces& stage, std::int64_t rank) {
  stages.push_back({std::ssize(kinds), rank});
  kinds.push_back(stage);
}

namespace {

Seconds copied_once(const RankPieces& rank, const StackConstants& stack) {
  return rank.copied * stack.at(StackConstant::Streams);
}

// What the optimizer takes.
Seconds optimizer_of(const RankPieces& rank, const StackConstants& stack) {
  return rank.optimizer * stack.at(StackConstant::Optimizer) +
         rank.orthogonal * stack.at(StackConstant::Products) + rank.host_step;
}

}  // namespace

namespace {

// Of a step that hangs on the network, the host and the power: the shares that show.
std::array<double, kUnspecified> hanging_on(const StepPieces& step, const StepTime& time) {
  const auto share = [&](TimePart part) { return time.parts[index(part)] / time.step; };
  double network = step.regime.nodes > 1 ? share(TimePart::Data) : 0;
  if (step.tensor_apart) network += share(TimePart::Tensor);
  if (step.context_apart) network += share(TimePart::Context);
  if (step.expert_apart) network += share(TimePart::Expert);
  if (step.stages_apart) network += share(TimePart::Pipeline);
  return {network, 1 - fourth(1 - share(TimePart::Host)), share(TimePart::Products)};
}

double unsure_of(const StepPieces& step, const StackConstants& stack, const StepTime& time) {
  const Seconds timed_alone =
      time.parts[index(TimePart::Products)] + time.parts[index(TimePart::AttentionCores)];
  const WidthRule& rule = stack.width;
  const double width = width_of(rule, step.regime, 1 - timed_alone / time.step);
  const double middle = stack.spread * width * (1 + rule.slow) / 2;
  return width * told_narrows(step.regime.told, hanging_on(step, time), middle,
                              width_of(rule, step.regime, 0) / width);
}

}  // namespace

StepTime step_time(const StepPieces& step, const StackConstants& stack) {
  const Pipeline pipeline = pipeline_of(step, stack);
  StepTime time;
  time.parts = pipeline.busy;
  time.parts[index(TimePart::Bubble)] = pipeline.makespan - sum(pipeline.busy);
  // The rank with the longest end.
  const DataLinks links = data_links(step, stack);
  Seconds data, copied, optimizer;
  for (std::size_t r = 0; r < step.ranks.size(); ++r) {
    const Seconds travels = data_shown(step, r, pipeline, links, stack) + step.ranks[r].embedding;
    const Seconds copies = copied_once(step.ranks[r], stack);
    const Seconds steps = optimizer_of(step.ranks[r], stack);
    if (travels + copies + steps > data + copied + optimizer) {
      std::tie(data, copied, optimizer) = std::tie(travels, copies, steps);
    }
  }
  time.parts[index(TimePart::Streams)] += copied;
  time.parts[index(TimePart::Data)] += std::max(data, least_traffic(step) - sum(time.parts));
  time.parts[index(TimePart::Optimizer)] = optimizer;
  time.parts[index(TimePart::Waiting)] = sum(time.parts) * (waiting_factor(step, stack) - 1);
  time.parts[index(TimePart::Fixed)] = Seconds(stack.at(StackConstant::Fixed));
  // However fast a machine was found to be, it does not beat its peak and its links.
  const Seconds least = std::max(step.bound, least_traffic(step));
  time.parts = time.parts * std::max(scale_of(step, stack), least / sum(time.parts));
  time.step = sum(time.parts);
  time.unsure = unsure_of(step, stack, time);
  time.low = time.step * std::exp(-stack.spread * time.unsure);
  time.high = time.step * std::exp(stack.spread * time.unsure * stack.width.slow);
  time.bound = step.bound;
  time.tokens = step.tokens;
  time.ranks = step.world;
  time.mfu = utilization(step.needed, time.step, step.peak);
  time.hfu = utilization(step.executed, time.step, step.peak);
  return time;
}

LeastStep least_step(const StepPieces& whole, const StackConstants& stack) {
  const double ranks = real(whole.pp);
  const DataLinks data = data_links(whole, stack);
  const double exposed = stack.at(StackConstant::DataExposed);
  const RankPieces& of = whole.ranks.front();
  const Visit visit = visit_of(whole.kinds.front(), Seconds(0), around_of(whole, stack), stack);
  // A rank has at least one stage, whose passes wait for what they get and send.
  const Seconds waits = whole.pp > 1 ? blocking_of(whole, stack) : Seconds(0);
  const double streams = stack.at(StackConstant::Streams);
  const auto pass = [&](const Parts& parts, Seconds copied, Seconds travels) {
    const Seconds alone = (sum(parts) + copied * streams) * (1 / ranks) + waits;
    return alone + shown(travels * (1 / ranks), alone, exposed);
  };
  const Seconds micro_batch =
      pass(visit.forward, of.copied_forward, data(of.every_forward, of.forward_apart)) +
      pass(visit.backward, of.copied_backward, data(of.every_backward, of.backward_apart)) +
      of.crossed * (1 / ranks);
  const Seconds end =
      (data(of.reduced, of.reduced_apart) * (whole.reduce_overlaps ? exposed : 1) +
       data(of.gathered, of.gathered_apart) * (whole.gather_overlaps ? exposed : 1) +
       copied_once(of, stack) + optimizer_of(of, stack)) *
      (1 / ranks);
  return {micro_batch,
          end,
          whole.bound * (1 / ranks),
          real(whole.micro_batches),
          waiting_factor(whole, stack) * scale_of(whole, stack),
          Seconds(stack.at(StackConstant::Fixed) * scale_of(whole, stack))};
}

Seconds LeastStep::with_idle(double idle) const {
  const Seconds step = (micro_batch * (micro_batches + idle) + end) * factor + fixed;
  // Sums in another order differ in their last digits.
  constexpr double kRounding = 1 - 1e-9;
  return std::max(step, peak) * kRounding;
}

double least_idle(ScheduleKind schedule, std::int64_t pp, std::int64_t vpp) {
  if (pp == 1) return 0;
  switch (schedule) {
    case ScheduleKind::OneFOneB:
    case ScheduleKind::GPipe: return real(pp - 1);
    case ScheduleKind::InterleavedOneFOneB: return real(pp - 1) / real(vpp);
    default: return 0;
  }
}

double tokens_per_second_per_rank(const StepTime& time) {
  return real(time.tokens.value()) / time.step.value() / real(time.ranks);
}

std::string_view name_of(TimePart part) {
  constexpr std::array<std::string_view, kTimeParts> kNames = {
      "products", "attention", "streams", "loss", "gaps",    "host",      "tensor",  "context",
      "expert",   "pipeline",  "bubble",  "data", "offload", "optimizer", "waiting", "fixed"};
  return kNames[index(part)];
}

Json to_json(const StepTime& time) {
  Json parts = Json::object();
  for (std::size_t i = 0; i < kTimeParts; ++i) {
    parts.add(std::string(name_of(static_cast<TimePart>(i))), Json::of(time.parts[i].value()));
  }
  Json json = Json::object();
  json.add("step", Json::of(time.step.value()))
      .add("low", Json::of(time.low.value()))
      .add("high", Json::of(time.high.value()))
      .add("tokens", Json::of(time.tokens.value()))
      .add("ranks", Json::of(time.ranks))
      .add("tokens_per_second_per_rank", Json::of(tokens_per_second_per_rank(time)))
      .add("mfu", Json::of(time.mfu))
      .add("hfu", Json::of(time.hfu))
      .add("bound", Json::of(time.bound.value()))
      .add("parts", std::move(parts));
  return json;
}

}  // namespace trainwright
