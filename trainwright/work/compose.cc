// Sums of sums: what a stage does, from what its layers do.
#include <algorithm>

#include "trainwright/base/check.h"
#include "trainwright/work/work.h"

namespace trainwright {
namespace {

std::size_t row_of(GroupKind group) {
  switch (group) {
    case GroupKind::Tp: return 0;
    case GroupKind::Cp: return 1;
    case GroupKind::Ep: return 2;
    case GroupKind::Etp: return 3;
    case GroupKind::Pp: return 4;
    case GroupKind::Dp:
    case GroupKind::TpCp:
    case GroupKind::DpCp:
    case GroupKind::Shard:
    case GroupKind::Replicate:
    case GroupKind::Model:
    case GroupKind::EtpEp:
    case GroupKind::Edp:
    case GroupKind::ExpertShard:
    case GroupKind::ExpertReplicate:
    case GroupKind::World: break;
  }
  TW_CHECK(false, "layers talk over tp, cp, ep and etp, their ends over pp");
  return 0;
}

std::size_t cell_of(GroupKind group, CollectiveKind kind, Pass pass) {
  return (row_of(group) * kCollectiveKinds.size() + static_cast<std::size_t>(kind)) *
             kPasses.size() +
         static_cast<std::size_t>(pass);
}

void add(Effort& sum, const Effort& one, std::int64_t times) {
  const double n = static_cast<double>(times);
  sum.matmul += one.matmul * n;
  sum.other += one.other * n;
  sum.read += one.read * times;
  sum.written += one.written * times;
  sum.converted += one.converted * times;
}

}  // namespace

void HeldGroup::add(const HeldGroup& other, std::int64_t times) {
  all += other.all * times;
  adapters += other.adapters * times;
  trained += other.trained * times;
  low_precision += other.low_precision * times;
  quantised += other.quantised * times;
  stored += other.stored * times;
  unsharded += other.unsharded * times;
  states += other.states * times;
  step += other.step * times;
}

void HeldParameters::add(const HeldParameters& other, std::int64_t times) {
  dense.add(other.dense, times);
  expert.add(other.expert, times);
  replicated += other.replicated * times;
}

HeldParameters& HeldParameters::operator+=(const HeldParameters& other) {
  add(other, 1);
  return *this;
}

Traffic& TrafficTable::cell(std::size_t at) {
  const auto found =
      std::find_if(cells_.begin(), cells_.end(), [&](const Cell& one) { return one.at >= at; });
  if (found != cells_.end() && found->at == at) return found->traffic;
  return cells_.insert(found, {at, {}})->traffic;
}

void TrafficTable::add(GroupKind group, CollectiveKind kind, Pass pass, const Traffic& traffic) {
  Traffic& of = cell(cell_of(group, kind, pass));
  of.calls += traffic.calls;
  of.bytes += traffic.bytes;
}

void TrafficTable::add(const TrafficTable& other, std::int64_t times) {
  for (const Cell& one : other.cells_) {
    Traffic& of = cell(one.at);
    of.calls += one.traffic.calls * times;
    of.bytes += one.traffic.bytes * times;
  }
}

Traffic TrafficTable::at(GroupKind group, CollectiveKind kind, Pass pass) const {
  const std::size_t at = cell_of(group, kind, pass);
  const auto found =
      std::find_if(cells_.begin(), cells_.end(), [&](const Cell& one) { return one.at == at; });
  return found == cells_.end() ? Traffic{} : found->traffic;
}

void add_shapes(StandIns& all, const StandIns& more) {
  if (all == more) return;
  if (all.empty()) {
    all = more;
    return;
  }
  for (const MatrixShape& shape : more) {
    const bool known = std::find(all.begin(), all.end(), shape) != all.end();
    if (!known) all.push_back(shape);
  }
}

Totals compose(std::span<const Portion> portions) {
  Totals sum;
  if (portions.empty()) return sum;
  sum.input = portions.front().totals->input;
  sum.output = portions.back().totals->output;
  for (const Portion& portion : portions) {
    const Totals& one = *portion.totals;
    const std::int64_t n = portion.count;
    if (n <= 0) continue;
    // The last of the equal ones stands on the most.
    const Bytes below = sum.kept + one.kept * (n - 1);
    if (below + one.forward.bytes > sum.forward.bytes) {
      sum.forward = {below + one.forward.bytes, one.forward.at};
    }
    if (below + one.backward.bytes > sum.backward.bytes) {
      sum.backward = {below + one.backward.bytes, one.backward.at};
    }
    // Of earlier lists, I of the later ones holds what W needs; the last of equal ones stands on
    // the most kept, the first on the most held.
    const Bytes half = one.kept_for_weights + one.held_gradients;
    sum.backward_input.bytes += half * n;
    const Bytes last = below + one.backward_input.bytes;
    const Bytes first = sum.kept + half * (n - 1) + one.backward_input.bytes;
    if (std::max(last, first) > sum.backward_input.bytes) {
      sum.backward_input = {std::max(last, first), one.backward_input.at};
    }
    for (std::size_t pass = 0; pass < sum.effort.size(); ++pass) {
      add(sum.effort[pass], one.effort[pass], n);
    }
    sum.kept += one.kept * n;
    sum.kept_of_experts += one.kept_of_experts * n;
    sum.kept_for_weights += one.kept_for_weights * n;
    sum.held_gradients += one.held_gradients * n;
    sum.parameters.add(one.parameters, n);
    add_shapes(sum.stand_ins, one.stand_ins);
    sum.traffic.add(one.traffic, n);
  }
  return sum;
}

Totals checkpointed_together(const Totals& plain, const Totals& full, std::int64_t n) {
  const Portion layers{&full, n};
  Totals sum = compose({&layers, 1});
  sum.kept = full.kept;
  sum.kept_of_experts = full.kept_of_experts;
  sum.forward = full.forward;
  // All n layers have been run again when the backward of the last one begins.
  const Bytes again = plain.kept * (n - 1);
  sum.backward = plain.backward;
  if (plain.forward.bytes > sum.backward.bytes) sum.backward = plain.forward;
  sum.backward.bytes += again + full.output;
  if (full.backward.bytes > sum.backward.bytes) sum.backward = full.backward;
  // What W needs of all n stays, and each layer's I is at most as high as alone.
  sum.backward_input = plain.backward_input;
  if (plain.forward.bytes > sum.backward_input.bytes) sum.backward_input = plain.forward;
  sum.backward_input.bytes += again + full.output;
  if (full.backward_input.bytes > sum.backward_input.bytes) {
    sum.backward_input = full.backward_input;
  }
  return sum;
}

}  // namespace trainwright
