#include "trainwright/cli/glance.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "trainwright/base/text.h"
#include "trainwright/cli/time_text.h"
#include "trainwright/report/report.h"

namespace trainwright::cli {
namespace {

constexpr int kIndent = 2;
constexpr double kSmall = 0.02;  // of the whole: not worth a row

struct Share {
  std::string name;
  double value = 0;
};

// Parts in `unit`, of which one is `size`.
std::string rows_text(const std::vector<Share>& parts, double whole, double size,
                      std::string_view unit) {
  std::vector<Share> rows;
  Share rest{"other", 0};
  for (const Share& part : parts) {
    if (part.value < kSmall * whole) {
      rest.value += part.value;
    } else {
      rows.push_back(part);
    }
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Share& a, const Share& b) { return a.value > b.value; });
  if (rest.value > 0) rows.push_back(rest);
  const int decimals = whole / size >= 100 ? 1 : 2;
  std::size_t longest = 0, widest = 0;
  std::vector<std::string> values;
  for (const Share& row : rows) {
    values.push_back(fmt::format("{:.{}f} {}", row.value / size, decimals, unit));
    longest = std::max(longest, row.name.size());
    widest = std::max(widest, values.back().size());
  }
  std::string text;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double share = rows[i].value / whole;
    const auto bar = static_cast<std::size_t>(std::llround(10 * share));
    text += fmt::format("  {:<{}}  {:>{}}  {:>3.0f} %{}{}\n", rows[i].name, longest, values[i],
                        widest, 100 * share, bar > 0 ? "  " : "", std::string(bar, '#'));
  }
  return text;
}

// What bytes of a rank are taken for.
std::string_view family_of(Category category) {
  switch (category) {
    case Category::Weights:
    case Category::MainWeights:
    case Category::Gradients:
    case Category::OptimizerStates: return "model states";
    case Category::Activations:
    case Category::Logits: return "activations";
    case Category::GatherBuffers:
    case Category::ReduceBuffers:
    case Category::PointToPoint:
    case Category::Communicators: return "communication buffers";
    case Category::AllocatorSlack: return "reserved, unallocated";
    case Category::Context: return "device context";
    default: return "temporary buffers";
  }
}

}  // namespace

std::string asked_text(const AskedStep& asked, int width) {
  return wrapped_lines(
      fmt::format("{} on {} with {} {}, {}; {} of {} tokens per step", asked.model.name,
                  asked.cluster.name, asked.trainer.title, to_text(asked.trainer.version),
                  name_of(asked.precision), counted(asked.gbs, "sequence", "sequences"),
                  with_thousands(asked.seq)),
      width);
}

std::string speed_text(const StepTime& time, PrecisionKind precision) {
  return fmt::format("{}/step (90 % interval {}), {} tokens/s/device, MFU {}",
                     seconds_text(time.step), range_text(time.low, time.high),
                     with_thousands(std::llround(tokens_per_second_per_rank(time))),
                     mfu_text(time, precision));
}

std::string breakdown_text(const StepTime& time) {
  std::vector<Share> parts;
  for (std::size_t i = 0; i < kTimeParts; ++i) {
    parts.push_back({std::string(words_of(static_cast<TimePart>(i))), time.parts[i].value()});
  }
  const double step = time.step.value();
  return step >= 1 ? rows_text(parts, step, 1, "s") : rows_text(parts, step, 1e-3, "ms");
}

std::string breakdown_text(const RankClass& rank) {
  std::vector<Share> parts;
  for (std::size_t i = 0; i < kCategories; ++i) {
    const std::string_view family = family_of(static_cast<Category>(i));
    const double bytes = static_cast<double>(rank.bytes[i].value());
    const auto known = std::find_if(parts.begin(), parts.end(),
                                    [&](const Share& part) { return part.name == family; });
    if (known == parts.end()) {
      parts.push_back({std::string(family), bytes});
    } else {
      known->value += bytes;
    }
  }
  return rows_text(parts, static_cast<double>(rank.driver.value()), 1 << 30, "GiB");
}

std::string indented(const std::string& prose, int width) {
  const std::string lines = wrapped_lines(prose, width - kIndent);
  std::string text;
  for (const std::string_view line : split(trim(lines), '\n')) {
    text += std::string(kIndent, ' ') + std::string(line) + '\n';
  }
  return text;
}

Argument verbose_argument(const std::string& adds) {
  return {"--verbose", Argument::Kind::Flag, adds};
}

}  // namespace trainwright::cli
