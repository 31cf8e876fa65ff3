// A shell script cut into words and operators.
#include <algorithm>
#include <cctype>

#include "trainwright/export/shell.h"

namespace trainwright::detail {
namespace {

struct Reader {
  std::string_view text;
  std::size_t at = 0, line = 1;
  std::size_t first = 1;  // line of the word
  std::vector<ShellToken> tokens = {};
  std::string word = {};
  bool begun = false;         // also of ''
  bool target = false;        // the next word is where a redirection goes
  std::string document = {};  // its end, of <<END
  std::string command = {};   // the first word of the statement

  bool done() const { return at >= text.size(); }
  char here() const { return done() ? '\0' : text[at]; }
  char next() const { return at + 1 < text.size() ? text[at + 1] : '\0'; }
};

void take(Reader& reader) {
  if (reader.done()) return;
  if (!reader.begun) reader.first = reader.line;
  reader.line += reader.here() == '\n';
  reader.word += reader.here();
  reader.begun = true;
  ++reader.at;
}

void take_single_quotes(Reader& reader) {
  take(reader);
  while (!reader.done() && reader.here() != '\'') take(reader);
  take(reader);
}

void take_dollar(Reader& reader, int depth);

void take_double_quotes(Reader& reader, int depth) {
  take(reader);
  while (!reader.done() && reader.here() != '"') {
    if (reader.here() == '$') {
      take_dollar(reader, depth);
      continue;
    }
    if (reader.here() == '\\') take(reader);
    take(reader);
  }
  take(reader);
}

// $( ), $(( )) and ${ } with what is in them.
void take_dollar(Reader& reader, int depth) {
  const char open = reader.next();
  take(reader);
  if ((open != '(' && open != '{') || depth > kMostNested) return;
  const char close = open == '(' ? ')' : '}';
  take(reader);
  for (int deep = 1; !reader.done() && deep > 0;) {
    const char c = reader.here();
    if (c == '$') {
      take_dollar(reader, depth + 1);
    } else if (c == '"') {
      take_double_quotes(reader, depth + 1);
    } else if (c == '\'') {
      take_single_quotes(reader);
    } else {
      deep += (c == open) - (c == close);
      if (c == '\\') take(reader);
      take(reader);
    }
  }
}

void end_word(Reader& reader) {
  if (!reader.begun) return;
  std::string word = std::exchange(reader.word, {});
  reader.begun = false;
  const bool target = std::exchange(reader.target, false);
  if (target && reader.document == "<<") {
    std::erase_if(word, [](char c) { return c == '\'' || c == '"' || c == '\\'; });
    reader.document = word;
  }
  if (target) return;
  if (reader.command.empty()) reader.command = word;
  reader.tokens.push_back({.text = std::move(word), .line = reader.first});
}

// Whether a word so far is NAME= or NAME+=.
bool is_array_name(std::string_view word) {
  if (!word.ends_with('=')) return false;
  word.remove_suffix(word.ends_with("+=") ? 2 : 1);
  return !word.empty() && std::isdigit(static_cast<unsigned char>(word[0])) == 0 &&
         std::all_of(word.begin(), word.end(), [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
         });
}

// The text of <<END, unless it is a script for another shell: that one's lines are read on.
void skip_document(Reader& reader) {
  const std::string end = std::exchange(reader.document, {});
  const std::string& command = reader.command;
  if (command == "bash" || command == "sh" || command == "sbatch" || command == "srun") return;
  while (!reader.done()) {
    const std::size_t stop = std::min(reader.text.find('\n', reader.at), reader.text.size());
    std::string_view line = reader.text.substr(reader.at, stop - reader.at);
    reader.at = std::min(stop + 1, reader.text.size());
    ++reader.line;
    while (line.starts_with('\t')) line.remove_prefix(1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line == end) return;
  }
}

void take_redirection(Reader& reader) {
  const bool number = std::all_of(reader.word.begin(), reader.word.end(), [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0;
  });
  if (number) reader.begun = false, reader.word.clear();  // of a stream, 2>
  end_word(reader);
  std::string sign;
  while (std::string_view("<>&|-").find(reader.here()) != std::string_view::npos &&
         !reader.done()) {
    sign += reader.here();
    ++reader.at;
  }
  reader.target = true;
  if (sign == "<<" || sign == "<<-") reader.document = "<<";
}

void take_operator(Reader& reader) {
  end_word(reader);
  const char c = reader.here();
  std::string text(1, c);
  if ((c == '&' || c == '|' || c == ';') && reader.next() == c) text += c;
  reader.tokens.push_back({.kind = ShellToken::Kind::Operator, .text = text, .line = reader.line});
  reader.at += text.size();
  reader.line += c == '\n';
  const bool whole = !reader.document.empty() && reader.document != "<<";
  if (c == '\n' && whole) skip_document(reader);
  reader.command.clear();
  reader.target = false;
}

void take_tokens(Reader& reader, int depth);

void take_array(Reader& reader, int depth) {
  ShellToken array{
      .kind = ShellToken::Kind::Array, .text = std::exchange(reader.word, {}), .line = reader.line};
  reader.begun = false;
  ++reader.at;
  auto outside = std::exchange(reader.tokens, {});
  take_tokens(reader, depth);
  array.items = std::exchange(reader.tokens, std::move(outside));
  std::erase_if(array.items,
                [](const ShellToken& one) { return one.kind != ShellToken::Kind::Word; });
  reader.tokens.push_back(std::move(array));
}

void take_tokens(Reader& reader, int depth) {
  const bool inside = depth > 0;  // of an array
  while (!reader.done() && !(inside && reader.here() == ')')) {
    const char c = reader.here();
    if (c == '\\' && (reader.next() == '\n' || reader.text.substr(reader.at + 1, 2) == "\r\n")) {
      reader.at += reader.next() == '\n' ? 2U : 3U;
      ++reader.line;
    } else if (c == '\\') {
      take(reader);
      take(reader);
    } else if (c == '\'') {
      take_single_quotes(reader);
    } else if (c == '"') {
      take_double_quotes(reader, 0);
    } else if (c == '`') {
      take(reader);
      while (!reader.done() && reader.here() != '`') take(reader);
      take(reader);
    } else if (c == '$') {
      take_dollar(reader, 0);
    } else if (c == '#' && !reader.begun) {
      reader.at = std::min(reader.text.find('\n', reader.at), reader.text.size());
    } else if (c == ' ' || c == '\t' || c == '\r') {
      end_word(reader);
      ++reader.at;
    } else if (c == '(' && is_array_name(reader.word) && depth < kMostNested) {
      take_array(reader, depth + 1);
    } else if ((c == '<' || c == '>' || (c == '&' && reader.next() == '>')) && !inside) {
      take_redirection(reader);
    } else if (std::string_view("\n;&|()").find(c) != std::string_view::npos) {
      take_operator(reader);
    } else {
      take(reader);
    }
  }
  end_word(reader);
  if (inside) ++reader.at;
}

}  // namespace

std::vector<ShellToken> shell_tokens(std::string_view text) {
  Reader reader{.text = text};
  take_tokens(reader, 0);
  return std::move(reader.tokens);
}

}  // namespace trainwright::detail
