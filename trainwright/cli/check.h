#pragma once
// Private to `trainwright check`: what is found of each recipe, for people, pull requests and
// programs.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/cli/command.h"

namespace trainwright::cli {

// From the best to the worst.
enum class RecipeVerdict { Fits, Slow, Tight, DoesNotFit, Invalid, NotRead };
std::string_view name_of(RecipeVerdict verdict);  // "does-not-fit"

struct Finding {
  std::string file;
  std::int64_t line = 1;  // that it is about
  RecipeVerdict verdict = RecipeVerdict::NotRead;
  std::string what = {}, hint = {};     // one sentence each, without full stop; may be empty
  std::vector<std::string> notes = {};  // what the answer leaves out, as sentences
  struct Figures {
    std::string on, layout, peak, capacity, step;  // as text
    double oom = 0, step_seconds = 0;
    std::int64_t peak_bytes = 0, capacity_bytes = 0;
    std::optional<double> best_seconds = {};  // of the fastest layout, where it was searched
  };
  std::optional<Figures> figures = {};  // of a recipe that is valid
};

std::string table_text(std::span<const Finding> found, int width);
// A line for each recipe that something is to be said of: ::error file=run.sh,line=12,title=...
std::string annotations_text(std::span<const Finding> found);
Json to_json(std::span<const Finding> found);

}  // namespace trainwright::cli
