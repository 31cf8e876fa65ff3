#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "trainwright/base/json.h"
#include "trainwright/base/text.h"
#include "trainwright/tune/tune.h"
#include "trainwright/tune/watch.h"

namespace trainwright {
namespace {

constexpr std::array<std::string_view, 9> kKinds = {"exited",        "killed",    "time-limit",
                                                    "hang",          "stopped",   "not-started",
                                                    "out-of-memory", "cancelled", "node-failure"};

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string launch_path(const std::string& folder) { return folder + "/launch.json"; }

Json strings(const std::vector<std::string>& words) {
  Json list = Json::array();
  for (const std::string& word : words) list.push(Json::of(word));
  return list;
}

std::string launch_text(const Launch& launch) {
  Json environment = Json::array();
  for (const auto& [name, value] : launch.environment) environment.push(strings({name, value}));
  Json json = Json::object();
  json.add("words", strings(launch.words))
      .add("environment", std::move(environment))
      .add("time_limit", Json::of(launch.time_limit.value()))
      .add("silence", Json::of(launch.silence.value()))
      .add("sbatch", launch.sbatch ? strings(*launch.sbatch) : Json{});
  return to_line(json);
}

Result<Launch> read_launch(const std::string& folder) {
  const std::string path = launch_path(folder);
  const Json json = TW_TRY(read_json_file(path));
  Diagnostics faults;
  JsonFields fields(json, path, "", faults);
  Launch launch;
  launch.folder = folder;
  launch.words = fields.optional_strings("words");
  launch.time_limit = Seconds(fields.number("time_limit"));
  launch.silence = Seconds(fields.number("silence"));
  if (fields.raw("sbatch") != nullptr) launch.sbatch = fields.optional_strings("sbatch");
  const Json* pairs = fields.array("environment");
  for (std::size_t i = 0; pairs != nullptr && i < pairs->items.size(); ++i) {
    const Json& pair = pairs->items[i];
    if (pair.items.size() == 2)
      launch.environment.emplace_back(pair.items[0].string, pair.items[1].string);
  }
  fields.finish();
  if (!faults.empty()) return fail(std::move(faults));
  return launch;
}

// After the fork, up to execv, only what a signal handler may do.
[[noreturn]] void become_watcher(const char* program, const char* folder, int gate) {
  if (gate == 3 ? fcntl(3, F_SETFD, 0) == 0 : dup2(gate, 3) == 3) {
    const std::string_view word = kWatchWord;
    char* const words[] = {const_cast<char*>(program), const_cast<char*>(word.data()),
                           const_cast<char*>(folder), nullptr};
    execv(program, words);
  }
  _exit(127);
}

// Processes of this user and host whose environment says so.
std::vector<pid_t> marked(const std::string& mark) {
  std::vector<pid_t> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const auto pid = parse_integer(entry.path().filename().string());
    if (!pid || *pid == getpid()) continue;
    std::ifstream file(entry.path() / "environ", std::ios::binary);
    std::string variable;
    while (std::getline(file, variable, '\0')) {
      if (variable != mark) continue;
      const auto stat = detail::stat_of(*pid);
      if (stat && stat->state != 'Z') found.push_back(static_cast<pid_t>(*pid));
      break;
    }
  }
  return found;
}

}  // namespace

std::string mark_of(const std::string& folder) {
  std::error_code ignored;
  return std::filesystem::weakly_canonical(folder, ignored).string();
}

std::int64_t sweep(const std::string& folder) {
  constexpr int kGraceLooks = 50, kMostLooks = 300;  // of 0.1 s: until SIGKILL, until it gives up
  const std::string mark = fmt::format("{}={}", kTrialMark, mark_of(folder));
  std::int64_t most = 0;
  for (int look = 0; look < kMostLooks; ++look) {
    const std::vector<pid_t> left = marked(mark);
    most = std::max(most, static_cast<std::int64_t>(left.size()));
    if (left.empty()) break;
    for (const pid_t pid : left) kill(pid, look < kGraceLooks ? SIGTERM : SIGKILL);
    detail::rest(0.1);
  }
  return most;
}

bool is_elsewhere(const Watcher& watcher) {
  return watcher.pid > 0 && !watcher.host.empty() && watcher.host != host_name() &&
         watcher.boot != boot_id();
}

int watch_trial(const std::string& folder) {
  const auto launch = read_launch(folder);
  if (!launch) return 2;
  detail::watch(*launch, 3);
}

bool is_alive(const Watcher& watcher) {
  if (watcher.pid <= 0 || watcher.boot != boot_id()) return false;
  const auto stat = detail::stat_of(watcher.pid);
  return stat && stat->born == watcher.born && stat->state != 'Z';
}

Held::Held(Held&& other) noexcept : watcher_(std::move(other.watcher_)), gate_(other.gate_) {
  other.gate_ = -1;
}

Held::~Held() {
  if (gate_ < 0) return;
  close(gate_);  // A watcher that reads nothing ends.
  waitpid(static_cast<pid_t>(watcher_.pid), nullptr, 0);
}

void Held::let_go() {
  // A watcher that was killed meanwhile reads nothing, and is found to be gone like any other.
  const char go = 'g';
  while (send(gate_, &go, 1, MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
  close(gate_);
  gate_ = -1;
}

Result<Held> hold(const Launch& launch) {
  // A job may have begun its log before its watcher was gone.
  for (const char* left : {"/log", "/end"}) {
    if (!launch.sbatch) unlink((launch.folder + left).c_str());
  }
  if (!launch.program.empty() &&
      !detail::written(launch_path(launch.folder), launch_text(launch))) {
    return fail(launch_path(launch.folder), "it cannot be written",
                "make room on the disk, then `trainwright tune resume`; nothing is lost");
  }
  std::array<int, 2> gate{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, gate.data()) != 0)
    return fail("tune", strerror(errno));
  const pid_t pid = fork();
  if (pid < 0) {
    close(gate[0]);
    close(gate[1]);
    return fail("tune", fmt::format("no process can be made: {}", strerror(errno)));
  }
  if (pid == 0) {
    close(gate[1]);
    if (!launch.program.empty())
      become_watcher(launch.program.c_str(), launch.folder.c_str(), gate[0]);
    detail::watch(launch, gate[0]);
  }
  close(gate[0]);
  const auto stat = detail::stat_of(pid);
  return Held({pid, stat ? stat->born : 0, boot_id(), host_name()}, gate[1]);
}

std::optional<CommandEnd> end_of(const std::string& folder, const Watcher& watcher) {
  std::ifstream file(folder + "/end");
  std::string kind;
  CommandEnd end;
  double took = 0;
  if (!(file >> kind >> end.code >> took)) return std::nullopt;
  const auto found = std::find(kKinds.begin(), kKinds.end(), kind);
  if (found == kKinds.end()) return std::nullopt;
  end.kind = static_cast<CommandEnd::Kind>(found - kKinds.begin());
  end.took = Seconds(took);
  std::getline(file >> std::ws, end.said);
  // It writes its end last. Not a child: somebody else reaps it.
  if (is_alive(watcher))
    waitpid(static_cast<pid_t>(watcher.pid), nullptr, 0);
  else
    waitpid(static_cast<pid_t>(watcher.pid), nullptr, WNOHANG);
  return end;
}

void stop(const Watcher& watcher) {
  if (is_alive(watcher)) kill(static_cast<pid_t>(watcher.pid), SIGTERM);
}

}  // namespace trainwright

namespace trainwright::detail {

std::optional<ProcessStat> stat_of(std::int64_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  if (!std::getline(file, text, '\0') || text.rfind(')') == std::string::npos) return std::nullopt;
  std::istringstream rest(text.substr(text.rfind(')') + 2));
  ProcessStat stat;
  std::string field;
  for (int i = 3; i <= 22 && rest >> field; ++i) {
    if (i == 3) stat.state = field.front();
    if (i == 4) stat.parent = parse_integer(field).value_or(0);
    if (i == 22) stat.born = parse_integer(field).value_or(0);
  }
  return stat;
}

std::string end_text(const CommandEnd& end) {
  return fmt::format("{} {} {:.3f} {}\n", kKinds[static_cast<std::size_t>(end.kind)], end.code,
                     end.took.value(), end.said);
}

}  // namespace trainwright::detail
