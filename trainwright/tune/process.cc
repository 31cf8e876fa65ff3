#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

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

}  // namespace

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
  const char go = 'g';
  while (write(gate_, &go, 1) < 0 && errno == EINTR) {
  }
  close(gate_);
  gate_ = -1;
}

Result<Held> hold(const Launch& launch) {
  // A job may have begun its log before its watcher was gone.
  for (const char* left : {"/log", "/end"}) {
    if (!launch.sbatch) unlink((launch.folder + left).c_str());
  }
  std::array<int, 2> gate{};
  if (pipe2(gate.data(), O_CLOEXEC) != 0) return fail("tune", strerror(errno));
  const pid_t pid = fork();
  if (pid < 0) {
    close(gate[0]);
    close(gate[1]);
    return fail("tune", fmt::format("no process can be made: {}", strerror(errno)));
  }
  if (pid == 0) {
    close(gate[1]);
    detail::watch(launch, gate[0]);
  }
  close(gate[0]);
  const auto stat = detail::stat_of(pid);
  return Held({pid, stat ? stat->born : 0, boot_id()}, gate[1]);
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
