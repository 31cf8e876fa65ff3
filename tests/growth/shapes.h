#pragma once
// The worst texts that a reader can be given, in any length.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace trainwright::growth {

// `begin`, then `unit` again and again, then `end`. A '@' in a unit is its number, so that no two
// are alike; `close` follows as often as the unit did.
struct Shape {
  std::string name;
  std::string begin, unit;
  std::string end = {}, close = {};
};

struct Reader {
  std::string name;
  bool (*read)(const std::string& text);    // whether it was accepted
  std::size_t most = std::size_t{1} << 40;  // bytes that it accepts
  std::vector<Shape> shapes;
};

std::string text_of(const Shape& shape, std::size_t bytes);
std::vector<Reader> readers();
std::vector<Reader> json_readers(), settings_readers(), line_readers();

}  // namespace trainwright::growth
