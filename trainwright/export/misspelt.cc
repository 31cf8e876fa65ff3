#include "trainwright/export/misspelt.h"

#include <algorithm>

#include "trainwright/base/text.h"

namespace trainwright::detail {
namespace {

constexpr std::size_t kLong = 10;  // letters, of which two may be wrong
constexpr std::size_t kFew = 7;    // letters, of which one may be

std::string digits(std::string_view text) {
  std::string only(text);
  std::erase_if(only, [](char c) { return c < '0' || c > '9'; });
  return only;
}

// Cut short inside its last part.
bool is_begun_by(std::string_view known, std::string_view key) {
  return known.starts_with(key) && known.substr(key.size()).find('.') == std::string_view::npos;
}

}  // namespace

std::optional<std::string> meant_by(std::string_view key, std::span<const std::string> known) {
  const std::size_t letters = key.size() - (key.starts_with("--") ? 2 : 0);
  if (letters < kFew) return std::nullopt;
  const bool is_long = letters >= kLong;
  const int slips = is_long ? 2 : 1;
  const auto found = std::find_if(known.begin(), known.end(), [&](const std::string& one) {
    if (digits(key) != digits(one)) return false;
    if (is_long && is_begun_by(one, key)) return true;
    const bool near = std::abs(std::ssize(key) - std::ssize(one)) <= slips;  // free to compute
    return near && edit_distance(key, one) <= slips;
  });
  return found == known.end() ? std::nullopt : std::optional(*found);
}

}  // namespace trainwright::detail
