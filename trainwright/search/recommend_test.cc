#include "trainwright/search/recommend.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "trainwright/testing/search_cases.h"

namespace trainwright {
namespace {

using testing::Job8;

PlannedLayout planned_as(const std::string& words, double seconds, double oom = 0) {
  PlannedLayout plan{parse_layout(words + ",gbs=64,seq=4096")->layout, {}, {}};
  plan.time.step = Seconds(seconds);
  plan.memory.oom = oom;
  return plan;
}

Preferences shipped() { return *load_preferences(Job8::kData); }

std::string recommended_of(const SearchQuestion& question, const std::vector<PlannedLayout>& best) {
  return to_text(weighed(question, best, shipped()).front().layout);
}

TEST_CASE("the worth of a layout is its step and the weight per cent of it for each amount") {
  const Job8 job;
  Preference pipeline{.name = "pipeline",
                      .amount = *parse_expression("(pp > 1) + (pp > 2)", "test"),
                      .weight = 3,
                      .better = "fewer ranks"};
  const std::vector<PlannedLayout> best = {planned_as("pp=4,dp=2,zero=1", 1.00),
                                           planned_as("pp=2,dp=4,zero=1", 1.02),
                                           planned_as("dp=8,zero=1", 1.07)};
  const auto all = weighed(job.question(), best, {.doubt = 0.05, .list = {pipeline}});
  REQUIRE(all.size() == 2);                                     // 1.07 is beyond the doubt
  CHECK(all[0].worth.value() == doctest::Approx(1.02 * 1.03));  // 1.0506, of pp=2
  CHECK(all[1].worth.value() == doctest::Approx(1.00 * 1.06));
  CHECK(all[0].row == 1);
}

TEST_CASE("plain replicas are not recommended beside the distributed optimizer") {
  const Job8 job;
  CHECK(recommended_of(job.question(), {planned_as("tp=2,dp=4,sp,zero=0", 1.00),
                                        planned_as("tp=2,dp=4,sp,zero=1", 1.049)}) ==
        to_text(planned_as("tp=2,dp=4,sp,zero=1", 1).layout));
}

TEST_CASE("PyTorch's FSDP2 is foreign where recipes of the trainer share other ways to shard") {
  Job8 job;
  const std::vector<PlannedLayout> best = {planned_as("dp=8,fsdp", 1.00),
                                           planned_as("dp=8,zero=1", 1.04)};
  for (const auto& [trainer, foreign] :
       {std::pair("megatron-core", 1.0), std::pair("torchtitan", 0.0)}) {
    CAPTURE(trainer);
    job.trainer = *find_trainer(trainer, Job8::kData);
    Preference sharding{.name = "sharding", .counts = Preference::Counts::Sharding, .weight = 10};
    const auto all = weighed(job.question(), best, {.doubt = 0.05, .list = {sharding}});
    CHECK(all[foreign > 0 ? 1 : 0].amounts.front() == foreign);
    CHECK(all[foreign > 0 ? 0 : 1].amounts.front() == 0);
  }
}

TEST_CASE("what recipes do not share is left out of a search, unless it is fixed or runs today") {
  Job8 job;
  SearchQuestion question = job.question();
  const auto lists = [&](ShardingKind kind) {
    const std::vector<Layout> all = list_layouts(question);
    return std::any_of(all.begin(), all.end(),
                       [&](const Layout& layout) { return layout.sharding == kind; });
  };
  CHECK(lists(ShardingKind::Fsdp));
  question.foreign = false;
  CHECK_FALSE(lists(ShardingKind::Fsdp));
  CHECK(lists(ShardingKind::MegatronFsdp));
  question.limits = {*parse_limit("sharding=fsdp", "--only")};
  CHECK(lists(ShardingKind::Fsdp));
  question.limits.clear();
  job.trainer = *find_trainer("torchtitan", Job8::kData);  // whose recipes use nothing else
  CHECK(lists(ShardingKind::Fsdp));
}

TEST_CASE("with what runs today a setting that changes counts") {
  Job8 job;
  SearchQuestion question = job.question();
  question.from = parse_layout("tp=2,dp=4,sp,zero=1,gbs=64,seq=4096,recompute=full")->layout;
  // tp and recompute change in the faster one, recompute alone in the other.
  CHECK(recommended_of(question, {planned_as("tp=4,dp=2,sp,zero=1", 1.000),
                                  planned_as("tp=2,dp=4,sp,zero=1", 1.005)}) ==
        to_text(planned_as("tp=2,dp=4,sp,zero=1", 1).layout));
}

TEST_CASE("a chance of OOM counts beyond 1 per cent only") {
  const Job8 job;
  const std::vector<PlannedLayout> best = {planned_as("tp=2,dp=4,sp,zero=1", 1, 0.009),
                                           planned_as("tp=4,dp=2,sp,zero=1", 1, 0.04)};
  Preference oom{.name = "oom", .counts = Preference::Counts::Oom, .weight = 1};
  const auto all = weighed(job.question(), best, {.doubt = 0.05, .list = {oom}});
  CHECK(all[0].amounts.front() == 0);
  CHECK(all[1].amounts.front() == doctest::Approx(3));  // percentage points
}

TEST_CASE("tensor parallelism over two nodes of 8 touches two link domains, one doubling") {
  Job8 job("16xH100");
  Preference domains{.name = "domains", .counts = Preference::Counts::Domains, .weight = 2};
  const auto all = weighed(
      job.question(), {planned_as("tp=16,sp,zero=1", 1), planned_as("tp=8,dp=2,sp,zero=1", 1.01)},
      {.doubt = 0.05, .list = {domains}});
  CHECK(all[0].layout.tp == 8);  // 1.01 against 1.02
  CHECK(all[0].amounts.front() == 0);
  CHECK(all[1].amounts.front() == 1);
}

TEST_CASE("a member of a family that is recommended leaves it for a row of its own") {
  const Job8 job;
  std::vector<PlannedLayout> best = {planned_as("tp=2,dp=4,sp,zero=1,recompute=full", 1.00),
                                     planned_as("tp=4,dp=2,sp,zero=1", 1.03)};
  best.front().alike = {planned_as("tp=2,dp=4,sp,zero=1", 1.01)};
  const auto all = weighed(job.question(), best, shipped());
  REQUIRE(all.front().member == 0);
  const OwnRow own = with_own_row(best, all.front());
  REQUIRE(own.best.size() == 3);
  CHECK(own.row == 1);  // between 1.00 and 1.03
  CHECK(own.best[1].layout == best.front().alike.front().layout);
  CHECK(own.best[0].alike.empty());
}

TEST_CASE("a weight beyond its bounds and an unknown variable are faults") {
  const auto faults = [](const std::string& amount, const std::string& weight) {
    const std::string text =
        R"({"doubt": 0.05, "doubt_source": "s", "preferences": [{"name": "n", "amount": ")" +
        amount + R"(", "weight": )" + weight +
        R"(, "least": 0, "most": 5, "better": "b", "reason": "r", "source": "s"}]})";
    const auto read = read_preferences(*parse_json(text, "test"), "test");
    return read ? std::size_t{0} : read.error().diagnostics.size();
  };
  CHECK(faults("pp > 1", "5") == 0);
  CHECK(faults("domains", "0") == 0);
  CHECK(faults("pp > 1", "5.1") == 1);
  CHECK(faults("ppp > 1", "6") == 2);
}

}  // namespace
}  // namespace trainwright
