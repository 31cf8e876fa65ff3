#include "trainwright/trainer/optimizer.h"

#include <fmt/format.h>

#include <cmath>

#include "trainwright/base/check.h"

namespace trainwright {
namespace {

bool holds(StateOf of, const SteppedWeight& weight) {
  switch (of) {
    case StateOf::All: return true;
    case StateOf::Matrices: return weight.matrix;
    case StateOf::Vectors: return !weight.matrix;
    case StateOf::HiddenMatrices: return weight.hidden;
    case StateOf::Others: return !weight.hidden;
  }
  TW_CHECK(false, "no such weights");
}

double count_of(StateSize size, const SteppedWeight& weight) {
  const auto depth = static_cast<double>(weight.depth);
  switch (size) {
    case StateSize::Whole: return numbers_of(weight);
    case StateSize::Rows: return depth * static_cast<double>(weight.out);
    case StateSize::Columns: return depth * static_cast<double>(weight.in);
  }
  TW_CHECK(false, "no such size");
}

}  // namespace

std::span<const std::string_view> all_names(StateOf) {
  static constexpr std::string_view kNames[] = {"all", "matrices", "vectors", "hidden-matrices",
                                                "others"};
  return kNames;
}

std::span<const std::string_view> all_names(StateSize) {
  static constexpr std::string_view kNames[] = {"whole", "rows", "columns"};
  return kNames;
}

std::string to_text(const StateFacts& state) {
  std::string text = state.dtype;
  if (state.size != StateSize::Whole) text += fmt::format(" {}", name_of(state.size));
  if (state.of != StateOf::All) text += fmt::format(" of {}", name_of(state.of));
  return text;
}

double numbers_of(const SteppedWeight& weight) {
  return static_cast<double>(weight.depth) * static_cast<double>(weight.in) *
         static_cast<double>(weight.out);
}

Few<double, 8> state_tensors(const OptimizerStates& states, const SteppedWeight& weight) {
  constexpr double kExact = 4;
  const bool small = numbers_of(weight) < static_cast<double>(states.least);
  Few<double, 8> tensors;
  for (const StateRule& state : states.tensors) {
    if (!holds(state.of, weight)) continue;
    const double count = count_of(state.size, weight);
    tensors.push_back(std::ceil(count * (small ? kExact : state.bytes)));
    if (states.block > 0 && !small) {
      tensors.push_back(kExact * std::ceil(count / static_cast<double>(states.block)));
    }
  }
  return tensors;
}

double state_bytes(const OptimizerStates& states, const SteppedWeight& weight) {
  double sum = 0;
  for (const double bytes : state_tensors(states, weight)) sum += bytes;
  return sum;
}

double temporary_bytes(const OptimizerStates& states, const SteppedWeight& weight) {
  double sum = 0;
  for (const StateRule& list : states.temporaries) {
    if (holds(list.of, weight)) sum += std::ceil(list.bytes * count_of(list.size, weight));
  }
  return sum;
}

}  // namespace trainwright
