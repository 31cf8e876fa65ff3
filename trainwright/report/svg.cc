#include "trainwright/report/svg.h"

#include <fmt/format.h>

#include "trainwright/report/report.h"

namespace trainwright::detail {

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char letter : text) {
    switch (letter) {
      case '<': safe += "&lt;"; break;
      case '>': safe += "&gt;"; break;
      case '&': safe += "&amp;"; break;
      case '"': safe += "&quot;"; break;
      default:
        // XML has no control characters.
        safe += static_cast<unsigned char>(letter) < 0x20 ? ' ' : letter;
    }
  }
  return safe;
}

std::string text_at(double x, double y, std::string_view anchor, const std::string& text) {
  return fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"#333333\">{}</text>\n", x, y,
      anchor, escaped(text));
}

std::string begun_svg(double width, double height, double left, const std::string& title) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
      "<text x=\"{2}\" y=\"24\" font-size=\"16\" fill=\"#1a1a1a\">{3}</text>\n",
      width, height, left, escaped(title));
}

std::string legend_svg(const std::vector<std::string>& names, double left, double right, double y,
                       std::size_t stride) {
  std::string svg;
  double x = left;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const double wide = 30 + 7.0 * character_count(names[i]);
    if (x + wide > right) {
      x = left;
      y += 20;
    }
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"12\" fill=\"{}\"/>\n",
                       x, y - 10, kColours[(stride * i) % kColours.size()]);
    svg += text_at(x + 17, y, "start", names[i]);
    x += wide;
  }
  return svg;
}

}  // namespace trainwright::detail
