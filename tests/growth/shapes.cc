#include "shapes.h"

#include <algorithm>

namespace trainwright::growth {

std::string text_of(const Shape& shape, std::size_t bytes) {
  std::string text = shape.begin;
  text.reserve(bytes + shape.unit.size() + shape.end.size() + 20);
  const std::size_t number_at = shape.unit.find('@');
  const std::string before = shape.unit.substr(0, number_at);
  const std::string after = number_at == std::string::npos ? "" : shape.unit.substr(number_at + 1);
  std::size_t units = 0;
  while (text.size() + units * shape.close.size() < bytes) {
    text += before;
    if (number_at != std::string::npos) (text += std::to_string(units)) += after;
    ++units;
  }
  text += shape.end;
  for (std::size_t i = 0; i < units * !shape.close.empty(); ++i) text += shape.close;
  return text;
}

std::vector<Reader> readers() {
  std::vector<Reader> all = json_readers();
  for (const auto& more : {settings_readers(), line_readers()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace trainwright::growth
