#pragma once
// Text that others wrote: what a name may hold, and how any text is shown.
//
// A character that is not seen can do harm: a line feed ends a comment and begins a command, an
// escape sequence takes over a terminal, U+202E reverses the text after it (CVE-2021-42574). Such
// characters are
//
//   control characters       U+0000 to U+001F, U+007F to U+009F
//   marks of direction       U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069
//   separators               U+2028 and U+2029, which YAML and JavaScript take for line ends
//   what is no character     U+FFFE, U+FFFF, bytes that are not UTF-8
//
// Names have none of them: readers call `hidden_fault`. Text that is shown goes through `printable`
// or `commented`, and `to_text` of JSON escapes them.
#include <string>
#include <string_view>

namespace trainwright {

// "holds U+001B, which is not printable"; empty where every character is.
std::string hidden_fault(std::string_view text);
inline constexpr std::string_view kHiddenHint = "write it without that character, on one line";

// With \u001b and \u202e in place of such characters, \xff in place of such a byte; line ends and
// tabs stay.
std::string printable(std::string_view text);

// The same without line ends and tabs, for what has to stay on one line.
std::string printable_line(std::string_view text);

// Every line behind the mark and printable, with a line end: a comment, whatever the text holds.
std::string commented(std::string_view text, std::string_view mark = "# ");

}  // namespace trainwright
