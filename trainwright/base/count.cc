#include "trainwright/base/count.h"

#include "trainwright/base/text.h"

namespace trainwright {

std::optional<std::int64_t> parse_count(std::string_view text) {
  constexpr std::int64_t kThousand = 1024;
  std::int64_t unit = 1;
  if (text.ends_with('k') || text.ends_with('K')) unit = kThousand;
  if (text.ends_with('m') || text.ends_with('M')) unit = kThousand * kThousand;
  if (unit > 1) text.remove_suffix(1);
  const auto number = parse_integer(text);
  if (!number || *number > INT64_MAX / unit || *number < INT64_MIN / unit) return std::nullopt;
  return *number * unit;
}

std::string_view count_fault(std::string_view text) {
  const std::size_t digits = text.find_first_not_of("0123456789", text.starts_with('-') ? 1 : 0);
  const std::size_t end = digits == text.npos ? text.size() : digits;
  const bool unit = end + 1 == text.size() && std::string_view("kKmM").find(text[end]) != text.npos;
  const bool number = end > (text.starts_with('-') ? 1U : 0U) && (end == text.size() || unit);
  return number ? "is too large" : "is not a whole number";
}

}  // namespace trainwright
