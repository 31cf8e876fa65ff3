// Whatever a quantity parser accepts reads back from its exact text.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "trainwright/base/text.h"

using namespace trainwright;

namespace {
void require(bool condition) {
  if (!condition) std::abort();
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto bytes = parse_bytes(text)) {
    require(parse_bytes(to_exact_text(*bytes)).has_value());
    if (bytes->value() < (std::int64_t{1} << 53)) {
      require(*parse_bytes(to_exact_text(*bytes)) == *bytes);
    }
    require(!to_text(*bytes).empty());
  }
  if (const auto rate = parse_bytes_per_second(text)) {
    require(*parse_bytes_per_second(to_exact_text(*rate)) == *rate);
  }
  if (const auto rate = parse_flops_per_second(text)) {
    require(*parse_flops_per_second(to_exact_text(*rate)) == *rate);
  }
  if (const auto time = parse_seconds(text)) {
    require(*parse_seconds(to_exact_text(*time)) == *time);
  }
  return 0;
}
