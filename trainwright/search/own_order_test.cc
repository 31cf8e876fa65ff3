#include "trainwright/search/own_order.h"

#include <doctest/doctest.h>

#include "trainwright/testing/search_cases.h"

namespace trainwright {
namespace {

using testing::Job8;

struct Ordered {
  PlannedLayout fixed;
  std::optional<OwnOrder> own;
};

// The fastest layout with a pipeline of four, and an order of its own.
Ordered ordered(const Job8& job, SearchQuestion question) {
  question.limits = {*parse_limit("pp=4", "test")};
  question.most = 1;
  const SearchResult found = *search(question);
  REQUIRE(found.best.size() == 1);
  auto own = own_order(question, found.best.front());
  REQUIRE_MESSAGE(own.has_value(), to_text(own.error()));
  CHECK(job.cluster.groups.size() == 1);
  return {found.best.front(), *std::move(own)};
}

bool splits(const Schedule& order) {
  for (const auto& list : order.ranks) {
    for (const Action action : list) {
      if (action.kind == ActionKind::BackwardWeight) return true;
    }
  }
  return false;
}

TEST_CASE("an order of its own is judged as the same order from a file") {
  struct Case {
    std::string trainer;
    std::int64_t gbs, seq;
    bool faster;  // what plan found when this was written
  };
  for (const Case& one : {Case{"torchtitan", 32, 4096, true},
                          {"torchtitan", 64, 4096, true},
                          {"pytorch@2.13", 32, 4096, true},
                          {"pytorch@2.13", 32, 1024, true}}) {
    CAPTURE(one.trainer);
    CAPTURE(one.gbs);
    CAPTURE(one.seq);
    Job8 job;
    job.trainer = *find_trainer(one.trainer, Job8::kData);
    const SearchQuestion question = job.question(one.gbs, one.seq);
    const Ordered of = ordered(job, question);
    REQUIRE(of.own);
    const OwnOrder& own = *of.own;
    const Layout& layout = own.plan.layout;
    CHECK(layout.schedule == ScheduleKind::Csv);
    CHECK(check(own.order).empty());
    CHECK(is_legal(violations(layout, job.job, job.model, job.cluster, job.trainer, &own.order)));
    const Schedule read = *read_schedule_csv(to_csv(own.order), "written");
    CHECK(read == own.order);
    MemoryQuestion memory = memory_question(question, layout);
    StepQuestion step = step_question(question, layout);
    memory.schedule = step.schedule = &read;
    const StackConstants& stack = stack_of(job.time.stacks, job.trainer).constants;
    const StepPieces pieces = *step_pieces(step);
    CHECK(step_time(pieces, stack).step == own.plan.time.step);
    CHECK(estimate_memory(memory)->oom == own.plan.memory.oom);
    // Of the seconds of its own stages, and between the bound and the fixed kind.
    const Seconds makespan = simulate(read, drawn_pipeline(pieces, stack, 1)->costs).makespan;
    CHECK(step_time(with_makespan(pieces, stack, makespan), stack).step / own.plan.time.step ==
          doctest::Approx(1).epsilon(1e-9));
    CHECK(own.plan.memory.oom <= question.risk);
    CHECK(own.least <= own.plan.time.step);
    CHECK(own.least <= own.fixed * (1 + 2e-3));  // as below
    CHECK(own.fixed <= of.fixed.time.step);
    CHECK((gain(own) > 0) == one.faster);
    // Never slower than the fixed order, but for what formulas leave out (simulate.h).
    CHECK(gain(own) > -2e-3);
  }
}

// torchtitan loses gradients of resharded weights when it splits a backward (data/trainers).
TEST_CASE("no backward is split where the trainer refuses it, and the bound knows") {
  Job8 job;
  job.trainer = *find_trainer("torchtitan", Job8::kData);
  SearchQuestion question = job.question(32);
  const Ordered of = ordered(job, question);
  REQUIRE(of.own);
  Layout resharded = of.fixed.layout, gathered = of.fixed.layout;
  resharded.loss = gathered.loss = "loss-parallel";
  resharded.zero = 3;
  gathered.zero = 2;
  question.risk = 1;
  const auto whole = *own_order(question, *planned(question, resharded));
  const auto split = *own_order(question, *planned(question, gathered));
  REQUIRE(whole);
  REQUIRE(split);
  CHECK_FALSE(whole->split);
  CHECK_FALSE(splits(whole->order));
  CHECK(split->split);
  CHECK(splits(split->order));
  CHECK(gap(*whole) >= 0);
  CHECK(gap(*split) >= 0);
}

TEST_CASE("less risk leaves less memory to an order, and none is above it") {
  Job8 job;
  job.trainer = *find_trainer("pytorch", Job8::kData);
  SearchQuestion question = job.question(32);
  const Ordered of = ordered(job, question);
  REQUIRE(of.own);
  Seconds before(0);
  // From what the fixed order itself has: a chance of OOM that it does not exceed.
  for (const double risk : {0.5, 0.05, std::max(of.fixed.memory.oom, 1e-9)}) {
    CAPTURE(risk);
    question.risk = risk;
    const auto own = *own_order(question, of.fixed);
    REQUIRE(own);
    CHECK(own->plan.memory.oom <= risk);
    CHECK(own->plan.time.step >= before * (1 - 1e-2));  // but for what a search finds by chance
    before = own->plan.time.step;
  }
}

TEST_CASE("there is no order of its own without a pipeline or a trainer that reads one") {
  Job8 job;
  const SearchQuestion question = job.question();
  const Ordered megatron = ordered(job, question);
  CHECK_FALSE(megatron.own);
  job.trainer = *find_trainer("torchtitan", Job8::kData);
  SearchQuestion titan = job.question();
  titan.most = 1;
  titan.limits = {*parse_limit("pp=1", "test")};
  const PlannedLayout flat = search(titan)->best.front();
  CHECK_FALSE(*own_order(titan, flat));
  titan.limits = {*parse_limit("pp=4", "test"), *parse_limit("schedule=1f1b", "test")};
  const PlannedLayout fixed = search(titan)->best.front();
  CHECK_FALSE(*own_order(titan, fixed));
  titan.limits.pop_back();
  CHECK(*own_order(titan, fixed));
}

}  // namespace
}  // namespace trainwright
