// Whole commands: no words and no files make the program throw, crash, take long or answer --json
// by anything but JSON.
//
// The first line of an input holds the words of a command, the rest its files: a line `--- NAME`
// begins a file. The data directory is read once for all inputs; with `--data .` files in its
// folders
// (`--- trainers/mine.json`) stand beside a few that are shipped. Files lie in a folder of their
// own, out of which no word may point.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/base/json.h"
#include "trainwright/base/text.h"
#include "trainwright/cli/command_line.h"

using namespace trainwright;
namespace fs = std::filesystem;

namespace {

// Of processor time, so that a busy host finds nothing: with sanitizers a search in which
// nothing fits takes 46 alone and more beside other work (corpus, family_deepseek_plan).
constexpr double kMostSeconds = 90;

void require(bool condition, const char* what, std::string_view words) {
  if (condition) return;
  std::fprintf(stderr, "%s: %.*s\n", what, static_cast<int>(words.size()), words.data());
  std::abort();
}

// An empty working directory in memory where there is such a thing.
fs::path working_directory() {
  static const fs::path made = [] {
    const fs::path parent = fs::exists("/dev/shm") ? "/dev/shm" : fs::temp_directory_path();
    std::string name = (parent / "command_fuzz_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    fs::current_path(name);
    std::atexit([] { fs::remove_all(fs::current_path()); });
    return fs::path(name);
  }();
  return made;
}

bool points_out(std::string_view word) {
  return word.find("..") != std::string_view::npos || word.starts_with('/') ||
         word.find("=/") != std::string_view::npos || word.find('\0') != std::string_view::npos;
}

struct Input {
  std::string_view line;
  std::vector<std::string> words;
  std::vector<std::pair<std::string, std::string_view>> files;
};

Input input_of(std::string_view text) {
  Input input;
  input.line = text.substr(0, text.find('\n'));
  for (const std::string_view word : split(input.line, ' ')) {
    if (!word.empty()) input.words.emplace_back(word);
  }
  constexpr std::string_view kMark = "\n--- ";
  for (std::size_t at = text.find(kMark); at != std::string_view::npos;) {
    const std::size_t name = at + kMark.size();
    const std::size_t begin = std::min(text.find('\n', name), text.size());
    at = text.find(kMark, begin);
    const std::size_t first = std::min(begin + 1, text.size());
    input.files.emplace_back(
        text.substr(name, begin - name),
        text.substr(first, std::max(first, std::min(at, text.size())) - first));
  }
  return input;
}

bool is_safe(const Input& input) {
  for (const auto& [name, content] : input.files) {
    if (name.empty() || name.size() > 60 || points_out(name)) return false;
  }
  // Larger clusters are searched for longer than a fuzzer has patience.
  return input.files.size() <= 16 &&
         std::none_of(input.words.begin(), input.words.end(), points_out);
}

bool has(const Input& input, std::string_view word) {
  return std::find(input.words.begin(), input.words.end(), word) != input.words.end();
}

void write_files(const Input& input, const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) fs::remove_all(entry.path());
  std::error_code ignored;  // A file and a folder of one name, a name of dots.
  if (has(input, "--data")) {
    for (const char* name : {"accelerators/h100-sxm.json", "trainers/pytorch-2.json",
                             "trainers/rules.json", "calibrations/memory.json"}) {
      fs::create_directories((folder / name).parent_path(), ignored);
      fs::copy_file(fs::path(TRAINWRIGHT_DATA_DIR) / name, folder / name, ignored);
    }
  }
  for (const auto& [name, content] : input.files) {
    fs::create_directories((folder / name).parent_path(), ignored);
    std::ofstream(folder / name, std::ios::binary) << content;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const DataDirectory shipped(TRAINWRIGHT_DATA_DIR);
  const Input input = input_of({reinterpret_cast<const char*>(data), size});
  if (!is_safe(input)) return 0;
  write_files(input, working_directory());
  const std::clock_t start = std::clock();
  const cli::Reply reply = cli::run_command_line(input.words, {.data = shipped});
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  require(seconds < kMostSeconds, "takes long", input.line);
  const bool refused = reply.exit == cli::Exit::BadInput;
  require(refused == !reply.error.empty(), "a fault without a word, or a word without a fault",
          input.line);
  if (has(input, "--json")) {
    const auto answer = parse_json(reply.output, "reply");
    require(answer && answer->find("made_by") != nullptr, "not an answer in JSON", input.line);
  }
  return 0;
}
