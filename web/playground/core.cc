// The command line as one function of JavaScript, and what stands in for the parts of the core that
// a browser cannot have (cmake/TrainwrightBrowser.cmake): threads, the solver behind fits, YAML,
// processes and SQLite.
#include <emscripten.h>

#include "trainwright/base/json.h"
#include "trainwright/base/parallel.h"
#include "trainwright/cli/command_line.h"
#include "trainwright/cli/export_check.h"
#include "trainwright/cli/help.h"
#include "trainwright/cli/own_runs.h"
#include "trainwright/export/read.h"

namespace trainwright {

namespace detail {

void parallel_for(std::size_t n, Threads, const void* body,
                  void (*call)(const void*, std::size_t)) {
  for (std::size_t i = 0; i < n; ++i) call(body, i);
}

Result<Json> parse_yaml(std::string_view, std::string_view origin) {
  return fail(std::string(origin), "YAML is not read in a browser", "ask the installed program");
}

}  // namespace detail

namespace cli {

Result<LearnedTimes> learn_times(const TimedRuns&, const Stacks&) {
  return fail("--measured", "constants are not fitted in a browser", "ask the installed program");
}

Result<Checked> checked_by_target(const Json&, const std::string&, const std::string&) {
  return fail("--check", "trainers are not run in a browser", "ask the installed program");
}
Json to_json(const Checked&) { return Json::object(); }
std::string to_text(const Checked&) { return ""; }

std::vector<Command> all_commands() {
  return {plan_command(), explain_command(), estimate_command(), export_command(), report_command(),
          show_command(), list_command(),    schedule_command(), replay_command(), help_command()};
}

namespace {

// clang-format off
EM_JS(void, show_progress, (const char* line), { if (Module.progress) Module.progress(UTF8ToString(line)); });
// clang-format on

Reply answered(std::string_view words_json) {
  const auto words = parse_json(words_json, "words");
  if (!words) return {.error = to_text(words.error()) + '\n', .exit = Exit::BadInput};
  std::vector<std::string> typed;
  for (const Json& word : words->items) typed.push_back(word.string);
  static const DataDirectory data("/data");  // read once for all questions
  try {
    return run_command_line(typed, {.data = data, .progress = [](const std::string& line) {
                                      show_progress(line.c_str());
                                    }});
  } catch (const std::exception& fault) {
    return {.error = std::string("trainwright: internal error: ") + fault.what() +
                     "\n  hint: this is a bug; please report it\n",
            .exit = Exit::Internal};
  }
}

}  // namespace
}  // namespace cli
}  // namespace trainwright

// `words` is a JSON array of strings; gives {"exit", "out", "err", "files": [{"path", "content"}]},
// which lives until the next call.
extern "C" EMSCRIPTEN_KEEPALIVE const char* trainwright_run(const char* words) {
  using trainwright::Json;
  const trainwright::cli::Reply reply = trainwright::cli::answered(words);
  Json files = Json::array();
  for (const auto& file : reply.files) {
    files.push(
        Json::object().add("path", Json::of(file.path)).add("content", Json::of(file.content)));
  }
  static std::string text;
  text = to_line(Json::object()
                     .add("exit", Json::of(static_cast<int>(reply.exit)))
                     .add("out", Json::of(reply.output))
                     .add("err", Json::of(reply.error))
                     .add("files", std::move(files)));
  return text.c_str();
}
