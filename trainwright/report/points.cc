// Points by two quantities as SVG.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trainwright/report/report.h"
#include "trainwright/report/svg.h"

namespace trainwright {
namespace {

using detail::begun_svg, detail::kColours, detail::legend_svg, detail::text_at;

constexpr double kWidth = 1200, kLeft = 190, kRight = 60, kTop = 56, kBelow = 110;

// 0 at the beginning of a scale, 1 at its end.
double share_of(const Scale& scale, double value) {
  const double at = std::clamp(value, scale.least, scale.most);
  return scale.logarithmic ? std::log(at / scale.least) / std::log(scale.most / scale.least)
                           : (at - scale.least) / (scale.most - scale.least);
}
double x_of(const PointPicture& picture, double value) {
  return kLeft + (kWidth - kLeft - kRight) * share_of(picture.x, value);
}
double y_of(const PointPicture& picture, double value) {
  return kTop + picture.height * (1 - share_of(picture.y, value));
}

std::string line_svg(double x1, double y1, double x2, double y2, std::string_view looks) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1,
                     x2, y2, looks);
}

std::string group_svg(const PointPicture& picture, const PointGroup& group,
                      std::string_view colour) {
  std::string dots, path;
  for (const auto& [x, y] : group.points) {
    const double left = x_of(picture, x), top = y_of(picture, y);
    dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" {}=\"{}\"/>\n", left, top,
                        group.hollow ? "fill=\"none\" stroke" : "fill", colour);
    path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? 'M' : 'L', left, top);
  }
  if (!group.joined) return dots;
  return fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\"/>\n", path, colour) + dots;
}

}  // namespace

std::string to_svg(const PointPicture& picture) {
  constexpr std::string_view kGrid = "stroke=\"#dddddd\"";
  const double end = kTop + picture.height;
  std::string svg = begun_svg(kWidth, end + kBelow, kLeft, picture.title);
  for (const auto& [value, text] : picture.x.ticks) {
    const double x = x_of(picture, value);
    svg += line_svg(x, kTop, x, end, kGrid) + text_at(x, end + 16, "middle", text);
  }
  for (const auto& [value, text] : picture.y.ticks) {
    const double y = y_of(picture, value);
    svg += line_svg(kLeft, y, kWidth - kRight, y, kGrid) + text_at(kLeft - 8, y + 4, "end", text);
  }
  svg += text_at(kWidth - kRight, end + 34, "end", picture.x.name);
  svg += text_at(kLeft - 8, kTop - 12, "end", picture.y.name);
  if (picture.mark > 0) {
    const double x = x_of(picture, picture.mark);
    svg += line_svg(x, kTop - 6, x, end,
                    "stroke=\"#222222\" stroke-width=\"1.5\" stroke-dasharray=\"5 3\"");
  }
  std::vector<std::string> names;
  for (const PointGroup& group : picture.groups) names.push_back(group.name);
  for (std::size_t i = names.size(); i-- > 0;) {
    svg += group_svg(picture, picture.groups[i], kColours[(4 * i) % kColours.size()]);
  }
  if (names.size() > 1) svg += legend_svg(names, kLeft, kWidth, end + 60, 4);
  return svg + text_at(kLeft, end + kBelow - 12, "start", picture.caption) + "</svg>\n";
}

}  // namespace trainwright
