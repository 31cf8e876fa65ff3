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

}  // namespace trainwright
