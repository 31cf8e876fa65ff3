#include "trainwright/work/kept.h"

#include <algorithm>

namespace trainwright {
namespace detail {
namespace {

// The first operator of each segment: what entered it is held until the backward pass is done with
// it.
std::vector<std::int32_t> segment_starts(const OperatorList& list) {
  std::vector<std::int32_t> starts;
  for (std::size_t i = 0; i < list.operators.size(); ++i) {
    const std::size_t segment = list.operators[i].segment;
    if (segment == 0) continue;
    if (starts.size() <= segment) starts.resize(segment + 1, -1);
    if (starts[segment] < 0) starts[segment] = static_cast<std::int32_t>(i);
  }
  return starts;
}

void place(const OperatorList& list, std::vector<Stay>& stays) {
  for (std::size_t i = 0; i < list.operators.size(); ++i) {
    const Operator& op = list.operators[i];
    for (const TensorId id : op.inputs) stays[id.at()].last_read = static_cast<std::int32_t>(i);
    for (const TensorId id : op.held) stays[id.at()].last_read = static_cast<std::int32_t>(i);
    for (const TensorId id : op.outputs) {
      if (stays[id.at()].writer < 0) stays[id.at()].writer = static_cast<std::int32_t>(i);
    }
  }
  stays[list.input.at()].writer = -1;
}

void hold(Stay& stay, std::int32_t until) {
  stay.released = stay.released < 0 ? until : std::min(stay.released, until);
}

}  // namespace

std::vector<Stay> stays(const OperatorList& list) {
  std::vector<Stay> stays(list.tensors.size());
  place(list, stays);
  const auto starts = segment_starts(list);
  const auto again_of = [&](const Stay& stay) {
    return stay.writer < 0 ? Again::No
                           : list.operators[static_cast<std::size_t>(stay.writer)].again;
  };
  const auto segment_of = [&](const Stay& stay) {
    return stay.writer < 0 ? 0 : list.operators[static_cast<std::size_t>(stay.writer)].segment;
  };
  for (std::size_t i = 0; i < list.operators.size(); ++i) {
    const Operator& op = list.operators[i];
    for (const Save& save : op.saves) {
      Stay& stay = stays[save.tensor.at()];
      const Again maker = again_of(stay);
      const bool inside = op.segment != 0 && op.segment == segment_of(stay);
      stay.weights |= save.half != Half::Input;
      stay.inputs |= save.half != Half::Weight;
      if (maker == Again::Discarded || (runs_again(maker) && inside)) {
        stay.made_again = true;
      } else if (!runs_again(op.again) && op.again != Again::Tail) {
        stay.saved = true;
      } else if (!inside) {
        stay.entered = true;
      }
      hold(stay, static_cast<std::int32_t>(i));
    }
    if (runs_again(op.again)) {
      for (const TensorId id : op.inputs) {
        Stay& stay = stays[id.at()];
        if (op.segment == segment_of(stay)) continue;
        (again_of(stay) == Again::Discarded ? stay.made_again : stay.entered) = true;
        hold(stay, starts[op.segment]);
      }
    }
    if (op.again == Again::Stored) {
      for (const TensorId id : op.outputs) {
        Stay& stay = stays[id.at()];
        stay.entered = true;
        hold(stay, static_cast<std::int32_t>(i));
      }
    }
  }
  return stays;
}

}  // namespace detail

std::vector<Kept> kept_tensors(const OperatorList& list) {
  std::vector<Kept> kept;
  const auto stays = detail::stays(list);
  for (std::size_t i = 0; i < stays.size(); ++i) {
    const detail::Stay& stay = stays[i];
    if (!stay.kept()) continue;
    const Half half = stay.weights ? (stay.inputs ? Half::Both : Half::Weight) : Half::Input;
    kept.push_back({TensorId(static_cast<std::int32_t>(i)), half, !stay.saved});
  }
  return kept;
}

}  // namespace trainwright
