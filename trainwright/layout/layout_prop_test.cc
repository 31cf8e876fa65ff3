#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <numeric>

#include "trainwright/base/text.h"
#include "trainwright/layout/layout.h"
#include "trainwright/testing/layout_cases.h"
#include "trainwright/testing/slow_ranks.h"

namespace trainwright {
namespace {

std::int64_t within(std::int64_t low, std::int64_t high) {
  return *rc::gen::inRange<std::int64_t>(low, high + 1);
}

template <class E>
E any_of(E last) {
  return static_cast<E>(within(0, static_cast<std::int64_t>(last)));
}

template <class E>
Flags<E> any_set(E last) {
  Flags<E> set;
  set.bits = static_cast<std::uint32_t>(within(0, (2 << static_cast<int>(last)) - 1));
  return set;
}

Recompute any_recompute() {
  Recompute recompute;
  recompute.kind = any_of(RecomputeKind::Full);
  if (recompute.kind == RecomputeKind::Modules) {
    recompute.modules = any_set(RecomputeModule::SharedExperts);
    recompute.modules.insert(RecomputeModule::Norm);  // a list names at least one
  }
  if (recompute.kind >= RecomputeKind::EveryNth) recompute.n = within(1, 9);
  return recompute;
}

RankOrder any_order() {
  RankOrder order = Layout{}.order;
  for (std::size_t i = order.size() - 1; i > 0; --i) {
    std::swap(order[i], order[static_cast<std::size_t>(within(0, static_cast<std::int64_t>(i)))]);
  }
  return order;
}

// Every field, legal or not, within the bounds of what can be written.
Layout any_layout() {
  Layout layout;
  layout.tp = within(1, kMostDegree);
  layout.pp = within(1, 9);
  layout.dp = within(1, kMostDegree);
  layout.cp = within(1, 9);
  layout.vpp = within(1, 5);
  layout.ep = within(1, 9);
  layout.etp = within(1, 9);
  layout.sp = *rc::gen::arbitrary<bool>();
  layout.zero = within(0, 3);
  layout.sharding = any_of(ShardingKind::MegatronFsdp);
  layout.dp_replicate = within(1, 9);
  layout.mbs = within(1, kMostBatch);
  layout.gbs = within(1, kMostBatch);
  layout.seq = within(1, kMostBatch);
  if (*rc::gen::arbitrary<bool>()) {
    layout.recompute = any_recompute();
  } else {
    for (std::int64_t i = within(0, 6); i > 0; --i) {
      layout.recompute_by_stage.push_back(any_recompute());
    }
  }
  layout.first_layers = within(0, 9);
  layout.last_layers = within(0, 9);
  for (std::int64_t i = within(0, 6); i > 0; --i) layout.layers.push_back(within(0, 3));
  layout.count_embedding = within(0, 2);
  layout.count_loss = within(0, 2);
  if (*rc::gen::arbitrary<bool>()) layout.mtp_stage = within(0, 9);
  layout.vocab_parallel = *rc::gen::arbitrary<bool>();
  layout.schedule = any_of(ScheduleKind::Csv);
  layout.placement = any_of(StagePlacement::V);
  layout.micro_batch_group = within(0, 9);
  layout.offload = any_set(Offload::Parameters);
  layout.precision = any_of(PrecisionKind::Nvfp4);
  layout.gradients = any_of(GradientDtype::Bf16);
  layout.cp_kind = any_of(CpKind::UlyssesRing);
  layout.cp_ulysses = within(0, 9);
  layout.dispatcher = any_of(DispatcherKind::NcclEp);
  layout.on = any_set(Switch::PartGraphs);
  layout.off = any_set(Switch::PartGraphs);
  if (*rc::gen::arbitrary<bool>()) layout.loss = "chunked";
  if (*rc::gen::arbitrary<bool>()) layout.max_connections = within(0, 32);
  layout.order = any_order();
  return layout;
}

TEST_CASE("every layout reads back from its text and from its JSON") {
  CHECK(rc::check([] {
    const Layout layout = any_layout();
    RC_LOG() << to_text(layout) << '\n';
    const auto read = parse_layout(to_text(layout));
    RC_ASSERT(read.has_value());
    RC_ASSERT(read->layout == layout);
    RC_ASSERT(to_text(read->layout) == to_text(layout));
    const Json json = parse_json(to_text(to_json(layout)), "layout").value();
    RC_ASSERT(read_layout(json, "layout").value().layout == layout);
  }));
}

TEST_CASE("the change from any layout's words to any other's gives the other, none of it in vain") {
  CHECK(rc::check([] {
    Layout from = any_layout(), to = any_layout();
    // What is a list, a set or unknown cannot be taken back by a word.
    from.layers = to.layers;
    from.recompute_by_stage = to.recompute_by_stage;
    if (!to.recompute_by_stage.empty()) from.recompute = to.recompute;
    from.offload = to.offload;
    from.on = to.on;
    from.off = to.off;
    from.mtp_stage = to.mtp_stage;
    from.max_connections = to.max_connections;
    from.loss = to.loss;
    LayoutContext context;
    context.usual.count_loss = *rc::gen::inRange<std::int64_t>(0, 2);
    context.usual.order = any_order();
    const std::string words = to_text(from);
    RC_PRE(parse_layout(words, context).has_value());
    const std::string change = change_to(words, to, context);
    const auto means = [&](const std::string& entries) {
      const auto read = parse_layout(amended(words, entries), context);
      return read && read->layout == to;
    };
    RC_ASSERT(means(change));
    const auto entries = split(change, ',');
    for (std::size_t i = 0; i < entries.size() && !change.empty(); ++i) {
      std::vector<std::string> others;
      for (std::size_t j = 0; j < entries.size(); ++j) {
        if (j != i) others.emplace_back(entries[j]);
      }
      RC_ASSERT(!means(join(others, ",")));
    }
  }));
}

TEST_CASE("every job reads back from its text and from its JSON") {
  CHECK(rc::check([] {
    Job job;
    job.optimizer = any_of(OptimizerKind::Sgd);
    job.frozen = any_set(Part::Head);
    job.frozen_layers = within(0, 100);
    if (*rc::gen::arbitrary<bool>()) {
      job.lora = Lora{.rank = within(1, 512), .targets = {}};
      const std::vector<std::string> names = {"query", "kv_down", "expert_up"};
      job.lora->targets.assign(names.begin(), names.begin() + within(0, 3));
      job.lora->base = static_cast<FrozenBase>(within(0, 3));
      job.lora->prepared = static_cast<Prepared>(within(0, 3));
      job.lora->dtype = static_cast<AdapterDtype>(within(0, 2));
      job.lora->dropout = within(0, 1) == 1;
    }
    RC_ASSERT(parse_job(to_text(job)).value() == job);
    RC_ASSERT(read_job(to_json(job), "job").value() == job);
  }));
}

// Degrees with small factors of every kind, and experts that fold into them.
Layout small_layout() {
  Layout layout;
  layout.tp = within(1, 6);
  layout.cp = within(1, 4);
  layout.dp = within(1, 6);
  layout.pp = within(1, 4);
  const std::int64_t ranks = layout.tp * layout.cp * layout.dp;
  layout.etp = std::gcd(within(1, 4), ranks);
  layout.ep = std::gcd(within(1, 24), ranks / layout.etp);
  layout.dp_replicate = std::gcd(within(1, 6), std::gcd(layout.dp, expert_dp(layout)));
  layout.zero = within(0, 3);
  layout.order = any_order();
  return layout;
}

TEST_CASE("groups and what they share are those found by enumerating every rank") {
  CHECK(rc::check([] {
    const Layout layout = small_layout();
    const std::int64_t world = world_size(layout);
    const std::int64_t rank = within(0, world - 1);
    RC_ASSERT(pipeline_rank(layout, rank) ==
              testing::coordinates(layout, rank, testing::Counting::Dense).at(4));
    const auto kind = any_of(GroupKind::World);
    const std::int64_t domain = within(1, 12);
    const auto slow = testing::slow_groups(layout, kind);
    const RankGroup group = rank_group(layout, kind);
    RC_LOG() << to_text(layout) << ' ' << name_of(kind) << " in " << domain << '\n';
    RC_ASSERT(group.size == static_cast<std::int64_t>(slow[0].size()));
    RC_ASSERT(group.count == static_cast<std::int64_t>(slow.size()));
    // The members of the group of rank 0 are the sums of the strides.
    std::vector<std::int64_t> members = {0};
    for (const Stride& axis : group.strides) {
      const std::size_t inner = members.size();
      for (std::int64_t i = 1; i < axis.members; ++i) {
        for (std::size_t m = 0; m < inner; ++m) members.push_back(members[m] + i * axis.stride);
      }
    }
    RC_ASSERT(members == slow[0]);

    const Sharing fast = sharing(group, domain, world);
    const Sharing exact = testing::slow_sharing(slow, domain);
    // Never better than the truth; exact when it says uniform, and for one axis that fills domains.
    RC_ASSERT(fast.together <= exact.together);
    RC_ASSERT(fast.domains >= exact.domains);
    RC_ASSERT(!fast.uniform || fast == exact);
    if (group.strides.size() <= 1 && world % domain == 0) {
      RC_ASSERT(fast.together == exact.together);
      RC_ASSERT(fast.domains == exact.domains);
    }
    RC_TAG(std::string(fast.uniform ? "uniform" : "worst case"));
  }));
}

TEST_CASE("groups of degrees that divide the domain are uniform and exact") {
  CHECK(rc::check([] {
    Layout layout;
    const auto power = [](int most) { return std::int64_t{1} << within(0, most); };
    layout.tp = power(3);
    layout.cp = power(2);
    layout.dp = power(3);
    layout.pp = power(2);
    layout.order = any_order();
    const auto kind = any_of(GroupKind::World);
    const std::int64_t domain = power(6);
    const Sharing fast = sharing(rank_group(layout, kind), domain, world_size(layout));
    RC_ASSERT(fast.uniform);
    RC_ASSERT(fast == testing::slow_sharing(testing::slow_groups(layout, kind), domain));
  }));
}

TEST_CASE("a group touches the rails that its members sit on") {
  CHECK(rc::check([] {
    const Layout layout = small_layout();
    const auto kind = any_of(GroupKind::World);
    Cluster cluster = testing::h100s(8 * ceil_div(world_size(layout), 8));
    cluster.groups[0].rails = std::int64_t{1} << within(0, 3);  // 8, 4, 2 or 1 share one
    const std::int64_t fast = place_group(layout, kind, cluster).rails;
    const std::int64_t exact =
        testing::slow_rails(testing::slow_groups(layout, kind), cluster.groups[0]);
    RC_ASSERT(fast >= exact);
    // With a rail each, where in the node a group begins makes no difference.
    if (cluster.groups[0].rails == 8) RC_ASSERT(fast == exact);
  }));
}

TEST_CASE("the stages hold every layer once, in order") {
  CHECK(rc::check([] {
    Layout layout;
    layout.pp = within(1, 6);
    layout.vpp = within(1, 4);
    layout.placement = any_of(StagePlacement::V);
    layout.first_layers = within(0, 6);
    layout.last_layers = within(0, 6);
    layout.count_embedding = within(0, 2);
    layout.count_loss = within(0, 2);
    const Model model = testing::moe(8, 64, within(0, 5), 1, {.layers = within(5, 40)});
    const auto stages = stage_layers(layout, model);
    if (!stages) {
      RC_ASSERT(!stages.error().diagnostics.empty());
      return;
    }
    std::int64_t next = 0;
    for (const Stage& stage : *stages) {
      RC_ASSERT(stage.first == next);
      RC_ASSERT(stage.count >= 0);
      std::int64_t in_runs = 0;
      for (const LayerRun& run : stage.runs) {
        for (std::int64_t i = 0; i < run.count; ++i) {
          RC_ASSERT(model.layers[static_cast<std::size_t>(next + in_runs)] == run.kind);
          ++in_runs;
        }
      }
      RC_ASSERT(in_runs == stage.count);
      RC_ASSERT(stage.rank >= 0 && stage.rank < layout.pp);
      next += stage.count;
    }
    RC_ASSERT(next == static_cast<std::int64_t>(model.layers.size()));
  }));
}

TEST_CASE("any layout that can be read is checked without a fault of ours") {
  const Model model = testing::moe(8, 1024, 1, 1);
  const Cluster cluster = testing::h100s(64);
  const Trainer trainer = testing::permissive();
  CHECK(rc::check([&] {
    const Layout layout = any_layout();
    (void)is_legal(violations(layout, {}, model, cluster, trainer));
    (void)stage_layers(layout, model);
    (void)place_group(layout, any_of(GroupKind::World), cluster);
  }));
}

}  // namespace
}  // namespace trainwright
