#pragma once
// Private: a shell script while it is read.
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/export/read.h"

namespace trainwright::detail {

// What one script may cost: bytes that are read, those of eval and `sh -c` with them; bytes of
// words that are made; calls inside each other; open if, case and loops. Beyond any of them it is
// not read.
inline constexpr std::size_t kMostRead = 1 << 20, kMostMade = 1 << 25;
inline constexpr int kMostNested = 12;
inline constexpr std::size_t kMostBranches = 64;

using ShellWords = std::vector<ShellWord>;
using ShellTokens = std::vector<ShellToken>;

struct ShellValue {
  ShellWords words = {};  // of an array; one of a string
  bool array = false;
};
struct ShellLimit {
  std::size_t line = 0;
  std::string what;
};
struct ShellVariables {
  std::map<std::string, ShellValue, std::less<>> values = {};
  std::vector<std::string> names = {};                // in the order of their first value
  std::map<std::string, ShellWord> environment = {};  // NAME=value of each
  std::size_t made = 0;                               // bytes so far, of at most kMostMade
  std::set<std::string> unset = {};                   // those that a condition found empty
  std::optional<ShellLimit> beyond = {};              // the first limit; nothing is done behind it
};

void stop(ShellVariables& variables, std::size_t line, std::string what);
// Counts bytes that are about to be made; false if they are too many.
bool make(ShellVariables& variables, std::size_t bytes, std::size_t line);

// Where a word's name of a variable ends: letters, digits and '_'.
std::size_t name_end(std::string_view text, std::size_t from);
// NAME=... or NAME+=...: where the value begins, or npos.
std::size_t assigned_at(std::string_view text);
bool is_option(std::string_view word);  // --option
std::string joined(const ShellWords& words);
ShellWords split_words(const ShellWords& words);  // each cut at its blanks

// The words that a word as written stands for. `filled`: options came out of a variable.
ShellWords shell_words(ShellVariables& variables, const ShellToken& token, bool& filled);
// As one word, in which what is not set keeps its '$'; or is empty, for a condition.
std::string whole_word(ShellVariables& variables, std::string_view text, std::size_t line);
std::string condition_word(ShellVariables& variables, std::string_view text, std::size_t line);

void assign(ShellVariables& variables, const ShellToken& token);
void set_environment(ShellVariables& variables, const std::string& name, std::size_t line);

}  // namespace trainwright::detail
