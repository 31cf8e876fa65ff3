#include <doctest/doctest.h>

#include "trainwright/report/report.h"

namespace trainwright {
namespace {

TEST_CASE("numbers align to the right, and a rule separates the total") {
  const Table table{{{"part"}, {"bytes", Align::Right}}, {{"weights", "12"}, {}, {"total", "12"}}};
  CHECK(to_text(table, 80) ==
        "part     bytes\n"
        "--------------\n"
        "weights     12\n"
        "--------------\n"
        "total       12\n");
}

TEST_CASE("prose columns are broken between words to fit the width") {
  const Table table{{{"id"}, {"why", Align::Wrap}}, {{"a", "one two three four five six"}}};
  CHECK(to_text(table, 18) ==
        "id  why\n"
        "------------------\n"
        "a   one two three\n"
        "    four five six\n");
}

TEST_CASE("widths count characters, not bytes") {
  const Table table{{{""}, {"", Align::Right}}, {{"µs", "1"}, {"ms", "10"}}};
  CHECK(to_text(table, 80) == "µs   1\nms  10\n");
  CHECK(character_count("µ≥x") == 3);
}

TEST_CASE("a number stays on the line of its unit") {
  CHECK(wrapped("it needs 79.15 GiB, OOM 5 %", 13) ==
        std::vector<std::string>{"it needs", "79.15 GiB,", "OOM 5 %"});
  CHECK(wrapped("layers 5 sets", 8) == std::vector<std::string>{"layers 5", "sets"});
}

TEST_CASE("a word longer than the line stands alone, it is never cut") {
  CHECK(wrapped("a verylongword b", 5) == std::vector<std::string>{"a", "verylongword", "b"});
}

}  // namespace
}  // namespace trainwright
