#pragma once
// Private to `trainwright estimate`: an answer, for people and for programs.
#include <optional>
#include <string>

#include "trainwright/cli/setting.h"
#include "trainwright/memory/memory.h"
#include "trainwright/simulate/simulate.h"

namespace trainwright::cli {

struct Answer {
  std::string words;  // of the layout, as typed
  const Question& setting;
  const MemoryEstimate& estimate;
  StepTime time;
  Fit fit = Fit::Fits;
  std::optional<Change> change;  // that would fit, when this does not or is tight
};

inline const RankClass& worst_of(const MemoryEstimate& estimate) {
  return estimate.classes[estimate.worst];
}

std::string answer_text(const Answer& answer, int width);
Json answer_json(const Answer& answer);

}  // namespace trainwright::cli
