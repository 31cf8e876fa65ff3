#include "trainwright/base/printable.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>

#include "trainwright/base/text.h"

namespace trainwright {
namespace {

// The character at the beginning of a text and its bytes; a byte that begins none is not valid.
struct Character {
  std::uint32_t code = 0;
  std::size_t size = 1;
  bool valid = true;
};

// RFC 3629, section 4: neither overlong forms nor surrogates nor beyond U+10FFFF.
Character first_of(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  const std::size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  const Character broken{lead, 1, false};
  if (lead < 0xc2 || lead > 0xf4 || text.size() < size) return broken;
  std::uint32_t code = lead & (0x7fU >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0U) != 0x80U) return broken;
    code = code << 6U | (byte(i) & 0x3fU);
  }
  const std::uint32_t least = size == 2 ? 0x80 : size == 3 ? 0x800 : 0x10000;
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < least || code > 0x10ffff || surrogate) return broken;
  return {code, size, true};
}

bool is_hidden(const Character& character) {
  const std::uint32_t code = character.code;
  const auto within = [&](std::uint32_t from, std::uint32_t to) {
    return code >= from && code <= to;
  };
  return !character.valid || code < 0x20 || within(0x7f, 0x9f) || code == 0x61c ||
         within(0x200e, 0x200f) || within(0x2028, 0x202e) || within(0x2066, 0x2069) ||
         within(0xfffe, 0xffff);
}

// What may stay in text of several lines, at its beginning.
bool is_layout(std::string_view text) {
  return text.front() == '\n' || text.front() == '\t' || text.starts_with("\r\n");
}

std::string shown(const Character& character) {
  return character.valid ? fmt::format("\\u{:04x}", character.code)
                         : fmt::format("\\x{:02x}", character.code);
}

std::string printable(std::string_view text, bool keeps_layout(std::string_view)) {
  std::string plain;
  plain.reserve(text.size());
  while (!text.empty()) {
    const Character character = first_of(text);
    if (is_hidden(character) && !keeps_layout(text)) {
      plain += shown(character);
    } else {
      plain.append(text, 0, character.size);
    }
    text.remove_prefix(character.size);
  }
  return plain;
}

}  // namespace

std::string hidden_fault(std::string_view text) {
  while (!text.empty()) {
    const Character character = first_of(text);
    if (!character.valid) {
      return fmt::format("holds the byte 0x{:02X}, which is not UTF-8", character.code);
    }
    if (is_hidden(character)) {
      return fmt::format("holds U+{:04X}, which is not printable", character.code);
    }
    text.remove_prefix(character.size);
  }
  return {};
}

std::string printable(std::string_view text) { return printable(text, is_layout); }

std::string printable_line(std::string_view text) {
  return printable(text, [](std::string_view) { return false; });
}

std::string commented(std::string_view text, std::string_view mark) {
  std::string lines;
  for (const std::string_view line : split(text, '\n')) {
    lines += mark;
    lines += printable_line(line);
    // An empty comment has no blank at its end.
    if (line.empty()) lines.erase(lines.find_last_not_of(' ') + 1);
    lines += '\n';
  }
  return lines;
}

}  // namespace trainwright
