// trainwright reconcile: a log beside the prediction, the largest difference first, and what would
// explain it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trainwright/base/text.h"
#include "trainwright/calibrate/calibrate.h"
#include "trainwright/cli/log.h"
#include "trainwright/cli/snapshot_beside.h"
#include "trainwright/cli/time_text.h"
#include "trainwright/report/report.h"
#include "trainwright/tune/tune.h"

namespace trainwright::cli {
namespace {

// A constant that alone would make the prediction what was measured.
struct Explanation {
  std::size_t constant = 0;
  double now = 0, needed = 0;
  double widths = 0;  // of how far it is known
};

struct MemoryBeside {
  std::int64_t pipeline_rank = 0, rank = -1;  // -1: the log does not say
  Counter counter = Counter::Reserved;
  Bytes predicted, low, high, measured;
};

struct Reconciled {
  Question question;
  LoggedRun run;
  std::optional<StepSummary> steps = {};
  StepTime time;
  std::vector<Explanation> explanations = {};  // the least surprising first
  std::vector<MemoryBeside> memory = {};       // the largest difference first
  std::optional<SnapshotBeside> snapshot = {};
  double oom = 0;
};

double log_ratio(Bytes measured, Bytes predicted) {
  return std::abs(std::log(real(measured) / real(predicted)));
}

// Constants that are within their bounds and not more than two widths away.
std::vector<Explanation> explanations_of(double log_error, const Trial& trial,
                                         const StackConstants& stack) {
  constexpr double kPlausible = 2, kFelt = 1e-4;
  std::vector<Explanation> found;
  for (std::size_t k = 0; k < kStackConstants; ++k) {
    const StackPrior& prior = stack_priors()[k];
    const double width = spread_of(static_cast<StackConstant>(k), {});
    // The scale is a factor on the whole step.
    const double slope = k < trial.slopes.size() ? trial.slopes[k] : width;
    if (std::abs(slope) < kFelt) continue;
    const double widths = log_error / slope;
    const double needed = stack.values[k] * std::exp(widths * width);
    const bool possible = needed >= prior.least && needed <= prior.most;
    if (possible && std::abs(widths) <= kPlausible) {
      found.push_back({k, stack.values[k], needed, std::abs(widths)});
    }
  }
  std::sort(found.begin(), found.end(),
            [](const Explanation& a, const Explanation& b) { return a.widths < b.widths; });
  if (found.size() > 3) found.resize(3);
  return found;
}

// Of each pipeline rank the fullest that the log names; without a rank the fullest of all.
std::vector<MemoryBeside> memory_beside(const LoggedRun& run, const Layout& layout,
                                        const MemoryEstimate& estimate) {
  std::vector<MemoryBeside> list;
  const auto add = [&](const LoggedMemory& of, Counter counter, const std::optional<Bytes>& bytes) {
    if (!bytes || bytes->value() <= 0) return;
    const bool named = of.rank && *of.rank < world_size(layout);
    const auto stage = static_cast<std::int64_t>(estimate.worst);
    const std::int64_t place = named ? pipeline_rank(layout, *of.rank) : stage;
    const RankClass& rank = estimate.classes[static_cast<std::size_t>(place)];
    const Bytes figure = bytes_of(rank, counter);
    const Spread& spread = spread_of(rank, counter);
    const auto known = std::find_if(list.begin(), list.end(), [&](const MemoryBeside& one) {
      return one.pipeline_rank == place && one.counter == counter;
    });
    if (known != list.end() && known->measured >= *bytes) return;
    const MemoryBeside one{place,
                           of.rank.value_or(-1),
                           counter,
                           figure,
                           exceeded_with(0.95, figure, spread),
                           exceeded_with(0.05, figure, spread),
                           *bytes};
    (known == list.end() ? list.emplace_back() : *known) = one;
  };
  for (const LoggedMemory& of : run.memory) {
    add(of, Counter::Allocated, of.allocated);
    add(of, Counter::Reserved, of.reserved);
  }
  std::stable_sort(list.begin(), list.end(), [](const MemoryBeside& a, const MemoryBeside& b) {
    return log_ratio(a.measured, a.predicted) > log_ratio(b.measured, b.predicted);
  });
  return list;
}

Diagnostics refusals_of(const Question& of) {
  Diagnostics refused;
  for (const LayoutViolation& one : violations(of)) {
    if (one.severity == Severity::Forbidden) refused.push_back({"--layout", one.reason, one.hint});
  }
  return refused;
}

// What is put beside what: the first word is a plan or, where it is none, the log itself.
struct Asked {
  Question question;
  std::optional<std::string> log;
};

// A log that is not there is told with whatever else is wrong.
Result<Asked> asked_of(const Invocation& invocation) {
  const auto first = invocation.text("plan");
  std::optional<std::string> log = invocation.text("log");
  std::optional<Words> planned;
  if (first) planned = TW_TRY(planned_words(*first));
  if (first && !planned) {
    if (log) {
      TW_TRY(read_file(*first));
      return fail(*first, "it is not a plan", "a log by itself goes without --log");
    }
    log = first;
  }
  Diagnostics faults;
  auto question =
      value_or_faults(question_beside(invocation, "reconcile", planned.value_or(Words{})), faults);
  if (log) value_or_faults(read_file(*log), faults);
  if (!log && !invocation.text("snapshot")) {
    faults.push_back({"trainwright reconcile", "there is nothing to put beside the prediction",
                      "name a log with --log, or a memory snapshot with --snapshot"});
  }
  if (question) {
    for (Diagnostic& one : refusals_of(*question)) faults.push_back(std::move(one));
  }
  if (!faults.empty()) return fail(std::move(faults));
  return Asked{*std::move(question), std::move(log)};
}

Result<Reconciled> reconciled(const Invocation& invocation) {
  Asked asked = TW_TRY(asked_of(invocation));
  Reconciled of{.question = std::move(asked.question), .run = {}, .time = {}};
  const Question& question = of.question;
  const Layout& layout = question.read.layout;
  const auto constants = TW_TRY(load_memory_constants(invocation.data.path(), {}));
  const MemoryEstimate memory = TW_TRY(estimate_memory(memory_question(question, constants)));
  const TimeConstants times =
      TW_TRY(load_time_constants(invocation.data.path(), invocation.text("calibration")));
  const StackConstants& stack = stack_of(times.stacks, question.trainer).constants;
  const StepPieces pieces = TW_TRY(step_pieces(step_question(question, times.kernels, {})));
  of.time = step_time(pieces, stack);
  of.oom = memory.oom;
  if (const auto path = invocation.text("snapshot")) {
    of.snapshot =
        TW_TRY(snapshot_beside(*path, question, constants, memory, invocation.integer("rank")));
  }
  if (!asked.log) return of;
  of.run = TW_TRY(logged_run(*asked.log, question));
  of.memory = memory_beside(of.run, layout, memory);
  // A run that ran out of memory may have none.
  auto steps = summarize(of.run, step_size(question));
  if (!steps && of.run.failures.empty()) return fail(steps.error().diagnostics);
  if (!steps) return of;
  of.steps = *steps;
  of.explanations = explanations_of(std::log(of.steps->median / of.time.step),
                                    trial_of(layout, pieces, stack, memory.oom), stack);
  return of;
}

std::string off_by_text(double ratio) {
  return fmt::format("{}{}", ratio >= 1 ? "+" : "-", percent(std::abs(ratio - 1)));
}

std::string explanations_text(const Reconciled& of) {
  const double ratio = of.steps->median / of.time.step;
  if (std::abs(std::log(ratio)) <= of.steps->spread) {
    return "The step is as predicted: the difference is less than its own steps differ by.\n";
  }
  if (of.explanations.empty()) {
    return "No constant of the stack alone explains the step: look for a stall, another layout, or "
           "a "
           "slow machine.\n";
  }
  std::vector<std::string> parts;
  for (const Explanation& one : of.explanations) {
    const StackPrior& prior = stack_priors()[one.constant];
    const auto value = [&](double number) {
      return prior.unit == "s" ? seconds_text(Seconds(number)) : significant(number, 3);
    };
    parts.push_back(fmt::format("{} ({}) {} instead of {}, {} times its usual spread", prior.name,
                                prior.meaning, value(one.needed), value(one.now),
                                significant(one.widths, 2)));
  }
  return fmt::format(
      "One constant alone would explain the step: {}. `calibrate` with this log "
      "keeps what it tells.\n",
      fmt::join(parts, "; or "));
}

// Whether memory is as predicted, and if not where to look.
std::string memory_hint(const Reconciled& of) {
  if (of.memory.empty()) return "";
  const MemoryBeside& most = of.memory.front();
  const bool inside = most.measured >= most.low && most.measured <= most.high;
  if (inside) return "Memory is inside its 90 % intervals.\n";
  return fmt::format(
      "Memory is outside its 90 % interval by {}: {}.\n",
      to_text(most.measured > most.high ? most.measured - most.high : most.low - most.measured),
      most.counter == Counter::Reserved
          ? "what PyTorch reserves hangs on how blocks fall; allocated bytes tell more"
          : "check recompute, the attention kernel, the optimizer's dtypes and the micro-batch");
}

std::string reconciled_text(const Reconciled& of, int width) {
  Table table{{{"", Align::Wrap},
               {"predicted", Align::Right},
               {"90 % interval", Align::Right},
               {"measured", Align::Right},
               {"difference", Align::Right}},
              {}};
  std::vector<std::pair<double, std::vector<std::string>>> rows;
  if (of.steps) {
    const double ratio = of.steps->median / of.time.step;
    rows.push_back({std::abs(std::log(ratio)),
                    {"step", seconds_text(of.time.step),
                     fmt::format("{} to {}", seconds_text(of.time.low), seconds_text(of.time.high)),
                     seconds_text(of.steps->median), off_by_text(ratio)}});
  }
  for (const MemoryBeside& one : of.memory) {
    const std::string where =
        of.question.read.layout.pp == 1
            ? std::string(name_of(one.counter))
            : fmt::format("{}, pipeline rank {}", name_of(one.counter), one.pipeline_rank);
    rows.push_back(
        {log_ratio(one.measured, one.predicted),
         {where, to_text(one.predicted),
          fmt::format("{} to {}", to_text(one.low), to_text(one.high)), to_text(one.measured),
          off_by_text(real(one.measured) / real(one.predicted))}});
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (auto& [size, row] : rows) table.rows.push_back(std::move(row));
  std::string text = setting_text(of.question, width);
  if (of.steps) {
    text += wrapped_lines(log_text({of.run, *of.steps, step_size(of.question)}), width);
  }
  text += '\n';
  if (!rows.empty()) text += to_text(table, width) + '\n';
  std::string prose;
  if (of.steps) prose += explanations_text(of);
  prose += memory_hint(of);
  for (const LoggedOutOfMemory& failure : of.run.failures) {
    prose += fmt::format(
        "Line {}: out of memory, {}{}.\n", failure.line, to_text(failure),
        failure.host ? std::string() : "; its chance was put at " + chance_text(of.oom));
  }
  if (!prose.empty()) text += wrapped_lines(prose, width);
  if (!of.snapshot) return text;
  return text + (prose.empty() ? "" : "\n") + to_text(*of.snapshot, width);
}

Json reconciled_json(const Reconciled& of) {
  Json json = Json::object();
  if (of.steps) {
    json.add("step", Json::object()
                         .add("predicted", Json::of(of.time.step.value()))
                         .add("low", Json::of(of.time.low.value()))
                         .add("high", Json::of(of.time.high.value()))
                         .add("measured", Json::of(of.steps->median.value()))
                         .add("spread", Json::of(of.steps->spread)));
  }
  Json explanations = Json::array();
  for (const Explanation& one : of.explanations) {
    explanations.push(Json::object()
                          .add("constant", Json::of(stack_priors()[one.constant].name))
                          .add("now", Json::of(one.now))
                          .add("needed", Json::of(one.needed))
                          .add("widths", Json::of(one.widths)));
  }
  Json memory = Json::array();
  for (const MemoryBeside& one : of.memory) {
    Json row = Json::object();
    row.add("pipeline_rank", Json::of(one.pipeline_rank));
    if (one.rank >= 0) row.add("rank", Json::of(one.rank));
    row.add("counter", Json::of(name_of(one.counter)))
        .add("predicted", Json::of(one.predicted.value()))
        .add("low", Json::of(one.low.value()))
        .add("high", Json::of(one.high.value()))
        .add("measured", Json::of(one.measured.value()));
    memory.push(std::move(row));
  }
  Json failures = Json::array();
  for (const LoggedOutOfMemory& failure : of.run.failures) {
    Json row = Json::object();
    row.add("line", Json::of(failure.line));
    if (failure.rank) row.add("rank", Json::of(*failure.rank));
    row.add("host", Json::of(failure.host));
    if (failure.asked) row.add("asked", Json::of(failure.asked->value()));
    failures.push(std::move(row));
  }
  if (of.snapshot) json.add("snapshot", to_json(*of.snapshot));
  return std::move(json.add("explanations", std::move(explanations))
                       .add("memory", std::move(memory))
                       .add("out_of_memory", std::move(failures))
                       .add("oom", Json::of(of.oom)));
}

Result<Output> run_reconcile(const Invocation& invocation) {
  const Reconciled of = TW_TRY(reconciled(invocation));
  return Output{invocation.json ? document_text(invocation.data, reconciled_json(of))
                                : reconciled_text(of, invocation.width)};
}

}  // namespace

Command reconcile_command() {
  return {
      .name = "reconcile",
      .summary = "a log of training beside its prediction, and what would explain the difference",
      .details =
          "Reads a log of Megatron-LM, torchtitan, DeepSpeed, nanotron or the Hugging Face Trainer "
          "and puts step time and memory beside what `estimate` says of the same question, the "
          "largest difference first. Of a step that takes longer or shorter it names the constants "
          "of the software stack that would explain it alone, the least surprising first. A memory "
          "snapshot of PyTorch, converted with `python -m trainwright.engine snapshot`, or a "
          "recorded trace tells memory by category, and which setting the run may have had "
          "otherwise. What was run is said by a plan (plan.json of `plan --export`, or what `plan "
          "--json` prints), by the trainer's own file, or by the words of `estimate`; words go "
          "before files.",
      .examples = {"trainwright reconcile run/plan.json --log train.log",
                   "trainwright reconcile train.log --model llama-3.1-8b --on 8xH100 --trainer "
                   "torchtitan --layout fsdp,mbs=1,gbs=8,seq=8192",
                   "trainwright reconcile train.log --config pretrain.sh --on 64xA100-80GB",
                   "trainwright reconcile --snapshot snapshot.jsonl --rank 0 --model llama-3.1-8b "
                   "--on 8xH100 --trainer torchtitan --layout fsdp,mbs=1,gbs=8,seq=8192"},
      .topics = {"layout"},
      .arguments = joined(
          {{{"plan", Argument::Kind::Text, "plan.json of the run; or, without one, the log", false,
             "PLAN|LOG"},
            {"--log", Argument::Kind::Text, "the log of training, beside a plan", false, "FILE"},
            {"--snapshot", Argument::Kind::Text, "a converted memory snapshot, or a recorded trace",
             false, "FILE"},
            {"--rank", Argument::Kind::Integer,
             "the rank that the snapshot is of (default: the one with the highest peak)", false,
             "N"},
            {"--calibration", Argument::Kind::Text, "constants of your own (default: what ships)",
             false, "FILE"}},
           beside_a_log_arguments()}),
      .run = run_reconcile};
}

}  // namespace trainwright::cli
