#include "trainwright/replay/lines.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <fstream>

namespace trainwright::detail {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;
// An op on a hundred thousand tensors is a line of a megabyte or two; a device never ends its line.
constexpr std::size_t kLongestLine = std::size_t{1} << 27;

// Hands out the complete lines of `text` and takes them off its front; false to stop. Before `from`
// no line ends.
bool take_lines(std::string_view& text, const EachLine& each, std::size_t from = 0) {
  for (;; from = 0) {
    const std::size_t end = text.find('\n', from);
    if (end == std::string_view::npos) return true;
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!each(line)) return false;
    text.remove_prefix(end + 1);
  }
}

void last_line(std::string_view text, const EachLine& each) {
  if (text.ends_with('\r')) text.remove_suffix(1);
  if (!text.empty()) each(text);
}

}  // namespace

void for_each_line(std::string_view text, const EachLine& each) {
  if (take_lines(text, each)) last_line(text, each);
}

Result<std::monostate> for_each_line_of_file(const std::string& path, const EachLine& each) {
  std::error_code fault;
  const auto status = std::filesystem::status(path, fault);
  if (!std::filesystem::exists(status)) return fail(path, "no such file");
  if (std::filesystem::is_directory(status)) return fail(path, "is a directory, not a file");
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return fail(path, "cannot be read", "check its permissions");
  std::string buffer;
  while (!stream.eof()) {
    const std::size_t kept = buffer.size();
    if (kept > kLongestLine) return fail(path, "a line is longer than 128 MiB");
    buffer.resize(kept + kPiece);
    stream.read(buffer.data() + kept, static_cast<std::streamsize>(kPiece));
    // A part of a program has other peaks than the whole.
    if (!stream && !stream.eof()) return fail(path, "cannot be read to its end");
    buffer.resize(kept + static_cast<std::size_t>(stream.gcount()));
    std::string_view rest = buffer;
    if (!take_lines(rest, each, kept)) return std::monostate{};
    buffer.erase(0, buffer.size() - rest.size());
  }
  last_line(buffer, each);
  return std::monostate{};
}

bool read_numbers(std::string_view line, std::vector<std::int64_t>& numbers) {
  numbers.clear();
  const char* at = line.data();
  const char* end = at + line.size();
  const auto skip_spaces = [&] {
    while (at != end && *at == ' ') ++at;
  };
  if (at == end || *at != '[') return false;
  ++at;
  skip_spaces();
  if (at != end && *at == ']') return at + 1 == end;
  for (;;) {
    std::int64_t number = 0;
    const auto [next, fault] = std::from_chars(at, end, number);
    if (fault != std::errc()) return false;
    numbers.push_back(number);
    at = next;
    skip_spaces();
    if (at == end) return false;
    const char separator = *at++;
    if (separator == ']') break;
    if (separator != ',') return false;
    skip_spaces();
  }
  skip_spaces();
  return at == end;
}

void LineFaults::add(std::string what, std::string hint) {
  if (full()) return;
  diagnostics.push_back({fmt::format("{}:{}", origin, line), std::move(what), std::move(hint)});
}

std::optional<Json> json_of_line(std::string_view line, LineFaults& faults) {
  auto json = parse_json(line, faults.origin);
  if (json) return *std::move(json);
  for (const Diagnostic& fault : json.error().diagnostics) faults.add(fault.what, fault.hint);
  return std::nullopt;
}

}  // namespace trainwright::detail
