#include <doctest/doctest.h>

#include "trainwright/report/report.h"

using namespace trainwright;

TEST_CASE("points stand by their scales, 950 pixels from 190 across and from the bottom up") {
  PointPicture picture;
  picture.title = "step <time>";
  picture.x = {.least = 0, .most = 100, .ticks = {{50, "50 GiB"}}};
  picture.y = {.least = 1, .most = 100, .logarithmic = true, .ticks = {{10, "10 s"}}};
  picture.groups = {{"fits", {{20, 10}, {400, 1}}, false, true}, {"tight", {{0, 100}}, true}};
  picture.mark = 80;
  picture.height = 400;
  const std::string svg = to_svg(picture);
  const auto has = [&](const char* what) { return svg.find(what) != std::string::npos; };
  // 190 + 950 x 0.2; half of two powers of ten, 56 + 400 x 0.5.
  CHECK(has("<circle cx=\"380.0\" cy=\"256.0\" r=\"3\" fill=\"#3175bb\"/>"));
  // What lies beyond the scale stands at its end.
  CHECK(has("d=\"M380.0,256.0L1140.0,456.0\""));
  CHECK(has("<circle cx=\"190.0\" cy=\"56.0\" r=\"3\" fill=\"none\" stroke=\"#2f855a\"/>"));
  CHECK(has("<line x1=\"950.0\""));  // the mark: 190 + 950 x 0.8
  CHECK(has("step &lt;time&gt;"));
  CHECK(has("50 GiB"));
}
