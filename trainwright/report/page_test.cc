#include <doctest/doctest.h>

#include "trainwright/report/report.h"

using namespace trainwright;

TEST_CASE("data cannot end the script it stands in, and reads back as it was") {
  Json data = Json::object();
  data.add("model", Json::of("</script><b> \"a\\ b"));
  const std::string page = "<script>" + std::string(kPageData) + "</script>";
  const std::string filled = filled_page(page, data).value();
  CHECK(filled == R"(<script>{"model":"\u003c/script>\u003cb> \"a\\ b"}</script>)");
  const std::string inside = filled.substr(8, filled.size() - 8 - 9);
  CHECK(parse_json(inside, "page")->find("model")->string == "</script><b> \"a\\ b");
}

TEST_CASE("a page without a place for data is a fault") {
  CHECK_FALSE(filled_page("<script></script>", Json::object()).has_value());
}
