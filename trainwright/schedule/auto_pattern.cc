#include "trainwright/schedule/auto_pattern.h"

#include <algorithm>

#include "trainwright/base/random.h"

namespace trainwright::detail {
namespace {

int period_of(const PipelineProblem& problem) { return 3 * (problem.stages() / problem.ranks); }

int next_free(std::vector<char>& taken, int period, int slot) {
  while (taken[at(slot % period)]) ++slot;
  taken[at(slot % period)] = 1;
  return slot;
}

// The peak of a rank when the block is repeated for ever. In period w, kind k runs micro-batch
// w - lag, so it has run w - lag before.
std::int64_t steady_peak(const PipelineProblem& problem, const std::vector<int>& block, int rank) {
  const int period = period_of(problem);
  std::vector<int> kinds = problem.rank_kinds[at(rank)];
  std::sort(kinds.begin(), kinds.end(),
            [&](int a, int b) { return block[at(a)] % period < block[at(b)] % period; });
  std::int64_t live = 0, peak = 0;
  for (const int kind : kinds)
    live -= (problem.taken[at(kind)] - problem.given[at(kind)]) * (block[at(kind)] / period);
  for (const int kind : kinds) {
    live += problem.taken[at(kind)];
    peak = std::max(peak, live);
    live -= problem.given[at(kind)];
    peak = std::max(peak, live);
  }
  return peak;
}

// One period later for a W is one more activation alive at every moment, so what the cap still
// admits can be counted.
void delay_weights(const PipelineProblem& problem, int rank, std::vector<int>& block) {
  const int stages = problem.stages(), period = period_of(problem);
  std::int64_t spare = problem.cap[at(rank)] - steady_peak(problem, block, rank), once = 0;
  for (const int kind : problem.rank_kinds[at(rank)])
    if (kind >= 2 * stages) once += std::max<std::int64_t>(problem.given[at(kind)], 1);
  // A W later than all ranks' worth of periods helps nobody.
  const std::int64_t rounds = std::clamp<std::int64_t>(spare / once, 0, problem.ranks);
  spare -= rounds * once;
  for (const int kind : problem.rank_kinds[at(rank)]) {
    if (kind < 2 * stages) continue;
    const bool more = problem.given[at(kind)] <= spare && rounds < problem.ranks;
    if (more) spare -= problem.given[at(kind)];
    block[at(kind)] += period * (static_cast<int>(rounds) + (more ? 1 : 0));
  }
}

void place_weights(const PipelineProblem& problem, int rank, BlockWeights weights,
                   std::vector<char>& taken, std::vector<int>& block) {
  const int stages = problem.stages(), period = period_of(problem);
  std::vector<int> inputs;
  for (const int kind : problem.rank_kinds[at(rank)])
    if (kind >= stages && kind < 2 * stages) inputs.push_back(kind);
  std::sort(inputs.begin(), inputs.end(),
            [&](int a, int b) { return block[at(a)] < block[at(b)]; });
  if (weights == BlockWeights::Turned) std::reverse(inputs.begin(), inputs.end());
  for (const int kind : inputs)
    block[at(kind + stages)] = next_free(taken, period, block[at(kind)] + 1);
  if (weights == BlockWeights::Late) delay_weights(problem, rank, block);
}

}  // namespace

std::vector<int> make_block(const PipelineProblem& problem, const BlockShape& shape) {
  const int stages = problem.stages(), ranks = problem.ranks, chunks = stages / ranks;
  const int period = period_of(problem);
  std::vector<int> block(at(problem.kinds), 0);
  std::vector<std::vector<char>> taken(at(ranks), std::vector<char>(at(period), 0));
  int slot = -1;
  for (int pass = 0; pass < 2 * chunks; ++pass) {
    for (int x = 0; x < ranks; ++x) {
      const bool forward = pass < chunks;
      const int stage = forward ? pass * ranks + x : stages - 1 - ((pass - chunks) * ranks + x);
      const int kind = forward ? stage : stages + stage;
      if (x > 0)
        slot += shape.step[at(pass)];
      else
        slot += pass == 0 ? 1 : 1 + shape.gap[at(pass - 1)];
      slot = next_free(taken[at(problem.rank_of[at(kind)])], period, slot);
      block[at(kind)] = slot;
    }
  }
  for (int r = 0; r < ranks; ++r) place_weights(problem, r, shape.weights, taken[at(r)], block);
  return block;
}

bool block_fits(const PipelineProblem& problem, const std::vector<int>& block) {
  for (int r = 0; r < problem.ranks; ++r)
    if (steady_peak(problem, block, r) > problem.cap[at(r)]) return false;
  return true;
}

PipelineOrder repeat_block(const PipelineProblem& problem, const std::vector<int>& block) {
  const int period = period_of(problem), m = problem.micro_batches;
  PipelineOrder order(at(problem.nodes()));
  for (int r = 0; r < problem.ranks; ++r) {
    std::vector<int> kinds = problem.rank_kinds[at(r)];
    std::sort(kinds.begin(), kinds.end(),
              [&](int a, int b) { return block[at(a)] % period < block[at(b)] % period; });
    int longest = 0;
    for (const int kind : kinds) longest = std::max(longest, block[at(kind)] / period);
    std::int64_t place = problem.order_begin[at(r)];
    for (int window = 0; window < m + longest; ++window) {
      for (const int kind : kinds) {
        const int batch = window - block[at(kind)] / period;
        if (batch >= 0 && batch < m) order[at(place++)] = static_cast<std::uint16_t>(kind);
      }
    }
  }
  return order;
}

BlockShape block_shape(int chunks, std::int64_t index) {
  BlockShape shape;
  shape.step.assign(at(std::int64_t{2} * chunks), 1);
  shape.gap.assign(at(std::int64_t{2} * chunks - 1), 0);
  static constexpr BlockWeights kWeights[] = {BlockWeights::Early, BlockWeights::Late,
                                              BlockWeights::Turned};
  shape.weights = kWeights[index % 3];
  const std::int64_t which = index / 3;
  // Steps of the four passes of a V of two chunks, and the first gap: ZB-V, V-Half, V-Min and
  // neighbours. With another number of chunks the steps are read round and round.
  static constexpr int kKnown[][5] = {{1, 4, 1, 2, 0}, {1, 2, 1, 2, 2}, {1, 1, 1, 1, 0},
                                      {2, 2, 1, 1, 0}, {1, 1, 1, 1, 2}, {1, 2, 1, 2, 0},
                                      {1, 1, 2, 2, 0}, {1, 2, 1, 1, 0}, {1, 1, 1, 2, 0},
                                      {1, 3, 1, 2, 0}, {1, 2, 2, 1, 0}, {1, 4, 2, 1, 0}};
  if (which < std::ssize(kKnown)) {
    for (std::size_t q = 0; q < shape.step.size(); ++q) shape.step[q] = kKnown[which][q % 4];
    shape.gap[0] = kKnown[which][4];
    return shape;
  }
  Random random(static_cast<std::uint64_t>(which) * 0x9e3779b97f4a7c15ULL + 11);
  for (int& step : shape.step) step = static_cast<int>(random.integer(1, 4));
  for (int& gap : shape.gap)
    gap = random.integer(0, 1) == 0 ? 0 : static_cast<int>(random.integer(0, 3 * chunks - 1));
  return shape;
}

}  // namespace trainwright::detail
