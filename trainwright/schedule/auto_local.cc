#include "trainwright/schedule/auto_local.h"

#include <algorithm>
#include <utility>

namespace trainwright::detail {
namespace {

constexpr double kPatience[] = {0, 0.5, 1, 2, 4};

double mean_duration(const PipelineProblem& problem) {
  double sum = 0;
  for (const double duration : problem.duration) sum += duration;
  return sum / problem.kinds;
}

// Starts as keys, disturbed.
void disturb(const PipelineProblem& problem, const Candidate& from, Random& random,
             std::vector<double>& key) {
  const std::size_t m = at(problem.micro_batches);
  const double unit = mean_duration(problem);
  key.resize(from.end.size());
  for (std::size_t k = 0; k < at(problem.kinds); ++k)
    for (std::size_t j = 0; j < m; ++j) key[k * m + j] = from.end[k * m + j] - problem.duration[k];
  if (random.integer(0, 1) == 0) {
    static constexpr double kWidth[] = {0.2, 0.6, 1.5, 4};
    const double width = kWidth[random.integer(0, 3)] * unit;
    for (double& value : key) value += width * (random.real() - 0.5);
    return;
  }
  // One of F, I, W, of the stages and micro-batches in a range.
  const int stages = problem.stages();
  const int work = static_cast<int>(random.integer(0, 2)) * stages;
  int low = static_cast<int>(random.integer(0, stages - 1));
  int high = static_cast<int>(random.integer(0, stages - 1));
  if (low > high) std::swap(low, high);
  std::size_t first = 0, last = m;
  if (random.integer(0, 2) > 0) {
    first = at(random.integer(0, problem.micro_batches - 1));
    last = std::min(m, first + 1 + at(random.integer(0, problem.micro_batches - 1)));
  }
  const double shift = 4 * unit * (random.real() - 0.5);
  for (int s = low; s <= high; ++s)
    for (std::size_t j = first; j < last; ++j) key[at(work + s) * m + j] += shift;
}

}  // namespace

Candidate shake(Justifier& justifier, const Candidate& from, int moves, Random& random,
                Purse& purse) {
  constexpr std::size_t kMemory = 8;
  std::vector<double> history(kMemory, from.makespan);
  Candidate best = from, now = from;
  std::vector<double> key;
  for (int i = 0; i < moves && !purse.empty(); ++i) {
    disturb(justifier.problem, now, random, key);
    const double patience = kPatience[random.integer(0, 4)];
    Candidate next = justifier.follow(now, key, patience, purse);
    next = justifier.round(next, kPatience[random.integer(0, 4)], purse);
    double& old = history[at(i) % kMemory];
    if (next.makespan <= now.makespan || next.makespan <= old) now = std::move(next);
    old = now.makespan;
    if (now.makespan < best.makespan) best = now;
    if (best.makespan <= purse.good_enough) break;
  }
  return best;
}

namespace {

// The places of a schedule, and the stretches of its critical path.
struct Critical {
  std::vector<std::int64_t> place_of;  // by node
  std::vector<std::int64_t> tight;     // places whose node starts when the one before it ends

  void read(const PipelineProblem& problem, const Candidate& candidate, Random& random);
};

void Critical::read(const PipelineProblem& problem, const Candidate& candidate, Random& random) {
  const std::size_t m = at(problem.micro_batches);
  place_of.resize(candidate.end.size());
  tight.clear();
  std::vector<std::size_t> next(at(problem.kinds), 0), node_at(candidate.order.size());
  for (std::size_t x = 0; x < candidate.order.size(); ++x) {
    const std::size_t kind = candidate.order[x];
    node_at[x] = kind * m + next[kind]++;
    place_of[node_at[x]] = static_cast<std::int64_t>(x);
  }
  std::size_t node = 0;
  for (std::size_t n = 0; n < candidate.end.size(); ++n)
    if (candidate.end[n] > candidate.end[node]) node = n;
  while (true) {
    const std::size_t kind = node / m, batch = node % m;
    const double start = candidate.end[node] - problem.duration[kind];
    const std::int64_t place = place_of[node];
    const double slack = 1e-9 * (1 + candidate.makespan);
    if (start <= slack) return;
    std::size_t previous = node;
    const bool first = place == problem.order_begin[at(problem.rank_of[kind])];
    const bool on_rank = !first && candidate.end[node_at[at(place - 1)]] >= start - slack;
    for (const PipelineEdge edge : problem.before[kind]) {
      if (edge.kind < 0) continue;
      const std::size_t other = at(edge.kind) * m + batch;
      if (candidate.end[other] + edge.delay >= start - slack) previous = other;
    }
    if (on_rank && (previous == node || random.integer(0, 1) == 0)) {
      tight.push_back(place);
      previous = node_at[at(place - 1)];
    }
    if (previous == node) return;
    node = previous;
  }
}

bool rank_fits(const PipelineProblem& problem, const PipelineOrder& order, int rank) {
  std::int64_t live = 0;
  for (std::int64_t x = problem.order_begin[at(rank)]; x < problem.order_begin[at(rank) + 1]; ++x) {
    const std::size_t kind = order[at(x)];
    live += problem.taken[kind];
    if (live > problem.cap[at(rank)]) return false;
    live -= problem.given[kind];
    if (live > problem.cap[at(rank)]) return false;
  }
  return true;
}

// Moves the node at a tight place forward past some others, or the one before it back.
int move_one(const PipelineProblem& problem, PipelineOrder& order, std::int64_t place,
             Random& random) {
  const int rank = problem.rank_of[order[at(place)]];
  const std::int64_t begin = problem.order_begin[at(rank)];
  const std::int64_t stop = problem.order_begin[at(rank) + 1];
  const std::int64_t far = random.integer(0, 2) > 0 ? 1 : random.integer(1, 5);
  const auto item = [&](std::int64_t x) { return order.begin() + x; };
  if (random.integer(0, 1) == 0) {
    const std::int64_t to = std::max(begin, place - far);
    std::rotate(item(to), item(place), item(place + 1));
  } else {
    const std::int64_t to = std::min(stop - 1, place - 1 + far);
    std::rotate(item(place - 1), item(place), item(to + 1));
  }
  return rank;
}

// Mostly a place on the critical path. Others shorten nothing by themselves, but a W moved forward
// elsewhere may free the memory that a later move needs.
std::int64_t pick_place(const PipelineProblem& problem, const Critical& critical, Random& random) {
  if (random.integer(0, 3) > 0) {
    const auto last = static_cast<std::int64_t>(critical.tight.size()) - 1;
    return critical.tight[at(random.integer(0, last))];
  }
  const std::int64_t rank = random.integer(0, problem.ranks - 1);
  return random.integer(problem.order_begin[at(rank)] + 1, problem.order_begin[at(rank) + 1] - 1);
}

}  // namespace

Candidate anneal(Justifier& justifier, const Candidate& from, int moves, Random& random,
                 Purse& purse) {
  constexpr std::size_t kMemory = 60;
  constexpr double kUphill = 1.03;  // what the first moves may cost
  const PipelineProblem& problem = justifier.problem;
  std::vector<double> history(kMemory, kUphill * from.makespan);
  Candidate best = from, now = from;
  Critical critical;
  critical.read(problem, now, random);
  PipelineOrder order;
  for (int i = 0; i < moves && !purse.empty() && !critical.tight.empty(); ++i) {
    order = now.order;
    const int rank = move_one(problem, order, pick_place(problem, critical, random), random);
    if (!rank_fits(problem, order, rank)) continue;
    justifier.clock.run(problem, order);
    purse.pay(problem);
    const double makespan = justifier.clock.makespan;
    double& old = history[at(i) % kMemory];
    if (makespan < kNever && (makespan <= now.makespan || makespan <= old)) {
      std::swap(now.order, order);
      now.end = justifier.clock.end;
      now.makespan = makespan;
      critical.read(problem, now, random);
      if (makespan < best.makespan) best = now;
      if (best.makespan <= purse.good_enough) break;
    }
    old = now.makespan;
  }
  return best;
}

}  // namespace trainwright::detail
