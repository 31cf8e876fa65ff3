#include <doctest/doctest.h>

#include "trainwright/model/published.h"
#include "trainwright/testing/published_sizes.h"

namespace trainwright {
namespace {

const std::string kData = std::string(TRAINWRIGHT_SOURCE_DIR) + "/data";

TEST_CASE("the zoo reads without a fault and holds at least 50 models") {
  const auto zoo = load_zoo(kData);
  REQUIRE_MESSAGE(zoo, to_text(zoo.error()));
  CHECK(zoo->size() >= 50);
  CHECK(zoo->size() == zoo_names(kData).size());
  for (const ZooEntry& entry : *zoo) {
    CHECK_MESSAGE(!entry.source.empty(), entry.model.name);
    CHECK_MESSAGE(parameters(entry.model).total() > Params(0), entry.model.name);
  }
}

TEST_CASE("every published size is borne out within the rounding it was printed with") {
  const auto zoo = load_zoo(kData);
  REQUIRE(zoo);
  int published = 0, exact = 0;
  for (const ZooEntry& entry : *zoo) {
    if (entry.published.total.empty()) continue;
    ++published;
    exact += detail::parse_figure(entry.published.total)->slack == 0;
    CHECK_MESSAGE(!entry.published.source.empty(), entry.model.name);
    for (const std::string& sentence : testing::disagreements(entry)) {
      FAIL_CHECK(entry.model.name << ": " << sentence);
    }
  }
  MESSAGE(published << " of " << zoo->size() << " models have a published size, " << exact
                    << " of them a whole count");
  CHECK(published >= 50);
}

TEST_CASE("a model that others upload again under its name is that model") {
  for (const char* id : {"meta-llama/Llama-3.1-8B", "NousResearch/Meta-Llama-3.1-8B",
                         "unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit"}) {
    const auto model = find_model(id, kData);
    REQUIRE_MESSAGE(model.has_value(), id);
    CHECK(model->name == "llama-3.1-8b");
  }
  CHECK(!find_model("somebody/Llama-3.1-8B", kData).has_value());
}

TEST_CASE("a wrong shape is noticed by the published size") {
  ZooEntry entry{parse_model(R"({"model_type": "llama"})", "x", kData).value(), "", {}, {}};
  entry.published.total = "6.74B";
  CHECK(testing::disagreements(entry).empty());
  entry.published.total = "6738415616";
  CHECK(testing::disagreements(entry).empty());
  entry.published.total = "6.75B";
  CHECK(testing::disagreements(entry) ==
        std::vector<std::string>{"total is 6,738,415,616, published 6.75B (-0.1716 %)"});
  entry.published.counts = Counted::WithoutOutput;
  entry.published.total = "6607343616";  // 32000 x 4096 fewer
  CHECK(testing::disagreements(entry).empty());
}

TEST_CASE("a figure stands for an interval of half its last digit") {
  CHECK(detail::parse_figure("70.6B")->value == doctest::Approx(70.6e9));
  CHECK(detail::parse_figure("70.6B")->slack == doctest::Approx(0.05e9));
  CHECK(detail::parse_figure("7B")->slack == doctest::Approx(0.5e9));
  CHECK(detail::parse_figure("559214592")->slack == 0);
  for (const char* bad : {"", "B", "-1B", "7BB", "1e9", "nan", "7 B"}) {
    CHECK_MESSAGE(!detail::parse_figure(bad), bad);
  }
}

}  // namespace
}  // namespace trainwright
