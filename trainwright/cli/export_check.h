#pragma once
// What a target's own code says about an export, for `export --check`.
#include <string>

#include "trainwright/base/json.h"
#include "trainwright/base/result.h"

namespace trainwright::cli {

enum class Verdict { Accepted, Refused, NotChecked };

struct Checked {
  Verdict verdict = Verdict::NotChecked;
  std::string reason = {};  // of all but Accepted
  std::string by = {};      // package and version, if it is there: "torchtitan 0.3.0"
};
// Runs data/judges/check.py of that data directory with that interpreter, which has the target
// installed. `question` is as check.py reads it.
Result<Checked> checked_by_target(const Json& question, const std::string& data,
                                  const std::string& python);
Json to_json(const Checked& checked);
std::string to_text(const Checked& checked);  // one sentence

}  // namespace trainwright::cli
