#pragma once
// Private: a shell script while it is read.
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/export/read.h"

namespace trainwright::detail {

inline constexpr std::size_t kLongestWord = 1 << 16, kMostWords = 1 << 16;
inline constexpr int kMostNested = 12;

using ShellWords = std::vector<ShellWord>;
using ShellTokens = std::vector<ShellToken>;

struct ShellValue {
  ShellWords words = {};  // of an array; one of a string
  bool array = false;
};
struct ShellVariables {
  std::map<std::string, ShellValue, std::less<>> values = {};
  std::vector<std::string> names = {};                // in the order of their first value
  std::map<std::string, ShellWord> environment = {};  // NAME=value of each
  std::size_t words = 0;                              // made so far, of at most kMostWords
  std::set<std::string> unset = {};                   // those that a condition found empty
};

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
