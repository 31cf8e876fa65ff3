#include <doctest/doctest.h>

#include "trainwright/report/report.h"

using namespace trainwright;

namespace {

Curve some_curve(std::vector<double> values) {
  Curve curve;
  curve.title = "live <bytes>";
  curve.values = std::move(values);
  curve.label = [](double value) { return std::to_string(static_cast<int>(value)) + " B"; };
  return curve;
}

}  // namespace

TEST_CASE("a chart of blocks has the largest value at its top left") {
  // Two lines of eight eighths: 8 fills both, 4 the lower, 1 a quarter of the lower one.
  CHECK(block_chart(some_curve({1, 4, 8, 0, 5}), 40, 2) ==
        "8 B   █ ▂\n"
        "  0 ▂██ █\n");
}

TEST_CASE("a narrow chart keeps the peak of a long curve") {
  std::vector<double> values(1000, 1);
  values[777] = 100;
  const std::string chart = block_chart(some_curve(values), 20, 1);
  CHECK(chart.find("█") != std::string::npos);
  CHECK(character_count(chart) <= 21);
}

TEST_CASE("an SVG escapes its texts and draws an empty curve") {
  CHECK(to_svg(some_curve({1, 2})).find("live &lt;bytes&gt;") != std::string::npos);
  CHECK(to_svg(some_curve({})).find("</svg>") != std::string::npos);
}
