// From a layout to the pieces of its step: lists timed once, stages as sums of them.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <unordered_map>

#include "trainwright/base/few.h"
#include "trainwright/base/hash.h"
#include "trainwright/simulate/dealt_stages.h"
#include "trainwright/simulate/list_time.h"

namespace trainwright {
namespace {

// std::bit_cast, which the compiler of the playground does not have.
std::int64_t bits_of(double value) {
  std::int64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

using detail::Call;
using detail::ListTime;
using detail::ListTimer;

constexpr double kOptimizerPasses = 2;  // states, masters and gradients are read, most are written
// What a host moves in its own memory while it steps an optimizer; the ranks of a node share it.
// DeepSpeed's CPU Adam took some 10 s for the 18.2 B parameters of an A100 node (its issue 6834)
// and 8.2 s for 11.6 B (its pull request 735): at 2 x 18 bytes a parameter 65 and 51 GB/s.
constexpr BytesPerSecond kHostUpdates(58e9);

// Every rank of a layout goes at the pace of the slowest accelerator.
const Accelerator& slowest_accelerator(const Cluster& cluster) {
  return std::min_element(cluster.groups.begin(), cluster.groups.end(),
                          [](const Group& a, const Group& b) {
                            return peak_or_wider(a.accelerator, ComputeType::Bf16) <
                                   peak_or_wider(b.accelerator, ComputeType::Bf16);
                          })
      ->accelerator;
}

// A group of ranks on its links, with the times of collectives by kind, bytes and, where tokens are
// dispatched, ep.
struct Link {
  GroupPlacement place;
  std::unordered_map<std::array<std::int64_t, 3>, Seconds, NumbersHash> times = {};
};
struct RankGroupHash {
  std::size_t operator()(const RankGroup& group) const {
    Hash hash;
    hash.add(group.size);
    hash.add(group.count);
    for (const Stride& stride : group.strides) hash.add(stride.members << 32 | stride.stride);
    return hash.value();
  }
};
// Where a group lies follows from its strides: layouts share most of them.
using KnownLinks = std::unordered_map<RankGroup, Link, RankGroupHash>;
// The groups of layouts with the same degrees, by kind.
using LinksByKind = std::array<Link*, static_cast<std::size_t>(GroupKind::World) + 1>;

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
  KnownLinks& known;
  LinksByKind& links;

  Link& link(GroupKind kind) {
    Link*& found = links[static_cast<std::size_t>(kind)];
    if (found != nullptr) return *found;
    const auto [entry, fresh] = known.try_emplace(rank_group(layout, kind));
    if (fresh) entry->second.place = place_group(layout, kind, cluster);
    found = &entry->second;
    return *found;
  }
  const GroupPlacement& place(GroupKind kind) { return link(kind).place; }

  // Most passes make the same calls.
  Seconds time(CollectiveKind kind, GroupKind group, Bytes bytes) {
    Link& on = link(group);
    if (on.place.group.size < 2 || bytes == Bytes(0)) return {};
    const bool tokens = kind == CollectiveKind::AllToAll && group == GroupKind::Ep &&
                        layout.dispatcher == DispatcherKind::Flex && experts_per_token > 0;
    const auto [known_time, fresh] = on.times.try_emplace(
        std::array{static_cast<std::int64_t>(kind), bytes.value(), tokens ? layout.ep : 0});
    if (!fresh) return known_time->second;
    // Lists count the most copies that a token can have.
    known_time->second = tokens ? dispatch_time(bytes / std::min(experts_per_token, layout.ep),
                                                experts_per_token, on.place, cluster, rates)
                                : collective_time(kind, bytes, on.place, cluster, rates);
    return known_time->second;
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
  return Bytes(std::llround(real(bytes.value()) * factor));
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
    if (call.group == GroupKind::Tp) pieces.hops += real(wires.place(call.group).group.size - 1);
    if (call.beside == Beside::RingSteps) {
      pieces.at(Piece::Ring) += time;
      // Each step sends, receives, attends to a part and adds it up.
      pieces.kernels += 3 * real(wires.place(call.group).group.size - 1);
    } else {
      const Piece piece = piece_of(call);
      const Piece hidden = piece == Piece::Expert ? Piece::ExpertBeside : Piece::Beside;
      pieces.at(wires.hides(call.beside) ? hidden : piece) += time;
    }
  }
  return pieces;
}

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
  struct StageSums {
    std::vector<Portion> portions;
    HeldParameters held;
    std::array<Flops, 4> flops{};  // by pass
  };
  // By precision: recipes differ.
  struct Lists {
    Recipe recipe;
    WorkCache work;                       // to be timed: no sums of memory
    std::optional<WorkCache> for_others;  // once they ask
    ListTimer timer;
    std::unordered_map<const Totals*, ListTime> timed = {};
    std::unordered_map<std::int64_t, Flops> needed = {};  // of a token, by length of the sequence
    std::unordered_map<Slice, StageSums, SliceHash> whole = {};  // all layers as one stage

    Lists(const Model& model, Recipe of, ListTimer with)
        : recipe(std::move(of)),
          work(
              model, recipe,
              [this](const Totals& totals, const OperatorList& list) {
                timed.emplace(&totals, timer.timed(list));
              },
              WorkCache::Sums::Work),
          timer(with) {}
  };
  std::unordered_map<int, std::unique_ptr<Lists>> lists = {};
  Widths widths = widths_of(model, job);
  std::int64_t experts_per_token = most_experts_per_token(model);
  std::vector<Stage> one_stage = *stage_layers(Layout{}, model);               // with all layers
  bool all_alike = !job.lora && job.frozen.empty() && job.frozen_layers == 0;  // layers of a kind

  KnownLinks known_links = {};
  std::unordered_map<Degrees, LinksByKind, NumbersHash> links = {};
  // Lists with their collectives on the same links, hidden alike: a portion's layer, or all layers.
  struct OnLinks {
    std::unordered_map<const Totals*, StagePieces> layers = {};
    std::unordered_map<const StageSums*, StagePieces> whole = {};
  };
  std::unordered_map<std::array<std::int64_t, 9>, OnLinks, NumbersHash> on_links = {};

  std::map<std::pair<std::int64_t, double>, double> busiest = {};  // by ep and rows

  detail::DealtStages dealt = {};

  double busiest_of(const Layout& layout) {
    if (expert_load.kind == ExpertLoad::Kind::Balanced) return 1;
    const auto ranks = expert_ranks(model, slice_of(layout, trainer), layout.pp);
    if (!ranks) return 1;
    const auto [known, fresh] = busiest.try_emplace({ranks->ep, ranks->rows});
    if (fresh) known->second = busiest_rank(expert_load, *ranks).in_a_layer;
    return known->second;
  }

  // By precision and whether anything is sharded.
  std::map<std::pair<PrecisionKind, bool>, TrainedBytes> known_bytes = {};
  Result<TrainedBytes> bytes_of(const Layout& layout) {
    const std::pair key(layout.precision, layout.zero == 0);
    const auto found = known_bytes.find(key);
    if (found != known_bytes.end()) return found->second;
    return known_bytes[key] = TW_TRY(trained_bytes(job, layout, cluster, trainer));
  }

  Wires wires_of(const Layout& layout) {
    LinksByKind& of = links.try_emplace(degrees_of(layout)).first->second;
    return {layout,      cluster, trainer, rates, experts_per_token, busiest_of(layout),
            known_links, of};
  }
  // What the passes of a list hang on beside it.
  OnLinks& on_links_of(Wires& wires) {
    const auto number = [&](GroupKind kind) {
      return static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(&wires.link(kind)));
    };
    std::int64_t hidden = 0;
    for (const Beside beside : {Beside::OwnProduct, Beside::OtherMicroBatch, Beside::SharedExperts})
      hidden = hidden * 2 + (wires.hides(beside) ? 1 : 0);
    const Layout& layout = wires.layout;
    return on_links[{number(GroupKind::Tp), number(GroupKind::Cp), number(GroupKind::Ep),
                     number(GroupKind::Etp), layout.vocab_parallel ? number(GroupKind::Pp) : 0,
                     layout.ep, hidden, static_cast<std::int64_t>(layout.dispatcher),
                     bits_of(wires.busiest)}];
  }

  using Shares = Few<std::pair<Seconds RankPieces::*, Seconds>, 13>;
  // A stage on the layout's links, and what it adds to the pieces of its rank.
  struct StageWork {
    StagePieces pieces = {};
    Shares shares = {};
    std::array<Flops, 4> flops{};  // by pass
  };
  Result<StepPieces> step(const Layout& layout, const std::vector<Stage>& stages);
  Result<StepPieces> whole_step(const Layout& layout);
  void set_surroundings(StepPieces& step, const Slice& slice, Lists& of, Wires& wires);
  void set_flops(StepPieces& step, const Layout& layout, std::span<const Flops> of_ranks) const;

  Lists& lists_for(PrecisionKind precision) {
    auto& found = lists[static_cast<int>(precision)];
    if (!found) {
      found = std::make_unique<Lists>(model, recipe_of(trainer, precision, job),
                                      ListTimer(rates, precision, trainer));
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

  const StagePieces& layer(Lists& of, const Portion& portion, Wires& wires, OnLinks& known) {
    const auto found = known.layers.find(portion.totals);
    if (found != known.layers.end()) return found->second;
    const ListTime& list = timed(of, portion);
    StagePieces pieces{.forward = placed(list, Pass::Forward, wires),
                       .backward_input = placed(list, Pass::Recompute, wires),
                       .backward_weight = placed(list, Pass::WeightGradient, wires)};
    pieces.backward_input += placed(list, Pass::InputGradient, wires);
    return known.layers.emplace(portion.totals, pieces).first->second;
  }

  StagePieces stage(Lists& of, const std::vector<Portion>& portions, Wires& wires, OnLinks& known) {
    StagePieces pieces;
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

  StageSums sums_of(Lists& of, const Stage& stage, const Slice& slice) {
    StageSums sums{.portions = of.work.stage(stage, slice), .held = {}};
    for (const Portion& share : of.work.shares(stage, slice)) sums.portions.push_back(share);
    for (const Portion& portion : sums.portions) {
      sums.held.add(portion.totals->parameters, portion.count);
      for (std::size_t pass = 0; pass < sums.flops.size(); ++pass) {
        sums.flops[pass] += portion.totals->effort[pass].matmul * real(portion.count);
      }
    }
    return sums;
  }
  const StageSums& whole_sums(Lists& of, const Slice& slice) {
    const auto found = of.whole.find(slice);
    if (found != of.whole.end()) return found->second;
    return of.whole.emplace(slice, sums_of(of, one_stage.front(), slice)).first->second;
  }

  Flops needed(Lists& of, const Layout& layout) {
    const auto found = of.needed.find(layout.seq);
    if (found != of.needed.end()) return found->second;
    return of.needed.emplace(layout.seq, needed_by_token(model, trainer, job, layout))
        .first->second;
  }

  Shares parameter_shares(const HeldParameters& held, std::int64_t layers, const Recipe& recipe,
                          const TrainedBytes& trained, Wires& wires) {
    Shares shares;
    const Sharding sharding = sharding_of(wires.layout, trainer);
    for (const ParameterTraffic& traffic :
         parameter_traffic(held, layers, sharding, recipe, trained)) {
      const std::int64_t calls = std::max<std::int64_t>(traffic.calls, 1);
      const Seconds one =
          wires.time(traffic.kind, traffic.group, traffic.bytes / calls) * real(calls);
      const bool forward = traffic.pass == Pass::Forward;
      const bool reduced = traffic.pass == Pass::WeightGradient;
      if (traffic.every_micro_batch) {
        shares.push_back({forward ? &RankPieces::every_forward : &RankPieces::every_backward, one});
      } else {
        shares.push_back({reduced ? &RankPieces::reduced : &RankPieces::gathered, one});
      }
    }
    add_optimizer(shares, held, sharding, trained.model, wires.layout);
    return shares;
  }

  // Where states lie on the host, it steps them: gradients go there and weights come back. Weights
  // that lie there come for every pass.
  void add_optimizer(Shares& shares, const HeldParameters& held, const Sharding& sharding,
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
      shares.push_back({&RankPieces::host_step,
                        rounded(RealBytes(moved * real(largest_node(cluster)))) / kHostUpdates +
                            crossing(trained * (bytes.gradient + bytes.weight))});
    } else {
      shares.push_back({&RankPieces::optimizer,
                        streamed_time(Bytes(static_cast<std::int64_t>(moved)), false, rates)});
    }
    if (away.has(Offload::Parameters)) {
      const Seconds once =
          crossing(of_rank(held.dense, held.expert, sharding.weights) * bytes.weight);
      shares.push_back({&RankPieces::every_forward, once});
      shares.push_back({&RankPieces::every_backward, once});
    }
  }

  // What the layers of a stage keep of a micro-batch crosses to the host. Head and loss run
  // backward at once: theirs stays.
  void add_offloaded(Shares& shares, const Slice& slice, const Stage& stage, Lists& of,
                     const Layout& layout) {
    if (!layout.offload.has(Offload::Activations)) return;
    if (!of.for_others) of.for_others.emplace(model, of.recipe);
    Bytes kept;
    for (const Portion& one : of.for_others->stage(stage, slice)) {
      if (one.list->what != ListOf::What::Head) kept += one.totals->kept * one.count;
    }
    shares.push_back({&RankPieces::offloaded, kept / slowest_accelerator(cluster).host_link});
  }

  // Sends and receives.
  static void add_transfers(StagePieces& pieces, const Layout& layout) {
    if (layout.pp == 1) return;
    pieces.forward.kernels += 2;
    pieces.backward_input.kernels += 2;
  }

  StageWork work_of(const Slice& slice, const Stage& stage, Lists& of, const TrainedBytes& trained,
                    Wires& wires, OnLinks& known) {
    const StageSums sums = sums_of(of, stage, slice);
    StageWork work{.pieces = this->stage(of, sums.portions, wires, known),
                   .shares = parameter_shares(sums.held, stage.count, of.recipe, trained, wires),
                   .flops = sums.flops};
    add_offloaded(work.shares, slice, stage, of, wires.layout);
    add_transfers(work.pieces, wires.layout);
    return work;
  }

  // Of stages in a row most hold as many of the same layers.
  bool alike(const Layout& layout, const Stage& a, const Stage& b) const {
    return all_alike && layout.recompute_by_stage.empty() && a.runs == b.runs &&
           a.embedding == b.embedding && a.head == b.head && a.mtp == b.mtp &&
           a.embedding_share == b.embedding_share && a.head_share == b.head_share;
  }
};

Result<StepPieces> StepModel::State::step(const Layout& layout, const std::vector<Stage>& stages) {
  const TrainedBytes trained = TW_TRY(bytes_of(layout));
  const Slice slice = slice_of(layout, trainer, 0, attention);
  if (const auto large = too_large(widths, slice)) return fail({*large});
  Lists& of = lists_for(layout.precision);
  Wires wires = wires_of(layout);
  OnLinks& known = on_links_of(wires);
  StepPieces step;
  step.ranks.resize(static_cast<std::size_t>(layout.pp));
  step.stages.reserve(stages.size());
  std::vector<Flops> flops(step.ranks.size());
  StageWork work;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const Stage& stage = stages[i];
    if (i == 0 || !alike(layout, stages[i - 1], stage)) {
      const Slice own = layout.recompute_by_stage.empty()
                            ? slice
                            : slice_of(layout, trainer, stage.id.index(), attention);
      work = work_of(own, stage, of, trained, wires, known);
      step.kinds.push_back(work.pieces);
    }
    step.stages.push_back({std::ssize(step.kinds) - 1, stage.rank});
    const auto rank = static_cast<std::size_t>(stage.rank);
    for (const auto& [part, seconds] : work.shares) step.ranks[rank].*part += seconds;
    for (const Flops& of_pass : work.flops) flops[rank] += of_pass;
  }
  set_surroundings(step, slice, of, wires);
  set_flops(step, layout, flops);
  step.host_per_module = sharding_of(layout, trainer).host_per_module;
  return step;
}

Result<StepPieces> StepModel::State::whole_step(const Layout& layout) {
  Slice slice = slice_of(layout, trainer, 0, attention);
  slice.autocast = false;  // however weights are shared, it is least without casts
  if (const auto large = too_large(widths, slice)) return fail({*large});
  Lists& of = lists_for(layout.precision);
  Wires wires = wires_of(layout);
  OnLinks& known = on_links_of(wires);
  const StageSums& sums = whole_sums(of, slice);
  const auto [pieces, fresh] = known.whole.try_emplace(&sums);
  if (fresh) pieces->second = stage(of, sums.portions, wires, known);
  StepPieces step;
  step.add(pieces->second, 0);
  step.ranks = {RankPieces{}};
  add_transfers(step.kinds.front(), layout);
  set_surroundings(step, slice, of, wires);
  Flops all;
  for (const Flops& of_pass : sums.flops) all += of_pass;
  set_flops(step, layout, {&all, 1});
  return step;
}

void StepModel::State::set_flops(StepPieces& step, const Layout& layout,
                                 std::span<const Flops> of_ranks) const {
  const double m = real(step.micro_batches);
  const FlopsPerSecond peak = rates.of(compute_type(layout.precision)).peak;
  step.bound = *std::max_element(of_ranks.begin(), of_ranks.end()) * m / peak;
  for (const Flops& all : of_ranks) step.executed += all * (m * real(step.world / layout.pp));
}

void StepModel::State::set_surroundings(StepPieces& step, const Slice& slice, Lists& of,
                                        Wires& wires) {
  const Layout& layout = wires.layout;
  step.schedule = running_schedule(layout);
  step.pp = layout.pp;
  step.vpp = layout.vpp;
  step.micro_batches = micro_batch_count(layout);
  step.group = running_group(layout);
  step.world = world_size(layout);
  step.tensor_apart = wires.place(GroupKind::Tp).node.together < layout.tp;
  if (layout.pp > 1) {
    step.stages_apart = wires.place(GroupKind::Pp).node.together < layout.pp;
    step.transfer = transfer_time(boundary_bytes(model, slice, of.recipe),
                                  wires.place(GroupKind::Pp), cluster, rates);
  }
  step.host_share = detail::host_share(layout, trainer, slowest_accelerator(cluster));
  step.transfers_overlap = asks(layout, Switch::OverlapP2p, trainer);
  step.reduce_overlaps = asks(layout, Switch::OverlapGradientReduce, trainer);
  step.gather_overlaps = asks(layout, Switch::OverlapParameterGather, trainer);
  step.offload_overlaps = overlap_use(trainer, OverlapKind::ActivationOffload) >= Use::ByDefault;
  const Bucket* bucket = find_bucket(trainer, BucketPurpose::GradientReduce);
  step.buckets_on_first = bucket != nullptr && bucket->first_only;
  step.regime = {.nodes = real(node_count(cluster)),
                 .experts = experts_per_token > 0,
                 .adapters = job.lora.has_value(),
                 .untaught = is_untaught(cluster)};
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
  const std::vector<Stage>* stages = TW_TRY(state_->dealt.of(layout, state_->model));
  StepPieces step = TW_TRY(state_->step(layout, *stages));
  if (schedule != nullptr) step.order = *schedule;
  return step;
}

Result<StepPieces> StepModel::whole(const Layout& layout) { return state_->whole_step(layout); }

Result<RankPieces> StepModel::whole_rank(const Layout& layout) {
  State& s = *state_;
  const TrainedBytes trained = TW_TRY(s.bytes_of(layout));
  const Slice slice = slice_of(layout, s.trainer, 0, s.attention);
  if (const auto large = too_large(s.widths, slice)) return fail({*large});
  State::Lists& lists = s.lists_for(layout.precision);
  Wires wires = s.wires_of(layout);
  RankPieces rank;
  for (const auto& [part, seconds] :
       s.parameter_shares(s.whole_sums(lists, slice).held, s.one_stage.front().count, lists.recipe,
                          trained, wires)) {
    rank.*part += seconds;
  }
  return rank;
}

WorkCache& StepModel::work(PrecisionKind precision) {
  State::Lists& lists = state_->lists_for(precision);
  if (!lists.for_others) lists.for_others.emplace(state_->model, lists.recipe);
  return *lists.for_others;
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
