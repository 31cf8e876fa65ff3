#pragma once
// Forward-backward improvement ("double justification", Valls, Ballestin and Quintanilla 2005).
//
// Pushing every node as late as possible from the end, and then as early as possible from the start
// in the order of those late times, closes gaps that neither direction sees alone. Both directions
// are the same Follow dispatch: the backward one runs on the mirrored problem.
#include "trainwright/schedule/auto_candidate.h"
#include "trainwright/schedule/auto_clock.h"
#include "trainwright/schedule/auto_dispatch.h"

namespace trainwright::detail {

struct Justifier {
  explicit Justifier(const PipelineProblem& forward)
      : problem(forward), mirror(mirrored(forward)) {}

  // One dispatch backward and one forward with this patience; the better of the two results. The
  // candidate's order must fit; the result's does.
  Candidate round(const Candidate& from, double patience, Purse& purse);
  // Rounds until one brings nothing.
  Candidate improve(const Candidate& from, double patience, int most_rounds, Purse& purse);
  // A forward dispatch that follows `from` with other keys.
  Candidate follow(const Candidate& from, const std::vector<double>& key, double patience,
                   Purse& purse);
  // The clock of an order; makespan kNever when it waits for itself.
  Candidate timed(PipelineOrder order, Purse& purse);

  const PipelineProblem& problem;
  PipelineProblem mirror;
  Dispatch dispatch;
  OrderClock clock;

 private:
  std::vector<double> key_;
  PipelineOrder turned_;
};

}  // namespace trainwright::detail
