// Words of a shell script, as far as scripts that start a training run need it.
#include <algorithm>
#include <cctype>
#include <map>

#include "trainwright/export/read.h"

namespace trainwright::detail {
namespace {

constexpr std::size_t kLongestWord = 1 << 16;

bool in_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

struct Reader {
  std::string_view text;
  std::size_t at = 0;
  std::map<std::string, std::string, std::less<>> variables = {};
  std::vector<std::string> words = {};
  std::string word = {};
  bool begun = false;  // also of ''

  bool done() const { return at >= text.size(); }
  char next() const { return at + 1 < text.size() ? text[at + 1] : '\0'; }
};

std::size_t name_end(std::string_view text, std::size_t from) {
  while (from < text.size() && in_name(text[from])) ++from;
  return from;
}

// "NAME", "NAME:-usual" of ${...}; what it stands for, or the text itself.
std::string value_of_braces(const Reader& reader, std::string_view inside) {
  const std::size_t end = name_end(inside, 0);
  const auto found = reader.variables.find(inside.substr(0, end));
  if (found != reader.variables.end())
    return end == inside.size() || inside[end] == ':' ? found->second : "";
  const std::string_view rest = inside.substr(end);
  if (rest.starts_with(":-") || rest.starts_with(":=")) return std::string(rest.substr(2));
  if (rest.starts_with("[@]") || rest.starts_with("[*]"))
    return "";  // an array: its words stand elsewhere
  return "${" + std::string(inside) + '}';
}

// After a '$': a variable's value, or what is there.
void expand(Reader& reader) {
  const std::string_view text = reader.text;
  if (reader.word.size() > kLongestWord) reader.word.clear();  // variables made of each other
  if (reader.next() == '{') {
    const std::size_t end = text.find('}', reader.at);
    if (end != std::string_view::npos) {
      const std::string value =
          value_of_braces(reader, text.substr(reader.at + 2, end - reader.at - 2));
      reader.word += value;
      reader.begun = reader.begun || !value.empty();
      reader.at = end + 1;
      return;
    }
  }
  const std::size_t end = name_end(text, reader.at + 1);
  const auto found = reader.variables.find(text.substr(reader.at + 1, end - reader.at - 1));
  reader.word += found != reader.variables.end()
                     ? found->second
                     : std::string(text.substr(reader.at, end - reader.at));
  reader.begun = true;
  reader.at = end;
}

void quoted(Reader& reader, char quote) {
  reader.begun = true;
  for (++reader.at; !reader.done() && reader.text[reader.at] != quote;) {
    const char c = reader.text[reader.at];
    if (quote == '"' && c == '$') {
      const bool begun = reader.begun;
      expand(reader);
      reader.begun = begun;
    } else if (quote == '"' && c == '\\' && reader.next() != '\0') {
      if (reader.next() != '\n') reader.word += reader.next();
      reader.at += 2;
    } else {
      reader.word += c;
      ++reader.at;
    }
  }
  ++reader.at;
}

void end_word(Reader& reader) {
  if (!reader.begun) return;
  std::string word = std::exchange(reader.word, {});
  reader.begun = false;
  const std::size_t end = name_end(word, 0);
  const bool assigned = end > 0 && end < word.size() && word[end] == '=' &&
                        std::isdigit(static_cast<unsigned char>(word[0])) == 0;
  if (assigned && word.size() < kLongestWord)
    reader.variables.insert_or_assign(word.substr(0, end), word.substr(end + 1));
  if (!word.empty() && word.size() < kLongestWord) reader.words.push_back(std::move(word));
}

}  // namespace

std::vector<std::string> shell_words(std::string_view text) {
  Reader reader{.text = text};
  while (!reader.done()) {
    const char c = text[reader.at];
    if (c == '\\') {
      if (reader.next() != '\n' && reader.next() != '\0') {
        reader.word += reader.next();
        reader.begun = true;
      }
      reader.at += 2;
    } else if (c == '\'' || c == '"') {
      quoted(reader, c);
    } else if (c == '$') {
      expand(reader);
    } else if (c == '#' && !reader.begun) {
      reader.at = std::min(text.find('\n', reader.at), text.size());
    } else if (std::string_view(" \t\r\n;&|()<>`").find(c) != std::string_view::npos) {
      end_word(reader);
      ++reader.at;
    } else {
      reader.word += c;
      reader.begun = true;
      ++reader.at;
    }
  }
  end_word(reader);
  return std::move(reader.words);
}

}  // namespace trainwright::detail
