#pragma once
// Private to trainer: reading one file of data/trainers.
#include <string>
#include <vector>

#include "trainwright/base/json.h"
#include "trainwright/base/result.h"
#include "trainwright/trainer/trainer.h"

namespace trainwright {

// Lays the facts of a file over `trainer`: fields and entries that the file names replace those of
// the trainer it is based on, an entry that is null removes one, the rest stays. Rules are not
// read.
void read_facts(JsonFields& fields, Trainer& trainer, Diagnostics& faults);

// Parts of it: the object "libraries", an entry of "communicators" and of "optimizers", the string
// "source".
void read_libraries(JsonFields& fields, Trainer& trainer, Diagnostics& faults);
void read_communicator(JsonFields& fields, Communicator& communicator);
void read_optimizer(JsonFields& fields, OptimizerFacts& optimizer);
std::string source_in(JsonFields& fields);

// Whether that is the name or an alias, in any case; `called` is in lower case.
bool goes_by(const std::string& name, const std::vector<std::string>& aliases,
             const std::string& called);

// One rule of rules.json or of a trainer's file.
struct RuleEntry {
  Rule rule;
  std::vector<std::string> trainers;  // names it holds for; empty: all. Only in rules.json
};
// The array `rules` of a file; absent is empty. Ids are unique within a file.
std::vector<RuleEntry> read_rules(JsonFields& fields, Diagnostics& faults);

// The dtype of a state that is whatever the stored weight is.
inline constexpr std::string_view kAsWeight = "as-weight";

// Closed sets of names that only data and its readers use.
std::span<const std::string_view> dtype_names();
std::span<const std::string_view> group_names();  // communicator groups

}  // namespace trainwright
