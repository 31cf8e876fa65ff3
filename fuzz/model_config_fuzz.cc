// Any bytes as a config.json: a model or diagnostics, and every count of a model is defined.
#include <cstdint>
#include <string_view>

#include "trainwright/base/check.h"
#include "trainwright/model/model.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trainwright;
  const auto model = parse_model(std::string_view(reinterpret_cast<const char*>(data), size),
                                 "fuzz.json", TRAINWRIGHT_DATA_DIR);
  if (!model) {
    TW_CHECK(!model.error().diagnostics.empty(), "an error says something");
    return 0;
  }
  const Params total = parameters(*model).total();
  TW_CHECK(total > Params(0), "a model has parameters");
  TW_CHECK(active_parameters(*model).total() <= total, "no more are active than there are");
  TW_CHECK(!to_text(model_report(*model, Tokens(1 << 20))).empty(), "a report has text");
  return 0;
}
