#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <map>
#include <numeric>

#include "trainwright/search/space.h"
#include "trainwright/testing/layout_cases.h"
#include "trainwright/testing/shipped_trainers.h"
#include "trainwright/testing/slow_search.h"

namespace trainwright {
namespace {

using namespace testing;

// A small model on few accelerators with about as much memory as it needs.
struct Sought {
  Model model;
  Cluster cluster;
  Trainer trainer;
  Job job;
  MemoryConstants constants;
  TimeConstants time;
  std::int64_t gbs = 8;
  double risk = kUsualRisk;
  std::size_t most = 10;
  bool offload = false;
  Limits limits = {};
  Flags<Also> also = {};
  std::optional<Layout> from = {};

  SearchQuestion question() const {
    return {.model = model,
            .cluster = cluster,
            .trainer = trainer,
            .job = job,
            .gbs = gbs,
            .seq = 512,
            .constants = constants,
            .time = time,
            .risk = risk,
            .most = most,
            .limits = limits,
            .also = also,
            .offload = offload,
            .from = from};
  }
};

Sought any_search() {
  static const Hardware hardware = *load_hardware(kShippedData);
  static const MemoryConstants constants = *load_memory_constants(kShippedData);
  static const TimeConstants time = *load_time_constants(kShippedData);
  const auto layers = *rc::gen::element<std::int64_t>(2, 3, 4);
  const GptShape shape{.layers = layers, .hidden = 512, .heads = 4, .kv_heads = 4, .ffn = 2048};
  Sought sought{.model = *rc::gen::arbitrary<bool>() ? moe(2, 512, 0, 0, shape) : gpt(shape),
                .cluster = *parse_cluster(
                    *rc::gen::element<std::string>("2xH100", "4xH100", "2xA100+2xH200"), hardware),
                .trainer = picked_trainer(*rc::gen::element<std::string>(
                    "megatron@0.12", "torchtitan@0.2", "deepspeed@0.16", "pytorch", "nanotron")),
                .job = parse_job(*rc::gen::element<std::string>("", "", "lora=8")).value(),
                .constants = constants,
                .time = time};
  sought.gbs = *rc::gen::element<std::int64_t>(4, 6);
  sought.most = *rc::gen::element<std::size_t>(1, 10, 1000);
  sought.offload = *rc::gen::arbitrary<bool>();
  sought.risk = *rc::gen::element(0.001, 0.05, 0.3);
  const std::uint32_t axes = (1U << all_names(Also{}).size()) - 1;
  sought.also.bits = *rc::gen::element<std::uint32_t>(0, axes, *rc::gen::inRange(0U, axes + 1));
  const auto memory = *rc::gen::inRange<std::int64_t>(2000, 8000);
  for (Group& group : sought.cluster.groups) {
    group.accelerator.memory_visible = Bytes(memory << 20);
  }
  if (!sought.also.empty() || *rc::gen::arbitrary<bool>()) return sought;
  const std::vector<Layout> all = list_layouts(sought.question());
  if (!all.empty()) sought.from = *rc::gen::elementOf(all);
  return sought;
}

// The same where at most so many layouts are left: keys are fixed as one of the layouts has them,
// in any order, but no switch, dispatcher, loss or order of ranks.
Sought any_small_search(std::int64_t most) {
  Sought sought = any_search();
  std::vector<std::string> keys = {"tp",  "pp",   "cp",        "vpp",      "ep",
                                   "mbs", "zero", "recompute", "sharding", "schedule"};
  while (count_layouts(sought.question()) > most && !keys.empty()) {
    const std::string key = *rc::gen::elementOf(keys);
    std::erase(keys, key);
    Sought plain = sought;
    plain.also = {};
    const Layout one = *rc::gen::elementOf(list_layouts(plain.question()));
    const std::map<std::string, std::string> values = {
        {"tp", std::to_string(one.tp)},
        {"pp", std::to_string(one.pp)},
        {"cp", std::to_string(one.cp)},
        {"vpp", std::to_string(one.vpp)},
        {"ep", std::to_string(one.ep)},
        {"mbs", std::to_string(one.mbs)},
        {"zero", std::to_string(one.zero)},
        {"recompute", std::string(name_of(one.recompute.kind))},
        {"sharding", std::string(name_of(one.sharding))},
        {"schedule", std::string(name_of(one.schedule))}};
    sought.limits.push_back(parse_limit(key + '=' + values.at(key), "--fix").value());
  }
  RC_PRE(count_layouts(sought.question()) <= most);
  return sought;
}

void check_against_asking_every_layout(const Sought& sought) {
  const SearchQuestion question = sought.question();
  const SearchResult result = search(question).value();
  const std::vector<PlannedLayout> all = slow_families(question, sought.most);
  RC_CLASSIFY(result.end == SearchEnd::Found, "found");
  RC_CLASSIFY(result.tight > 0, "some tight");
  RC_CLASSIFY(!sought.also.empty(), "switches, dispatcher, losses or order looked at");
  RC_ASSERT(result.best.size() == all.size());
  for (std::size_t i = 0; i < result.best.size(); ++i) {
    // Of ways that take equally long the search has the one with the fewest switches.
    RC_ASSERT(rank_of(result.best[i]) == rank_of(all[i]));
    RC_ASSERT(fit_of(result.best[i].memory.oom, sought.risk) == Fit::Fits);
    if (!sought.also.empty()) continue;
    RC_ASSERT(result.best[i].layout == all[i].layout);
    RC_ASSERT(result.best[i].memory.oom == all[i].memory.oom);
  }
  RC_ASSERT(result.proven);
  RC_ASSERT(result.smallest.has_value() == (result.end == SearchEnd::NothingFits));
  RC_ASSERT(result.refusal.has_value() == (result.end == SearchEnd::AllRefused));
  if (result.end == SearchEnd::NothingFits) {
    const MemoryEstimate& memory = result.smallest->memory;
    RC_ASSERT(memory.classes[memory.worst].driver == slow_least(question));
    RC_ASSERT(fit_of(memory.oom, sought.risk) != Fit::Fits);
  }
}

TEST_CASE("a search finds what asking about every layout finds, of at most 2,000") {
  CHECK(rc::check([] { check_against_asking_every_layout(any_small_search(2000)); }));
}

// tools/soak/random_proofs.sh asks for ten thousand.
TEST_CASE("a search finds what asking about every layout finds, of at most 150") {
  CHECK(rc::check([] { check_against_asking_every_layout(any_small_search(150)); }));
}

TEST_CASE("what a higher risk is worth is what a search at even odds finds") {
  CHECK(rc::check([] {
    const Sought sought = any_search();
    SearchQuestion question = sought.question(), even = question;
    question.find_riskier = true;
    even.risk = kEvenOdds;
    even.most = 1;
    const SearchResult result = search(question).value();
    const SearchResult best = search(even).value();
    const bool gains = !best.best.empty() &&
                       (result.best.empty() || best.best.front().time.step <
                                                   result.best.front().time.step * (1 - kMargin));
    RC_CLASSIFY(gains, "worth it");
    RC_ASSERT(result.riskier.has_value() == gains);
    if (gains) RC_ASSERT(rank_of(*result.riskier) == rank_of(best.best.front()));
  }));
}

TEST_CASE("what more memory is worth is what a search with that memory finds") {
  CHECK(rc::check([] {
    const Sought sought = any_search();
    SearchQuestion question = sought.question();
    question.more_memory = *rc::gen::element(1.1, 1.5, 2.0);
    const SearchResult result = search(question).value();
    RC_ASSERT(result.with_more_memory.has_value() == !result.best.empty());
    if (result.best.empty()) return;
    const PlannedLayout& found = *result.with_more_memory;
    const PlannedLayout asked = *fastest_with_memory(question, *question.more_memory).value();
    RC_CLASSIFY(asked.time.step < result.best.front().time.step, "worth it");
    RC_ASSERT(rank_of(found) == rank_of(asked));
    if (sought.also.empty()) RC_ASSERT(found.layout == asked.layout);
  }));
}

// What branches are cut by.
TEST_CASE("no layout needs less than its states and what its micro-batches in flight keep") {
  CHECK(rc::check([] {
    const Sought sought = any_search();
    const SearchQuestion question = sought.question();
    const std::vector<Layout> all = list_layouts(question);
    RC_PRE(!all.empty());
    Layout layout = *rc::gen::elementOf(all);
    MemoryModel memory(question.model, question.cluster, question.trainer, question.job,
                       question.constants);
    const auto needs = memory.least(layout);
    RC_PRE(needs.has_value());
    const auto stages = stage_layers(layout, question.model).value();
    const bool many = detail::has_many(layout);
    const std::vector<double> flight = detail::layers_in_flight(layout, stages, many);
    RC_CLASSIFY(layout.pp > 1 && many, "several in flight");
    Layout again = layout;
    if (layout.recompute.kind == RecomputeKind::Block)
      again.recompute = {RecomputeKind::Full, {}, 1};
    const bool some = layout.recompute.kind == RecomputeKind::EveryNth;
    const double kept = some ? 0 : static_cast<double>(memory.least_kept(again)->value());
    const auto driver = static_cast<double>(needs->driver.value());
    const double mean = std::accumulate(flight.begin(), flight.end(), 0.0) / real(layout.pp);
    RC_ASSERT(static_cast<double>(memory.states(layout)->value()) + kept * mean <= driver);
    const std::vector<RealBytes> of_layer = memory.layer_states(layout);
    for (const auto& rank : detail::fullest_ranks(layout, question.model, stages, many)) {
      double bytes = kept * rank.flight;
      for (std::size_t kind = 0; kind < of_layer.size(); ++kind) {
        bytes += of_layer[kind].value() * real(rank.layers[kind]);
      }
      RC_ASSERT(bytes <= driver);
    }
  }));
}

// What a bound with all switches rests on, and what of a leaf is asked once (search/late.h).
TEST_CASE("no switch that is decided at a leaf makes a step longer, and most take no memory") {
  using enum Switch;
  constexpr Flags<Switch> kFree{OverlapGradientReduce, OverlapParameterGather,
                                OverlapSharedExperts};
  constexpr Flags<Switch> kTaking{OverlapTp, OverlapEp, Graphs, PartGraphs};
  CHECK(rc::check([&] {
    Sought sought = any_search();
    sought.from.reset();
    sought.also = kUsualAxes;
    const SearchQuestion question = sought.question();
    const std::vector<Layout> all = list_layouts(question);
    RC_PRE(!all.empty());
    const Layout with = *rc::gen::elementOf(all);
    MemoryModel memory(question.model, question.cluster, question.trainer, question.job,
                       question.constants);
    StepModel steps = step_model(question);
    const StackConstants& stack = stack_of(question.time.stacks, question.trainer).constants;
    const auto time_of = [&](const Layout& of) {
      return step_time(*steps.pieces(of), stack).step.value();
    };
    const auto needs = memory.least(with);
    RC_PRE(needs.has_value());
    for (const Switch what : all_of<Switch>()) {
      if (!with.on.has(what) || !(kFree.has(what) || kTaking.has(what))) continue;
      Layout without = with;
      without.on.bits &= ~Flags<Switch>{what}.bits;
      RC_ASSERT(time_of(with) <= time_of(without) * (1 + 1e-9));
      const auto less = memory.least(without);
      RC_ASSERT(less->driver <= needs->driver);
      if (kFree.has(what)) RC_ASSERT(less->driver == needs->driver && less->oom == needs->oom);
    }
  }));
}

TEST_CASE("fewer layouts asked for are the first of more, and more memory is never slower") {
  CHECK(rc::check([] {
    Sought sought = any_search();
    sought.most = 10;
    const SearchResult ten = search(sought.question()).value();
    sought.most = 3;
    const SearchResult three = search(sought.question()).value();
    RC_ASSERT(three.best.size() == std::min<std::size_t>(3, ten.best.size()));
    for (std::size_t i = 0; i < three.best.size(); ++i) {
      RC_ASSERT(three.best[i].layout == ten.best[i].layout);
    }
    for (Group& group : sought.cluster.groups) {
      group.accelerator.memory_visible += Bytes(1 << 30);
    }
    const SearchResult more = search(sought.question()).value();
    RC_ASSERT(more.best.size() >= three.best.size());
    for (std::size_t i = 0; i < three.best.size(); ++i) {
      RC_ASSERT(more.best[i].time.step <= three.best[i].time.step);
    }
  }));
}

}  // namespace
}  // namespace trainwright
