#include "trainwright/base/few.h"

#include <doctest/doctest.h>

namespace trainwright {
namespace {

TEST_CASE("a short list that grows beyond its room keeps all items in order") {
  Few<int, 3> list = {1, 2, 3};
  list.push_back(4);
  const Few<int, 3> copy = list;
  list.push_back(5);
  REQUIRE(list.size() == 5);
  for (std::size_t i = 0; i < list.size(); ++i) CHECK(list[i] == static_cast<int>(i) + 1);
  CHECK(list.end() - list.begin() == 5);
  CHECK(copy == Few<int, 3>{1, 2, 3, 4});
  CHECK(!(copy == list));
  CHECK(Few<int, 3>{}.empty());
}

}  // namespace
}  // namespace trainwright
