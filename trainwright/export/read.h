#pragma once
// Private: files of settings as a tree, one heavy reader in one file each.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/base/json.h"
#include "trainwright/export/export.h"

namespace trainwright::detail {

// Readers of such trees and of scripts take up to some hundred times the bytes of a file.
inline constexpr std::size_t kLongestSettings = std::size_t{1} << 19;

Result<Json> parse_toml(std::string_view text, std::string_view origin);
Result<Json> parse_yaml(std::string_view text, std::string_view origin);

struct ShellWord {
  std::string text;
  std::size_t line = 0;
};
// A shell script or command line, read and never run: its statements in their order, with its own
// variables, arrays and integer arithmetic filled in. A branch is taken if its condition holds with
// what the script does not set being empty. A word that hangs on anything else keeps its '$'.
struct Script {
  // What settings are read from, each group by itself: NAME=value of the environment, then the
  // words of the command that starts the training, from its program on; if there is none, what
  // arrays, strings and lines hold.
  std::vector<std::vector<ShellWord>> groups;
  std::vector<ShellWord> launcher;  // that command's words before its program
  std::vector<std::string> notes;   // what was left out, "12: ..." by its line
};
// A fault where reading it would take more time or memory than its limits (shell.h).
Result<Script> read_script(std::string_view text, std::string_view origin);
bool is_override(std::string_view word);  // section.key=value
// The options among a command's words.
std::vector<Setting> settings_among(const std::vector<ShellWord>& words, std::string_view origin);

// The words and operators of a script as they stand, quotes and all.
struct ShellToken {
  enum class Kind { Word, Operator, Array };  // Array: NAME=(...) and NAME+=(...)
  Kind kind = Kind::Word;
  std::string text = {};  // of an array: NAME= or NAME+=
  std::size_t line = 0;
  std::vector<ShellToken> items = {};  // of an array
};
std::vector<ShellToken> shell_tokens(std::string_view text);

}  // namespace trainwright::detail
