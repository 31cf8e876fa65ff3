// Whatever lies in a folder as history.sqlite, it is a history or a fault, and all that it holds
// can be listed.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "trainwright/tune/tune.h"

using namespace trainwright;
namespace fs = std::filesystem;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

// A folder in memory where there is such a thing.
const std::string& folder() {
  static const std::string made = [] {
    const fs::path parent = fs::exists("/dev/shm") ? "/dev/shm" : fs::temp_directory_path();
    std::string name = (parent / "history_fuzz_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    return name;
  }();
  static const int removed = std::atexit([] { fs::remove_all(folder()); });
  require(removed == 0);
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const auto& left : fs::directory_iterator(folder())) fs::remove(left.path());
  std::ofstream(folder() + "/history.sqlite", std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  const auto history = History::look(folder());
  if (!history) {
    require(!history.error().diagnostics.empty());
    return 0;
  }
  if (const auto asked = history->asked(); !asked) require(!asked.error().diagnostics.empty());
  if (const auto records = history->records()) {
    spent_on(*records);
    for (const TrialRecord& record : *records) to_json(record.memory);
  }
  return 0;
}
