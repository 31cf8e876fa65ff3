#include "trainwright/cli/log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trainwright/base/text.h"
#include "trainwright/cli/config.h"

namespace trainwright::cli {

std::vector<Argument> beside_a_log_arguments() {
  std::vector<Argument> arguments = setting_arguments();
  for (Argument& argument : arguments) {
    argument.required = false;
    if (argument.name == "model") argument.name = "--model";
  }
  return joined({{config_argument()}, arguments});
}

Result<std::optional<Words>> planned_words(const std::string& path) {
  const auto text = read_file(path);
  if (!text) return std::nullopt;
  const auto document = parse_json(*text, path);
  if (!document && path.ends_with(".json")) return fail(document.error().diagnostics);
  if (!document || !document->is_object()) return std::nullopt;
  return TW_TRY(words_of_plan(*document, path));
}

Result<Question> question_beside(const Invocation& invocation, std::string_view command,
                                 const Words& planned) {
  Words words = words_of(invocation);
  const auto fill = [](std::string& word, const std::string& said) {
    if (word.empty()) word = said;
  };
  fill(words.model, planned.model);
  fill(words.on, planned.on);
  fill(words.trainer, planned.trainer);
  fill(words.job, planned.job);
  fill(words.attention, planned.attention);
  fill(words.schedule, planned.schedule);
  words.layout = words.layout.empty() || planned.layout.empty()
                     ? words.layout + planned.layout
                     : amended(planned.layout, words.layout);
  Diagnostics faults;
  const auto require = [&](const std::string& word, const char* name) {
    if (!word.empty() || invocation.flag("config")) return;
    faults.push_back({fmt::format("trainwright {}", command),
                      fmt::format("a log needs {} beside it", name),
                      "say what it is a log of, as to `estimate`; see --help"});
  };
  require(words.model, "--model");
  require(words.on, "--on");
  require(words.layout, "--layout");
  if (!faults.empty()) return fail(std::move(faults));
  const ConfigWords config = TW_TRY(with_config(invocation, std::move(words)));
  return read_question(config.words, invocation.data);
}

StepSize step_size(const Question& question) {
  const Layout& layout = question.read.layout;
  return {.ranks = world_size(layout),
          .sequences = layout.gbs,
          .tokens = tokens_per_step(layout).value()};
}

Result<LoggedRun> logged_run(const std::string& path, const Question& question) {
  const std::string text = TW_TRY(read_file(path));
  LoggedRun run = TW_TRY(read_log(text, path));
  if (auto faults = contradictions(run, step_size(question)); !faults.empty()) {
    return fail(std::move(faults));
  }
  return run;
}

Result<ReadLog> read_log_of(const std::string& path, const Question& question) {
  ReadLog log{TW_TRY(logged_run(path, question)), {}, step_size(question)};
  log.summary = TW_TRY(summarize(log.run, log.size));
  return log;
}

std::string log_text(const ReadLog& log) {
  const StepSummary& steps = log.summary;
  std::string text = fmt::format("{}: {}, ", log.run.origin, name_of(*log.run.format));
  if (steps.whole_run) {
    text += fmt::format("the mean of the whole run (line {}), its first steps among them",
                        steps.last_line);
  } else {
    text += fmt::format("{} from {} to {}, spread {}; {} of warm-up left out",
                        counted(steps.lines, "line", "lines"), steps.first_line, steps.last_line,
                        percent(steps.spread), counted(steps.warm_up, "line", "lines"));
  }
  text += fmt::format("; {} tokens/s/device",
                      with_thousands(std::llround(tokens_per_second_per_rank(steps, log.size))));
  const auto fullest = std::max_element(log.run.memory.begin(), log.run.memory.end(),
                                        [](const LoggedMemory& a, const LoggedMemory& b) {
                                          return std::pair(a.reserved, a.allocated) <
                                                 std::pair(b.reserved, b.allocated);
                                        });
  if (fullest == log.run.memory.end()) return text + ".\n";
  text += fullest->rank ? fmt::format("; at most, on rank {}", *fullest->rank) : "; at most";
  if (fullest->allocated) text += fmt::format(", {} allocated", to_text(*fullest->allocated));
  if (fullest->reserved) text += fmt::format(", {} reserved", to_text(*fullest->reserved));
  return text + ".\n";
}

}  // namespace trainwright::cli
