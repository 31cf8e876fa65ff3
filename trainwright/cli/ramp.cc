#include "trainwright/cli/ramp.h"

#include "trainwright/base/count.h"
#include "trainwright/base/text.h"

namespace trainwright::cli {

std::optional<std::vector<std::int64_t>> parse_ramp(std::string_view text) {
  const bool doubles = text.find('-') != text.npos;
  const std::vector<std::string_view> parts = split(text, doubles ? '-' : ':');
  if (parts.size() != (doubles ? 2 : 3)) return std::nullopt;
  const auto first = parse_count(parts.front()), last = parse_count(parts.back());
  const auto more = doubles ? std::optional<std::int64_t>(0) : parse_count(parts[1]);
  if (!first || !last || !more || *first < 1 || *first >= *last) return std::nullopt;
  if (!doubles && *more < 1) return std::nullopt;
  std::vector<std::int64_t> batches;
  for (std::int64_t batch = *first; batch < *last; batch += doubles ? batch : *more) {
    if (batches.size() + 1 == kMostStages) return std::nullopt;
    batches.push_back(batch);
    if (batch > *last / 2 && doubles) break;
  }
  batches.push_back(*last);
  return batches;
}

}  // namespace trainwright::cli
