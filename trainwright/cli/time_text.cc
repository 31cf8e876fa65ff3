#include "trainwright/cli/time_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "trainwright/base/text.h"
#include "trainwright/cli/setting.h"
#include "trainwright/cost/cost.h"
#include "trainwright/search/search.h"

namespace trainwright::cli {
namespace {

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
                                seconds_text(time.parts[i]), 100 * (time.parts[i] / time.step)));
  }
  return join(texts, ", ");
}

}  // namespace

namespace {

// Three digits, and those before the point: "2.63", "1,979".
std::string plain(double number) {
  constexpr double kThreeDigits = 999.5;
  if (std::abs(number) < kThreeDigits) return fmt::format("{:.3g}", number);
  constexpr double kMostDigits = 1e15;
  if (std::abs(number) >= kMostDigits) return significant(number);
  return with_thousands(static_cast<std::int64_t>(std::llround(number)));
}

}  // namespace

std::string seconds_text(Seconds time) {
  const double seconds = time.value();
  constexpr double kNothing = 5e-7;   // no part of a step is known so well
  constexpr double kSecond = 0.9995;  // would be printed as 1e+03 ms
  if (std::abs(seconds) < kNothing) return "0 ms";
  if (std::abs(seconds) < kSecond) return fmt::format("{:.3g} ms", seconds * 1e3);
  return plain(seconds) + " s";
}

std::string_view words_of(TimePart part) {
  switch (part) {
    case TimePart::Products: return "matrix products";
    case TimePart::AttentionCores: return "attention";
    case TimePart::Streams: return "memory-bound kernels";
    case TimePart::Loss: return "loss";
    case TimePart::Launches: return "kernel launches";
    case TimePart::Host: return "waiting for the host";
    case TimePart::Tensor: return "tensor parallel";
    case TimePart::Context: return "context parallel";
    case TimePart::Expert: return "expert parallel";
    case TimePart::Pipeline: return "between stages";
    case TimePart::Bubble: return "pipeline bubble";
    case TimePart::Data: return "data parallel";
    case TimePart::Offload: return "activations to and from the host";
    case TimePart::Optimizer: return "optimizer";
    case TimePart::Waiting: return "waiting for other ranks";
  }
  return {};
}

std::string differences_text(const StepTime& a, const StepTime& b, std::size_t most) {
  std::vector<std::string> texts;
  for (const auto& [part, more] : differences(a, b)) {
    if (texts.size() == most ||
        std::abs(more.value()) < 0.05 * std::abs((b.step - a.step).value())) {
      break;
    }
    texts.push_back(
        fmt::format("{} {}{}", words_of(part), more > Seconds(0) ? "+" : "", seconds_text(more)));
  }
  return texts.empty() ? "no part differs much" : join(texts, ", ");
}

std::string long_step_warning(const StepTime& time, int width) {
  constexpr double kHour = 3600;
  if (time.step.value() < kHour) return "";
  return wrapped_lines(
      fmt::format("warning: a step takes {:.1f} hours. A batch (--batch, gbs) counts sequences; "
                  "--batch 4M-tokens counts tokens.",
                  time.step.value() / kHour),
      width);
}

std::string mfu_text(const StepTime& time, PrecisionKind precision) {
  const ComputeType type = compute_type(precision);
  const bool low = type == ComputeType::Fp8 || type == ComputeType::Fp4;
  return percent(time.mfu) +
         (low ? fmt::format(" of the {} peak", type == ComputeType::Fp8 ? "fp8" : "fp4") : "");
}

std::string time_text(const StepTime& time, PrecisionKind precision) {
  return fmt::format(
      "{} a step (90 % interval {} to {} s), {} tokens/s per accelerator, MFU "
      "{}, HFU {}; at the accelerators' peak its products would take {}.\nOf this: {}.\n",
      seconds_text(time.step), plain(time.low.value()), plain(time.high.value()),
      with_thousands(std::llround(tokens_per_second_per_rank(time))), mfu_text(time, precision),
      percent(time.hfu), seconds_text(time.bound), parts_text(time));
}

}  // namespace trainwright::cli
