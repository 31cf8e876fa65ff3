#include "trainwright/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <clocale>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace trainwright {

std::string with_thousands(std::int64_t number) {
  std::string digits = std::to_string(number);
  const std::ptrdiff_t sign = number < 0 ? 1 : 0;
  for (auto at = std::ssize(digits) - 3; at > sign; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return digits;
}

std::string significant(double number, int digits) {
  if (number == 0) return "0";
  if (!std::isfinite(number)) return fmt::format("{}", number);
  const double magnitude = std::abs(number);
  if (magnitude < 1e-4 || magnitude >= 1e15) return fmt::format("{:.{}g}", number, digits);
  // Rounding first settles which power of ten the printed number has (999.96 -> 1000).
  const double rounded = *parse_number(fmt::format("{:.{}e}", number, digits - 1));
  const int exponent = static_cast<int>(std::floor(std::log10(std::abs(rounded)) + 1e-12));
  const int decimals = std::max(0, digits - 1 - exponent);
  std::string text = fmt::format("{:.{}f}", rounded, decimals);
  if (decimals > 0) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return text;
}

std::string percent(double fraction) { return fmt::format("{:.1f} %", 100 * fraction); }

std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

namespace {

#ifdef __cpp_lib_to_chars
bool read_number(std::string_view text, double& value) {
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  return fault == std::errc{} && end == text.data() + text.size();
}
#else
// Emscripten's library reads no doubles that way; strtod does, but also blanks, '+' and 0x1p3, and
// with the decimal point of the locale that a host program has set.
bool read_number(std::string_view text, double& value) {
  const auto plain = [](char c) {
    return std::string_view("0123456789.eE+-").find(c) != std::string_view::npos;
  };
  if (text.empty() || text.front() == '+' || !std::all_of(text.begin(), text.end(), plain)) {
    return false;
  }
  std::string ended(text);
  std::replace(ended.begin(), ended.end(), '.', *std::localeconv()->decimal_point);
  char* end = nullptr;
  value = std::strtod(ended.c_str(), &end);
  return end == ended.c_str() + ended.size();
}
#endif

}  // namespace

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  if (!read_number(text, value) || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const auto first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

std::string enumerate(std::span<const std::string> parts, std::string_view last) {
  if (parts.empty()) return {};
  if (parts.size() == 1) return parts[0];
  return fmt::format("{} {} {}", fmt::join(parts.first(parts.size() - 1), ", "), last,
                     parts.back());
}

int edit_distance(std::string_view a_text, std::string_view b_text) {
  const std::string a = lower_case(a_text);
  const std::string b = lower_case(b_text);
  // Rows of the Damerau-Levenshtein table (optimal string alignment): two back, one back, current.
  std::vector<int> before(b.size() + 1), previous(b.size() + 1), current(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) previous[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int replace = previous[j - 1] + (a[i - 1] != b[j - 1]);
      current[j] = std::min({replace, previous[j] + 1, current[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        current[j] = std::min(current[j], before[j - 2] + 1);
      }
    }
    std::swap(before, previous);
    std::swap(previous, current);
  }
  return previous[b.size()];
}

std::vector<std::string> nearest(std::string_view name, std::span<const std::string> candidates,
                                 std::size_t most) {
  const std::string wanted = lower_case(name);
  struct Near {
    int distance;
    std::string candidate;
  };
  std::vector<Near> near;
  // A third of the letters may be wrong, and at least two.
  const int tolerated = std::max(2, static_cast<int>(wanted.size()) / 3);
  for (const std::string& candidate : candidates) {
    const bool prefix = !wanted.empty() && lower_case(candidate).starts_with(wanted);
    // The distance is at least the difference in length, which is free to compute.
    const auto longer = std::abs(std::ssize(candidate) - std::ssize(wanted));
    if (!prefix && longer > tolerated) continue;
    const int distance = prefix ? 1 : edit_distance(wanted, candidate);
    if (distance <= tolerated && distance < std::ssize(candidate)) {
      near.push_back({distance, candidate});
    }
  }
  std::stable_sort(near.begin(), near.end(),
                   [](const Near& a, const Near& b) { return a.distance < b.distance; });
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(most, near.size()); ++i) names.push_back(near[i].candidate);
  return names;
}

std::string did_you_mean(std::string_view name, std::span<const std::string> candidates,
                         std::string_view otherwise) {
  std::vector<std::string> near = nearest(name, candidates);
  if (near.empty()) return std::string(otherwise);
  for (std::string& candidate : near) candidate = "'" + candidate + "'";
  return fmt::format("did you mean {}?", enumerate(near, "or"));
}

}  // namespace trainwright
