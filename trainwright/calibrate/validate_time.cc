// Judges step times by constants that never saw the row: source by source, and fold by fold.
#include <algorithm>
#include <cmath>
#include <set>

#include "trainwright/base/parallel.h"
#include "trainwright/calibrate/calibrate.h"

namespace trainwright {
namespace {

using Runs = std::vector<const TimedRun*>;

double predicted(const TimedRun& run, const StackConstants& constants) {
  return step_time(run.pieces, constants).step.value();
}

TimeScore scored(const std::vector<TimeRow>& rows, double TimeRow::* figure,
                 const std::vector<Interval>& intervals) {
  TimeScore score;
  std::vector<HeldOut> all, sound;
  std::vector<Interval> of_sound;
  std::vector<double> widths;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    all.push_back({rows[i].*figure, rows[i].measured, rows[i].fold});
    if (rows[i].broken) continue;
    sound.push_back(all.back());
    of_sound.push_back(intervals[i]);
    widths.push_back((intervals[i].high - intervals[i].low) / 2 / (rows[i].*figure));
  }
  if (all.empty()) return score;
  score.errors = score_errors(all);
  if (sound.empty()) return score;
  if (sound.size() < all.size()) score.without_broken = score_errors(sound);
  score.coverage = coverage(sound, of_sound);
  std::sort(widths.begin(), widths.end());
  score.width = widths[widths.size() / 2];
  return score;
}

// What is learned of a run's own source and stack; null where all of its runs are broken.
const WithoutSource* learned_about(const TimedRun& run, const LeftOut& left) {
  const auto found = left.find({run.source, run.stack});
  return found == left.end() ? nullptr : &found->second;
}

// The mean error of all other runs of a stack when one of them is measured.
std::optional<double> with_one_run(const Runs& runs, const LeftOut& left) {
  double all = 0;
  std::int64_t measured = 0;
  for (const auto& [of, learned] : left) {
    for (const auto& [known, constants] : learned.alone) {
      double sum = 0;
      std::int64_t others = 0;
      for (const TimedRun* run : runs) {
        if (run->source != of.source || run->stack != of.stack) continue;
        if (run == known || run->broken) continue;
        sum += std::abs(predicted(*run, constants) / run->measured - 1);
        ++others;
      }
      if (others == 0) continue;
      all += sum / static_cast<double>(others);
      ++measured;
    }
  }
  if (measured == 0) return std::nullopt;
  return all / static_cast<double>(measured);
}

HeldOut held_out_row(const TimeRow& row) {
  return {row.held_out, row.measured, row.fold, row.broken};
}

void score_held_out(TimeSourceScore& score) {
  std::vector<HeldOut> held;
  for (const TimeRow& row : score.rows) held.push_back(held_out_row(row));
  score.held_out = scored(score.rows, &TimeRow::held_out, symmetric_intervals(held));
}

TimeSourceScore score_source(const TimedRuns& timed, const LeftOut& left,
                             const std::string& source) {
  TimeSourceScore score;
  score.source = source;
  Runs runs;
  for (const TimedRun& run : timed.runs) {
    if (run.source == source && !run.undetermined) runs.push_back(&run);
  }
  for (const SkippedRun& run : timed.skipped) {
    if (run.source == source) ++score.skipped[run.reason];
  }
  std::set<std::string> stacks, folds;
  std::vector<Interval> intervals;
  for (const TimedRun* run : runs) {
    const WithoutSource* learned = learned_about(*run, left);
    if (learned == nullptr) continue;
    stacks.insert(run->stack);
    for (const auto& [fold, constants] : learned->by_fold) folds.insert(fold);
    const StepTime time = step_time(run->pieces, learned->constants);
    intervals.push_back({time.low.value(), time.high.value()});
    score.rows.push_back({run->pool, run->label, run->fold, run->measured, time.step.value(),
                          time.low.value(), time.high.value(),
                          predicted(*run, learned->without(run->fold)), run->broken, run->of_case});
  }
  if (score.rows.empty()) return score;
  score.stacks.assign(stacks.begin(), stacks.end());
  score.folds = std::ssize(folds);
  score.as_shipped = scored(score.rows, &TimeRow::as_shipped, intervals);
  score_held_out(score);
  score.one_row = with_one_run(runs, left);
  return score;
}

}  // namespace

Result<StepPieces> pieces_of(const Case& made, const Cases& cases, const Kernels& kernels) {
  Layout layout = made.layout;
  if (made.stands_for) layout.schedule = *made.stands_for;
  return step_pieces({.model = cases.model_of(made),
                      .cluster = cases.cluster_of(made),
                      .trainer = cases.trainer_of(made),
                      .layout = layout,
                      .job = made.job,
                      .kernels = kernels,
                      .schedule = made.order && !made.stands_for ? &*made.order : nullptr,
                      .tuned = made.tuned});
}

const std::string& stack_name_of(const Case& made, const Cases& cases, const Stacks& stacks) {
  return made.stack.empty() ? stack_of(stacks, cases.trainer_of(made)).name : made.stack;
}

namespace {

Seconds host_of(const std::string& name, const Stacks& stacks) {
  const auto found = std::find_if(stacks.list.begin(), stacks.list.end(),
                                  [&](const Stack& stack) { return stack.name == name; });
  return (found == stacks.list.end() ? stacks.list.back() : *found).constants.host;
}

}  // namespace

TimedRuns time_runs(const Cases& cases, const Kernels& kernels, const Stacks& stacks) {
  std::vector<const Case*> timed;
  for (const Case& made : cases.cases) {
    if (made.step_time && made.outcome == Outcome::Ok) timed.push_back(&made);
  }
  const auto pieces = parallel_map(
      timed.size(), {}, [&](std::size_t i) { return pieces_of(*timed[i], cases, kernels); });
  TimedRuns runs;
  for (std::size_t i = 0; i < timed.size(); ++i) {
    const Case& made = *timed[i];
    if (!pieces[i]) {
      runs.skipped.push_back({made.source, made.label, pieces[i].error().diagnostics.front().what});
      continue;
    }
    runs.runs.push_back(
        {made.source, made.pool, made.label, made.time_fold,
         cases.cluster_of(made).groups.front().accelerator.name,
         static_cast<std::size_t>(&made - cases.cases.data()), made.step_time->value(), *pieces[i],
         stack_name_of(made, cases, stacks), host_of(stack_name_of(made, cases, stacks), stacks),
         !made.broken.empty() || !made.time_broken.empty(), !made.undetermined.empty()});
  }
  return runs;
}

namespace {

// Rows of several sources that are scored together: dense models in vendors' recipes, for instance.
std::vector<TimeSourceScore> pooled(const std::vector<TimeSourceScore>& scores) {
  std::map<std::string, std::vector<TimeRow>> pools;
  for (const TimeSourceScore& score : scores) {
    for (const TimeRow& row : score.rows) {
      if (row.pool != score.source) pools[row.pool].push_back(row);
    }
  }
  std::vector<TimeSourceScore> all;
  for (auto& [pool, rows] : pools) {
    TimeSourceScore score;
    score.source = pool;
    std::vector<Interval> shipped;
    for (const TimeRow& row : rows) shipped.push_back({row.low, row.high});
    score.as_shipped = scored(rows, &TimeRow::as_shipped, shipped);
    score.rows = rows;
    score_held_out(score);
    score.rows.clear();
    all.push_back(std::move(score));
  }
  return all;
}

}  // namespace

std::vector<TimeSourceScore> validate_time(const TimedRuns& runs, const LeftOut& left,
                                           const std::optional<std::string>& only) {
  std::set<std::string> sources;
  for (const TimedRun& run : runs.runs) {
    if (!only || run.source == *only) sources.insert(run.source);
  }
  std::vector<TimeSourceScore> scores;
  for (const std::string& source : sources) scores.push_back(score_source(runs, left, source));
  if (!only) {
    for (TimeSourceScore& pool : pooled(scores)) scores.push_back(std::move(pool));
  }
  return scores;
}

}  // namespace trainwright
