#include "trainwright/cli/time_text.h"

#include <fmt/core.h>

#include <algorithm>

#include "trainwright/base/text.h"

namespace trainwright::cli {
namespace {

// Three digits, whatever the size.
std::string seconds(Seconds time) {
  if (time < Seconds(1)) return fmt::format("{:.3g} ms", time.value() * 1e3);
  return fmt::format("{:.3g} s", time.value());
}

std::string_view words_of(TimePart part) {
  switch (part) {
    case TimePart::Products: return "matrix products";
    case TimePart::AttentionCores: return "attention";
    case TimePart::Streams: return "memory-bound kernels";
    case TimePart::Loss: return "loss";
    case TimePart::Host: return "waiting for launches";
    case TimePart::Tensor: return "tensor parallel";
    case TimePart::Context: return "context parallel";
    case TimePart::Expert: return "expert parallel";
    case TimePart::Pipeline: return "between stages";
    case TimePart::Bubble: return "pipeline bubble";
    case TimePart::Data: return "data parallel";
    case TimePart::Optimizer: return "optimizer";
    case TimePart::Waiting: return "waiting for other ranks";
  }
  return {};
}

std::string parts_text(const StepTime& time) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < kTimeParts; ++i) {
    if (time.parts[i] > time.step * 0.002) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return time.parts[a] > time.parts[b]; });
  std::vector<std::string> texts;
  for (const std::size_t i : order) {
    texts.push_back(fmt::format("{} {} ({:.0f} %)", words_of(static_cast<TimePart>(i)),
                                seconds(time.parts[i]), 100 * (time.parts[i] / time.step)));
  }
  return join(texts, ", ");
}

}  // namespace

std::string time_text(const StepTime& time) {
  return fmt::format(
      "{} a step (90 % interval {:.3g} to {:.3g} s), {} tokens/s per accelerator, MFU "
      "{}, HFU {}; at the accelerators' peak its products would take {}.\nOf this: {}.\n",
      seconds(time.step), time.low.value(), time.high.value(),
      with_thousands(static_cast<std::int64_t>(tokens_per_second_per_rank(time))),
      percent(time.mfu), percent(time.hfu), seconds(time.bound), parts_text(time));
}

}  // namespace trainwright::cli
