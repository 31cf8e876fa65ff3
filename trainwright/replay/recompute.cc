// Which kept tensors could be dropped and made again, what that saves and what it costs.
#include <algorithm>
#include <map>
#include <set>

#include "trainwright/replay/walk.h"

namespace trainwright::detail {
namespace {

constexpr std::size_t kMostMakers = 8;     // kinds of op looked at, largest first
constexpr std::size_t kLongestChain = 16;  // ops to make one storage again

bool can_wait(const Trace& trace, const AliveStorage& alive, OpId peak) {
  if (alive.made_by.index() < 0 || alive.waits_for <= peak || alive.last_use >= peak) return false;
  const Phase phase = trace.ops[alive.made_by.at()].phase;
  return phase == Phase::Forward || phase == Phase::Recompute;
}

// The ops that make the storage again when `wanted` begins; empty if an input is gone that no op
// made, or if there are too many.
std::set<OpId> ops_to_make(const Trace& trace, const PeakState& state, StorageId storage,
                           OpId wanted) {
  std::set<OpId> chain;
  std::vector<OpId> open = {trace.storages[storage.at()].made_by};
  while (!open.empty()) {
    const OpId op = open.back();
    open.pop_back();
    if (op.index() < 0) return {};
    if (!chain.insert(op).second) continue;
    if (chain.size() > kLongestChain) return {};
    const TraceOp& maker = trace.ops[op.at()];
    for (std::size_t k = 0; k < maker.reads; ++k) {
      const std::size_t input = trace.operands[maker.operands + k].at();
      if (state.death[input] < wanted.index()) open.push_back(trace.storages[input].made_by);
    }
  }
  return chain;
}

Bytes traffic_of(const Trace& trace, const TraceOp& op) {
  Bytes sum;
  for (std::size_t k = 0; k < op.reads + op.writes; ++k) {
    sum += trace.storages[trace.operands[op.operands + k].at()].size;
  }
  for (std::size_t k = 0; k < op.made; ++k) sum += trace.storages[op.made_first.at() + k].size;
  return sum;
}

// The peak when every storage is gone strictly between its last use and the op it waits for.
Bytes peak_without(const std::vector<Bytes>& live, const std::vector<const AliveStorage*>& gone,
                   std::vector<std::int64_t>& change) {
  std::fill(change.begin(), change.end(), 0);
  for (const AliveStorage* storage : gone) {
    change[storage->last_use.at() + 1] -= storage->size.value();
    change[storage->waits_for.at()] += storage->size.value();
  }
  Bytes peak;
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < live.size(); ++i) {
    sum += change[i];
    peak = std::max(peak, live[i] + Bytes(sum));
  }
  return peak;
}

RecomputeOption option_for(const Trace& trace, const Replay& replay, const PeakState& state,
                           const std::vector<const AliveStorage*>& group,
                           std::vector<std::int64_t>& change) {
  RecomputeOption option;
  std::vector<const AliveStorage*> gone;
  std::set<OpId> ops;
  for (const AliveStorage* storage : group) {
    const std::set<OpId> chain = ops_to_make(trace, state, storage->storage, storage->waits_for);
    if (chain.empty()) continue;
    ops.insert(chain.begin(), chain.end());
    gone.push_back(storage);
    option.size += storage->size;
  }
  option.maker = trace.ops[group.front()->made_by.at()].name;
  option.storages = static_cast<std::int64_t>(gone.size());
  if (gone.empty()) return option;
  // What existed before the first op counts too, but never more than the first op's live bytes.
  option.saved = replay.peak - std::max(peak_without(replay.live, gone, change), replay.begin);
  option.ops = static_cast<std::int64_t>(ops.size());
  Flops work;
  bool known = true;
  for (const OpId op : ops) {
    option.traffic += traffic_of(trace, trace.ops[op.at()]);
    work += Flops(trace.ops[op.at()].flops);
    known = known && trace.ops[op.at()].flops > 0;
  }
  if (known) option.work = work;
  return option;
}

}  // namespace

std::vector<RecomputeOption> recompute_options(const Trace& trace, const Replay& replay,
                                               const PeakState& state, std::size_t most) {
  std::map<TraceTextId, std::vector<const AliveStorage*>> groups;
  for (const AliveStorage& alive : state.alive) {
    if (!can_wait(trace, alive, replay.peak_op)) continue;
    groups[trace.ops[alive.made_by.at()].name].push_back(&alive);
  }
  std::vector<std::pair<Bytes, TraceTextId>> largest;
  for (const auto& [maker, group] : groups) {
    Bytes sum;
    for (const AliveStorage* storage : group) sum += storage->size;
    largest.emplace_back(sum, maker);
  }
  std::sort(largest.begin(), largest.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  if (largest.size() > kMostMakers) largest.resize(kMostMakers);
  std::vector<RecomputeOption> options;
  std::vector<std::int64_t> change(largest.empty() ? 0 : trace.ops.size() + 1);
  for (const auto& [sum, maker] : largest) {
    const RecomputeOption option = option_for(trace, replay, state, groups.at(maker), change);
    if (option.saved > Bytes(0)) options.push_back(option);
  }
  std::sort(options.begin(), options.end(), [](const auto& a, const auto& b) {
    return a.saved != b.saved ? a.saved > b.saved : a.maker < b.maker;
  });
  if (options.size() > most) options.resize(most);
  return options;
}

}  // namespace trainwright::detail
