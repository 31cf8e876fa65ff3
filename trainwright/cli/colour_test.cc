#include "trainwright/cli/colour.h"

#include <doctest/doctest.h>

namespace trainwright::cli {
namespace {

TEST_CASE("a terminal sees verdicts, the recommended layout and bars in colour") {
  CHECK(coloured("Fits, with 39.03 GiB to spare.\n") ==
        "\033[32mFits, with 39.03 GiB to spare.\033[0m\n");
  CHECK(coloured("Recommended: tp1 pp1\n  2.96 s/step") ==
        "\033[1mRecommended: tp1 pp1\033[0m\n  2.96 s/step");
  CHECK(coloured("  GEMMs  2.29 s   77 %  ########") ==
        "  GEMMs  2.29 s   77 %  \033[34m########\033[0m");
}

TEST_CASE("JSON, comments of exported files and other text have no colours") {
  for (const char* text : {"{\n  \"Fits\": 1\n}\n", "# Next: run it\n", "ends with ##\n", ""}) {
    CHECK(coloured(text) == text);
  }
}

}  // namespace
}  // namespace trainwright::cli
