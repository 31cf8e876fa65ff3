#include "trainwright/schedule/auto_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "trainwright/base/random.h"
#include "trainwright/schedule/auto_extend.h"
#include "trainwright/schedule/auto_justify.h"
#include "trainwright/schedule/auto_local.h"
#include "trainwright/schedule/auto_pattern.h"

namespace trainwright::detail {
namespace {

constexpr std::int64_t kAnnealed = 3000;  // nodes; above, a clock for each move is too dear
constexpr double kPatience[] = {4, 0, 1, 0.5, 2};

double busiest_work(const PipelineProblem& problem) {
  std::vector<double> work(at(problem.ranks), 0);
  for (int k = 0; k < problem.kinds; ++k)
    work[at(problem.rank_of[at(k)])] += problem.duration[at(k)];
  return *std::max_element(work.begin(), work.end());
}

// Keys of a dispatch: the times at which a micro-batch would pass if it were alone and stretched,
// one busiest rank's work later for each micro-batch.
struct KeyShape {
  double forward = 1, input = 1;  // stretch
  double weight = 1;              // how many periods W may come after its I
  double period = 1;              // between micro-batches, in work of the busiest rank
  double patience = 0;
  int group = 1;      // micro-batches that follow each other closely,
  double within = 1;  // this share of a period apart; groups are whole periods apart
  double memory = 1;  // share of the cap, above the smallest, that may be used
};

KeyShape key_shape(std::int64_t index) {
  static constexpr double kForward[] = {1, 1.5, 2, 3};
  static constexpr double kInput[] = {1, 1.5, 2};
  static constexpr double kWeight[] = {1, 0, 10, 0.5, 2};
  static constexpr double kWait[] = {0, 0.5, 1, 4};
  constexpr std::int64_t kCount = std::int64_t{4} * 3 * 5 * 4;
  if (index % 2 == 0 && index / 2 < kCount) {
    // 7 and 240 share no factor: every one comes once.
    const std::int64_t x = index / 2 * 7 % kCount;
    return {kForward[x % 4], kInput[x / 4 % 3], kWeight[x / 12 % 5], 1, kWait[x / 60], 1, 1, 1};
  }
  Random random(static_cast<std::uint64_t>(index) + 77);
  return {.forward = 1 + 2.5 * random.real(),
          .input = 1 + 2 * random.real(),
          .weight = 3 * random.real(),
          .period = 0.4 + 2 * random.real(),
          .patience = 4 * random.real(),
          .group = static_cast<int>(random.integer(1, 4)),
          .within = random.real(),
          .memory = random.integer(0, 1) == 0 ? 1 : random.real()};
}

std::vector<double> make_keys(const PipelineProblem& problem, const KeyShape& shape) {
  const int stages = problem.stages();
  const double period = shape.period * busiest_work(problem);
  std::vector<double> offset(at(problem.kinds), 0);
  double time = 0;
  for (int s = 0; s < stages; ++s) {
    offset[at(s)] = time;
    time += shape.forward * (problem.duration[at(s)] + problem.after[at(s)][0].delay);
  }
  for (int s = stages; s-- > 0;) {
    const int input = stages + s;
    offset[at(input)] = time;
    offset[at(input + stages)] = time + shape.weight * period;
    double delay = 0;
    for (const PipelineEdge edge : problem.after[at(input)]) delay = std::max(delay, edge.delay);
    time += shape.input * (problem.duration[at(input)] + delay);
  }
  const std::size_t m = at(problem.micro_batches);
  std::vector<double> key(at(problem.nodes()));
  for (std::size_t k = 0; k < at(problem.kinds); ++k)
    for (std::size_t j = 0; j < m; ++j) {
      const auto within = static_cast<double>(j % at(shape.group));
      const double turn = static_cast<double>(j) - within + shape.within * within;
      key[k * m + j] = offset[k] + period * turn;
    }
  return key;
}

// A dispatch never lets a rank wait when it could work, unless memory forbids it; so less memory
// gives schedules that hold micro-batches back.
std::vector<std::int64_t> tighter_caps(const PipelineProblem& problem, double share) {
  std::vector<std::int64_t> caps = smallest_caps(problem), all(caps.size(), 0);
  for (int s = 0; s < problem.stages(); ++s)
    all[at(problem.rank_of[at(s)])] += problem.taken[at(s)] * problem.micro_batches;
  for (std::size_t r = 0; r < caps.size(); ++r) {
    const std::int64_t usable = std::min(problem.cap[r], all[r]) - caps[r];
    if (usable > 0) caps[r] += std::llround(share * static_cast<double>(usable));
  }
  return caps;
}

// Fewer micro-batches whose schedule still has a steady state to repeat; a multiple of 12 fewer, so
// that stretches of 1, 2, 3, 4, 6 and 12 fit.
int fewer_micro_batches(const PipelineProblem& problem) {
  const int m = problem.micro_batches, enough = 2 * problem.ranks + 2;
  return m > enough + 11 ? m - (m - enough) / 12 * 12 : m;
}

class Search {
 public:
  Search(const PipelineProblem& problem, Purse& purse)
      : whole_(problem),
        part_(with_micro_batches(problem, fewer_micro_batches(problem))),
        whole_justifier_(whole_),
        part_justifier_(part_),
        purse_(purse) {}

  Candidate run(const std::vector<PipelineOrder>& known) {
    one_at_a_time();
    for (const PipelineOrder& order : known) offer_whole(order);
    for (int phase = 0; phase < 40 && !finished(); ++phase) run_phase(phase);
    return best_;
  }

 private:
  bool is_part() const { return part_.micro_batches != whole_.micro_batches; }
  bool finished() const { return purse_.empty() || best_.makespan <= purse_.good_enough; }

  // One micro-batch after the other: fits whenever anything does.
  void one_at_a_time() {
    PipelineOrder order(at(whole_.nodes()));
    for (int r = 0; r < whole_.ranks; ++r) {
      const auto& kinds = whole_.rank_kinds[at(r)];
      const std::size_t chunks = kinds.size() / 3;
      std::int64_t place = whole_.order_begin[at(r)];
      for (int j = 0; j < whole_.micro_batches; ++j) {
        for (std::size_t c = 0; c < chunks; ++c)
          order[at(place++)] = static_cast<std::uint16_t>(kinds[c]);
        for (std::size_t c = chunks; c-- > 0;) {
          order[at(place++)] = static_cast<std::uint16_t>(kinds[chunks + c]);
          order[at(place++)] = static_cast<std::uint16_t>(kinds[2 * chunks + c]);
        }
      }
    }
    best_ = whole_justifier_.timed(std::move(order), purse_);
    if (!is_part()) part_best_ = best_;
  }

  void offer_whole(const PipelineOrder& order) {
    if (!fits(whole_, order)) return;
    Candidate candidate = whole_justifier_.timed(order, purse_);
    if (!is_part()) keep_start(candidate);
    if (candidate.makespan < best_.makespan) best_ = std::move(candidate);
  }

  void run_phase(int phase) {
    const int size = 1 << phase;
    const double before = part_best_.makespan;
    take_blocks(2 * size);
    take_dispatches(2 * size);
    for (int i = 0; i < size && !starts_.empty() && !purse_.empty(); ++i) justify_best_start();
    Random random(static_cast<std::uint64_t>(phase) + 1);
    if (part_best_.makespan < kNever && !finished())
      keep_of_best(shake(part_justifier_, part_best_, 2 * (size - 1), random, purse_));
    if (part_.nodes() <= kAnnealed) anneal_some(2 * size, random);
    if (!is_part()) return;
    if (part_best_.makespan < before && !purse_.empty()) extend();
  }

  // From the best, and in turn from other good schedules: a long walk from elsewhere finds what a
  // longer one from the best does not.
  void anneal_some(int walks, Random& random) {
    const int walk = static_cast<int>(std::clamp<std::int64_t>(60'000 / part_.nodes(), 20, 800));
    for (int i = 0; i < walks && !finished(); ++i) {
      Candidate start = part_best_;
      if (i % 3 == 1 && !elite_.empty()) start = elite_[next_elite_++ % elite_.size()];
      if (i % 3 == 2) start = dispatched(part_justifier_, next_keys_++);
      if (start.makespan == kNever) continue;
      Candidate found = anneal(part_justifier_, start, walk, random, purse_);
      found.recipe = start.recipe;
      keep(std::move(found));
    }
  }

  void take_blocks(int count) {
    const int chunks = part_.stages() / part_.ranks;
    if (chunks * part_.ranks != part_.stages()) return;
    // Most shapes fail the cap, which costs next to nothing to see.
    for (int tries = 0; count > 0 && tries < 64 * count + 64 && !purse_.empty(); ++tries) {
      const std::int64_t index = next_block_++;
      const auto block = make_block(part_, block_shape(chunks, index));
      if (!block_fits(part_, block)) continue;
      PipelineOrder order = repeat_block(part_, block);
      if (!fits(part_, order)) continue;
      Candidate candidate = part_justifier_.timed(std::move(order), purse_);
      candidate.recipe.block = index;
      keep_start(std::move(candidate));
      --count;
    }
  }

  void take_dispatches(int count) {
    for (; count > 0 && !purse_.empty(); --count)
      keep_start(dispatched(part_justifier_, next_keys_++));
  }

  Candidate dispatched(Justifier& justifier, std::int64_t index) {
    const KeyShape shape = key_shape(index);
    PipelineProblem problem = justifier.problem;
    if (shape.memory < 1) problem.cap = tighter_caps(problem, shape.memory);
    Dispatch& dispatch = justifier.dispatch;
    const bool done = dispatch.run(problem, make_keys(problem, shape), shape.patience, nullptr);
    purse_.pay(problem);
    // The banker does not know of an I that keeps more than it frees.
    if (!done || !fits(justifier.problem, dispatch.order)) return {};
    return {dispatch.order, dispatch.end, dispatch.makespan, {-1, index, 0}};
  }

  void keep_start(Candidate candidate) {
    if (candidate.makespan == kNever) return;
    keep(candidate);
    const auto worse = [](const Candidate& a, const Candidate& b) {
      return a.makespan < b.makespan;
    };
    starts_.insert(std::upper_bound(starts_.begin(), starts_.end(), candidate, worse),
                   std::move(candidate));
    // Of a large problem only a few are kept, for the sake of memory.
    const auto most = std::clamp<std::int64_t>((1 << 22) / part_.nodes(), 2, 24);
    if (std::ssize(starts_) > most) starts_.pop_back();
  }

  void justify_best_start() {
    const Candidate start = std::move(starts_.front());
    starts_.erase(starts_.begin());
    for (const double patience : kPatience) {
      if (finished()) return;
      Candidate better = part_justifier_.improve(start, patience, 6, purse_);
      better.recipe = {start.recipe.block, start.recipe.keys, patience};
      keep(std::move(better));
    }
  }

  void keep_of_best(Candidate candidate) {
    candidate.recipe = part_best_.recipe;
    keep(std::move(candidate));
  }

  void keep(Candidate candidate) {
    if (part_.nodes() <= kAnnealed) keep_elite(candidate);
    if (candidate.makespan >= part_best_.makespan) return;
    part_best_ = std::move(candidate);
    if (!is_part()) best_ = part_best_;
  }

  void keep_elite(const Candidate& candidate) {
    const auto same = [&](const Candidate& other) { return other.makespan == candidate.makespan; };
    if (std::any_of(elite_.begin(), elite_.end(), same)) return;
    const auto shorter = [](const Candidate& a, const Candidate& b) {
      return a.makespan < b.makespan;
    };
    elite_.insert(std::upper_bound(elite_.begin(), elite_.end(), candidate, shorter), candidate);
    if (elite_.size() > kElite) elite_.pop_back();
  }

  // Two ways to more micro-batches: repeat a stretch of the best schedule, or make its starting
  // order again for all of them. The first keeps what justification and shaking found, the second
  // helps when there is no steady state to repeat.
  void extend() {
    const int more = whole_.micro_batches - part_.micro_batches;
    const double ideal = part_best_.makespan + more * busiest_work(whole_);
    Candidate found;
    for (PipelineOrder& order : extensions(part_, part_best_, more, purse_)) {
      if (!fits(whole_, order)) continue;
      Candidate candidate = whole_justifier_.timed(std::move(order), purse_);
      if (candidate.makespan < found.makespan) found = std::move(candidate);
    }
    polish(found, ideal);
    if (best_.makespan <= ideal * (1 + 1e-12) || finished()) return;
    polish(remake(part_best_.recipe), ideal);
  }

  void polish(const Candidate& candidate, double ideal) {
    if (candidate.makespan == kNever) return;
    if (candidate.makespan < best_.makespan) best_ = candidate;
    if (candidate.makespan <= ideal * (1 + 1e-12)) return;
    for (const double patience : {part_best_.recipe.patience, 4.0}) {
      if (finished()) return;
      Candidate better = whole_justifier_.improve(candidate, patience, 3, purse_);
      if (better.makespan < best_.makespan) best_ = std::move(better);
    }
  }

  Candidate remake(const Recipe& recipe) {
    if (recipe.block >= 0) {
      const int chunks = whole_.stages() / whole_.ranks;
      PipelineOrder order =
          repeat_block(whole_, make_block(whole_, block_shape(chunks, recipe.block)));
      if (!fits(whole_, order)) return {};
      return whole_justifier_.timed(std::move(order), purse_);
    }
    return recipe.keys >= 0 ? dispatched(whole_justifier_, recipe.keys) : Candidate{};
  }

  static constexpr std::size_t kElite = 8;
  const PipelineProblem& whole_;
  PipelineProblem part_;
  Justifier whole_justifier_, part_justifier_;
  Purse& purse_;
  Candidate best_, part_best_;
  std::vector<Candidate> starts_;  // not yet justified, shortest first
  std::vector<Candidate> elite_;   // of different length, for small problems
  std::size_t next_elite_ = 0;
  std::int64_t next_block_ = 0, next_keys_ = 0;
};

}  // namespace

Candidate search(const PipelineProblem& problem, const std::vector<PipelineOrder>& known,
                 Purse& purse) {
  return Search(problem, purse).run(known);
}

std::int64_t default_budget(const PipelineProblem& problem) {
  // Small ones are walked through node by node, which is cheap and pays; above a million nodes an
  // answer within seconds matters more.
  constexpr std::int64_t kLarge = 1'000'000;
  const std::int64_t nodes = problem.nodes();
  return (nodes <= kAnnealed ? 3'000'000 : 300'000) + 24 * std::min(nodes, kLarge) +
         4 * std::max<std::int64_t>(nodes - kLarge, 0);
}

}  // namespace trainwright::detail
