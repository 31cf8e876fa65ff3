// The program: looks where it is, runs the command line and prints its answer.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "trainwright/base/printable.h"
#include "trainwright/cli/colour.h"
#include "trainwright/cli/command_line.h"
#include "trainwright/cli/exported_folder.h"
#include "trainwright/tune/tune.h"

namespace trainwright::cli {
namespace {

std::string own_path() {
  std::error_code fault;
  return std::filesystem::read_symlink("/proc/self/exe", fault).string();
}

// Beside the program in a build tree, under share/ when installed.
std::string data_beside_program() {
  std::error_code fault;
  const auto program = std::filesystem::path(own_path()).parent_path();
  for (const auto& place : {program / "data", program / "../share/trainwright"}) {
    if (std::filesystem::is_directory(place, fault)) {
      return place.lexically_normal().string();
    }
  }
  return "";
}

int terminal_width() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40) return size.ws_col;
  const char* columns = std::getenv("COLUMNS");  // As shells tell programs whose output is piped.
  // NOLINTNEXTLINE(bugprone-unchecked-string-to-number-conversion): what is no number is 0.
  const int given = columns == nullptr ? 0 : std::atoi(columns);
  return given >= 40 && given <= 400 ? given : 80;
}

// Says so on standard error if something could not be written, or `stream` not be opened.
bool write(const std::string& text, std::FILE* stream, const std::string& name) {
  const bool written = stream != nullptr &&
                       std::fwrite(text.data(), 1, text.size(), stream) == text.size() &&
                       std::fflush(stream) == 0;
  const char* why = strerror(errno);
  if (!written) fmt::print(stderr, "{}: cannot be written: {}\n", printable_line(name), why);
  return written;
}

bool write(const File& file) {
  std::error_code ignored;  // What follows says so.
  std::filesystem::create_directories(std::filesystem::path(file.path).parent_path(), ignored);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(
      std::fopen(file.path.c_str(), "wb"), [](std::FILE* open) { return std::fclose(open); });
  return write(file.content, stream.get(), file.path);
}

// no-color.org: any value but an empty one says no.
bool takes_colours() {
  const char* refused = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  return isatty(STDOUT_FILENO) != 0 && (refused == nullptr || *refused == '\0') &&
         (terminal == nullptr || std::strcmp(terminal, "dumb") != 0);
}

Exit carry_out(const Reply& reply) {
  const std::string fault = replace_files(reply.files);
  if (!fault.empty()) fmt::print(stderr, "{}\n", printable(fault));
  bool written = fault.empty();
  for (const File& file : reply.files) {
    if (!file.replaces) written = write(file) && written;
  }
  if (written) {
    written =
        write(takes_colours() ? coloured(reply.output) : reply.output, stdout, "standard output");
  }
  std::fwrite(reply.error.data(), 1, reply.error.size(), stderr);
  return written ? reply.exit : Exit::NotWritten;
}

volatile std::sig_atomic_t pressed = 0;

// A second Ctrl-C ends the program.
bool interrupted() {
  static const bool listens = [] {
    struct sigaction action = {};
    action.sa_handler = [](int) { pressed = 1; };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    return sigaction(SIGINT, &action, nullptr) == 0;
  }();
  return listens && pressed != 0;
}

// In place of what was shown last, of which so many lines are above the cursor.
std::ptrdiff_t above = 0;
void show_progress(const std::string& text) {
  fmt::print(stderr, "\r{}\033[J{}", above > 0 ? fmt::format("\033[{}A", above) : "",
             printable(text));
  std::fflush(stderr);
  above = std::count(text.begin(), text.end(), '\n');
}

void tell(const std::string& line) {
  if (isatty(STDERR_FILENO) != 0) show_progress("");
  fmt::print(stderr, "{}\n", printable(line));
  std::fflush(stderr);
}

Exit run(int argc, char** argv) {
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  // Started by itself, to watch a trial.
  if (words.size() == 2 && words[0] == kWatchWord) return static_cast<Exit>(watch_trial(words[1]));
  const DataDirectory data(data_beside_program());
  return carry_out(
      run_command_line(words, {.data = data,
                               .width = terminal_width(),
                               .interrupted = interrupted,
                               .progress = isatty(STDERR_FILENO) != 0 ? show_progress : nullptr,
                               .tell = tell,
                               .program = own_path()}));
}

}  // namespace
}  // namespace trainwright::cli

int main(int argc, char** argv) {
  using trainwright::cli::Exit;
  try {
    return static_cast<int>(trainwright::cli::run(argc, argv));
  } catch (const std::exception& fault) {
    fmt::print(stderr, "trainwright: internal error: {}\n  hint: this is a bug; please report it\n",
               trainwright::printable(fault.what()));
    return static_cast<int>(Exit::Internal);
  }
}
