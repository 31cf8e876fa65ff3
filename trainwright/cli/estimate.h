#pragma once
// Private to `trainwright estimate`: an answer, for people and for programs.
#include <optional>
#include <string>

#include "trainwright/cli/setting.h"
#include "trainwright/memory/memory.h"

namespace trainwright::cli {

struct Answer {
  const Setting& setting;
  const MemoryEstimate& estimate;
  std::optional<Change> change;  // that would fit, when this does not
};

inline const RankClass& worst_of(const MemoryEstimate& estimate) {
  return estimate.classes[estimate.worst];
}
inline bool fits(const MemoryEstimate& estimate) {
  return worst_of(estimate).driver <= estimate.capacity;
}

std::string answer_text(const Answer& answer, int width);
Json answer_json(const Answer& answer);

}  // namespace trainwright::cli
