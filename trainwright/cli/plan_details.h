#pragma once
// Private to `plan` and `report`: what a page about a plan shows beside the plan itself, as JSON.
// The core computes every number and says every sentence; the page draws.
#include <map>
#include <string>
#include <vector>

#include "trainwright/cli/plan.h"

namespace trainwright::cli {

// Layouts beyond these have no details.
inline constexpr std::size_t kMostDetailed = 20;

// {"title", "layouts", "notes", "commands", ...}; `question` is what the plan was made for.
Result<Json> details_json(const Invocation& invocation, const Plan& plan,
                          const SearchQuestion& question);

// Words of a command line, and the plan's own with other values of some options.
using Options = std::map<std::string, std::string>;
std::string command_line(const std::vector<std::string>& words);
std::string plan_again(const Invocation& invocation, const Options& instead);
// Where nothing fits: what would, nearest to what was asked first.
struct WayOut {
  std::string does;     // "train adapters only (LoRA)"
  std::string found;    // the layout, its time and memory
  std::string command;  // that plans it
};
Result<std::vector<WayOut>> ways_out(const Invocation& invocation, const Plan& plan,
                                     const SearchQuestion& asked);

// A layout in plain English: what it does with the model, and each entry by itself.
struct LayoutWord {
  std::string entry;  // "tp=8"
  std::string says;   // "every matrix is split over 8 accelerators"
};
std::string headline(const Layout& layout);
std::vector<LayoutWord> plain_words(const Layout& layout);
// How the bytes of a category come about, for every rank of a layout; numbers where they are the
// same for all of them.
std::string formula_of(Category category, const Wanted& wanted, const PlannedLayout& plan);

// Actions of the recommended layout by the clock, and of the same with other schedules that the
// trainer offers.
Result<Json> timelines_json(const SearchQuestion& question, const Layout& layout);

// What only a page needs of --from, --pareto and --why-not: sentences, rows of tables.
Json today_details(const Plan& plan);
Json pareto_details(const Plan& plan);
Json why_not_details(const Plan& plan);

// Published runs of the software stack that the step time was fitted to, and of memory: how far
// predictions were off.
Result<Json> accuracy_json(const DataDirectory& data, const Wanted& wanted,
                           const MemoryEstimate& memory);

// {"points", "says"}: the same step on a quarter, half, twice and four times the accelerators, with
// the fastest layouts where searching them is cheap, else with more or fewer copies of the
// recommended one.
Result<Json> scaling_json(const Plan& plan, const SearchQuestion& question,
                          const Hardware& hardware);

// Each picture of the page as SVG; what the document lacks is left out.
std::vector<File> report_pictures(const Json& document, const std::string& folder);

// The page about a plan of --json --details. Diagnoses a file that is none.
Result<std::string> report_page(const DataDirectory& data, const Json& document,
                                const std::string& origin);

}  // namespace trainwright::cli
