// A curve over a count of events, drawn in characters and as SVG.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trainwright/report/report.h"
#include "trainwright/report/svg.h"

namespace trainwright {
namespace {

using detail::escaped;

// The largest value of each of `buckets` equal parts, so that no peak is lost.
std::vector<double> maxima(const std::vector<double>& values, std::size_t buckets) {
  std::vector<double> most(std::min(buckets, values.size()), 0);
  for (std::size_t b = 0; b < most.size(); ++b) {
    const std::size_t begin = b * values.size() / most.size();
    const std::size_t end = std::max(begin + 1, (b + 1) * values.size() / most.size());
    most[b] = *std::max_element(values.begin() + static_cast<std::ptrdiff_t>(begin),
                                values.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return most;
}

double largest(const std::vector<double>& values) {
  return values.empty() ? 0 : std::max(0.0, *std::max_element(values.begin(), values.end()));
}

constexpr double kLeft = 90, kTop = 46, kPlotWidth = 1080, kPlotHeight = 320, kBottom = 46;

std::string polyline(const std::vector<double>& heights, double scale, bool closed) {
  std::string points;
  const double step = kPlotWidth / static_cast<double>(heights.size());
  const auto point = [&](double x, double y) {
    points += fmt::format("{:.1f},{:.1f} ", kLeft + x, kTop + kPlotHeight - y);
  };
  if (closed) point(0, 0);
  for (std::size_t i = 0; i < heights.size(); ++i) {
    point(static_cast<double>(i) * step, heights[i] * scale);
    point(static_cast<double>(i + 1) * step, heights[i] * scale);
  }
  if (closed) point(kPlotWidth, 0);
  return points;
}

}  // namespace

std::string block_chart(const Curve& curve, int width, int height) {
  const std::string_view eighths[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const double top = largest(curve.values);
  const std::string most = curve.label(top);
  const auto margin = static_cast<std::size_t>(std::max(character_count(most), 1));
  const auto columns = static_cast<std::size_t>(std::max(width - static_cast<int>(margin) - 1, 8));
  const std::vector<double> heights = maxima(curve.values, columns);
  std::string text;
  for (int row = height - 1; row >= 0; --row) {
    const std::string left = row == height - 1 ? most : row == 0 ? "0" : "";
    text += fmt::format("{:>{}} ", left, margin);
    std::string line;
    for (const double value : heights) {
      const double filled = top > 0 ? value / top * height - row : 0;
      // Anything above zero is seen, and only the maximum fills the last eighth.
      const auto level = static_cast<int>(std::clamp(std::ceil(filled * 8 - 1e-9), 0.0, 8.0));
      line += eighths[level];
    }
    while (line.ends_with(' ')) line.pop_back();
    text += line;
    while (text.ends_with(' ')) text.pop_back();
    text += '\n';
  }
  if (curve.letters.size() != curve.values.size() || heights.empty()) return text;
  text += std::string(margin + 1, ' ');
  for (std::size_t b = 0; b < heights.size(); ++b) {
    text += curve.letters[b * curve.letters.size() / heights.size()];
  }
  return text + '\n';
}

std::string to_svg(const Curve& curve) {
  const double above = curve.values_above.empty() ? 0 : largest(curve.values_above);
  const double top = std::max({largest(curve.values), above, 1e-300});
  const double scale = kPlotHeight / top;
  const auto buckets = static_cast<std::size_t>(kPlotWidth);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" font-family=\"sans-serif\" font-size=\"13\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
      "<text x=\"{2}\" y=\"24\" font-size=\"16\" fill=\"#1a1a1a\">{3}</text>\n",
      kLeft + kPlotWidth + 30, kTop + kPlotHeight + kBottom, kLeft, escaped(curve.title));
  // Round numbers of bytes are powers of two; three to five of them above zero.
  const double tick = std::exp2(std::floor(std::log2(top / 3)));
  for (double value = 0; value <= top; value += tick) {
    const double y = kTop + kPlotHeight - value * scale;
    svg += fmt::format(
        "<line x1=\"{0}\" y1=\"{1:.1f}\" x2=\"{2}\" y2=\"{1:.1f}\" stroke=\"#dddddd\"/>\n"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\" fill=\"#555555\">{5}</text>\n",
        kLeft, y, kLeft + kPlotWidth, kLeft - 8, y + 4, escaped(curve.label(value)));
  }
  if (!curve.values.empty()) {
    svg += fmt::format("<polygon points=\"{}\" fill=\"#4477aa\" fill-opacity=\"0.75\"/>\n",
                       polyline(maxima(curve.values, buckets), scale, true));
  }
  if (!curve.values_above.empty()) {
    svg += fmt::format(
        "<polyline points=\"{}\" fill=\"none\" stroke=\"#ee6677\" stroke-width=\"1.5\"/>\n",
        polyline(maxima(curve.values_above, buckets), scale, false));
  }
  const double per_value =
      kPlotWidth / static_cast<double>(std::max<std::size_t>(curve.values.size(), 1));
  double free_from = kLeft;  // labels that would overlap the one before are left out
  for (const CurveMark& mark : curve.marks) {
    const double x = kLeft + (static_cast<double>(mark.at) + 0.5) * per_value;
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\" stroke=\"#222222\" "
        "stroke-dasharray=\"3 3\"/>\n",
        x, kTop, kTop + kPlotHeight);
    const double wide = 7.0 * character_count(mark.label);
    const double at = std::min(x, kLeft + kPlotWidth - wide);
    if (at < free_from) continue;
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" fill=\"#1a1a1a\">{}</text>\n", at, kTop - 6,
                       escaped(mark.label));
    free_from = at + wide + 8;
  }
  svg += fmt::format("<text x=\"{}\" y=\"{}\" fill=\"#555555\">{}</text>\n</svg>\n", kLeft,
                     kTop + kPlotHeight + 28, escaped(curve.caption));
  return svg;
}

}  // namespace trainwright
