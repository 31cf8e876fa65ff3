#pragma once
// Tests that cannot say anything here are skipped in ctest's words, not passed.
#include <optional>
#include <string>

namespace trainwright::testing {

// What a test program returns when nothing failed and something was skipped; ctest's
// SKIP_RETURN_CODE.
inline constexpr int kSkippedCode = 77;

// Says so; the test case then returns by itself.
void skip(const std::string& reason);

// The path of a file or folder in ../shared, which lies beside the project and not in it; skips
// where it is absent.
std::optional<std::string> shared_path(const std::string& name);

}  // namespace trainwright::testing
