// Rows of coloured pieces as SVG.
#include <fmt/format.h>

#include <algorithm>

#include "trainwright/report/report.h"
#include "trainwright/report/svg.h"

namespace trainwright {
namespace {

using detail::begun_svg, detail::kColours, detail::legend_svg, detail::text_at;

constexpr double kWidth = 1200, kLeft = 150, kRight = 110, kTop = 46, kRow = 22, kGap = 5;

double x_of(const BarPicture& picture, double value) {
  return kLeft + (kWidth - kLeft - kRight) * (value / picture.most);
}

std::string bar_svg(const BarPicture& picture, const Bar& bar, double y) {
  std::string svg = text_at(kLeft - 8, y + kRow / 2 + 4, "end", bar.label);
  double end = 0;
  for (const BarPiece& piece : bar.pieces) {
    const double x = x_of(picture, piece.start);
    const double width = std::max(0.3, x_of(picture, piece.start + piece.length) - x - 0.5);
    svg += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\"/>\n", x, y,
        width, kRow, kColours[piece.colour % kColours.size()]);
    end = std::max(end, piece.start + piece.length);
  }
  svg += text_at(x_of(picture, end) + 6, y + kRow / 2 + 4, "start", bar.value);
  if (bar.mark > 0) {
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"#222222\" "
        "stroke-width=\"1.5\" stroke-dasharray=\"5 3\"/>\n",
        x_of(picture, bar.mark), y - 2, y + kRow + 2);
  }
  return svg;
}

}  // namespace

std::string to_svg(const BarPicture& picture) {
  const double plot = (kRow + kGap) * static_cast<double>(picture.bars.size());
  constexpr double kBelow = 110;
  std::string svg = begun_svg(kWidth, kTop + plot + kBelow, kLeft, picture.title);
  for (int tick = 0; tick <= 5; ++tick) {
    const double value = picture.most * tick / 5, x = x_of(picture, value);
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"#dddddd\"/>\n", x,
        kTop, kTop + plot);
    svg += text_at(x, kTop + plot + 16, "middle", picture.label(value));
  }
  for (std::size_t i = 0; i < picture.bars.size(); ++i) {
    svg += bar_svg(picture, picture.bars[i], kTop + (kRow + kGap) * static_cast<double>(i));
  }
  svg += legend_svg(picture.legend, kLeft, kWidth, kTop + plot + 44);
  return svg + text_at(kLeft, kTop + plot + kBelow - 12, "start", picture.caption) + "</svg>\n";
}

}  // namespace trainwright
