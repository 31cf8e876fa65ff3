// The arithmetic of validation, on estimates whose answer is known.
#include <doctest/doctest.h>

#include <cmath>

#include "trainwright/calibrate/calibrate.h"
#include "trainwright/calibrate/memory_fit.h"

namespace trainwright {
namespace {

constexpr double kGiB = 1073741824;

Bytes gib(double size) { return rounded(RealBytes(size * kGiB)); }

// One rank with so many GiB allocated, slack by lead, and 1, 2 and 4 GiB outside.
EstimatedCase estimate_of(double allocated, const std::vector<double>& slack) {
  EstimatedCase made;
  for (std::size_t lead = 0; lead < slack.size(); ++lead) {
    MemoryEstimate estimate;
    estimate.capacity = gib(80);
    estimate.outside.context = {RealBytes(1 * kGiB), RealBytes(2 * kGiB), RealBytes(4 * kGiB)};
    RankClass rank;
    rank.bytes[static_cast<std::size_t>(Category::Weights)] = gib(allocated);
    rank.bytes[static_cast<std::size_t>(Category::AllocatorSlack)] = gib(slack[lead]);
    rank.slack_most = gib(slack.back());
    estimate.classes = {rank};
    made.by_lead.emplace(lead, settled(std::move(estimate), {}));
  }
  return made;
}

struct Made {
  ScoredRows scored = {};
  ScoredRow& add(double allocated, const std::vector<double>& slack, MemoryKind kind,
                 double measured) {
    const std::size_t number = scored.rows.size();
    ScoredRow row;
    row.source = "made";
    row.label = std::to_string(number);
    row.fold = "fold " + std::to_string(number % 4);
    row.run = row.of_case = number;
    row.kind = kind;
    row.measured = measured * kGiB;
    scored.estimates.push_back(estimate_of(allocated, slack));
    scored.rows.push_back(row);
    return scored.rows.back();
  }
};

TEST_CASE("a figure is that of the row's counter, lead and place outside") {
  Made made;
  made.add(10, {1, 2, 4}, MemoryKind::Driver, 1);
  const auto bytes = [&](MemoryKind kind, const FittedConstants& fitted) {
    made.scored.rows[0].kind = kind;
    return predicted(made.scored.rows[0], made.scored, {}, fitted).bytes / kGiB;
  };
  CHECK(bytes(MemoryKind::Allocated, {0.0, 0}) == doctest::Approx(10));
  CHECK(bytes(MemoryKind::Reserved, {0.0, 1}) == doctest::Approx(12));
  CHECK(bytes(MemoryKind::Driver, {0.0, 1}) == doctest::Approx(14));
  CHECK(bytes(MemoryKind::Driver, {-1.0, 0}) == doctest::Approx(12));  // 10 + 1 + 1
  CHECK(bytes(MemoryKind::Driver, {0.5, 2}) == doctest::Approx(17));   // 10 + 4 + 3
}

TEST_CASE("rows made with a lead and a place outside give both back, fold by fold") {
  Made made;
  for (int i = 0; i < 24; ++i) {
    const double allocated = 10 + i, step = 0.5 + 0.1 * (i % 5);
    made.add(allocated, {step, 2 * step, 4 * step}, MemoryKind::Driver, allocated + 2 * step + 3);
  }
  const auto scores = validate_memory(made.scored, Cases{}, {});
  REQUIRE(scores.size() == 1);
  CHECK(scores[0].folds == 4);
  CHECK(scores[0].held_out.errors->mape < 1e-4);
  // With no other source to say it, the lead of the constants ships, and nothing is fitted outside.
  CHECK(!scores[0].constants.outside);
  CHECK(!scores[0].constants.lead);
  CHECK(scores[0].as_shipped.errors->mape > 0.02);
  const FittedConstants fitted = detail::fitted_on(made.scored, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {});
  CHECK(fitted.lead == 1);
  CHECK(*fitted.outside == doctest::Approx(0.5).epsilon(1e-3));
}

TEST_CASE("a case whose memory is not scored is not asked, but counted with its reason") {
  Case timed;
  timed.source = "made";
  timed.no_memory = "no memory was read";
  timed.outcome = Outcome::Oom;
  Cases cases;
  cases.cases = {timed};
  cases.skipped = {{"made", "2", "no layers", "no memory was read"}, {"made", "3", "no layers"}};
  const ScoredRows scored = score_rows(cases, {});
  CHECK(scored.rows.empty());
  REQUIRE(scored.skipped.size() == 3);
  CHECK(scored.skipped[0].reason == "no memory was read");
  CHECK(scored.skipped[1].reason == "no layers");
  CHECK(scored.skipped[2].reason == "no memory was read");
}

TEST_CASE("allocated bytes tell no constant") {
  Made made;
  for (int i = 0; i < 12; ++i) made.add(10, {1, 2, 4}, MemoryKind::Allocated, 11);
  CHECK(detail::fitted_on(made.scored, {0, 1, 2, 3}, {}) == FittedConstants{});
}

TEST_CASE(
    "what ships is the median of the leads that sources say, the one that is judged left out") {
  const detail::OwnLeads own = {{"a", 0}, {"b", 2}, {"c", 1}};
  CHECK(detail::agreed(own, {}).lead == 1);
  CHECK(detail::agreed(own, "b").lead == 0);
  CHECK(detail::agreed(own, "a").lead == 1);
  CHECK(!detail::agreed({{"a", 0}}, "a").lead);
}

TEST_CASE("failures that are likely crashes are scored apart, and tight verdicts are counted") {
  Made made;
  const auto verdict = [&](double allocated, bool out_of_memory) -> ScoredRow& {
    ScoredRow& row = made.add(allocated, {0}, MemoryKind::Driver, 80);
    row.verdict = true;
    row.out_of_memory = out_of_memory;
    return row;
  };
  for (int i = 0; i < 40; ++i) {
    verdict(120, true);
    verdict(40, false);
  }
  // 76 + 2 of 80 GiB: 4 % of spread and 2 GiB more outside make a chance between 5 and 50 %.
  verdict(76, false);
  verdict(76, true);
  for (int i = 0; i < 10; ++i) verdict(20, true).crash_likely = true;
  const auto scores = validate_memory(made.scored, Cases{}, {});
  REQUIRE(scores.size() == 1);
  const VerdictScore& verdicts = *scores[0].as_shipped.verdicts;
  CHECK(verdicts.rows == 82);
  CHECK(verdicts.right == 81);
  CHECK(verdicts.false_fits == 1);
  CHECK(verdicts.tight == 2);
  CHECK(verdicts.tight_ooms == 1);
  CHECK(scores[0].as_shipped.with_crashes->rows == 92);
  CHECK(scores[0].as_shipped.with_crashes->false_fits == 11);
}

}  // namespace
}  // namespace trainwright
