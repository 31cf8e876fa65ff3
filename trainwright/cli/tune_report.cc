// What one sees of `trainwright tune`: a trial under way on a terminal, and a history as a page.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trainwright/base/text.h"
#include "trainwright/cli/plan_details.h"
#include "trainwright/cli/time_text.h"
#include "trainwright/cli/tune.h"
#include "trainwright/report/report.h"

namespace trainwright::cli {
namespace {

std::string cut(const std::string& line, int width) {
  const auto most = static_cast<std::size_t>(std::max(width, 20));
  return line.size() <= most ? line : line.substr(0, most - 3) + "...";
}

// "4 % to 11 % longer", "3 % shorter to 2 % longer"
std::string off_text(double least, double most) {
  const auto percents = [](double log_error) {
    return fmt::format("{:.0f} %", 100 * std::abs(std::expm1(log_error)));
  };
  const auto which = [](double log_error) { return log_error < 0 ? " shorter" : " longer"; };
  if (percents(least) == percents(most)) return percents(most) + which(most);
  if (least < 0 && most < 0) std::swap(least, most);  // the smaller difference first
  const bool alike = (least < 0) == (most < 0);
  return fmt::format("{}{} to {}{}", percents(least), alike ? "" : which(least), percents(most),
                     which(most));
}

double mean_width(const std::vector<Belief>& beliefs, const std::vector<bool>& tried) {
  double sum = 0;
  int count = 0;
  for (std::size_t i = 0; i < beliefs.size(); ++i) {
    if (tried[i]) continue;
    sum += std::log(beliefs[i].high.value() / beliefs[i].low.value()) / 2;
    ++count;
  }
  return count == 0 ? 0 : sum / count;
}

// In sentences: how far predictions were off, how sure the others are by now, what did not run.
std::vector<std::string> learned(const TuneQuestion& of, const Tuned& tuned) {
  std::vector<std::string> notes;
  std::vector<double> errors, memory;
  std::vector<bool> tried(tuned.trials.size());
  std::size_t ooms = 0, unexpected = 0;
  for (const TrialOutcome& one : tuned.outcomes) {
    tried[one.trial] = true;
    const Trial& trial = tuned.trials[one.trial];
    if (one.end == TrialEnd::Ok) errors.push_back(std::log(one.step / trial.predicted));
    if (one.memory) {
      memory.push_back(std::log(real(one.memory->measured) / real(one.memory->predicted)));
    }
    ooms += one.end == TrialEnd::OutOfMemory ? 1 : 0;
    unexpected += one.end == TrialEnd::OutOfMemory && trial.oom < kEvenOdds ? 1 : 0;
  }
  if (!errors.empty()) {
    const auto [least, most] = std::minmax_element(errors.begin(), errors.end());
    notes.push_back(
        fmt::format("{} {} than predicted before any trial.",
                    errors.size() == 1 ? "The measured step was" : "Measured steps were",
                    off_text(*least, *most)));
  }
  if (!memory.empty()) {
    const auto [least, most] = std::minmax_element(memory.begin(), memory.end());
    notes.push_back(fmt::format(
        "Peak memory of the ranks that a log names was {:+.1f} % to {:+.1f} % of its prediction "
        "off; chances of OOM were moved by it.",
        100 * std::expm1(*least), 100 * std::expm1(*most)));
  }
  const double before = mean_width(learn(tuned.trials, {}, of.job.doubt), tried);
  const double now = mean_width(tuned.beliefs, tried);
  if (before > 0) {
    notes.push_back(
        fmt::format("The step of a layout that was not tried is known within {:.0f} % "
                    "(90 % interval), before any trial within {:.0f} %.",
                    100 * now, 100 * before));
  }
  if (ooms > 0) {
    notes.push_back(fmt::format(
        "{} out of memory, {} of them against a chance below 50 %: those "
        "like them are believed likelier to.",
        counted(static_cast<std::int64_t>(ooms), "trial ran", "trials ran"), unexpected));
  }
  return notes;
}

Json commands_json(const History& history) {
  Json list = Json::array();
  const auto add = [&](const char* does, std::vector<std::string> words) {
    words.insert(words.end(), {"--history", history.folder()});
    list.push(
        Json::object().add("does", Json::of(does)).add("command", Json::of(command_line(words))));
  };
  add("the files of the fastest trial, and the constants that were learned",
      {"tune", "export", "--out", "run", "--calibration", "mine.json"});
  add("go on with a larger budget", {"tune", "resume", "--trials", "10"});
  return list;
}

}  // namespace

std::string under_way_text(const TrialUnderWay& now, const std::vector<TrialRecord>& records,
                           const TuneTerms& terms, int width) {
  const std::string most =
      terms.most_trials ? fmt::format(" of at most {}", *terms.most_trials) : std::string();
  const Seconds expected = trial_cost(terms, TrialEnd::Ok, now.trial.predicted);
  std::string text =
      cut(fmt::format("trial {}{}: {}, about {} expected; {} spent before", now.trial.id, most,
                      fmt::format("{:.0f} s", std::floor(now.elapsed.value())), to_text(expected),
                      to_text(spent_on(records))),
          width - 1);
  const TrialRecord* best = best_of(records);
  text += '\n' + cut(best == nullptr ? "  best: none yet"
                                     : fmt::format("  best: trial {}, {} a step: {}", best->id,
                                                   seconds_text(best->step), best->layout),
                     width - 1);
  return text + '\n' +
         cut("  log: " + (now.said.empty() ? std::string("nothing yet") : now.said), width - 1);
}

Result<std::string> tuned_page(const TuneQuestion& of, const History& history,
                               const std::vector<TrialRecord>& records, const Tuned& tuned) {
  const Wanted& wanted = of.wanted;
  Json notes = Json::array();
  for (const std::string& note : learned(of, tuned)) notes.push(Json::of(note));
  const double hours = spent_on(records).value() / 3600;
  Json details = Json::object();
  details
      .add("title", Json::of(fmt::format("{} on {} with {} {}, tuned", wanted.model.name,
                                         wanted.cluster.name, wanted.trainer.title,
                                         to_text(wanted.trainer.version))))
      .add("asked", Json::of(fmt::format("{} of {} tokens a step; history {}",
                                         counted(wanted.gbs, "sequence", "sequences"),
                                         with_thousands(wanted.seq), history.folder())))
      .add("node_hours",
           Json::of(significant(hours * static_cast<double>(node_count(wanted.cluster)), 3)))
      .add("notes", std::move(notes))
      .add("commands", commands_json(history));
  Json document = tuned_json(history, records, tuned);
  document.add("details", std::move(details));
  return filled_page(TW_TRY(read_file(of.invocation.data.path() + "/report/page.html")),
                     with_schema(of.invocation.data, document));
}

}  // namespace trainwright::cli
