// From a layout to the pieces of its step: lists timed once, stages as sums of them.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>

#include "trainwright/base/few.h"
#include "trainwright/base/hash.h"
#include "trainwright/simulate/list_time.h"
#include "trainwright/simulate/stepping.h"
#include "trainwright/simulate/wires.h"

namespace trainwright {
namespace {

// std::bit_cast, which the compiler of the playground does not have.
std::int64_t bits_of(double value) {
  std::int64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

using detail::KnownLinks;
using detail::Link;
using detail::LinksByKind;
using detail::ListTime;
using detail::ListTimer;
using detail::muon_time;
using detail::MuonTime;
using detail::placed;
using detail::Stepped;
using detail::SteppedAt;
using detail::stepping;
using detail::Wires;

// Every rank of a layout goes at the pace of the slowest accelerator.
const Group& slowest_group(const Cluster& cluster) {
  return *std::min_element(cluster.groups.begin(), cluster.groups.end(),
                           [](const Group& a, const Group& b) {
                             return peak_or_wider(a.accelerator, ComputeType::Bf16) <
                                    peak_or_wider(b.accelerator, ComputeType::Bf16);
                           });
}

// What a token of the model needs: all of its products forward and, backward, those of gradients
// that the job makes.
Flops needed_by_token(const Model& model, const Trainer& trainer, const Job& job,
                      const Layout& layout) {
  const Flops all = token_flops(model, Tokens(layout.seq), AttentionPairs::Causal).train();
  if (!job.lora && job.frozen.empty() && job.frozen_layers == 0) return all;
  // One sequence on one rank with flash attention, with and without what the job leaves out.
  const auto work = [&](const Job& of) {
    WorkCache cache(model, recipe_of(trainer, StoredAs(layout), of));
    const Stage stage = stage_layers(Layout{}, model)->front();
    const Totals sum = compose(cache.stage(stage, {.mbs = 1, .seq = layout.seq}));
    return sum.effort[0].matmul + sum.effort[1].matmul + sum.effort[2].matmul;
  };
  return all * (work(job) / work({}));
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
    Stepped steps;
    std::array<Flops, 4> flops{};  // by pass
  };
  // By precision: recipes differ.
  struct Lists {
    Recipe recipe;
    WorkCache work;                       // to be timed: no sums of memory
    std::optional<WorkCache> for_others;  // once they ask
    ListTimer timer;
    std::unordered_map<const Totals*, ListTime> timed = {};
    std::unordered_map<const Totals*, MuonTime> stepped = {};
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
  std::map<StoredAs, std::unique_ptr<Lists>> lists = {};
  Widths widths = widths_of(model, job);
  Chosen chosen = detail::chosen_of(model);
  std::vector<Stage> one_stage = *stage_layers(Layout{}, model);  // with all layers

  KnownLinks known_links = {};
  std::unordered_map<detail::Degrees, LinksByKind, NumbersHash> links = {};
  // Lists with their collectives on the same links, hidden alike: a portion's layer, or all layers.
  struct OnLinks {
    std::unordered_map<const Totals*, StagePieces> layers = {};
    std::unordered_map<const StageSums*, StagePieces> whole = {};
  };
  std::unordered_map<std::array<std::int64_t, 9>, OnLinks, NumbersHash> on_links = {};

  std::map<std::pair<std::int64_t, double>, double> busiest = {};  // by ep and rows

  StageInventories inventories = {model, recipe_of(trainer, StoredAs(PrecisionKind::Bf16), job)};

  // Stages by their slice and links, then by content: layouts that share weights in another way or
  // deal the same pieces to other ranks have it too. Most are asked for by layouts that follow each
  // other.
  struct StageKey {
    const OnLinks* links = nullptr;
    Slice slice;
    friend bool operator==(const StageKey&, const StageKey&) = default;
  };
  struct StageKeyHash {
    std::size_t operator()(const StageKey& key) const {
      Hash hash;
      hash.add(static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(key.links)));
      hash.add(static_cast<std::int64_t>(SliceHash{}(key.slice)));
      return hash.value();
    }
  };
  struct KnownStage {
    StagePieces pieces;
    Stepped steps;
    std::array<Flops, 4> flops{};  // by pass
  };
  using StagesByContent = std::unordered_map<std::size_t, KnownStage>;
  std::unordered_map<StageKey, StagesByContent, StageKeyHash> known_stages = {};
  static constexpr std::size_t kMostStages = std::size_t{1} << 12U;
  std::size_t stages_known = 0;  // in all of them

  double busiest_of(const Layout& layout) {
    if (expert_load.kind == ExpertLoad::Kind::Balanced) return 1;
    const auto ranks = expert_ranks(model, slice_of(layout, trainer), layout.pp);
    if (!ranks) return 1;
    const auto [known, fresh] = busiest.try_emplace({ranks->ep, ranks->rows});
    if (fresh) known->second = busiest_rank(expert_load, *ranks).in_a_layer;
    return known->second;
  }

  // By what dtypes hang on, that of gradients and whether anything is sharded.
  std::map<std::tuple<StoredAs, std::string, bool>, TrainedBytes> known_bytes = {};
  Result<TrainedBytes> bytes_of(const Layout& layout) {
    const std::tuple key(StoredAs(layout), gradient_dtype(layout, trainer), layout.zero == 0);
    const auto found = known_bytes.find(key);
    if (found != known_bytes.end()) return found->second;
    return known_bytes[key] = TW_TRY(trained_bytes(job, layout, cluster, trainer));
  }

  Wires wires_of(const Layout& layout) {
    LinksByKind& of = links.try_emplace(detail::degrees_of(layout)).first->second;
    return wires_on(layout, of, busiest_of(layout));
  }
  Wires wires_on(const Layout& layout, LinksByKind& of, double busiest_rank) {
    const bool one_by_one = find_kernel(trainer, KernelKind::GroupedGemm) != nullptr &&
                            !asks(layout, Switch::GroupedGemm, trainer);
    return {layout, cluster, trainer, rates, chosen, busiest_rank, one_by_one, known_links, of};
  }
  // What the passes of a list hang on beside it.
  OnLinks& on_links_of(Wires& wires) {
    const auto number = [&](GroupKind kind) {
      return static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(&wires.link(kind)));
    };
    std::int64_t hidden = 0;
    for (const Beside beside : {Beside::OwnProduct, Beside::OtherMicroBatch, Beside::SharedExperts})
      hidden = hidden * 2 + (wires.hides(beside) ? 1 : 0);
    hidden = hidden * 2 + (wires.one_by_one ? 1 : 0);
    const Layout& layout = wires.layout;
    return on_links[{number(GroupKind::Tp), number(GroupKind::Cp), number(GroupKind::Ep),
                     number(GroupKind::Etp), layout.vocab_parallel ? number(GroupKind::Pp) : 0,
                     layout.ep, hidden, static_cast<std::int64_t>(layout.dispatcher),
                     bits_of(wires.busiest)}];
  }

  // Of the last layout: others that differ in their pipeline alone often follow.
  struct Twig {
    Layout layout;
    Slice slice;  // of the first stage
    TrainedBytes trained;
    Sharding sharding;
    Lists* lists = nullptr;
    LinksByKind* links = nullptr;
    OnLinks* on_links = nullptr;
    StagesByContent* stages = nullptr;
    double busiest = 1;
    StepPieces around;  // without stages and ranks
  };
  std::optional<Twig> last = {};

  using Shares = Few<std::pair<Seconds RankPieces::*, Seconds>, 40>;
  // What a stage adds to its rank.
  struct StageWork {
    Shares shares = {};
    std::array<Flops, 4> flops{};  // by pass
  };
  std::vector<StageWork> works = {};  // scratch, by kind of stage
  Result<Twig*> twig_for(const Layout& layout);
  Result<StepPieces> step(const Layout& layout, const StageInventories::Known& of);
  static void sum_embedding(StepPieces& step, const std::vector<std::int64_t>& ranks,
                            const Twig& twig, Wires& wires);
  static void fill_ranks(StepPieces& step, const std::vector<StageWork>& works,
                         std::vector<Flops>& flops);
  Result<StepPieces> whole_step(const Layout& layout);
  // All but stages, ranks and what they do, whatever the pipeline; then the pipeline.
  void set_surroundings(StepPieces& step, const Slice& slice, Lists& of, Wires& wires);
  static void set_pipeline(StepPieces& step, const Layout& layout);
  void set_flops(StepPieces& step, const Layout& layout, std::span<const Flops> of_ranks) const;

  Lists& lists_for(const StoredAs& storage) {
    auto& found = lists[storage];
    if (!found) {
      found = std::make_unique<Lists>(model, recipe_of(trainer, storage, job),
                                      ListTimer(rates, storage.precision, trainer));
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

  // Of layers that are run again together the list is that of one.
  const MuonTime& stepped(Lists& of, const Portion& portion) {
    const auto [found, fresh] = of.stepped.try_emplace(portion.totals);
    if (fresh) {
      const OperatorList list = make_list(model, of.recipe, *portion.list);
      const auto weights = held_weights(model, of.recipe, *portion.list, list);
      found->second.add(muon_time(weights, rates), real(portion.list->slice.recompute.n));
    }
    return found->second;
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
    StageSums sums{.portions = of.work.stage(stage, slice), .steps = {}};
    for (const Portion& share : of.work.shares(stage, slice)) sums.portions.push_back(share);
    for (const Portion& portion : sums.portions) {
      sums.steps.held.add(portion.totals->parameters, portion.count);
      if (job.optimizer == OptimizerKind::Muon) {
        sums.steps.muon.add(stepped(of, portion), real(portion.count));
      }
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

  Shares parameter_shares(const Stepped& steps, std::int64_t layers, const Recipe& recipe,
                          const TrainedBytes& trained, const Sharding& sharding, Wires& wires) {
    Shares shares;
    for (const ParameterTraffic& traffic :
         parameter_traffic(steps.held, layers, sharding, recipe, trained)) {
      const std::int64_t calls = std::max<std::int64_t>(traffic.calls, 1);
      const Seconds one =
          wires.time(traffic.kind, traffic.group, traffic.bytes / calls) * real(calls);
      const Seconds copied = streamed_time(traffic.copied, false, rates);
      const bool forward = traffic.pass == Pass::Forward;
      const bool reduced = traffic.pass == Pass::WeightGradient;
      const bool leaves = wires.leaves_node(traffic.group);
      const auto add = [&](Seconds RankPieces::* travels, Seconds RankPieces::* apart,
                           Seconds RankPieces::* copies) {
        shares.push_back({travels, one});
        if (leaves) shares.push_back({apart, one});
        if (copied > Seconds(0)) shares.push_back({copies, copied});
      };
      if (!traffic.every_micro_batch) {
        add(reduced ? &RankPieces::reduced : &RankPieces::gathered,
            reduced ? &RankPieces::reduced_apart : &RankPieces::gathered_apart,
            &RankPieces::copied);
      } else if (forward) {
        add(&RankPieces::every_forward, &RankPieces::forward_apart, &RankPieces::copied_forward);
      } else {
        add(&RankPieces::every_backward, &RankPieces::backward_apart, &RankPieces::copied_backward);
      }
    }
    const SteppedAt at{sharding, offloaded(wires.layout, trainer), cluster,
                       slowest_group(cluster).accelerator.host_link, rates};
    const RankPieces rank = stepping(steps, trained.model, at);
    for (const auto part :
         {&RankPieces::optimizer, &RankPieces::orthogonal, &RankPieces::host_step,
          &RankPieces::every_forward, &RankPieces::every_backward, &RankPieces::crossed}) {
      if (rank.*part > Seconds(0)) shares.push_back({part, rank.*part});
    }
    return shares;
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
    shares.push_back({&RankPieces::offloaded, kept / slowest_group(cluster).accelerator.host_link});
  }

  // Sends and receives.
  static void add_transfers(StagePieces& pieces, const Layout& layout) {
    if (layout.pp == 1) return;
    for (PassPieces* pass : {&pieces.forward, &pieces.backward_input}) {
      pass->kernels += 2;
      pass->calls += 2;
    }
  }

  const KnownStage& known_stage(const Twig& twig, const Stage& stage_of, std::size_t number,
                                const Slice& slice, Wires& wires) {
    StagesByContent& known =
        slice == twig.slice ? *twig.stages : known_stages[{twig.on_links, slice}];
    const auto [found, fresh] = known.try_emplace(number);
    if (fresh) {
      ++stages_known;
      const StageSums sums = sums_of(*twig.lists, stage_of, slice);
      found->second = {stage(*twig.lists, sums.portions, wires, *twig.on_links), sums.steps,
                       sums.flops};
    }
    return found->second;
  }
};

Result<StepModel::State::Twig*> StepModel::State::twig_for(const Layout& layout) {
  if (last && differ_in_pipeline_alone(last->layout, layout)) return &*last;
  last.reset();
  Twig twig{.layout = layout,
            .slice = slice_of(layout, trainer, 0, attention),
            .trained = TW_TRY(bytes_of(layout)),
            .sharding = sharding_of(layout, trainer),
            .around = {}};
  if (const auto large = too_large(widths, twig.slice)) return fail({*large});
  twig.lists = &lists_for(StoredAs(layout));
  Wires wires = wires_of(layout);
  twig.links = &wires.links;
  twig.on_links = &on_links_of(wires);
  twig.stages = &known_stages[{twig.on_links, twig.slice}];
  twig.busiest = wires.busiest;
  set_surroundings(twig.around, twig.slice, *twig.lists, wires);
  twig.around.host_per_module = twig.sharding.host_per_module;
  return &last.emplace(std::move(twig));
}

Result<StepPieces> StepModel::State::step(const Layout& layout, const StageInventories::Known& of) {
  if (stages_known > kMostStages) {
    last.reset();
    known_stages.clear();
    stages_known = 0;
  }
  const Twig& twig = *TW_TRY(twig_for(layout));
  Wires wires = wires_on(layout, *twig.links, twig.busiest);
  StepPieces step = twig.around;
  set_pipeline(step, layout);
  const StageInventory& inventory = of.inventory;
  step.stages = inventory.stages;
  step.first_alike = inventory.first_alike;
  step.kinds.reserve(inventory.contents.size());
  works.clear();
  for (std::size_t kind = 0; kind < inventory.contents.size(); ++kind) {
    const Stage& stage = inventory.contents[kind].stage;
    const Slice own = layout.recompute_by_stage.empty()
                          ? twig.slice
                          : slice_of(layout, trainer, stage.id.index(), attention);
    const KnownStage& known = known_stage(twig, stage, of.numbers[kind], own, wires);
    StageWork& work = works.emplace_back();
    work.flops = known.flops;
    work.shares = parameter_shares(known.steps, stage.count, twig.lists->recipe, twig.trained,
                                   twig.sharding, wires);
    add_offloaded(work.shares, own, stage, *twig.lists, layout);
    step.kinds.push_back(known.pieces);
    add_transfers(step.kinds.back(), layout);
  }
  std::vector<Flops> flops(static_cast<std::size_t>(layout.pp));
  fill_ranks(step, works, flops);
  sum_embedding(step, inventory.embedding_ranks, twig, wires);
  set_flops(step, layout, flops);
  return step;
}

// Megatron-Core 0.19.2 distributed/finalize_model_grads.py:659: after the reduction over data
// parallel ranks, before the step; DeepSpeed's pipelines likewise (_exec_reduce_tied_grads).
void StepModel::State::sum_embedding(StepPieces& step, const std::vector<std::int64_t>& ranks,
                                     const Twig& twig, Wires& wires) {
  if (ranks.empty()) return;
  const HeldParameters& table = twig.lists->work.embedding_copy(twig.slice).parameters;
  if (table.dense.trained == Params(0)) return;
  const double cut = twig.sharding.gradients ? real(twig.sharding.dense.ways) : 1.0;
  const RealBytes gradient(real(table.dense.trained.value()) * twig.trained.model.gradient / cut);
  const auto members = static_cast<std::int64_t>(ranks.size());
  const std::int64_t apart = (ranks.back() - ranks.front()) / (members - 1);
  const Seconds sum =
      wires.pipeline_sum({members, std::max<std::int64_t>(1, apart)}, rounded(gradient));
  for (const std::int64_t rank : ranks) step.ranks[static_cast<std::size_t>(rank)].embedding = sum;
}

// Of ranks that are alike the first adds up its stages, the others take its sums.
void StepModel::State::fill_ranks(StepPieces& step, const std::vector<StageWork>& works,
                                  std::vector<Flops>& flops) {
  step.ranks.resize(flops.size());
  for (const StepPieces::StageAt& stage : step.stages) {
    const auto rank = static_cast<std::size_t>(stage.rank);
    if (step.first_alike[rank] != stage.rank) continue;
    const StageWork& work = works[static_cast<std::size_t>(stage.kind)];
    for (const auto& [part, seconds] : work.shares) step.ranks[rank].*part += seconds;
    for (const Flops& of_pass : work.flops) flops[rank] += of_pass;
  }
  for (std::size_t rank = 0; rank < flops.size(); ++rank) {
    const auto first = static_cast<std::size_t>(step.first_alike[rank]);
    step.ranks[rank] = step.ranks[first];
    flops[rank] = flops[first];
  }
}

Result<StepPieces> StepModel::State::whole_step(const Layout& layout) {
  Slice slice = slice_of(layout, trainer, 0, attention);
  slice.autocast = false;  // however weights are shared, it is least without casts
  slice.own_gradients = detail::may_keep_gradients_apart(trainer);
  if (const auto large = too_large(widths, slice)) return fail({*large});
  Lists& of = lists_for(StoredAs(layout));
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
  set_pipeline(step, layout);
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

void StepModel::State::set_pipeline(StepPieces& step, const Layout& layout) {
  step.schedule = running_schedule(layout);
  step.vpp = layout.vpp;
  step.group = running_group(layout);
}

void StepModel::State::set_surroundings(StepPieces& step, const Slice& slice, Lists& of,
                                        Wires& wires) {
  const Layout& layout = wires.layout;
  step.pp = layout.pp;
  step.micro_batches = micro_batch_count(layout);
  step.world = world_size(layout);
  step.tensor_apart = wires.leaves_node(GroupKind::Tp);
  step.context_apart = wires.leaves_node(GroupKind::Cp);
  step.expert_apart = wires.leaves_node(GroupKind::Ep);
  if (layout.pp > 1) {
    step.stages_apart = wires.leaves_node(GroupKind::Pp);
    step.transfer = transfer_time(boundary_bytes(model, slice, of.recipe),
                                  wires.place(GroupKind::Pp), cluster, rates);
  }
  step.host_share = detail::host_share(layout, trainer, slowest_group(cluster).accelerator);
  step.host_pace = rates.host, step.gap = rates.gap;
  step.transfers_overlap = asks(layout, Switch::OverlapP2p, trainer);
  step.reduce_overlaps = asks(layout, Switch::OverlapGradientReduce, trainer);
  step.gather_overlaps = asks(layout, Switch::OverlapParameterGather, trainer);
  step.offload_overlaps = overlap_use(trainer, OverlapKind::ActivationOffload) >= Use::ByDefault;
  const Bucket* bucket = find_bucket(trainer, BucketPurpose::GradientReduce);
  step.buckets_on_first = bucket != nullptr && bucket->first_only;
  step.regime = {.nodes = real(node_count(cluster)),
                 .experts = chosen.experts > 0,
                 .adapters = job.lora.has_value(),
                 .untaught = is_untaught(cluster),
                 .told = told_of(cluster)};
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
    : state_(new State{model, cluster, trainer, job, rates_of(kernels, slowest_group(cluster)),
                       attention, std::move(expert_load)}) {}
StepModel::~StepModel() = default;
StepModel::StepModel(StepModel&&) noexcept = default;
StepModel& StepModel::operator=(StepModel&&) noexcept = default;

Result<StepPieces> StepModel::pieces(const Layout& layout, const Schedule* schedule) {
  const StageInventories::Known* known = TW_TRY(state_->inventories.of(layout));
  StepPieces step = TW_TRY(state_->step(layout, *known));
  if (schedule != nullptr) step.order = *schedule;
  return step;
}

Result<StepPieces> StepModel::whole(const Layout& layout) { return state_->whole_step(layout); }

Result<RankPieces> StepModel::whole_rank(const Layout& layout) {
  State& s = *state_;
  const TrainedBytes trained = TW_TRY(s.bytes_of(layout));
  const Slice slice = slice_of(layout, s.trainer, 0, s.attention);
  if (const auto large = too_large(s.widths, slice)) return fail({*large});
  State::Lists& lists = s.lists_for(StoredAs(layout));
  Wires wires = s.wires_of(layout);
  RankPieces rank;
  for (const auto& [part, seconds] :
       s.parameter_shares(s.whole_sums(lists, slice).steps, s.one_stage.front().count, lists.recipe,
                          trained, sharding_of(layout, s.trainer), wires)) {
    rank.*part += seconds;
  }
  return rank;
}

WorkCache& StepModel::work(const StoredAs& storage) {
  State::Lists& lists = state_->lists_for(storage);
  if (!lists.for_others) lists.for_others.emplace(state_->model, lists.recipe);
  return *lists.for_others;
}

Result<StepPieces> step_pieces(const StepQuestion& q) {
  StepPieces step =
      TW_TRY(StepModel(q.model, q.cluster, q.trainer, q.job, q.kernels, q.attention, q.expert_load)
                 .pieces(q.layout, q.schedule));
  step.tuned = q.tuned;
  return step;
}

Result<TimeConstants> load_time_constants(const std::string& data_directory,
                                          const std::optional<std::string>& file) {
  return TimeConstants{TW_TRY(load_kernels(data_directory)),
                       TW_TRY(load_stacks(data_directory, file))};
}

}  // namespace trainwright
