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

std::string range_text(Seconds low, Seconds high) {
  std::string from = seconds_text(low);
  const std::string to = seconds_text(high);
  const std::size_t unit = from.rfind(' ');
  if (unit != std::string::npos && to.ends_with(from.substr(unit))) from.resize(unit);
  return from + " to " + to;
}

std::string_view words_of(TimePart part) {
  switch (part) {
    case TimePart::Products: return "GEMMs";
    case TimePart::AttentionCores: return "attention";
    case TimePart::Streams: return "memory-bound kernels";
    case TimePart::Loss: return "loss";
    case TimePart::Gaps: return "gaps between kernels";
    case TimePart::Host: return "host overhead";
    case TimePart::Tensor: return "exposed TP communication";
    case TimePart::Context: return "exposed CP communication";
    case TimePart::Expert: return "exposed EP communication";
    case TimePart::Pipeline: return "exposed PP communication";
    case TimePart::Bubble: return "pipeline bubble";
    case TimePart::Data: return "exposed DP communication";
    case TimePart::Offload: return "exposed offload";
    case TimePart::Optimizer: return "optimizer";
    case TimePart::Waiting: return "pipeline imbalance";
    case TimePart::Fixed: return "fixed overhead of a step";
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
      "{}/step (90 % interval {} to {} s), {} tokens/s/device, MFU {}, HFU {}; compute lower bound "
      "(GEMM FLOPs at peak) {}.\nStep time: {}.\n",
      seconds_text(time.step), plain(time.low.value()), plain(time.high.value()),
      with_thousands(std::llround(tokens_per_second_per_rank(time))), mfu_text(time, precision),
      percent(time.hfu), seconds_text(time.bound), parts_text(time));
}

}  // namespace trainwright::cli
