#pragma once
// Private to trainer: rules that follow from its facts.
#include <vector>

#include "trainwright/trainer/trainer.h"

namespace trainwright {

// One rule per kind of choice: the schedule, precision, recompute, ... must be one the file lists.
// The trainer's facts must have been read without fault.
std::vector<Rule> offered_rules(const Trainer& trainer);

}  // namespace trainwright
