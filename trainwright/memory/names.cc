#include <array>

#include "trainwright/memory/memory.h"

namespace trainwright {

std::string_view name_of(Category category) {
  constexpr std::array<std::string_view, kCategories> kNames = {
      "weights",    "main_weights", "gradients",      "optimizer_states", "activations",
      "transients", "logits",       "gather_buffers", "reduce_buffers",   "point_to_point",
      "step",       "workspace",    "slack",          "communicators",    "context"};
  return kNames[static_cast<std::size_t>(category)];
}

std::string_view name_of(Moment::Kind kind) {
  switch (kind) {
    case Moment::Kind::Forward: return "forward";
    case Moment::Kind::BackwardInput: return "backward of inputs";
    case Moment::Kind::BackwardWeight: return "backward of weights";
    case Moment::Kind::Backward: return "backward";
    case Moment::Kind::Step: return "optimizer step";
  }
  return "";
}

std::string_view name_of(Counter counter) {
  switch (counter) {
    case Counter::Allocated: return "allocated";
    case Counter::Reserved: return "reserved";
    case Counter::Driver: return "driver";
  }
  return "";
}

std::string_view name_of(Fit fit) {
  switch (fit) {
    case Fit::Fits: return "fits";
    case Fit::Tight: return "tight";
    case Fit::DoesNotFit: return "does-not-fit";
  }
  return "";
}

}  // namespace trainwright
