#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <filesystem>

#include "trainwright/testing/skip.h"

namespace trainwright::testing {
namespace {

bool& anything_skipped() {
  static bool skipped = false;
  return skipped;
}

}  // namespace

void skip(const std::string& reason) {
  anything_skipped() = true;
  MESSAGE("skipped: " << reason);
}

std::optional<std::string> shared_path(const std::string& name) {
  std::string path = TRAINWRIGHT_SHARED_DIR "/" + name;
  if (std::filesystem::exists(path)) return path;
  skip("there is no " + path);
  return std::nullopt;
}

}  // namespace trainwright::testing

int main(int count, char** words) {
  doctest::Context context(count, words);
  const int failed = context.run();
  return failed == 0 && trainwright::testing::anything_skipped()
             ? trainwright::testing::kSkippedCode
             : failed;
}
