#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>

#include "trainwright/memory/terms.h"

// The clock of schedules counts memory action by action; moments and terms must find its peaks.

namespace trainwright {
namespace {

using detail::ChunkTerms;
using detail::Moments;

struct Priced {
  Schedule schedule;
  Costs costs;
};

Priced any_priced() {
  const auto all = kinds();
  const KindFacts& facts = all[*rc::gen::inRange<std::size_t>(0, all.size())];
  const int ranks = *rc::gen::inRange(1, 6);
  const int chunks = std::clamp(*rc::gen::inRange(1, 4), facts.chunks_least, facts.chunks_most);
  const auto schedule = make(facts.kind, {ranks, *rc::gen::inRange(1, 20), chunks});
  RC_PRE(schedule.has_value());
  Costs costs = even_costs(schedule->placement.stages(), Seconds(1), Seconds(1), Seconds(1));
  for (BoundaryCosts& boundary : costs.boundaries) {
    boundary.size = Bytes(*rc::gen::inRange(0, 50));
  }
  for (StageCosts& stage : costs.stages) {
    stage.kept = Bytes(*rc::gen::inRange(100, 1000));
    stage.released_by_input = Bytes(*rc::gen::inRange(-20, 50));
  }
  return {*schedule, costs};
}

// A stage as terms: an F takes what is kept, a backward has it until it ends.
ChunkTerms terms_of(const Priced& priced, std::size_t stage, bool pytorch) {
  const auto& rank_of = priced.schedule.placement.rank_of;
  const StageCosts& of = priced.costs.stages[stage];
  const bool last = stage + 1 == rank_of.size();
  RealBytes in, out;
  if (stage > 0 && pytorch) in = real(priced.costs.boundaries[stage - 1].size);
  if (!last && pytorch) out = real(priced.costs.boundaries[stage].size);
  const bool crosses_in = stage > 0 && rank_of[stage - 1] != rank_of[stage];
  const bool crosses_out = !last && rank_of[stage + 1] != rank_of[stage];
  ChunkTerms terms;
  terms.whole = real(of.kept) - out;
  terms.half = real(of.kept - of.released_by_input) - out;
  terms.sent_forward = crosses_out ? out : RealBytes();
  terms.sent_input = crosses_in ? in : RealBytes();
  const auto spot = [&](ActionKind kind, RealBytes total) {
    terms.spots[static_cast<std::size_t>(kind)].total = total;
  };
  spot(ActionKind::Forward, terms.whole + terms.sent_forward);
  spot(ActionKind::Backward, std::max(terms.whole, terms.sent_input));
  spot(ActionKind::BackwardInput, std::max(terms.whole, terms.half + terms.sent_input));
  spot(ActionKind::BackwardWeight, terms.half);
  terms.first_backward.total = std::max(terms.whole, terms.sent_input);
  return terms;
}

void compare(const Priced& priced, bool pytorch) {
  const EngineRules engine = pytorch ? EngineRules::PyTorch : EngineRules::None;
  const Timeline timeline = simulate(priced.schedule, priced.costs, {.engine = engine});
  const std::vector<Moments> moments = detail::moments_of(priced.schedule, pytorch);
  const auto& rank_of = priced.schedule.placement.rank_of;
  for (std::size_t rank = 0; rank < moments.size(); ++rank) {
    std::vector<ChunkTerms> chunks;
    RealBytes standing;
    for (std::size_t stage = 0; stage < rank_of.size(); ++stage) {
      if (rank_of[stage].at() != rank) continue;
      chunks.push_back(terms_of(priced, stage, pytorch));
      if (!pytorch) continue;
      const double m = priced.schedule.microbatches;
      if (stage > 0) standing += m * real(priced.costs.boundaries[stage - 1].size);
      if (stage + 1 < rank_of.size()) standing += m * real(priced.costs.boundaries[stage].size);
    }
    detail::TermsOfChunks of_chunks;
    for (const ChunkTerms& of : chunks) of_chunks.push_back(&of);
    const RealBytes most = detail::highest(of_chunks, moments[rank], 0).bytes + standing;
    RC_ASSERT(most == real(timeline.ranks[rank].peak));
  }
}

TEST_CASE("the highest moment is the peak of the schedule's clock") {
  CHECK(rc::check([] {
    const Priced priced = any_priced();
    // Members of a group take their memory together on the clock, one after the other here.
    for (const auto& list : priced.schedule.ranks) {
      for (const Action& action : list) RC_PRE(!action.overlaps_next);
    }
    compare(priced, false);
  }));
}

TEST_CASE("and with PyTorch's rules, where buffers and sent tensors stay") {
  CHECK(rc::check([] { compare(any_priced(), true); }));
}

// Whole numbers, as lists give them.
ChunkTerms any_terms() {
  const auto bytes = [] { return RealBytes(*rc::gen::inRange(0, 1000)); };
  ChunkTerms terms;
  terms.whole = bytes();
  terms.half = bytes();
  terms.sent_forward = bytes();
  terms.sent_input = bytes();
  terms.gradients = bytes();
  terms.kept_gradients = bytes();
  terms.last_gradient = bytes();
  terms.gathered = bytes();
  for (detail::Spot& spot : terms.spots) spot.total = bytes();
  terms.first_backward.total = bytes();
  return terms;
}

TEST_CASE("moments summed up by content have the same highest one") {
  CHECK(rc::check([] {
    const Schedule schedule = any_priced().schedule;
    const auto more = static_cast<double>(*rc::gen::inRange(0, 100));
    for (const Moments& moments : detail::moments_of(schedule, *rc::gen::arbitrary<bool>())) {
      // The first chunk has the first content, as in an inventory.
      std::vector<std::int32_t> content_of = {0};
      for (std::int32_t c = 1; c < moments.chunks; ++c) {
        const std::int32_t known = *std::max_element(content_of.begin(), content_of.end());
        content_of.push_back(*rc::gen::inRange(0, known + 2));
      }
      std::vector<ChunkTerms> terms;
      for (std::int32_t c = 0; c < moments.chunks; ++c) terms.push_back(any_terms());
      const std::int32_t last = *std::max_element(content_of.begin(), content_of.end());
      detail::TermsOfChunks chunks, contents;
      for (std::int32_t c = 0; c <= last; ++c) {
        contents.push_back(&terms[static_cast<std::size_t>(c)]);
        RC_ASSERT(detail::all_whole(*contents.back()));
      }
      for (const std::int32_t of : content_of) {
        chunks.push_back(&terms[static_cast<std::size_t>(of)]);
      }
      RC_ASSERT(detail::highest_by_content(contents, detail::summed(moments, content_of), more) ==
                detail::highest(chunks, moments, more).bytes);
    }
  }));
}

TEST_CASE("half a byte is not whole, nor is what a double cannot tell from its neighbour") {
  ChunkTerms terms;
  CHECK(detail::all_whole(terms));
  terms.spots[2].total = RealBytes(0.5);
  CHECK(!detail::all_whole(terms));
  terms.spots[2].total = detail::kExact;
  CHECK(!detail::all_whole(terms));
}

}  // namespace
}  // namespace trainwright
