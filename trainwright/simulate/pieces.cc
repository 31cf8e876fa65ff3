// From a layout to the pieces of its step: lists timed once, stages as sums of them.
#include <algorithm>
#include <map>
#include <unordered_map>

#include "trainwright/base/hash.h"
#include "trainwright/simulate/simulate.h"

namespace trainwright {
namespace {

// What an elementwise operator costs to launch, of what others do: it is one kernel without a
// module around it, where norms, rotations and attention are several.
constexpr double kElementwise = 0.1;
constexpr double kOptimizerPasses = 2;  // states, masters and gradients are read, most are written
// What a host moves in its own memory while it steps an optimizer; the ranks of a node share it.
// DeepSpeed's CPU Adam took some 10 s for the 18.2 B parameters of an A100 node (its issue 6834)
// and 8.2 s for 11.6 B (its pull request 735): at 2 x 18 bytes a parameter 65 and 51 GB/s.
constexpr BytesPerSecond kHostUpdates(58e9);

ComputeType type_of(const Operator& op, PrecisionKind precision) {
  const ComputeType asked = compute_type(precision);
  const bool low = asked == ComputeType::Fp8 || asked == ComputeType::Fp4;
  return low && !op.low_precision ? ComputeType::Bf16 : asked;
}

// Every rank of a layout goes at the pace of the slowest accelerator.
const Accelerator& slowest_accelerator(const Cluster& cluster) {
  return std::min_element(cluster.groups.begin(), cluster.groups.end(),
                          [](const Group& a, const Group& b) {
                            return peak_or_wider(a.accelerator, ComputeType::Bf16) <
                                   peak_or_wider(b.accelerator, ComputeType::Bf16);
                          })
      ->accelerator;
}

// The groups of layouts with the same degrees, each placed once.
class Places {
 public:
  Places(Layout layout, const Cluster& cluster) : layout_(std::move(layout)), cluster_(cluster) {}
  const GroupPlacement& at(GroupKind kind) {
    auto& place = places_[static_cast<std::size_t>(kind)];
    if (!place) place = place_group(layout_, kind, cluster_);
    return *place;
  }
  // Of collectives on them, by kind, group, bytes and dispatcher.
  std::unordered_map<std::array<std::int64_t, 4>, Seconds, NumbersHash> times = {};

 private:
  Layout layout_;
  const Cluster& cluster_;
  std::array<std::optional<GroupPlacement>, static_cast<std::size_t>(GroupKind::World) + 1>
      places_{};
};

std::int64_t most_experts_per_token(const Model& model) {
  std::int64_t most = 0;
  for (const LayerKind& kind : model.kinds) {
    if (const auto* experts = std::get_if<MixtureOfExperts>(&kind.feed_forward)) {
      most = std::max(most, experts->experts_per_token);
    }
  }
  return most;
}

// What a collective's time hangs on beside its list.
struct Wires {
  const Layout& layout;
  const Cluster& cluster;
  const Trainer& trainer;
  const AcceleratorRates& rates;
  std::int64_t experts_per_token;
  double busiest;  // rank's share of the rows that experts receive, over the mean
  Places& places;

  // Most passes make the same calls.
  Seconds time(CollectiveKind kind, GroupKind group, Bytes bytes) {
    if (places.at(group).group.size < 2 || bytes == Bytes(0)) return {};
    const auto number = [](auto of) { return static_cast<std::int64_t>(of); };
    const auto [known, fresh] = places.times.try_emplace(
        std::array{number(kind), number(group), bytes.value(), number(layout.dispatcher)});
    if (fresh) known->second = timed(kind, group, bytes);
    return known->second;
  }
  Seconds timed(CollectiveKind kind, GroupKind group, Bytes bytes) {
    const GroupPlacement& place = places.at(group);
    const bool tokens = kind == CollectiveKind::AllToAll && group == GroupKind::Ep &&
                        layout.dispatcher == DispatcherKind::Flex && experts_per_token > 0;
    if (!tokens) return collective_time(kind, bytes, place, cluster, rates);
    // Lists count the most copies that a token can have.
    return dispatch_time(bytes / std::min(experts_per_token, layout.ep), experts_per_token, place,
                         cluster, rates);
  }
  bool hides(Beside beside) const {
    switch (beside) {
      case Beside::Nothing: return false;
      case Beside::OwnProduct: return asks(layout, Switch::OverlapTp, trainer);
      case Beside::WeightGradient:
      case Beside::InputGradient:
      case Beside::RingSteps: return true;
      case Beside::OtherMicroBatch: return asks(layout, Switch::OverlapEp, trainer);
      case Beside::SharedExperts: return asks(layout, Switch::OverlapSharedExperts, trainer);
    }
    return false;
  }
};

// The calls of a list, as long as nobody knows where their group sits.
struct Call {
  CollectiveKind kind;
  GroupKind group;
  Beside beside;
  Bytes bytes;
};
// A list on the device at kernel rates; `calls` are timed when a layout places their groups.
struct ListTime {
  std::array<PassPieces, 4> passes{};      // by Pass
  std::array<PassPieces, 4> of_experts{};  // of these, what grows with the rows they receive
  std::array<std::vector<Call>, 4> calls{};
};

class ListTimer {
 public:
  ListTimer(const AcceleratorRates& rates, PrecisionKind precision, std::int64_t flash)
      : rates_(rates), precision_(precision), flash_(static_cast<int>(flash)) {}

  ListTime timed(const OperatorList& list) const {
    ListTime time;
    for (const Operator& op : list.operators) {
      const bool again = op.again == Again::Rerun || op.again == Again::Discarded;
      add(time, Pass::Forward, op, op.forward);
      add(time, Pass::InputGradient, op, op.input_gradient);
      add(time, Pass::WeightGradient, op, op.weight_gradient);
      if (again) add(time, Pass::Recompute, op, op.forward);
      for (const Collective& call : op.collectives) {
        const Call one{call.kind, call.group, call.beside, call.bytes};
        if (call.pass != Pass::Recompute) calls_of(time, call.pass).push_back(one);
        const bool repeats = call.pass == Pass::Forward || call.pass == Pass::Recompute;
        if (again && repeats) calls_of(time, Pass::Recompute).push_back(one);
      }
    }
    return time;
  }

 private:
  static std::vector<Call>& calls_of(ListTime& time, Pass pass) {
    return time.calls[static_cast<std::size_t>(pass)];
  }

  void add(ListTime& time, Pass pass, const Operator& op, const Effort& effort) const {
    const Bytes moved = effort.read + effort.written;
    if (effort.matmul == Flops(0) && moved == Bytes(0)) return;
    PassPieces pieces;
    const bool elementwise = op.kind == OperatorKind::Elementwise;
    pieces.kernels += elementwise ? kElementwise : 1.0;
    const bool backward = pass == Pass::InputGradient || pass == Pass::WeightGradient;
    if (op.kind == OperatorKind::Matmul && op.matrix.in > 0) {
      pieces.at(Piece::Products) += product(op, effort, pass);
    } else if (op.kind == OperatorKind::AttentionCore && op.head_width > 0) {
      pieces.at(Piece::AttentionCores) += attention_time({.flops = effort.matmul,
                                                          .head_width = op.head_width,
                                                          .keys = op.keys,
                                                          .backward = backward,
                                                          .flash = flash_},
                                                         rates_);
    } else if (op.kind == OperatorKind::AttentionCore && effort.matmul > Flops(0)) {
      const AttentionCall unfused{
          .flops = effort.matmul, .backward = backward, .kernel = AttentionKernel::Eager};
      pieces.at(Piece::AttentionCores) +=
          std::max(attention_time(unfused, rates_), streamed_time(moved, backward, rates_));
    } else if (op.kind == OperatorKind::Loss) {
      pieces.at(Piece::Loss) += streamed_time(moved, backward, rates_);
    } else {
      pieces.at(Piece::Streams) += streamed_time(moved, backward && !elementwise, rates_);
    }
    time.passes[static_cast<std::size_t>(pass)] += pieces;
    if (op.part != Part::RoutedExperts) return;
    pieces.kernels = 0;
    time.of_experts[static_cast<std::size_t>(pass)] += pieces;
  }

  // Rows follow from the FLOPs, 2 m n k of each of the matrices.
  Seconds product(const Operator& op, const Effort& effort, Pass pass) const {
    const double per_row = 2 * real(op.matrix.in) * real(op.matrix.out) * real(op.matrices);
    const auto rows = static_cast<std::int64_t>(effort.matmul.value() / per_row + 0.5);
    Product product{.m = std::max<std::int64_t>(rows, 1),
                    .n = op.matrix.out,
                    .k = op.matrix.in,
                    .count = op.matrices,
                    .type = type_of(op, precision_)};
    if (pass == Pass::InputGradient) std::swap(product.n, product.k);
    if (pass == Pass::WeightGradient) std::swap(product.m, product.k);
    return product_time(product, rates_);
  }

  const AcceleratorRates& rates_;
  PrecisionKind precision_;
  int flash_;
};

Piece piece_of(const Call& call) {
  switch (call.group) {
    case GroupKind::Tp:
      return call.kind == CollectiveKind::AllReduce ? Piece::TensorSums : Piece::Tensor;
    case GroupKind::Cp: return Piece::Context;
    case GroupKind::Pp: return Piece::Vocabulary;
    default: return Piece::Expert;
  }
}

Bytes times(Bytes bytes, double factor) {
  return Bytes(static_cast<std::int64_t>(real(bytes.value()) * factor + 0.5));
}

PassPieces placed(const ListTime& list, Pass pass, Wires& wires) {
  const auto at = static_cast<std::size_t>(pass);
  PassPieces pieces = list.passes[at];
  if (wires.busiest > 1) pieces += list.of_experts[at] * (wires.busiest - 1);
  for (const Call& call : list.calls[at]) {
    const bool grows = wires.busiest > 1 && piece_of(call) == Piece::Expert;
    const Seconds time =
        wires.time(call.kind, call.group, grows ? times(call.bytes, wires.busiest) : call.bytes);
    if (time == Seconds(0)) continue;
    pieces.kernels += 1;
    if (call.group == GroupKind::Tp)
      pieces.hops += real(wires.places.at(call.group).group.size - 1);
    if (call.beside == Beside::RingSteps) {
      pieces.at(Piece::Ring) += time;
      // Each step sends, receives, attends to a part and adds it up.
      pieces.kernels += 3 * real(wires.places.at(call.group).group.size - 1);
    } else {
      pieces.at(wires.hides(call.beside) ? Piece::Beside : piece_of(call)) += time;
    }
  }
  return pieces;
}

}  // namespace

PassPieces& PassPieces::operator+=(const PassPieces& more) {
  for (std::size_t i = 0; i < kPieces; ++i) seconds[i] += more.seconds[i];
  kernels += more.kernels;
  hops += more.hops;
  return *this;
}

PassPieces operator*(PassPieces pieces, double times) {
  for (Seconds& one : pieces.seconds) one = one * times;
  pieces.kernels *= times;
  pieces.hops *= times;
  return pieces;
}

namespace {

// What a token of the model needs: all of its products forward and, backward, those of gradients
// that the job makes.
Flops needed_by_token(const Model& model, const Trainer& trainer, const Job& job,
                      const Layout& layout) {
  const Flops all = token_flops(model, Tokens(layout.seq), AttentionPairs::Causal).train();
  if (!job.lora && job.frozen.empty() && job.frozen_layers == 0) return all;
  // One sequence on one rank with flash attention, with and without what the job leaves out.
  const auto work = [&](const Job& of) {
    WorkCache cache(model, recipe_of(trainer, layout.precision, of));
    const Stage stage = stage_layers(Layout{}, model)->front();
    const Totals sum = compose(cache.stage(stage, {.mbs = 1, .seq = layout.seq}));
    return sum.effort[0].matmul + sum.effort[1].matmul + sum.effort[2].matmul;
  };
  return all * (work(job) / work({}));
}

// What decides which ranks form groups.
using Degrees = std::array<std::int64_t, 13>;
Degrees degrees_of(const Layout& of) {
  Degrees degrees{of.tp, of.pp, of.dp, of.cp, of.ep, of.etp, of.dp_replicate, of.zero};
  std::transform(of.order.begin(), of.order.end(), degrees.begin() + 8,
                 [](Axis axis) { return static_cast<std::int64_t>(axis); });
  return degrees;
}

}  // namespace

struct StepModel::State {
  const Model& model;
  const Cluster& cluster;
  const Trainer& trainer;
  const Job& job;
  AcceleratorRates rates;
  std::optional<AttentionKernel> attention;
  ExpertLoad expert_load;
  // By precision: recipes differ.
  struct Lists {
    Recipe recipe;
    WorkCache work;
    ListTimer timer;
    std::unordered_map<const Totals*, ListTime> timed = {};
    std::unordered_map<std::int64_t, Flops> needed = {};  // of a token, by length of the sequence

    Lists(const Model& model, Recipe of, ListTimer with)
        : recipe(std::move(of)),
          work(model, recipe,
               [this](const Totals& totals, const OperatorList& list) {
                 timed.emplace(&totals, timer.timed(list));
               }),
          timer(with) {}
  };
  std::unordered_map<int, std::unique_ptr<Lists>> lists = {};
  Widths widths = widths_of(model, job);
  std::int64_t experts_per_token = most_experts_per_token(model);
  std::vector<Stage> one_stage = *stage_layers(Layout{}, model);  // with all layers

  std::unordered_map<Degrees, Places, NumbersHash> places = {};

  std::map<std::pair<std::int64_t, double>, double> busiest = {};  // by ep and rows

  double busiest_of(const Layout& layout) {
    if (expert_load.kind == ExpertLoad::Kind::Balanced) return 1;
    const auto ranks = expert_ranks(model, slice_of(layout, trainer), layout.pp);
    if (!ranks) return 1;
    const auto [known, fresh] = busiest.try_emplace({ranks->ep, ranks->rows});
    if (fresh) known->second = busiest_rank(expert_load, *ranks).in_a_layer;
    return known->second;
  }

  Wires wires_of(const Layout& layout) {
    Places& of = places.try_emplace(degrees_of(layout), layout, cluster).first->second;
    return {layout, cluster, trainer, rates, experts_per_token, busiest_of(layout), of};
  }

  Result<StepPieces> step(const Layout& layout, const std::vector<Stage>& stages,
                          std::int64_t ranks);
  void set_surroundings(StepPieces& step, const Layout& layout, Lists& of, Wires& wires);

  Lists& lists_for(PrecisionKind precision) {
    auto& found = lists[static_cast<int>(precision)];
    if (!found) {
      found = std::make_unique<Lists>(model, recipe_of(trainer, precision, job),
                                      ListTimer(rates, precision, trainer.libraries.flash));
    }
    return *found;
  }

  const ListTime& timed(Lists& of, const Portion& portion) {
    const auto found = of.timed.find(portion.totals);
    if (found != of.timed.end()) return found->second;
    // Layers that are run again together have sums, but no list of their own.
    return of.timed
        .emplace(portion.totals, of.timer.timed(make_list(model, of.recipe, *portion.list)))
        .first->second;
  }

  // One layer of a portion with its collectives on the layout's links. Stages share most of them.
  using Placed = std::unordered_map<const Totals*, StagePieces>;
  const StagePieces& layer(Lists& of, const Portion& portion, Wires& wires, Placed& known) {
    const auto found = known.find(portion.totals);
    if (found != known.end()) return found->second;
    const ListTime& list = timed(of, portion);
    StagePieces pieces{.forward = placed(list, Pass::Forward, wires),
                       .backward_input = placed(list, Pass::Recompute, wires),
                       .backward_weight = placed(list, Pass::WeightGradient, wires)};
    pieces.backward_input += placed(list, Pass::InputGradient, wires);
    return known.emplace(portion.totals, pieces).first->second;
  }

  StagePieces stage(Lists& of, const std::vector<Portion>& portions, std::int64_t rank,
                    Wires& wires, Placed& known) {
    StagePieces pieces{.rank = rank};
    for (const Portion& portion : portions) {
      const StagePieces& one = layer(of, portion, wires, known);
      // Of layers that are run again together the list is that of one.
      const double count = real(portion.count) * real(portion.list->slice.recompute.n);
      pieces.forward += one.forward * count;
      pieces.backward_input += one.backward_input * count;
      pieces.backward_weight += one.backward_weight * count;
    }
    return pieces;
  }

  Flops needed(Lists& of, const Layout& layout) {
    const auto found = of.needed.find(layout.seq);
    if (found != of.needed.end()) return found->second;
    return of.needed.emplace(layout.seq, needed_by_token(model, trainer, job, layout))
        .first->second;
  }

  void add_parameters(RankPieces& rank, const Totals& sums, std::int64_t layers,
                      const Recipe& recipe, const TrainedBytes& bytes, Wires& wires) {
    const Sharding sharding = sharding_of(wires.layout, trainer);
    for (const ParameterTraffic& traffic :
         parameter_traffic(sums.parameters, layers, sharding, recipe, bytes)) {
      const Seconds one = wires.time(traffic.kind, traffic.group,
                                     traffic.bytes / std::max<std::int64_t>(traffic.calls, 1)) *
                          real(std::max<std::int64_t>(traffic.calls, 1));
      if (traffic.every_micro_batch) {
        (traffic.pass == Pass::Forward ? rank.every_forward : rank.every_backward) += one;
      } else {
        (traffic.pass == Pass::WeightGradient ? rank.reduced : rank.gathered) += one;
      }
    }
    add_optimizer(rank, sums.parameters, sharding, bytes.model, wires.layout);
  }

  // Where states lie on the host, it steps them: gradients go there and weights come back. Weights
  // that lie there come for every pass.
  void add_optimizer(RankPieces& rank, const HeldParameters& held, const Sharding& sharding,
                     const ParameterBytes& bytes, const Layout& layout) {
    const auto of_rank = [&](Params dense, Params expert, bool cut) {
      return real(dense.value()) / (cut ? real(sharding.dense.ways) : 1.0) +
             real(expert.value()) / (cut ? real(sharding.expert.ways) : 1.0);
    };
    const double trained = of_rank(held.trained_dense + held.adapter_dense,
                                   held.trained_expert + held.adapter_expert, sharding.states);
    const double states = of_rank(Params(held.states_dense.value()),
                                  Params(held.states_expert.value()), sharding.states);
    const double each = bytes.master + bytes.gradient_at_step + bytes.weight;
    const double moved = (trained * each + states) * kOptimizerPasses;
    const Flags<Offload> away = offloaded(layout, trainer);
    const auto crossing = [&](double of) {
      return rounded(RealBytes(of)) / slowest_accelerator(cluster).host_link;
    };
    if (away.has(Offload::Optimizer)) {
      rank.host_step +=
          rounded(RealBytes(moved * real(cluster.groups.front().per_node))) / kHostUpdates +
          crossing(trained * (bytes.gradient + bytes.weight));
    } else {
      rank.optimizer += streamed_time(Bytes(static_cast<std::int64_t>(moved)), false, rates);
    }
    if (away.has(Offload::Parameters)) {
      const Seconds once =
          crossing(of_rank(held.dense, held.expert, sharding.weights) * bytes.weight);
      rank.every_forward += once;
      rank.every_backward += once;
    }
  }
};

Result<StepPieces> StepModel::State::step(const Layout& layout, const std::vector<Stage>& stages,
                                          std::int64_t ranks) {
  const TrainedBytes bytes = TW_TRY(trained_bytes(job, layout, cluster, trainer));
  if (const auto large = too_large(widths, slice_of(layout, trainer))) return fail({*large});
  Lists& of = lists_for(layout.precision);
  Wires wires = wires_of(layout);
  Placed known;
  StepPieces step;
  step.ranks.resize(static_cast<std::size_t>(ranks));
  std::vector<Flops> flops(step.ranks.size());
  for (const Stage& stage : stages) {
    const Slice slice = slice_of(layout, trainer, stage.id.index(), attention);
    std::vector<Portion> portions = of.work.stage(stage, slice);
    for (const Portion& share : of.work.shares(stage, slice)) portions.push_back(share);
    step.stages.push_back(this->stage(of, portions, stage.rank, wires, known));
    if (layout.pp > 1) {  // sends and receives
      step.stages.back().forward.kernels += 2;
      step.stages.back().backward_input.kernels += 2;
    }
    const Totals sums = compose(portions);
    const auto rank = static_cast<std::size_t>(stage.rank);
    add_parameters(step.ranks[rank], sums, stage.count, of.recipe, bytes, wires);
    for (const Effort& effort : sums.effort) flops[rank] += effort.matmul;
  }
  set_surroundings(step, layout, of, wires);
  const double m = real(step.micro_batches);
  const FlopsPerSecond peak = rates.of(compute_type(layout.precision)).peak;
  step.bound = *std::max_element(flops.begin(), flops.end()) * m / peak;
  for (const Flops& all : flops) step.executed += all * (m * real(step.world / layout.pp));
  return step;
}

void StepModel::State::set_surroundings(StepPieces& step, const Layout& layout, Lists& of,
                                        Wires& wires) {
  step.schedule = running_schedule(layout);
  step.pp = layout.pp;
  step.vpp = layout.vpp;
  step.micro_batches = micro_batch_count(layout);
  step.group = running_group(layout);
  step.world = world_size(layout);
  step.tensor_apart = wires.places.at(GroupKind::Tp).node.together < layout.tp;
  if (layout.pp > 1) {
    step.stages_apart = wires.places.at(GroupKind::Pp).node.together < layout.pp;
    step.transfer = transfer_time(boundary_bytes(model, slice_of(layout, trainer), of.recipe),
                                  wires.places.at(GroupKind::Pp), cluster, rates);
  }
  step.transfers_overlap = asks(layout, Switch::OverlapP2p, trainer);
  step.reduce_overlaps = asks(layout, Switch::OverlapGradientReduce, trainer);
  step.gather_overlaps = asks(layout, Switch::OverlapParameterGather, trainer);
  const Bucket* bucket = find_bucket(trainer, BucketPurpose::GradientReduce);
  step.buckets_on_first = bucket != nullptr && bucket->first_only;
  step.tokens = tokens_per_step(layout);
  step.needed = needed(of, layout) * real(step.tokens.value());
  FlopsPerSecond all;
  for (const Group& group : cluster.groups) {
    all += peak_or_wider(group.accelerator, compute_type(layout.precision)) * real(group.count);
  }
  step.peak = all * (real(step.world) / real(accelerator_count(cluster)));
}

StepModel::StepModel(const Model& model, const Cluster& cluster, const Trainer& trainer,
                     const Job& job, const Kernels& kernels,
                     std::optional<AttentionKernel> attention, ExpertLoad expert_load)
    : state_(new State{model, cluster, trainer, job,
                       rates_of(kernels, slowest_accelerator(cluster)), attention,
                       std::move(expert_load)}) {}
StepModel::~StepModel() = default;
StepModel::StepModel(StepModel&&) noexcept = default;
StepModel& StepModel::operator=(StepModel&&) noexcept = default;

Result<StepPieces> StepModel::pieces(const Layout& layout, const Schedule* schedule) {
  const std::vector<Stage> stages = TW_TRY(stage_layers(layout, state_->model));
  StepPieces step = TW_TRY(state_->step(layout, stages, layout.pp));
  if (schedule != nullptr) step.order = *schedule;
  return step;
}

Result<StepPieces> StepModel::whole(const Layout& layout) {
  return state_->step(layout, state_->one_stage, 1);
}

Result<RankPieces> StepModel::whole_rank(const Layout& layout) {
  State& s = *state_;
  const TrainedBytes bytes = TW_TRY(trained_bytes(s.job, layout, s.cluster, s.trainer));
  const Slice slice = slice_of(layout, s.trainer, 0, s.attention);
  if (const auto large = too_large(s.widths, slice)) return fail({*large});
  State::Lists& lists = s.lists_for(layout.precision);
  Wires wires = s.wires_of(layout);
  const Stage& stage = s.one_stage.front();
  RankPieces rank;
  s.add_parameters(rank, compose(lists.work.stage(stage, slice)), stage.count, lists.recipe, bytes,
                   wires);
  return rank;
}

Result<StepPieces> step_pieces(const StepQuestion& q) {
  return StepModel(q.model, q.cluster, q.trainer, q.job, q.kernels, q.attention, q.expert_load)
      .pieces(q.layout, q.schedule);
}

Result<TimeConstants> load_time_constants(const std::string& data_directory,
                                          const std::optional<std::string>& file) {
  return TimeConstants{TW_TRY(load_kernels(data_directory)),
                       TW_TRY(load_stacks(data_directory, file))};
}

}  // namespace trainwright
