#include "trainwright/memory/moments.h"

#include <algorithm>
#include <array>

#include "trainwright/base/check.h"
#include "trainwright/base/random.h"

namespace trainwright::detail {
namespace {

static_assert(kMaxChunks <= 64, "has_gradient has a bit for each");

bool at_least(std::span<const InFlight> a, std::span<const InFlight> b) {
  for (std::size_t c = 0; c < a.size(); ++c) {
    if (a[c].whole < b[c].whole || a[c].half < b[c].half || a[c].forwards < b[c].forwards ||
        a[c].inputs < b[c].inputs) {
      return false;
    }
  }
  return true;
}

// The moments of one kind of action on one chunk that no other exceeds.
class Corners {
 public:
  explicit Corners(std::int32_t chunks) { kept_.chunks = chunks; }

  void add(const MomentAction& action, std::span<const InFlight> counts) {
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      if (covers(kept_.actions[i], kept_.at(i), action, counts)) return;
    }
    std::size_t left = 0;
    const auto chunks = static_cast<std::size_t>(kept_.chunks);
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      if (covers(action, counts, kept_.actions[i], kept_.at(i))) continue;
      kept_.actions[left] = kept_.actions[i];
      std::copy_n(kept_.counts.begin() + static_cast<std::ptrdiff_t>(i * chunks), chunks,
                  kept_.counts.begin() + static_cast<std::ptrdiff_t>(left * chunks));
      ++left;
    }
    kept_.actions.resize(left);
    kept_.counts.resize(left * chunks);
    kept_.add(action, counts);
  }
  const Moments& kept() const { return kept_; }

 private:
  static bool covers(const MomentAction& a, std::span<const InFlight> of_a, const MomentAction& b,
                     std::span<const InFlight> of_b) {
    return (a.has_gradient & b.has_gradient) == b.has_gradient && at_least(of_a, of_b);
  }
  Moments kept_;
};

std::size_t slot_of(ActionKind kind, std::int32_t chunk) {
  return static_cast<std::size_t>(chunk) * 4 + static_cast<std::size_t>(kind);
}

// Walks a rank's list. Two moments are compared by a linear hash of their counts: equal differences
// of counts have equal differences of hashes, so a straight line is seen in constant time.
class Walk {
 public:
  Walk(std::int32_t chunks, std::size_t actions, bool sends_stay)
      : actions_(actions),
        sends_stay_(sends_stay),
        chunks_(static_cast<std::size_t>(chunks)),
        slots_(static_cast<std::size_t>(chunks) * 4),
        counts_(static_cast<std::size_t>(chunks)) {
    Random random(kSeed);
    for (Chunk& chunk : chunks_) {
      for (std::uint64_t& factor : chunk.factor) factor = random.bits() | 1U;
    }
  }

  void step(ActionKind kind, std::int32_t chunk, std::int32_t microbatch) {
    note({kind, chunk, microbatch, has_gradient_, ++walked_ * 2 > actions_});
    if (kind == ActionKind::Forward) {
      run(chunk, 0);
    } else {
      if (kind != ActionKind::BackwardWeight) run(chunk, 1);
      if (kind != ActionKind::BackwardInput) {
        run(chunk, 2);
        has_gradient_ |= std::uint64_t{1} << chunk;
      }
    }
  }

  Moments corners() {
    const auto chunks = static_cast<std::int32_t>(chunks_.size());
    Moments all;
    all.chunks = chunks;
    for (Slot& slot : slots_) {
      end_line(slot);
      Corners corners(chunks);
      for (std::size_t i = 0; i < slot.moments.size(); ++i) {
        corners.add(slot.moments.actions[i], slot.moments.at(i));
      }
      const Moments& kept = corners.kept();
      for (std::size_t i = 0; i < kept.size(); ++i) all.add(kept.actions[i], kept.at(i));
    }
    return all;
  }

 private:
  static constexpr std::uint64_t kSeed = 20;  // any: only differences of hashes are compared
  struct Chunk {
    std::array<std::int32_t, 3> done{};  // F, I, W
    std::array<std::uint64_t, 3> factor{};
  };
  // Of the line that is being walked the first two moments are written down and the others
  // counted; its end is written when the line ends.
  struct Slot {
    Moments moments;
    std::uint64_t hash = 0, difference = 0, has_gradient = 0;
    std::int32_t in_line = 0;  // moments of the line that are written down, at most 2
    std::int32_t beyond = 0;   // and those that came after
    MomentAction last;
  };

  void run(std::int32_t chunk, std::size_t which) {
    Chunk& of = chunks_[static_cast<std::size_t>(chunk)];
    ++of.done[which];
    hash_ += of.factor[which];
  }

  void note(const MomentAction& action) {
    Slot& slot = slots_[slot_of(action.kind, action.chunk)];
    const std::uint64_t difference = hash_ - slot.hash;
    slot.hash = hash_;
    const bool on_line = slot.has_gradient == has_gradient_ && slot.in_line > 0;
    if (on_line && slot.in_line >= 2 && difference == slot.difference) {
      ++slot.beyond;
      slot.last = action;
      return;
    }
    end_line(slot);
    slot.in_line = on_line ? 2 : 1;
    slot.difference = difference;
    slot.has_gradient = has_gradient_;
    slot.moments.chunks = static_cast<std::int32_t>(chunks_.size());
    fill_counts(action.kind, action.chunk);
    slot.moments.add(action, counts_);
  }

  static void end_line(Slot& slot) {
    if (slot.beyond == 0) return;
    const std::size_t size = slot.moments.size();
    std::vector<InFlight> end(slot.moments.at(size - 1).begin(), slot.moments.at(size - 1).end());
    const std::span<const InFlight> before = slot.moments.at(size - 2);
    for (std::size_t c = 0; c < end.size(); ++c) {
      const auto extend = [&](std::int32_t InFlight::* count) {
        end[c].*count += slot.beyond * (end[c].*count - before[c].*count);
      };
      extend(&InFlight::whole);
      extend(&InFlight::half);
      extend(&InFlight::forwards);
      extend(&InFlight::inputs);
    }
    slot.moments.add(slot.last, end);
    slot.beyond = 0;
  }

  void fill_counts(ActionKind kind, std::int32_t chunk) {
    for (std::size_t c = 0; c < chunks_.size(); ++c) {
      const auto& [forwards, inputs, weights] = chunks_[c].done;
      counts_[c] = {.whole = forwards - inputs, .half = inputs - weights};
      if (!sends_stay_) continue;
      counts_[c].forwards = forwards;
      counts_[c].inputs = inputs;
    }
    InFlight& own = counts_[static_cast<std::size_t>(chunk)];
    if (kind == ActionKind::Backward || kind == ActionKind::BackwardInput) --own.whole;
    if (kind == ActionKind::BackwardWeight) --own.half;
  }

  std::size_t actions_, walked_ = 0;
  bool sends_stay_;
  std::vector<Chunk> chunks_;
  std::vector<Slot> slots_;
  std::vector<InFlight> counts_;
  std::uint64_t hash_ = 0, has_gradient_ = 0;
};

Moments walk(std::span<const Action> list, std::span<const std::int32_t> chunk_of,
             std::int32_t chunks, bool sends_stay) {
  TW_CHECK(chunks <= kMaxChunks, "more chunks than a schedule can have");
  Walk walk(chunks, list.size(), sends_stay);
  for (const Action& action : list) {
    ActionKind kind = action.kind;
    if (sends_stay && action.stage == 0) {
      if (kind == ActionKind::BackwardInput) continue;
      if (kind == ActionKind::BackwardWeight) kind = ActionKind::Backward;
    }
    walk.step(kind, chunk_of[action.stage], action.microbatch);
  }
  return walk.corners();
}

// Which of its rank's stages a stage is.
std::vector<std::int32_t> chunks_of(const Placement& placement) {
  std::vector<std::int32_t> seen(static_cast<std::size_t>(placement.ranks)), chunk;
  for (const RankId rank : placement.rank_of) chunk.push_back(seen[rank.at()]++);
  return chunk;
}

bool keeps_all(ScheduleKind kind) {
  return kind == ScheduleKind::GPipe || kind == ScheduleKind::LoopedBfs;
}

// Groups of the interleaved kinds that are enough: the warm-up spans fewer than three, one more is
// the steady state, and one drains.
constexpr std::int64_t kGroups = 5;

std::int64_t enough_grouped(const MomentKey& key) {
  const std::int64_t m = key.microbatches;
  if (key.group > 0) {
    const std::int64_t left = m % key.group;
    return std::min(m, kGroups * key.group + left);
  }
  // PyTorch deals m over max(1, m / p) groups; those of one more than p come first.
  const std::int64_t rounds = std::max<std::int64_t>(1, m / key.ranks);
  const std::int64_t size = m / rounds, larger = m % rounds;
  if (size != key.ranks) return m;
  const std::int64_t of_larger = std::min(larger, kGroups);
  const std::int64_t of_size = std::min(rounds - larger, kGroups);
  const std::int64_t enough = of_larger * (size + 1) + of_size * size;
  return of_larger < key.ranks && enough / key.ranks == of_larger + of_size ? enough : m;
}

}  // namespace

void Moments::add(const MomentAction& action, std::span<const InFlight> in_flight) {
  actions.push_back(action);
  counts.insert(counts.end(), in_flight.begin(), in_flight.end());
}

std::int64_t enough_microbatches(const MomentKey& key) {
  const std::int64_t m = key.microbatches, p = key.ranks;
  switch (key.kind) {
    case ScheduleKind::GPipe:
    case ScheduleKind::LoopedBfs: return m;
    case ScheduleKind::InterleavedOneFOneB:
    case ScheduleKind::InterleavedZeroBubble: return enough_grouped(key);
    // The warm-up takes at most 2 p micro-batches, the lag of W another 2 p.
    case ScheduleKind::None:
    case ScheduleKind::OneFOneB:
    case ScheduleKind::EagerOneFOneB:
    case ScheduleKind::ZbH1:
    case ScheduleKind::ZbH2:
    case ScheduleKind::ZbV:
    case ScheduleKind::VHalf:
    case ScheduleKind::VMin:
    case ScheduleKind::DualPipeV: return std::min(m, 6 * p + 2 + key.ahead);
    // Greedy, or somebody else's: only the same number is sure to give the same order.
    case ScheduleKind::ZbVpp:
    case ScheduleKind::Csv: return m;
  }
  TW_CHECK(false, "no such kind");
}

std::vector<Action> ahead_of(const MomentKey& key, std::vector<Action> list) {
  if (key.ahead == 0) return list;
  return forwards_earlier(
      list, static_cast<std::size_t>(key.ahead) * static_cast<std::size_t>(key.chunks));
}

Result<std::vector<Moments>> moments_of(const MomentKey& key) {
  const std::int64_t enough = enough_microbatches(key);
  if (enough > kMaxMicroBatches) {
    return fail("micro-batches", "more of them than a schedule is made for",
                "use a schedule that does not keep all of them in flight, or larger ones");
  }
  const Shape shape{key.ranks, static_cast<int>(enough), key.chunks};
  const MakeOptions options{.group = key.group, .limit = 0, .costs = {}};
  if (!streams(facts_of(key.kind))) {
    Schedule schedule = TW_TRY(make(key.kind, shape, options));
    if (key.ahead > 0) {
      for (std::vector<Action>& list : schedule.ranks) list = ahead_of(key, std::move(list));
    }
    return moments_of(schedule, key.sends_stay);
  }
  const auto chunk_of = chunks_of(placed(StagePlacement::Loop, key.ranks, key.chunks));
  std::vector<Moments> moments;
  for (int rank = 0; rank < key.ranks; ++rank) {
    // Where everything is kept only the first stage is unlike the others.
    if (keeps_all(key.kind) && rank > 1) {
      moments.push_back(moments.back());
      continue;
    }
    const std::vector<Action> list =
        ahead_of(key, TW_TRY(make_rank(key.kind, shape, rank, options)));
    moments.push_back(walk(list, chunk_of, key.chunks, key.sends_stay));
  }
  return moments;
}

std::vector<Moments> moments_of(const Schedule& schedule, bool sends_stay) {
  const auto chunk_of = chunks_of(schedule.placement);
  std::vector<std::int32_t> chunks(schedule.ranks.size());
  for (const RankId rank : schedule.placement.rank_of) ++chunks[rank.at()];
  std::vector<Moments> moments;
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    moments.push_back(walk(schedule.ranks[rank], chunk_of, chunks[rank], sends_stay));
  }
  return moments;
}

Moments joined(std::span<const Moments* const> moments) {
  TW_CHECK(!moments.empty(), "the moments of no rank");
  const std::int32_t chunks = moments.front()->chunks;
  std::vector<Corners> slots(static_cast<std::size_t>(chunks) * 4, Corners(chunks));
  for (const Moments* of_rank : moments) {
    TW_CHECK(of_rank->chunks == chunks, "ranks of one group hold the same");
    for (std::size_t i = 0; i < of_rank->size(); ++i) {
      const MomentAction& action = of_rank->actions[i];
      slots[slot_of(action.kind, action.chunk)].add(action, of_rank->at(i));
    }
  }
  Moments all;
  all.chunks = chunks;
  for (const Corners& slot : slots) {
    const Moments& kept = slot.kept();
    for (std::size_t i = 0; i < kept.size(); ++i) all.add(kept.actions[i], kept.at(i));
  }
  return all;
}

namespace {

bool at_least(std::span<const SumInFlight> a, std::span<const SumInFlight> b) {
  return std::equal(a.begin(), a.end(), b.begin(), [](const SumInFlight& x, const SumInFlight& y) {
    return x.whole >= y.whole && x.half >= y.half && x.forwards >= y.forwards &&
           x.inputs >= y.inputs && x.with_gradient >= y.with_gradient;
  });
}

// Leaves out what is nowhere higher, and what is nowhere lower takes its place.
void add_corner(MomentSums& sums, const SummedAction& action, std::span<const SumInFlight> counts) {
  const std::size_t contents = counts.size();
  const auto at = [&](std::size_t i) {
    return std::span(sums.counts).subspan(i * contents, contents);
  };
  std::size_t left = 0;
  for (std::size_t i = 0; i < sums.actions.size(); ++i) {
    const bool same = sums.actions[i] == action;
    if (same && at_least(at(i), counts)) return;
    if (same && at_least(counts, at(i))) continue;
    sums.actions[left] = sums.actions[i];
    std::copy(at(i).begin(), at(i).end(), at(left).begin());
    ++left;
  }
  sums.actions.resize(left);
  sums.counts.resize(left * contents);
  sums.actions.push_back(action);
  sums.counts.insert(sums.counts.end(), counts.begin(), counts.end());
}

}  // namespace

MomentSums summed(const Moments& moments, std::span<const std::int32_t> content_of) {
  MomentSums sums;
  for (const std::int32_t content : content_of) {
    const auto of = static_cast<std::size_t>(content);
    if (of >= sums.chunks.size()) sums.chunks.resize(of + 1);
    ++sums.chunks[of];
  }
  std::vector<SumInFlight> counts;
  for (std::size_t i = 0; i < moments.size(); ++i) {
    const MomentAction& action = moments.actions[i];
    counts.assign(sums.chunks.size(), {});
    for (std::size_t c = 0; c < content_of.size(); ++c) {
      SumInFlight& of = counts[static_cast<std::size_t>(content_of[c])];
      const InFlight& chunk = moments.at(i)[c];
      of.whole += chunk.whole;
      of.half += chunk.half;
      of.forwards += chunk.forwards;
      of.inputs += chunk.inputs;
      of.with_gradient += static_cast<std::int32_t>(action.has_gradient >> c & 1U);
    }
    const auto own = static_cast<std::size_t>(action.chunk);
    add_corner(sums,
               {action.kind, content_of[own], (action.has_gradient >> own & 1U) != 0, action.late},
               counts);
  }
  return sums;
}

}  // namespace trainwright::detail
