// Rows of coloured pieces as SVG.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "trainwright/report/report.h"
#include "trainwright/report/svg.h"

namespace trainwright {
namespace {

using detail::escaped;

constexpr double kWidth = 1200, kLeft = 150, kRight = 110, kTop = 46, kRow = 22, kGap = 5;
// Of the page (web/report/page.css): each has a contrast of 3 on white and on black.
constexpr std::array<std::string_view, 15> kColours = {
    "#3175bb", "#3a8bc9", "#6a63c4", "#8f57b3", "#2f855a", "#56912a", "#86821a", "#b7791f",
    "#c05621", "#b5533c", "#a9527e", "#0f8a94", "#7a8691", "#5f7186", "#8d7b6b"};

double x_of(const BarPicture& picture, double value) {
  return kLeft + (kWidth - kLeft - kRight) * (value / picture.most);
}

std::string text_at(double x, double y, std::string_view anchor, const std::string& text) {
  return fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"#333333\">{}</text>\n", x, y,
      anchor, escaped(text));
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

// Names in rows, each beside its colour.
std::string legend_svg(const BarPicture& picture, double y) {
  std::string svg;
  double x = kLeft;
  for (std::size_t i = 0; i < picture.legend.size(); ++i) {
    const double wide = 30 + 7.0 * character_count(picture.legend[i]);
    if (x + wide > kWidth) {
      x = kLeft;
      y += 20;
    }
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"12\" fill=\"{}\"/>\n",
                       x, y - 10, kColours[i % kColours.size()]);
    svg += text_at(x + 17, y, "start", picture.legend[i]);
    x += wide;
  }
  return svg;
}

}  // namespace

std::string to_svg(const BarPicture& picture) {
  const double plot = (kRow + kGap) * static_cast<double>(picture.bars.size());
  constexpr double kBelow = 110;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
      "<text x=\"{2}\" y=\"24\" font-size=\"16\" fill=\"#1a1a1a\">{3}</text>\n",
      kWidth, kTop + plot + kBelow, kLeft, escaped(picture.title));
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
  svg += legend_svg(picture, kTop + plot + 44);
  return svg + text_at(kLeft, kTop + plot + kBelow - 12, "start", picture.caption) + "</svg>\n";
}

}  // namespace trainwright
