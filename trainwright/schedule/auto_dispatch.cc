#include "trainwright/schedule/auto_dispatch.h"

#include <algorithm>

namespace trainwright::detail {
namespace {
constexpr std::int64_t kDrawn = std::numeric_limits<std::int64_t>::min() / 2;
}  // namespace

void Dispatch::prepare(const PipelineProblem& problem, const std::vector<double>& key,
                       const PipelineOrder* follow) {
  order.resize(at(problem.nodes()));
  end.resize(at(problem.nodes()));
  front_.assign(at(problem.kinds), {});
  free_.assign(at(problem.ranks), 0.0);
  live_.assign(at(problem.ranks), 0);
  placed_.assign(problem.order_begin.begin(), problem.order_begin.end() - 1);
  leaves_ = 1;
  while (leaves_ < problem.ranks) leaves_ *= 2;
  event_.assign(at(std::int64_t{2} * leaves_), kNever);
  if (follow) read_levels(problem, *follow);
  for (int kind = 0; kind < problem.kinds; ++kind) {
    front_[at(kind)].key = key[at(kind) * at(problem.micro_batches)];
    // An I that keeps more than it frees takes memory at its end.
    front_[at(kind)].takes_memory =
        problem.taken[at(kind)] > 0 || (follow && problem.given[at(kind)] < 0);
    if (problem.before[at(kind)][0].kind >= 0) continue;
    front_[at(kind)].ready = 0;
    wake(problem.rank_of[at(kind)], 0);
  }
}

void Dispatch::read_levels(const PipelineProblem& problem, const PipelineOrder& follow) {
  level.resize(at(problem.nodes()));
  position_.resize(at(problem.nodes()));
  head_ = placed_;
  for (int r = 0; r < problem.ranks; ++r) {
    std::int64_t live = 0;
    for (std::int64_t x = problem.order_begin[at(r)]; x < problem.order_begin[at(r) + 1]; ++x) {
      const int kind = follow[at(x)];
      position_[at(kind) * at(problem.micro_batches) + at(front_[at(kind)].batch++)] = x;
      live += problem.taken[at(kind)];
      level[at(x)] = live;
      live -= problem.given[at(kind)];
      level[at(x)] = std::max(level[at(x)], live);
    }
  }
  for (Front& front : front_) front.batch = 0;
}

void Dispatch::wake(int rank, double when) {
  std::size_t x = at(leaves_ + rank);
  if (event_[x] <= when) return;
  event_[x] = when;
  for (x /= 2; x > 0 && event_[x] > when; x /= 2) event_[x] = when;
}

double Dispatch::ready_time(const PipelineProblem& problem, int kind) const {
  const int batch = front_[at(kind)].batch;
  if (batch == problem.micro_batches) return kNever;
  double ready = 0;
  for (const PipelineEdge edge : problem.before[at(kind)]) {
    if (edge.kind < 0) break;
    if (front_[at(edge.kind)].batch <= batch) return kNever;
    ready =
        std::max(ready, end[at(edge.kind) * at(problem.micro_batches) + at(batch)] + edge.delay);
  }
  return ready;
}

bool Dispatch::follow_admits(const PipelineProblem& problem, int kind) const {
  const int r = problem.rank_of[at(kind)];
  const std::int64_t cap = problem.cap[at(r)];
  const std::int64_t place =
      position_[at(kind) * at(problem.micro_batches) + at(front_[at(kind)].batch)];
  const std::int64_t net = problem.taken[at(kind)] - problem.given[at(kind)];
  if (place == head_[at(r)]) return true;
  if (live_[at(r)] + std::max(problem.taken[at(kind)], net) > cap) return false;
  if (net <= 0) return true;
  for (std::int64_t x = head_[at(r)]; x < place; ++x)
    if (level[at(x)] + net > cap) return false;
  return true;
}

// For F of micro-batch j: every older i on this rank must still be able to get its remaining chunks
// when all that is older than i has finished. Among micro-batches that lack the same chunks the
// oldest is the worst, so only the next micro-batch of each F is looked at.
bool Dispatch::banker_admits(const PipelineProblem& problem, int kind) const {
  const int r = problem.rank_of[at(kind)];
  const std::int64_t asked = problem.taken[at(kind)];
  const std::int64_t total = live_[at(r)] + asked;
  if (total > problem.cap[at(r)]) return false;
  const auto& kinds = problem.rank_kinds[at(r)];
  const std::size_t chunks = kinds.size() / 3;
  const int batch = front_[at(kind)].batch;
  for (std::size_t c = 0; c < chunks; ++c) {
    const int oldest = front_[at(kinds[c])].batch;
    if (oldest >= batch) continue;
    std::int64_t claim = 0, older = 0;  // older: what those before `oldest` will give back
    for (std::size_t q = 0; q < chunks; ++q) {
      const int f = kinds[q], i = kinds[chunks + q], w = kinds[2 * chunks + q];
      if (front_[at(f)].batch <= oldest) claim += problem.taken[at(f)];
      older -= oldest * (problem.taken[at(f)] - problem.given[at(i)] - problem.given[at(w)]);
      older += std::min(oldest, front_[at(f)].batch) * problem.taken[at(f)] -
               std::min(oldest, front_[at(i)].batch) * problem.given[at(i)] -
               std::min(oldest, front_[at(w)].batch) * problem.given[at(w)];
    }
    if (total - older + claim > problem.cap[at(r)]) return false;
  }
  return true;
}

Dispatch::Choice Dispatch::choose(const PipelineProblem& problem, double patience, int rank,
                                  double now, bool follows) const {
  // The best ready now (a) and the best that is on its way (b).
  int a = -1, b = -1;
  double key_a = kNever, key_b = kNever, soonest = kNever;
  for (const int kind : problem.rank_kinds[at(rank)]) {
    const Front& front = front_[at(kind)];
    const double ready = front.ready, own = front.key;
    if (ready == kNever) continue;
    const bool now_ready = ready <= now;
    if (own >= (now_ready ? key_a : key_b) && ready >= soonest) continue;
    if (front.takes_memory &&
        !(follows ? follow_admits(problem, kind) : banker_admits(problem, kind)))
      continue;
    soonest = std::min(soonest, ready);
    if (now_ready ? own < key_a : own < key_b) {
      (now_ready ? a : b) = kind;
      (now_ready ? key_a : key_b) = own;
    }
  }
  if (a < 0) return {-1, soonest};
  if (b >= 0 && key_b < key_a) {
    const double idle = front_[at(b)].ready - now;
    const double delay = problem.duration[at(a)] - idle;
    if (idle < patience * delay) return {-1, front_[at(b)].ready};
  }
  return {a, now};
}

void Dispatch::draw_forward(const PipelineProblem& problem, int kind) {
  const int r = problem.rank_of[at(kind)];
  const std::int64_t place =
      position_[at(kind) * at(problem.micro_batches) + at(front_[at(kind)].batch)];
  std::int64_t& head = head_[at(r)];
  level[at(place)] = kDrawn;
  const std::int64_t net = problem.taken[at(kind)] - problem.given[at(kind)];
  if (net != 0)
    for (std::int64_t x = head; x < place; ++x) level[at(x)] += net;
  const std::int64_t stop = problem.order_begin[at(r) + 1];
  while (head < stop && level[at(head)] < kDrawn / 2) ++head;
}

void Dispatch::start(const PipelineProblem& problem, const std::vector<double>& key, int kind,
                     double now, bool follows) {
  const int r = problem.rank_of[at(kind)];
  const int batch = front_[at(kind)].batch;
  if (follows) draw_forward(problem, kind);
  const double stop = now + problem.duration[at(kind)];
  end[at(kind) * at(problem.micro_batches) + at(batch)] = stop;
  order[at(placed_[at(r)]++)] = static_cast<std::uint16_t>(kind);
  live_[at(r)] += problem.taken[at(kind)] - problem.given[at(kind)];
  free_[at(r)] = stop;
  front_[at(kind)].batch = batch + 1;
  if (batch + 1 < problem.micro_batches)
    front_[at(kind)].key = key[at(kind) * at(problem.micro_batches) + at(batch) + 1];
  front_[at(kind)].ready = ready_time(problem, kind);
  for (const PipelineEdge edge : problem.after[at(kind)]) {
    if (edge.kind < 0) break;
    if (front_[at(edge.kind)].batch != batch) continue;
    const double ready = ready_time(problem, edge.kind);
    front_[at(edge.kind)].ready = ready;
    const int other = problem.rank_of[at(edge.kind)];
    if (ready < kNever && other != r) wake(other, std::max(ready, free_[at(other)]));
  }
  makespan = std::max(makespan, stop);
}

bool Dispatch::run(const PipelineProblem& problem, const std::vector<double>& key, double patience,
                   const PipelineOrder* follow) {
  prepare(problem, key, follow);
  makespan = 0;
  std::int64_t left = problem.nodes();
  while (left > 0 && event_[1] < kNever) {
    const double now = event_[1];
    std::size_t x = 1;
    while (x < at(leaves_)) x = event_[2 * x] == now ? 2 * x : 2 * x + 1;
    const int rank = static_cast<int>(x) - leaves_;
    const Choice choice = choose(problem, patience, rank, now, follow != nullptr);
    event_[x] = kNever;
    double when = choice.start;
    if (choice.kind >= 0) {
      start(problem, key, choice.kind, now, follow != nullptr);
      --left;
      when = free_[at(rank)];
    }
    event_[x] = std::min(event_[x], when);
    for (x /= 2; x > 0; x /= 2) event_[x] = std::min(event_[2 * x], event_[2 * x + 1]);
  }
  if (left > 0) makespan = kNever;
  return left == 0;
}

}  // namespace trainwright::detail
