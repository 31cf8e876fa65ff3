#include "trainwright/model/published.h"

#include <cmath>

#include "trainwright/base/text.h"

namespace trainwright {
namespace detail {

std::optional<Figure> parse_figure(std::string_view text) {
  double unit = 1;
  const std::string_view units = "KMBT";
  const std::size_t at = text.empty() ? std::string_view::npos : units.find(text.back());
  if (at != std::string_view::npos) {
    unit = std::pow(1000.0, static_cast<double>(at + 1));
    text.remove_suffix(1);
  }
  const auto number = parse_number(text);
  if (!number || *number <= 0 || text.find_first_not_of("0123456789.") != std::string_view::npos) {
    return std::nullopt;
  }
  const std::size_t point = text.find('.');
  const std::size_t digits = point == std::string_view::npos ? 0 : text.size() - point - 1;
  if (unit == 1 && digits == 0) return Figure{*number, 0};
  return Figure{*number * unit, 0.5 * std::pow(10.0, -static_cast<double>(digits)) * unit};
}

}  // namespace detail

}  // namespace trainwright
