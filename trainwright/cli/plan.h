#pragma once
// Private to `trainwright plan` and `explain`: what was asked and found, for people and programs.
#include <array>
#include <optional>
#include <string>

#include "trainwright/cli/config.h"
#include "trainwright/cli/host_memory.h"
#include "trainwright/cli/own_runs.h"
#include "trainwright/cli/setting.h"
#include "trainwright/export/export.h"
#include "trainwright/search/search.h"

namespace trainwright::cli {

// What all layouts of an answer are run with, so that it need not be said of each.
struct Shared {
  Flags<Switch> on;
  std::optional<DispatcherKind> dispatcher;
  std::string loss;
  GradientDtype gradients = GradientDtype::AsTrainer;
};
Shared shared_by(const std::vector<PlannedLayout>& best);

// Everything that was asked, read.
struct Wanted {
  Words words;  // as they were given, with those of the file of --from; its layout is today's
  Model model;
  Cluster cluster;
  Trainer trainer;
  Job job;
  MemoryConstants constants;
  KnownTimes times;
  PrecisionKind precision = PrecisionKind::Bf16;
  std::optional<AttentionKernel> attention;
  bool fp8_of_recipes = false, flash_of_recipes = false;  // they are what published recipes take
  std::int64_t gbs = 0, seq = 0;
  double risk = kUsualRisk;
  std::size_t top = 10;
  Limits limits;
  Flags<Also> also;
  bool recipes = false;                     // what they share and no axis decides is taken
  std::vector<std::string> without_effect;  // of --also: what is looked at anyway
  Shared shared;                            // by the layouts of the answer
  std::optional<std::int64_t> budget;       // of the search
  std::optional<double> time_limit;         // seconds, of the search
  std::optional<Layout> why_not;            // a layout to compare with
  std::optional<Layout> from;               // what is run today
  std::vector<std::string> from_notes;      // what of its file was assumed or not heeded
  std::optional<double> within;             // days in which the run has to end
  std::vector<std::int64_t> ramp;           // smaller batches that come first, ascending
  std::optional<double> ramp_tokens;        // that they train, equally many each
  bool pareto = false;
  bool auto_order = false;  // --export writes an order of its own where one is faster
  // Of the whole run, where its tokens are told.
  std::optional<double> tokens;
  std::optional<double> price;  // of an accelerator for an hour
  double goodput = 1;           // share of time that is spent in steps that count
};
// All faults of all arguments at once.
Result<Wanted> read_wanted(const Invocation& invocation);
SearchQuestion question_of(const Wanted& wanted);

// --from: the words of the question with what is run today as their layout, which is empty without
// it. A file says its trainer, job and attention where the command line does not.
Result<ConfigWords> words_today(const Invocation& invocation);
// Of this question, or why its changes cannot be searched.
Result<Layout> layout_today(const std::string& words, const SearchQuestion& question);
// --fix, --no and --only.
std::vector<Argument> limit_arguments();

// What more memory would be worth is told for twice as much.
inline constexpr double kMoreMemory = 2;
// A best that would take so much less with it may be beaten by one that offloads, or by leaner
// states.
inline constexpr double kWorthLooking = 0.25;

// Of so many families with a pipeline, the fastest first, an order of its own is looked for.
inline constexpr std::size_t kOrdered = 3;
struct OrderedFamily {
  std::size_t family = 0;  // of `best`
  OwnOrder own;
};

// With less to train: the same model on few accelerators, its weights frozen. Where the trainer has
// no such job, with one that has all of them.
inline constexpr std::int64_t kFewAccelerators = 8;
inline constexpr const char* kAnyAdapter = "accelerate";
struct Adapters {
  Job job;
  std::string trainer;  // to ask for instead; empty: the one that was asked for
  PrecisionKind precision;
  PlannedLayout plan;
};
// The same with AdamW whose states have fewer bits, where the trainer has one.
struct LeanStates {
  Job job;
  PlannedLayout plan;
};
// The same with gradients in bf16 where fp32 is the trainer's own.
struct LeanGradients {
  Limit limit;  // gradients=bf16
  PlannedLayout plan;
};
struct Plan;
// The same with all fused kernels that the trainer has and runs only if asked.
struct OptInKernels {
  std::vector<Kernel> kernels;
  std::string trainer;  // to ask for instead; empty: the user's own file, to be changed
  PlannedLayout plan;
};
// None where they gain less than is told, or the question has settled them.
Result<std::optional<OptInKernels>> opt_in_kernels(const Plan& plan, const SearchQuestion& asked);
std::string kernels_text(const Plan& plan);
// What the question leaves to the trainer: "bf16: bf16 weights, ..."
std::string assumed_text(const Wanted& wanted);
// "lora=16", without an optimizer that goes without saying.
std::string job_text(const Job& job);

// Chances of OOM that are taken, the least first, where nothing fits at a smaller one.
inline constexpr std::array kTightRisks = {0.1, 0.2, 0.35, kEvenOdds};

// What was found.
struct Plan {
  const Wanted& wanted;
  SearchResult result;
  std::optional<double> tight_at = {};  // the risk at which `result` fits, where none at its own
  // Layouts that predictions do not tell apart, as experts weigh them: what is recommended is the
  // first that `export` can write.
  Preferences preferences = {};
  std::vector<Weighed> choice = {};
  // Of the first rows what `export` cannot write; and the nearest to the recommended one that it
  // can.
  std::vector<std::vector<Unsayable>> unsayable = {};
  std::optional<PlannedLayout> exportable = {};
  bool cut_short = false;            // of what stands beside the answer some was not looked at
  bool offloads = false;             // nothing fits without
  std::optional<Sized> larger = {};  // where nothing fits
  std::int64_t tried_times = 1;      // as many accelerators, in vain: for `larger`, or for `fewest`
  std::optional<PlannedLayout> with_more_memory = {};  // the fastest on kMoreMemory as much
  std::optional<Judged> why_not = {};
  std::optional<Layout> why_not_fits = {};  // the nearest to it that does, where it does not
  std::optional<Judged> today = {};
  std::optional<Sized> fewest = {};  // accelerators that end in time
  std::vector<FrontPoint> front = {};
  std::vector<OrderedFamily> orders = {};
  // Offloading is searched where nothing fits without. Where memory makes the best so slow that it
  // may pay, the fastest of all, if it offloads and is at least kMargin faster.
  std::optional<PlannedLayout> with_offload = {};
  // Where memory makes the best so slow, and leaner states at least kMargin faster; or nothing
  // fits.
  std::optional<LeanStates> with_lean_states = {};
  std::optional<LeanGradients> with_lean_gradients = {};  // likewise
  std::optional<OptInKernels> with_kernels = {};
  // Where nothing fits: a layout near `smallest` that does, with what a search leaves alone.
  std::optional<PlannedLayout> change = {};
  std::optional<Adapters> adapters = {};  // where nothing fits
  std::optional<HostMemory> host = {};    // of the recommended layout, if it offloads
  std::optional<HostMemory> host_with_offload = {};
  std::vector<StepTime> ramp = {};  // of the recommended layout with each of wanted.ramp
  // Where an odd factor of the accelerators does not divide the batch: others that gain.
  std::vector<Nearby> nearby_batches = {}, nearby_sizes = {};
  std::vector<UnspecifiedEffect> unspecified = {};  // of the machines of the recommended layout
};
// What is to be changed so that it fits: the tight layout, or the one that needs least; nullptr
// where there is none.
const Layout* nearly_fits(const Plan& plan);
// The fastest of them that beats its family's fixed kind; nullptr where none does.
const OrderedFamily* faster_order(const Plan& plan);
// All of it; `data` knows clusters of other sizes and other trainers.
Result<Plan> plan_for(const Wanted& wanted, const SearchQuestion& asked, const DataDirectory& data);

// The same kind of cluster with other numbers of accelerators; none where the user's own file
// describes it, or its groups are unlike. Both must outlive it.
ClusterOf sizes_of(const Cluster& cluster, const Hardware& hardware);

// A run of so many tokens: steps x step time / goodput.
struct RunCost {
  double steps = 0, days = 0, hours = 0;  // hours of all accelerators together
};
RunCost cost_of(const Wanted& wanted, const StepTime& time);

std::string plan_text(const Plan& plan, int width);
// About 20 lines of it, where something fits.
std::string plan_summary(const Plan& plan, int width);
// "pp 4 to 2, mbs 1 to 2"
std::string changes_text(const Layout& from, const Layout& to);
// "Today: tp8 pp4 dp2 mbs1 zero1: 14.20 s, ..." or why it does not run.
std::string today_text(const Plan& plan);
// Sentences of the answer, each with what it is about: "recommended", "unspecified", "export",
// "runner-up", "memory", "offload", "states", "gradients", "host", "run", "order", "search",
// "measured", "kernels", "experts", "within", "change", "adapters", "ramp", "batches", "larger".
struct PlanNote {
  std::string_view about;
  std::string text;
};
std::vector<PlanNote> plan_notes(const Plan& plan);
// "It fits with zero=1."; empty where nothing near does, or it fits.
std::string why_not_fits_text(const Plan& plan);
// Those about what was not asked.
std::string limit_text(const Plan& plan);
std::string offload_text(const Plan& plan);
std::string lean_states_text(const Plan& plan);
std::string lean_gradients_text(const Plan& plan);
std::string change_text(const Plan& plan);
std::string adapters_text(const Plan& plan);
std::string riskier_text(const Plan& plan);
// Where nothing divides every other batch and size is worth saying; else another batch and more
// accelerators that gain 2 % each, and fewer that lose nothing.
bool is_worth_saying(const Plan& plan, const Nearby& other);
Result<bool> look_nearby(Plan& plan, const SearchQuestion& question, const ClusterOf& sizes);
// "With 256 sequences 8.10 s a step, ..., with 1,024 ...": of each batch of a ramp.
std::string ramp_text(const Plan& plan);
// Seconds of a stage of the ramp, where its tokens are told; of the last, the rest of --tokens.
std::optional<double> ramp_seconds(const Plan& plan, std::size_t stage);
// "56 accelerators have a factor of 7 that does not divide 512 sequences. --batch 504: ..."
std::string nearby_text(const Plan& plan);
// "tp may be 1, 2, 4 or 8": of a limit that no layout meets whatever the others say; else empty.
std::string offered_text(const Wanted& wanted);
// What `export` would refuse of the recommended layout.
std::vector<Unsayable> not_exported(const Plan& plan);
// "fewer pipeline ranks, no recompute": what the recommended layout has over the first, the
// weightiest three; empty where it is the first.
std::string chosen_for_text(const Plan& plan);
// "gradients=bf16 (--no recipes leaves it out)": what is taken from published recipes, and how to
// leave it out; empty where nothing is.
std::string recipes_text(const Wanted& wanted);
// "overlap-tp, dispatcher=flex": what all layouts of the answer are run with; may be empty.
std::string shared_text(const Wanted& wanted);
// "--also overlaps has no effect: it is searched anyway."; empty where there is none.
std::string without_effect_text(const Wanted& wanted);
// Why there is no layout to show.
std::string nothing_text(const Plan& plan);
// In words that `estimate` reads as this layout.
std::string settings_text(const Wanted& wanted, const Layout& layout);
Json plan_json(const Plan& plan);

// A layout of the same batch, sequences and precision, unless its words say otherwise.
Result<Layout> layout_like(const std::string& words, const SearchQuestion& question,
                           std::string_view option);

// Only what differs from layout to layout: "tp2 pp8 dp4 mbs1 zero1 full".
std::string short_text(const Layout& layout, const Model& model);
// " 7-8-7": layers of the first stage, those between and the last, where ends take part in the
// split; else empty.
std::string split_text(const Layout& layout, const Model& model);
// Without what all layouts of the answer share.
std::string short_text(Layout layout, const Wanted& wanted);

// Part by part, time and memory of the fullest rank of two layouts that are accepted: rows [what,
// first, other, difference], parts of a sum behind two blanks.
struct Compared {
  std::vector<std::vector<std::string>> rows;
  std::string verdict;
};
Compared compared(const Judged& first, const Judged& second, double risk);
// The same as text; a second that is not accepted has its reasons instead.
std::string compared_text(const Judged& first, const Judged& second, double risk, int width);
Json to_json(const Judged& judged);

}  // namespace trainwright::cli
