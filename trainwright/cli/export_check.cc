#include "trainwright/cli/export_check.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "trainwright/base/text.h"
#include "trainwright/tune/tune.h"

namespace trainwright::cli {
namespace {

constexpr std::array<std::string_view, 3> kVerdicts = {"accepted", "refused", "not-checked"};
constexpr Seconds kLongest(300);  // imports of a trainer take half a minute on a busy host

// A folder of its own, which goes with it.
class Scratch {
 public:
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "trainwright-XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~Scratch() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string last_line(const std::string& path) {
  std::ifstream file(path);
  std::string line, last;
  while (std::getline(file, line)) {
    if (!trim(line).empty()) last = line;
  }
  return last;
}

Result<CommandEnd> run(const Launch& launch) {
  Held held = TW_TRY(hold(launch));
  held.let_go();
  std::optional<CommandEnd> end;
  while (!(end = end_of(launch.folder, held.watcher())) && is_alive(held.watcher())) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  if (!end) end = end_of(launch.folder, held.watcher());  // it may have ended in between
  if (!end) return fail("--check", "the check was ended from outside");
  return *end;
}

Checked read_answer(const Json& answer) {
  const auto text = [&](std::string_view key) {
    const Json* found = answer.find(key);
    return found != nullptr ? found->string : std::string();
  };
  Checked checked{.reason = text("reason"), .by = text("by")};
  for (std::size_t i = 0; i < kVerdicts.size(); ++i) {
    if (text("verdict") == kVerdicts[i]) checked.verdict = static_cast<Verdict>(i);
  }
  return checked;
}

}  // namespace

Result<Checked> checked_by_target(const Json& question, const std::string& data,
                                  const std::string& python) {
  const Scratch scratch;
  if (scratch.path().empty()) return fail("--check", "no folder for temporary files");
  const std::string asked = scratch.path() + "/question.json";
  const std::string answered = scratch.path() + "/answer.json";
  std::ofstream(asked) << to_line(question);
  const Launch launch{.words = {python, data + "/judges/check.py", asked, answered},
                      .folder = scratch.path(),
                      .time_limit = kLongest,
                      .silence = kLongest};
  const CommandEnd end = TW_TRY(run(launch));
  if (auto text = read_file(answered)) {
    return read_answer(TW_TRY(parse_json(*text, answered)));
  }
  const std::string said = last_line(scratch.path() + "/log");
  const bool late = end.kind == CommandEnd::Kind::TimeLimit || end.kind == CommandEnd::Kind::Hang;
  const bool ran = end.kind == CommandEnd::Kind::Exited && end.code != 126 && end.code != 127;
  return Checked{.reason = late  ? fmt::format("{} took more than {}", python, to_text(kLongest))
                           : ran ? fmt::format("{} failed: {}", python, said)
                                 : fmt::format("{} could not be started", python)};
}

Json to_json(const Checked& checked) {
  Json json = Json::object();
  json.add("verdict", Json::of(kVerdicts[static_cast<std::size_t>(checked.verdict)]));
  if (!checked.reason.empty()) json.add("reason", Json::of(checked.reason));
  if (!checked.by.empty()) json.add("by", Json::of(checked.by));
  return json;
}

std::string to_text(const Checked& checked) {
  switch (checked.verdict) {
    case Verdict::Accepted: return fmt::format("accepted by the code of {}", checked.by);
    case Verdict::Refused: return fmt::format("refused by {}: {}", checked.by, checked.reason);
    case Verdict::NotChecked: return fmt::format("not checked: {}", checked.reason);
  }
  return "";
}

}  // namespace trainwright::cli
