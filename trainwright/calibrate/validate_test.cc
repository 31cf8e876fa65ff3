// The arithmetic of validation, on rows whose answer is known.
#include <doctest/doctest.h>

#include <cmath>

#include "trainwright/calibrate/calibrate.h"
#include "trainwright/calibrate/memory_fit.h"

namespace trainwright {
namespace {

constexpr double kGiB = 1073741824;

// A reading of `fixed` + workspace + slack x coming, in GiB; four folds in turn.
ScoredRow reserved_row(std::size_t number, double fixed, double coming, double measured) {
  ScoredRow row;
  row.source = "made";
  row.label = std::to_string(number);
  row.fold = "fold " + std::to_string(number % 4);
  row.run = number;
  row.kind = MemoryKind::Reserved;
  MemoryTerms terms{fixed * kGiB, {}};
  of(terms.times, MemoryConstant::Workspace) = 1;
  of(terms.times, MemoryConstant::Slack) = coming * kGiB;
  row.ranks = {terms};
  row.measured = measured * kGiB;
  return row;
}

ScoredRow verdict_row(std::size_t number, double driver, bool out_of_memory) {
  ScoredRow row = reserved_row(number, driver, 0, 80);
  row.verdict = true;
  row.out_of_memory = out_of_memory;
  return row;
}

TEST_CASE("predicted is the fullest rank: fixed plus constants times what they multiply") {
  ScoredRow row = reserved_row(0, 10, 4, 1);
  row.ranks.push_back({11 * kGiB, {}});
  MemoryFit constants{};
  of(constants, MemoryConstant::Workspace) = 0.5 * kGiB;
  of(constants, MemoryConstant::Slack) = 0.1;
  // 10 + 0.5 + 0.1 x 4 = 10.9 against 11; with a slack of 0.2, 11.3.
  CHECK(predicted(row, constants) == doctest::Approx(11 * kGiB));
  of(constants, MemoryConstant::Slack) = 0.2;
  CHECK(predicted(row, constants) == doctest::Approx(11.3 * kGiB));
}

TEST_CASE("rows made with a workspace of 2 GiB and a slack of 0.1 give both back, fold by fold") {
  ScoredRows scored;
  for (std::size_t i = 0; i < 24; ++i) {
    const double fixed = 10 + static_cast<double>(i), coming = 30 - static_cast<double>(i % 7) * 4;
    scored.rows.push_back(reserved_row(i, fixed, coming, fixed + 2 + 0.1 * coming));
  }
  const auto scores = validate_memory(scored);
  REQUIRE(scores.size() == 1);
  CHECK(scores[0].folds == 4);
  CHECK(scores[0].held_out.constants == 2);
  CHECK(scores[0].held_out.errors->mape < 1e-5);
  CHECK(of(scores[0].held_out.values, MemoryConstant::Workspace) ==
        doctest::Approx(2 * kGiB).epsilon(1e-4));
  CHECK(of(scores[0].held_out.values, MemoryConstant::Slack) == doctest::Approx(0.1).epsilon(1e-3));
  CHECK(!scores[0].held_out_without_learned.has_value());
}

TEST_CASE("what was learned is taken where the other folds are predicted better with it") {
  // Read with what was learned the rows are right in folds 0 to 2 and a half too high in fold 3.
  ScoredRows scored;
  for (std::size_t i = 0; i < 24; ++i) {
    ScoredRow row = reserved_row(i, 20, 0, 20.0625);
    row.unlearned = {{30 * kGiB, row.ranks.front().times}};
    if (i % 4 == 3) std::swap(row.ranks, row.unlearned);
    scored.rows.push_back(row);
  }
  const auto scores = validate_memory(scored);
  REQUIRE(scores.size() == 1);
  CHECK(scores[0].folds_with_learned == 4);
  CHECK(scores[0].held_out.errors->worst == doctest::Approx(0.5).epsilon(0.05));
  // Now most folds are better off without.
  for (ScoredRow& row : scored.rows) std::swap(row.ranks, row.unlearned);
  const auto turned = validate_memory(scored);
  CHECK(turned[0].folds_with_learned == 0);
  CHECK(turned[0].held_out.errors->mape == doctest::Approx(scores[0].held_out.errors->mape));
  CHECK(turned[0].as_shipped.errors->mape > turned[0].as_shipped_without_learned->errors->mape);
}

TEST_CASE("what ships is the median of what sources say, the one that is judged left out") {
  const MemoryConstant slack = MemoryConstant::Slack;
  const detail::OwnValues own = {
      {"a", {{slack, 0.1}}}, {"b", {{slack, 0.5}}}, {"c", {{slack, 0.2}}}};
  CHECK(of(detail::agreed(own, {}), slack) == doctest::Approx(0.2));
  CHECK(of(detail::agreed(own, "b"), slack) == doctest::Approx(0.15));
  // What no source tells is as before any fit: 600 MiB.
  CHECK(of(detail::agreed(own, {}), MemoryConstant::Context) == doctest::Approx(600.0 * 1048576));
}

TEST_CASE("failures that are likely crashes are scored apart") {
  ScoredRows scored;
  for (std::size_t i = 0; i < 80; ++i) {
    const bool large = i % 2 == 0;
    scored.rows.push_back(verdict_row(i, large ? 120 : 40, large));
  }
  for (std::size_t i = 80; i < 90; ++i) {
    scored.rows.push_back(verdict_row(i, 20, true));
    scored.rows.back().crash_likely = true;
  }
  const auto scores = validate_memory(scored);
  REQUIRE(scores.size() == 1);
  CHECK(scores[0].held_out.verdicts->rows == 80);
  CHECK(scores[0].held_out.verdicts->right == 80);
  CHECK(scores[0].held_out.with_crashes->rows == 90);
  CHECK(scores[0].held_out.with_crashes->false_fits == 10);
}

}  // namespace
}  // namespace trainwright
