#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "trainwright/base/check.h"
#include "trainwright/base/text.h"
#include "trainwright/schedule/memory_drawing.h"
#include "trainwright/schedule/schedule.h"

namespace trainwright {
namespace {

// Layout in pixels.
constexpr double kWidth = 1200, kLeft = 64, kRight = 16, kTop = 34;
constexpr double kRow = 22, kMemory = 9, kCurve = 36, kGap = 6;

using Out = std::back_insert_iterator<std::string>;

// Colours that differ in lightness too: forward blue, backward orange, its parts teal and green.
std::string_view colour_of(ActionKind kind, bool first_chunk) {
  switch (kind) {
    case ActionKind::Forward: return first_chunk ? "#8ab4e8" : "#c6daf4";
    case ActionKind::BackwardInput: return first_chunk ? "#57b8b0" : "#a8dcd8";
    case ActionKind::BackwardWeight: return first_chunk ? "#93c47d" : "#c9e3bd";
    case ActionKind::Backward: return first_chunk ? "#f0a860" : "#f7d3ae";
    default: return "#cccccc";
  }
}

struct Scale {
  double per_second = 0;
  double bytes = 1;         // the fullest rank, or the cap
  double memory = kMemory;  // pixels of them
  double x(Seconds time) const { return kLeft + time.value() * per_second; }
};

void draw_actions(Out out, const Schedule& schedule, const Timeline& timeline, std::size_t rank,
                  const Scale& scale, const std::vector<char>& first_chunk, double top) {
  const auto& list = schedule.ranks[rank];
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Action action = list[i];
    const Span span = timeline.spans[rank][i];
    const bool above = action.overlaps_next && timeline.spans[rank][i + 1].start == span.start;
    const bool below =
        i > 0 && list[i - 1].overlaps_next && timeline.spans[rank][i - 1].start == span.start;
    const double height = above || below ? kRow / 2 : kRow;
    const double y = below ? top + kRow / 2 : top;
    const double x = scale.x(span.start), width = scale.x(span.end) - x;
    fmt::format_to(out,
                   "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" "
                   "fill=\"{}\"><title>{} {} to {}</title></rect>\n",
                   x, y, width, height, colour_of(action.kind, first_chunk[action.stage] != 0),
                   to_text(action), time_text(span.start, timeline.in_forwards),
                   time_text(span.end, timeline.in_forwards));
    const std::string number = std::to_string(action.microbatch);
    if (width >= 7.0 * static_cast<double>(number.size())) {
      fmt::format_to(out, "<text x=\"{:.2f}\" y=\"{:.1f}\" class=\"m\">{}</text>\n", x + width / 2,
                     y + height / 2 + 3.5, number);
    }
  }
}

void draw_memory(Out out, const Timeline& timeline, std::size_t rank, const Scale& scale,
                 double bottom) {
  fmt::format_to(out, "<path class=\"mem\" d=\"M{:.2f} {:.1f}", kLeft, bottom);
  for (const MemoryPoint& point : timeline.memory[rank]) {
    const double height = static_cast<double>(point.live.value()) / scale.bytes * scale.memory;
    fmt::format_to(out, "H{:.2f}V{:.2f}", scale.x(point.at), bottom - std::max(0.0, height));
  }
  fmt::format_to(out, "H{:.2f}V{:.1f}Z\"/>\n", scale.x(timeline.makespan), bottom);
}

// The cap as a line above a rank's memory, and its peak.
void draw_cap(Out out, Bytes peak, const Costs& costs, const Scale& scale, double right,
              double bottom) {
  const double top = bottom - scale.memory;
  fmt::format_to(out,
                 "<path class=\"cap\" d=\"M{:.2f} {:.1f}H{:.2f}\"/>\n"
                 "<text x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\" class=\"p\">{}</text>\n",
                 kLeft, top, right, kLeft - 6, bottom - 2, memory_text(peak, costs));
}

void draw_legend(Out out, std::optional<Bytes> cap, const Costs& costs) {
  constexpr std::pair<ActionKind, std::string_view> kEntries[] = {
      {ActionKind::Forward, "forward"},
      {ActionKind::Backward, "backward"},
      {ActionKind::BackwardInput, "input part"},
      {ActionKind::BackwardWeight, "weight part"}};
  double x = kLeft;
  for (const auto& [kind, text] : kEntries) {
    fmt::format_to(out,
                   "<rect x=\"{0:.0f}\" y=\"9\" width=\"13\" height=\"13\" fill=\"{1}\"/>"
                   "<text x=\"{2:.0f}\" y=\"20\">{3}</text>\n",
                   x, colour_of(kind, true), x + 18, text);
    x += 100;
  }
  fmt::format_to(out,
                 "<text x=\"{:.0f}\" y=\"20\">paler: later chunks; numbers: micro-batches; grey{}"
                 "</text>\n",
                 x,
                 cap ? ": memory under the cap of " + memory_text(*cap, costs) : " strip: memory");
}

std::string drawn_svg(const Schedule& schedule, const Timeline& timeline, const Costs& costs,
                      std::optional<Bytes> cap) {
  TW_CHECK(timeline.spans.size() == schedule.ranks.size(), "a drawing needs Detail::Full");
  Scale scale;
  if (timeline.makespan.value() > 0) {
    scale.per_second = (kWidth - kLeft - kRight) / timeline.makespan.value();
  }
  scale.bytes =
      std::max(1.0, static_cast<double>(std::max(cap.value_or(Bytes(0)), peak(timeline)).value()));
  if (cap) scale.memory = kCurve;
  std::vector<char> first_chunk(schedule.placement.rank_of.size(), 0);
  std::vector<char> seen(schedule.ranks.size(), 0);
  for (std::size_t stage = 0; stage < first_chunk.size(); ++stage) {
    char& before = seen[schedule.placement.rank_of[stage].at()];
    first_chunk[stage] = before == 0 ? 1 : 0;
    before = 1;
  }
  const double pitch = kRow + scale.memory + kGap;
  const double height = kTop + pitch * static_cast<double>(schedule.ranks.size()) + 24;
  std::string text;
  Out out(text);
  fmt::format_to(out,
                 "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
                 "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n"
                 "<style>rect{{stroke:#fff;stroke-width:.6}}.m{{text-anchor:middle;font-size:10px}}"
                 ".mem{{fill:#b5b5b5}}.cap{{stroke:#b5533c;stroke-dasharray:5 3;fill:none}}"
                 ".p{{font-size:10px}}</style>\n"
                 "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
                 kWidth, height);
  draw_legend(out, cap, costs);
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const double top = kTop + pitch * static_cast<double>(rank);
    fmt::format_to(out,
                   "<text x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\">rank {}</text>\n"
                   "<rect x=\"{:.0f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.0f}\" "
                   "fill=\"#efefef\"/>\n",
                   kLeft - 6, top + 15, rank, kLeft, top, scale.x(timeline.makespan) - kLeft, kRow);
    draw_actions(out, schedule, timeline, rank, scale, first_chunk, top);
    const double bottom = top + kRow + scale.memory + 1;
    draw_memory(out, timeline, rank, scale, bottom);
    if (cap) {
      draw_cap(out, timeline.ranks[rank].peak, costs, scale, scale.x(timeline.makespan), bottom);
    }
  }
  fmt::format_to(out,
                 "<text x=\"{:.0f}\" y=\"{:.0f}\">0</text><text x=\"{:.0f}\" y=\"{:.0f}\" "
                 "text-anchor=\"end\">{}, {} idle, peak {}</text>\n</svg>\n",
                 kLeft, height - 8, kWidth - kRight, height - 8,
                 time_text(timeline.makespan, timeline.in_forwards), percent(bubble(timeline)),
                 memory_text(peak(timeline), costs));
  return text;
}

}  // namespace

std::string to_svg(const Schedule& schedule, const Timeline& timeline, const Costs& costs) {
  return drawn_svg(schedule, timeline, costs, std::nullopt);
}

std::string to_svg(const Schedule& schedule, const Timeline& timeline, const Costs& costs,
                   Bytes cap) {
  return drawn_svg(schedule, timeline, costs, cap);
}

}  // namespace trainwright
