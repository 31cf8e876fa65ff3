#include <doctest/doctest.h>

#include "trainwright/report/report.h"

using namespace trainwright;

namespace {

BarPicture some_bars() {
  BarPicture picture;
  picture.title = "memory <by rank>";
  picture.legend = {"weights", "activations"};
  picture.bars = {{"rank 0", "30 GiB", {{0, 10, 0}, {10, 20, 1}}, 80}, {"rank 1", "", {}, 0}};
  picture.most = 100;
  picture.label = [](double value) { return std::to_string(static_cast<int>(value)) + " GiB"; };
  return picture;
}

}  // namespace

TEST_CASE("pieces of a bar stand where they start, on a scale of 940 pixels from 150") {
  const std::string svg = to_svg(some_bars());
  // 10 of 100 are 94 pixels; half a pixel is left between pieces.
  CHECK(svg.find("<rect x=\"150.0\" y=\"46.0\" width=\"93.5\"") != std::string::npos);
  CHECK(svg.find("<rect x=\"244.0\" y=\"46.0\" width=\"187.5\"") != std::string::npos);
  // The mark at 80 of 100.
  CHECK(svg.find("<line x1=\"902.0\" y1=\"44.0\"") != std::string::npos);
  CHECK(svg.find("memory &lt;by rank&gt;") != std::string::npos);
  CHECK(svg.find("100 GiB") != std::string::npos);
}
