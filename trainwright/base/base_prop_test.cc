#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "trainwright/base/json.h"
#include "trainwright/base/text.h"

namespace trainwright {
namespace {

TEST_CASE("every size reads back from its exact text") {
  CHECK(rc::check([](std::int64_t raw, int shift) {
    // Sizes are printed in the largest unit that divides them, so try round ones too.
    const int bits = 10 * (std::abs(shift) % 5);
    const Bytes size(((raw & 0xffffffffffLL) << bits) & ((std::int64_t{1} << 53) - 1));
    RC_ASSERT(parse_bytes(to_exact_text(size)).value() == size);
  }));
}

TEST_CASE("every rate and time reads back from its exact text") {
  CHECK(rc::check([](std::uint32_t whole, std::uint16_t part) {
    const double value = whole + part / 65536.0;
    RC_ASSERT(parse_bytes_per_second(to_exact_text(BytesPerSecond(value * 1e9))).value() ==
              BytesPerSecond(value * 1e9));
    RC_ASSERT(parse_seconds(to_exact_text(Seconds(value))).value() == Seconds(value));
  }));
}

TEST_CASE("every text that is written as JSON reads back") {
  CHECK(rc::check([](const std::vector<std::pair<std::string, std::int64_t>>& fields) {
    Json object = Json::object();
    for (const auto& [key, value] : fields) {
      std::string name;
      for (const char c : key) name += static_cast<char>(c & 0x7f);  // JSON text is UTF-8
      if (object.find(name) == nullptr) object.add(name, Json::of(value));
    }
    const Json again = parse_json(to_text(object), "round trip").value();
    RC_ASSERT(to_text(again) == to_text(object));
  }));
}

}  // namespace
}  // namespace trainwright
