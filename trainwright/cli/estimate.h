#pragma once
// Private to `trainwright estimate`: an answer, for people and for programs.
#include <optional>
#include <string>

#include "trainwright/cli/host_memory.h"
#include "trainwright/cli/own_runs.h"
#include "trainwright/cli/setting.h"
#include "trainwright/memory/memory.h"
#include "trainwright/simulate/simulate.h"

namespace trainwright::cli {

// Of a load of experts that is not even.
struct UnevenLoad {
  ExpertLoad load;
  RankLoad busiest;
  Seconds step_if_even;
  Bytes more;  // allocated on the fullest rank than if even
};

struct Answer {
  std::string words;  // of the layout, as typed
  const Question& setting;
  const MemoryEstimate& estimate;
  StepTime time;
  double risk = kUsualRisk;
  Fit fit = Fit::Fits;
  std::optional<Change> change = {};    // that would fit, when this does not or is tight
  std::optional<HostMemory> host = {};  // of offloading
  std::optional<MeasuredHere> measured = {};
  std::optional<UnevenLoad> uneven = {};
  std::vector<UnspecifiedEffect> unspecified = {};  // of its machines
  std::vector<std::string> not_counted = {};        // sentences before the table
  std::vector<std::string> notes = {};              // and below it
};

inline const RankClass& worst_of(const MemoryEstimate& estimate) {
  return estimate.classes[estimate.worst];
}

std::optional<UnevenLoad> uneven_load(const Answer& answer, const MemoryConstants& constants,
                                      Seconds step_if_even);
// `advice`: what the trainer has to say of a legal layout.
std::vector<std::string> estimate_notes(const Answer& answer, const MemoryConstants& constants,
                                        const std::vector<LayoutViolation>& advice);

std::string answer_summary(const Answer& answer, int width);
std::string answer_text(const Answer& answer, int width);  // --verbose
Json answer_json(const Answer& answer);

}  // namespace trainwright::cli
