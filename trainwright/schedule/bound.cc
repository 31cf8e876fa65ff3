#include <algorithm>
#include <limits>
#include <vector>

#include "trainwright/base/check.h"
#include "trainwright/schedule/auto.h"
#include "trainwright/schedule/clock.h"

namespace trainwright {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

// The least a stage can cost, split or fused, and how a lone micro-batch passes through it.
struct Passage {
  double forward = 0, input = 0, weight = 0;  // input: until its gradient leaves
  double kept = 0, kept_after_input = 0;
  double enters = 0;  // F starts at the earliest
  double turns = 0;   // I ends at the earliest
  double leaves = 0;  // from the end of F to the end of the step at the least
  double drains = 0;  // the same from the end of I
};

std::vector<Passage> passages(const detail::Pricing& pricing) {
  std::vector<Passage> found(pricing.stages.size());
  double time = 0;
  for (std::size_t s = 0; s < found.size(); ++s) {
    const detail::StagePrice& price = pricing.stages[s];
    Passage& passage = found[s];
    passage.forward = price.time[0];
    passage.input = std::min(price.time[1], price.time[3]);
    passage.weight = std::min(price.time[1] + price.time[2], price.time[3]) - passage.input;
    passage.kept = static_cast<double>(price.memory[0]);
    // Where I takes more than it frees, a whole backward holds less.
    passage.kept_after_input =
        static_cast<double>(price.memory[0] - std::max<std::int64_t>(price.memory[1], 0));
    passage.enters = time;
    time += passage.forward + (price.link[0] >= 0 ? price.send[0] : 0);
  }
  for (std::size_t s = found.size(); s-- > 0;) {
    found[s].turns = time + found[s].input;
    time = found[s].turns + (pricing.stages[s].link[1] >= 0 ? pricing.stages[s].send[1] : 0);
  }
  const double whole = found[0].turns + found[0].weight;
  for (Passage& passage : found) {
    passage.leaves = whole - passage.enters - passage.forward;
    passage.drains = std::max(whole - passage.turns, passage.weight);
  }
  return found;
}

// Everything about one rank.
struct RankLoad {
  std::vector<const Passage*> stages;
  double batches = 0;
  double cap = kUnbounded;

  template <class Value>
  double sum(const Value& value) const {
    double total = 0;
    for (const Passage* stage : stages) total += value(*stage);
    return total;
  }
  template <class Value>
  double least(const Value& value) const {
    double found = kUnbounded;
    for (const Passage* stage : stages) found = std::min(found, value(*stage));
    return found;
  }
};

// The most work whose memory fits the cap at one moment: all of it, or the best rate times the cap.
template <class Rate>
double held_work(const RankLoad& load, double all, const Rate& rate) {
  double best = 0;
  for (const Passage* stage : load.stages) best = std::max(best, rate(*stage));
  return best == kUnbounded || load.cap == kUnbounded ? all : std::min(all, best * load.cap);
}

double per(double work, double bytes) {
  if (work <= 0) return 0;
  return bytes > 0 ? work / bytes : kUnbounded;
}

double bound_of(const RankLoad& load, double overlap) {
  const double forward = load.batches * load.sum([](const Passage& s) { return s.forward; });
  const double backward =
      load.batches * load.sum([](const Passage& s) { return s.input + s.weight; });
  const double kept = load.batches * load.sum([](const Passage& s) { return s.kept; });
  const double enters = load.least([](const Passage& s) { return s.enters; });
  const double leaves = load.least([](const Passage& s) { return s.leaves; });
  const double first_input = load.least([](const Passage& s) { return s.turns - s.input; });
  const double early =
      held_work(load, forward, [](const Passage& s) { return per(s.forward, s.kept); });
  const double late = held_work(load, backward, [](const Passage& s) {
    return std::max(per(s.input + s.weight, s.kept), per(s.weight, s.kept_after_input));
  });
  // Two actions at once do the work of both in the time of the longer at best.
  const double work = (forward + backward) * (1 - overlap / 2);
  const double start = std::max(enters, first_input - early);
  double bound = std::max(start + work, enters + work - late + leaves);
  // Before the last I comes every F and every other I, after it the way back of its micro-batch.
  const double inputs = load.batches * load.sum([](const Passage& s) { return s.input; });
  const double drains = load.least([](const Passage& s) { return s.drains; });
  bound = std::max(bound, start + (forward + inputs) * (1 - overlap / 2) + drains);
  // When not everything fits at once, the last F comes after the first W, so the idle time at the
  // start and that at the end are different time.
  if (kept > load.cap) bound = std::max(bound, start + work - late + leaves);
  const double held = load.batches * load.sum([](const Passage& s) {
    return s.kept * (s.turns - s.enters) + s.kept_after_input * s.weight;
  });
  if (load.cap < kUnbounded && load.cap > 0) bound = std::max(bound, enters + held / load.cap);
  return bound;
}

}  // namespace

Seconds lower_bound(const Placement& placement, int microbatches, const Costs& costs,
                    const std::vector<Bytes>& cap, const ClockOptions& clock) {
  const auto ranks = static_cast<std::size_t>(placement.ranks);
  TW_CHECK(cap.size() <= 1 || cap.size() == ranks, "one cap, or one for each rank");
  const detail::Pricing pricing = detail::price(placement, microbatches, costs, clock);
  const std::vector<Passage> found = passages(pricing);
  std::vector<RankLoad> loads(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    loads[r].batches = microbatches;
    if (cap.empty()) continue;
    const std::int64_t own = cap.size() == 1 ? cap[0].value() : cap[r].value();
    loads[r].cap =
        std::max(0.0, static_cast<double>(own) - static_cast<double>(pricing.standing[r]));
  }
  for (std::size_t s = 0; s < found.size(); ++s)
    loads[static_cast<std::size_t>(pricing.stages[s].rank)].stages.push_back(&found[s]);
  const double overlap = clock.engine == EngineRules::PyTorch ? 0 : costs.overlap;
  double bound = found[0].turns + found[0].weight;
  for (const RankLoad& load : loads)
    if (!load.stages.empty()) bound = std::max(bound, bound_of(load, overlap));
  return Seconds(bound);
}

}  // namespace trainwright
