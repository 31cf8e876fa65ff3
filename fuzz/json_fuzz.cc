// Whatever parse_json accepts prints to text that reads back to the same text.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "trainwright/base/json.h"

using namespace trainwright;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto json = parse_json(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
  if (!json) return 0;
  const std::string text = to_text(*json);
  const auto again = parse_json(text, "again");
  if (!again || to_text(*again) != text) std::abort();
  return 0;
}
