// The kinds with two chunks per rank in a V: stage r goes down the ranks, stage 2p-1-r comes back.
#include <algorithm>
#include <array>
#include <climits>

#include "trainwright/base/check.h"
#include "trainwright/schedule/order.h"

namespace trainwright::detail {
namespace {

// Writes one rank's list. Each kind of action of a chunk takes the micro-batches in order;
// micro-batches past the last one, with which short pipelines are padded, are left out.
class RankWriter {
 public:
  RankWriter(Shape shape, int rank, std::vector<Action>& list)
      : microbatches_(shape.microbatches), stages_{rank, 2 * shape.ranks - 1 - rank}, list_(list) {}

  int count(int chunk, ActionKind kind) const { return counts_[index(chunk, kind)]; }
  void add(int chunk, ActionKind kind) {
    const int microbatch = counts_[index(chunk, kind)]++;
    if (microbatch < microbatches_) {
      list_.push_back(make_action(kind, stages_[static_cast<std::size_t>(chunk)], microbatch));
    }
  }
  // B counts as I and W, so that both chunks' counters stay in step.
  void add_backward(int chunk) {
    add(chunk, ActionKind::BackwardInput);
    ++counts_[index(chunk, ActionKind::BackwardWeight)];
    const bool written = count(chunk, ActionKind::BackwardInput) <= microbatches_;
    if (written) list_.back().kind = ActionKind::Backward;
  }
  void add_overlapped(int forward_chunk, int backward_chunk) {
    const std::size_t before = list_.size();
    add(forward_chunk, ActionKind::Forward);
    add_backward(backward_chunk);
    if (list_.size() == before + 2) list_[before].overlaps_next = true;
  }

 private:
  static std::size_t index(int chunk, ActionKind kind) {
    return static_cast<std::size_t>(chunk) * 4 + static_cast<std::size_t>(kind);
  }
  int microbatches_;
  std::array<int, 2> stages_;
  std::array<int, 8> counts_{};
  std::vector<Action>& list_;
};

constexpr ActionKind kF = ActionKind::Forward;
constexpr ActionKind kI = ActionKind::BackwardInput;
constexpr ActionKind kW = ActionKind::BackwardWeight;

void add_split(RankWriter& writer, int chunk) {
  writer.add(chunk, kI);
  writer.add(chunk, kW);
}

// ZB-V (Qi et al. 2024, section 6): warm-up fills the V, then F I W of both chunks in turn, then
// the last backwards with their W held back to fill the drain.
void write_zb_v(int ranks, int rank, int microbatches, RankWriter& writer) {
  const int padded = std::max(2 * ranks - 1, microbatches);
  for (int i = 0; i < 2 * (ranks - rank) - 1; ++i) writer.add(0, kF);
  for (int i = 0; i < rank; ++i) {
    writer.add(1, kF);
    writer.add(0, kF);
  }
  for (int i = 0; i < ranks - rank; ++i) {
    writer.add(1, kF);
    add_split(writer, 1);
  }
  while (writer.count(1, kF) < writer.count(0, kF) || writer.count(0, kF) < padded) {
    if (writer.count(0, kF) < padded) writer.add(0, kF);
    add_split(writer, 0);
    writer.add(1, kF);
    add_split(writer, 1);
  }
  for (int i = 0; i < rank; ++i) {
    writer.add(0, kI);
    writer.add(1, kI);
  }
  for (int i = 0; i < ranks - rank; ++i) add_split(writer, 0);
  for (const int chunk : {1, 0}) {
    while (writer.count(chunk, kW) < writer.count(chunk, kI)) writer.add(chunk, kW);
  }
}

// DualPipeV (DeepSeek-AI 2025), eight phases; `queue` holds the chunks whose W is still owed.
class DualPipeVWriter {
 public:
  DualPipeVWriter(int ranks, int rank, int microbatches, RankWriter& writer)
      : ranks_(ranks), rank_(rank), padded_(std::max(microbatches, 2 * ranks)), writer_(writer) {}

  void write() {
    const int above = ranks_ - rank_ - 1;
    for (int i = 0; i < 2 * above; ++i) writer_.add(0, kF);
    for (int i = 0; i <= rank_; ++i) {
      writer_.add(0, kF);
      writer_.add(1, kF);
    }
    for (int i = 0; i < above; ++i) {
      input(1);
      weight();
      writer_.add(1, kF);
    }
    write_main(padded_ - 2 * ranks_ + rank_ + 1);
    for (int i = 0; i < above; ++i) {
      writer_.add_backward(1);
      writer_.add_overlapped(1, 0);
    }
    const bool split = write_turn(rank_ + 1);
    for (int i = 0; i < above; ++i) {
      weight();
      split ? input(0) : writer_.add_backward(0);
    }
    for (int i = 0; i <= rank_; ++i) weight();
  }

 private:
  void input(int chunk) {
    writer_.add(chunk, kI);
    queue_.push_back(chunk);
  }
  void weight() {
    if (next_ < queue_.size()) writer_.add(queue_[next_++], kW);
  }
  void write_main(int steps) {
    for (int i = 0; i < steps; ++i) {
      if (i == 0 && rank_ == ranks_ - 1) {  // apart, because nothing is left to overlap with
        writer_.add(0, kF);
        writer_.add_backward(1);
      } else {
        writer_.add_overlapped(0, 1);
      }
      writer_.add_overlapped(1, 0);
    }
  }
  // Backwards of both chunks; from the middle on they are split. Says whether that was reached.
  bool write_turn(int steps) {
    bool split = false;
    for (int i = 0; i < steps; ++i) {
      if (i == steps / 2 && rank_ % 2 == 1) split = true;
      split ? input(1) : writer_.add_backward(1);
      if (i == steps / 2 && rank_ % 2 == 0) split = true;
      split ? input(0) : writer_.add_backward(0);
    }
    return split;
  }

  int ranks_, rank_, padded_;
  RankWriter& writer_;
  std::vector<int> queue_;
  std::size_t next_ = 0;
};

template <class Write>
Schedule make_v(Shape shape, const Write& write) {
  Schedule schedule{shape.microbatches, placed(StagePlacement::V, shape.ranks, 2), {}};
  for (int rank = 0; rank < shape.ranks; ++rank) {
    auto& list = schedule.ranks.emplace_back();
    list.reserve(static_cast<std::size_t>(shape.microbatches) * 6);
    RankWriter writer(shape, rank, list);
    write(rank, writer);
  }
  return schedule;
}

// A building block of the controllable-memory schedules (Qi et al. 2024b): one micro-batch's
// passes at fixed times on every rank, repeated every six units (F, I, W of two chunks). A pass
// moves from rank to rank by `step` units; the sum of the steps is the activations' lifetime:
// 2p (steps of F0 + I0) / 6 chunk activations per rank.
struct Block {
  std::array<int, 4> step{};  // F0 down, F1 up, I1 down, I0 up
  std::array<int, 3> turn{};  // from one to the next at the ends of the V

  // When the four passes run on a rank.
  std::array<int, 4> times(int ranks, int rank) const {
    const int hops = ranks - 1;
    const int f1 = hops * step[0] + turn[0];
    const int i1 = f1 + hops * step[1] + turn[1];
    const int i0 = i1 + hops * step[2] + turn[2];
    return {rank * step[0], f1 + (hops - rank) * step[1], i1 + rank * step[2],
            i0 + (hops - rank) * step[3]};
  }
};
constexpr int kPeriod = 6;

bool collides(const Block& block, int ranks) {
  for (int rank = 0; rank < std::min(ranks, kPeriod); ++rank) {  // times repeat mod 6
    unsigned used = 0;
    for (const int time : block.times(ranks, rank)) used |= 1U << (time % kPeriod);
    if (__builtin_popcount(used) != 4) return true;
  }
  return false;
}

// The block of that total lifetime with the shortest turns whose passes never collide on a rank.
Block find_block(ScheduleKind kind, int ranks) {
  const std::vector<std::array<int, 4>> steps =
      kind == ScheduleKind::VMin
          ? std::vector<std::array<int, 4>>{{1, 1, 1, 1}}
          : std::vector<std::array<int, 4>>{{2, 1, 2, 1}, {2, 2, 1, 1}, {1, 2, 1, 2}, {1, 1, 2, 2}};
  Block best;
  int shortest = INT_MAX;
  for (const auto& step : steps) {
    for (int code = 0; code < kPeriod * kPeriod * kPeriod; ++code) {
      const Block block{
          step, {1 + code % kPeriod, 1 + code / kPeriod % kPeriod, 1 + code / (kPeriod * kPeriod)}};
      const int sum = block.turn[0] + block.turn[1] + block.turn[2];
      if (sum < shortest && !collides(block, ranks)) {
        best = block;
        shortest = sum;
      }
    }
  }
  TW_CHECK(shortest < INT_MAX, "no building block without collisions");
  return best;
}

int wait_until(int from, int residue) { return ((residue - from) % kPeriod + kPeriod) % kPeriod; }

// Repeats the block. The two slots that are free mod 6 take W of either chunk, the nearer way.
void write_block(const Block& block, int ranks, int rank, int microbatches, RankWriter& writer) {
  const std::array<int, 4> times = block.times(ranks, rank);
  std::array<std::pair<int, int>, kPeriod> slot{};  // chunk, kind by time mod 6
  std::array<int, kPeriod> start{};
  constexpr std::array<std::pair<int, ActionKind>, 4> kPasses{{{0, kF}, {1, kF}, {1, kI}, {0, kI}}};
  std::vector<int> free;
  for (int residue = 0; residue < kPeriod; ++residue) {
    const auto at = std::find_if(times.begin(), times.end(),
                                 [&](int time) { return time % kPeriod == residue; });
    if (at == times.end()) {
      free.push_back(residue);
      continue;
    }
    const auto& pass = kPasses[static_cast<std::size_t>(at - times.begin())];
    slot[static_cast<std::size_t>(residue)] = {pass.first, static_cast<int>(pass.second)};
    start[static_cast<std::size_t>(residue)] = *at;
  }
  const int straight = wait_until(times[2], free[0]) + wait_until(times[3], free[1]);
  const int crossed = wait_until(times[2], free[1]) + wait_until(times[3], free[0]);
  if (crossed < straight) std::swap(free[0], free[1]);
  for (const int chunk : {1, 0}) {
    const int residue = free[chunk == 1 ? 0 : 1];
    const int input = times[chunk == 1 ? 2 : 3];
    slot[static_cast<std::size_t>(residue)] = {chunk, static_cast<int>(kW)};
    start[static_cast<std::size_t>(residue)] = input + wait_until(input, residue);
  }
  const int last = *std::max_element(start.begin(), start.end()) + kPeriod * (microbatches - 1);
  for (int time = 0; time <= last; ++time) {
    const auto residue = static_cast<std::size_t>(time % kPeriod);
    if (time < start[residue]) continue;
    writer.add(slot[residue].first, static_cast<ActionKind>(slot[residue].second));
  }
}

}  // namespace

Schedule make_zb_v(Shape shape) {
  return make_v(shape, [&](int rank, RankWriter& writer) {
    write_zb_v(shape.ranks, rank, shape.microbatches, writer);
  });
}

Schedule make_dualpipe_v(Shape shape) {
  return make_v(shape, [&](int rank, RankWriter& writer) {
    DualPipeVWriter(shape.ranks, rank, shape.microbatches, writer).write();
  });
}

Schedule make_controlled_v(ScheduleKind kind, Shape shape) {
  const Block block = find_block(kind, shape.ranks);
  return make_v(shape, [&](int rank, RankWriter& writer) {
    write_block(block, shape.ranks, rank, shape.microbatches, writer);
  });
}

}  // namespace trainwright::detail
