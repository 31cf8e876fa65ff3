// What a word of a shell script stands for: variables, arrays and integer expressions filled in.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <numeric>

#include "trainwright/base/text.h"
#include "trainwright/export/shell.h"
#include "trainwright/trainer/trainer.h"

namespace trainwright::detail {
namespace {

bool in_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

}  // namespace

void stop(ShellVariables& variables, std::size_t line, std::string what) {
  if (!variables.beyond) variables.beyond = {line, std::move(what)};
}

bool make(ShellVariables& variables, std::size_t bytes, std::size_t line) {
  variables.made += bytes;
  if (variables.made > kMostMade)
    stop(variables, line, fmt::format("its variables grow to more than {} MiB", kMostMade >> 20));
  return !variables.beyond;
}

std::size_t name_end(std::string_view text, std::size_t from) {
  while (from < text.size() && in_name(text[from])) ++from;
  return from;
}

bool is_option(std::string_view word) { return word.starts_with("--") && word.size() > 2; }

bool is_override(std::string_view word) {
  const std::string_view key = word.substr(0, word.find('='));
  const bool named = key.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.") == key.npos;
  return key.size() < word.size() && named && key.find('.', 1) < key.size() - 1;
}

std::string joined(const ShellWords& words) {
  std::vector<std::string> texts;
  for (const ShellWord& one : words) texts.push_back(one.text);
  return join(texts, " ");
}

ShellWords split_words(const ShellWords& whole) {
  ShellWords words;
  for (const ShellWord& one : whole) {
    std::string text = one.text;
    std::replace_if(text.begin(), text.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
    for (const std::string_view part : split(text, ' ')) {
      if (!part.empty()) words.push_back({std::string(part), one.line});
    }
  }
  return words;
}

namespace {

// How a word is filled in: cut at blanks; as one; as one where what is not set is empty.
enum class Mode { Cut, Whole, Condition };

struct Filler {
  ShellVariables& variables;
  Mode mode;
  std::size_t line = 0;
  int depth = 0;
  ShellWords done = {};
  std::string word = {};
  bool begun = false;
  bool filled = false;

  void end() {
    if (begun && make(variables, sizeof(ShellWord), line)) done.push_back({word, line});
    word.clear();
    begun = false;
  }
  void literal(std::string_view text) {
    if (make(variables, text.size(), line)) word += text;
    begun = true;
  }
};

void fill(Filler& filler, std::string_view text, bool quoted);

std::string whole(ShellVariables& variables, std::string_view text, Mode mode, std::size_t line,
                  int depth) {
  Filler filler{.variables = variables, .mode = mode, .line = line, .depth = depth + 1};
  if (depth < kMostNested)
    fill(filler, text, false);
  else
    stop(variables, line, fmt::format("nested more than {} deep", kMostNested));
  return filler.word;
}

std::size_t size_of(const ShellWords& words) {
  return std::accumulate(
      words.begin(), words.end(), words.size(),
      [](std::size_t sum, const ShellWord& one) { return sum + one.text.size(); });
}

// The first word joins what stands before it, and what follows joins the last. Without quotes the
// items of an array are cut at blanks, too; within, each is a word, and "${A[*]}" is one of all.
void put(Filler& filler, const ShellValue& value, bool quoted, bool as_one = false) {
  if (!make(filler.variables, size_of(value.words), filler.line)) return;
  const bool cut = filler.mode == Mode::Cut && (!quoted || (value.array && !as_one));
  filler.filled |= joined(value.words).find("--") != std::string::npos;
  if (!cut) return filler.literal(joined(value.words));
  const ShellWords words = quoted ? value.words : split_words(value.words);
  const std::size_t line = filler.line;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) filler.end();
    filler.line = words[i].line;
    filler.literal(words[i].text);
  }
  const std::string& last = value.words.empty() ? std::string() : value.words.back().text;
  if (!quoted && !words.empty() && (last.ends_with(' ') || last.ends_with('\n'))) filler.end();
  if (!filler.begun) filler.line = line;
}

void put_unset(Filler& filler, std::string_view name, std::string_view text) {
  if (filler.mode == Mode::Condition) {
    filler.variables.unset.emplace(name);
  } else {
    filler.literal(text);
  }
}

// The inside of ${...}.
void put_braces(Filler& filler, std::string_view inside, bool quoted) {
  const std::size_t end = name_end(inside, 0);
  const std::string_view name = inside.substr(0, end), rest = inside.substr(end);
  if (inside.starts_with('@') || inside.starts_with('*')) return;  // nobody knows these words
  const auto found = filler.variables.values.find(name);
  const bool set = found != filler.variables.values.end();
  const bool full = set && !found->second.words.empty() &&
                    (found->second.words.size() > 1 || !found->second.words[0].text.empty());
  const auto other = [&](std::size_t from) {
    const Mode mode = filler.mode == Mode::Cut ? Mode::Whole : filler.mode;
    return whole(filler.variables, rest.substr(from), mode, filler.line, filler.depth);
  };
  if (rest.empty() || rest == "[@]" || rest == "[*]") {
    if (set) return put(filler, found->second, quoted, rest == "[*]");
    if (rest.empty()) put_unset(filler, name, fmt::format("${{{}}}", inside));
  } else if (rest.starts_with(":-") || rest.starts_with(":=") || rest.starts_with('-')) {
    if (rest[0] == ':' ? full : set) return put(filler, found->second, quoted);
    const ShellValue usual{{{other(rest[0] == ':' ? 2 : 1), filler.line}}, false};
    put(filler, usual, quoted);
  } else if (rest.starts_with(":+") || rest.starts_with('+')) {
    if (rest[0] == ':' ? full : set)
      put(filler, ShellValue{{{other(rest[0] == ':' ? 2 : 1), filler.line}}, false}, quoted);
  } else if (rest.starts_with(":?") || rest.starts_with('?')) {
    if (set) return put(filler, found->second, quoted);
    put_unset(filler, name, fmt::format("${{{}}}", name));
  } else {
    put_unset(filler, name, fmt::format("${{{}}}", inside));
  }
}

// Of $((...)): names stand for their values with and without a '$'.
std::optional<std::int64_t> arithmetic(ShellVariables& variables, std::string_view inside,
                                       std::size_t line, int depth) {
  if (depth >= kMostNested || !make(variables, sizeof(ShellWord), line)) return std::nullopt;
  const std::string text = whole(variables, inside, Mode::Whole, line, depth);
  std::string plain;
  for (std::size_t at = 0; at < text.size();) {
    if (!in_name(text[at]) || std::isdigit(static_cast<unsigned char>(text[at])) != 0) {
      plain += text[at++];
      continue;
    }
    const std::size_t end = name_end(text, at);
    const auto found = variables.values.find(std::string_view(text).substr(at, end - at));
    if (found == variables.values.end()) return std::nullopt;
    const auto value = arithmetic(variables, joined(found->second.words), line, depth + 1);
    if (!value) return std::nullopt;
    plain += fmt::format("({})", *value);
    at = end;
  }
  const auto expression = parse_expression(plain, "");
  return expression ? evaluate(*expression, Facts{}) : std::nullopt;
}

// What stands between brackets that begin at `from`, and where they end.
std::size_t closing(std::string_view text, std::size_t from) {
  const char open = text[from], close = open == '(' ? ')' : '}';
  int deep = 0;
  for (std::size_t at = from; at < text.size(); ++at) {
    deep += (text[at] == open) - (text[at] == close);
    if (deep == 0) return at;
  }
  return text.size();
}

// At a '$'; gives the place behind what it stands for.
std::size_t put_dollar(Filler& filler, std::string_view text, std::size_t at, bool quoted) {
  const char next = at + 1 < text.size() ? text[at + 1] : '\0';
  if (next == '{' || next == '(') {
    const std::size_t end = closing(text, at + 1);
    const std::string_view inside = text.substr(at + 2, std::max(end, at + 2) - at - 2);
    const bool sum = next == '(' && inside.starts_with('(') && inside.ends_with(')');
    const auto value = sum ? arithmetic(filler.variables, inside.substr(1, inside.size() - 2),
                                        filler.line, filler.depth + 1)
                           : std::nullopt;
    if (next == '{') {
      put_braces(filler, inside, quoted);
    } else if (value) {
      filler.literal(std::to_string(*value));
    } else {
      put_unset(filler, text.substr(at, end + 1 - at), text.substr(at, end + 1 - at));
    }
    return std::min(end + 1, text.size());
  }
  if (next == '@' || next == '*') return at + 2;
  const bool special =
      next != '\0' && std::string_view("#?$!-").find(next) != std::string_view::npos;
  const bool digit = std::isdigit(static_cast<unsigned char>(next)) != 0;
  const std::size_t end = special || digit ? at + 2 : name_end(text, at + 1);
  const std::string_view name = text.substr(at + 1, end - at - 1);
  const auto found = filler.variables.values.find(name);
  if (name.empty())
    filler.literal("$");
  else if (found != filler.variables.values.end())
    put(filler, found->second, quoted);
  else
    put_unset(filler, name, text.substr(at, end - at));
  return end;
}

// Where a quote that begins at `from` ends.
std::size_t quote_end(std::string_view text, std::size_t from) {
  const char quote = text[from];
  for (std::size_t at = from + 1; at < text.size(); ++at) {
    if (quote == '"' && text[at] == '\\') {
      ++at;
    } else if (quote == '"' && text[at] == '$' && at + 1 < text.size() &&
               (text[at + 1] == '(' || text[at + 1] == '{')) {
      at = closing(text, at + 1);
    } else if (text[at] == quote) {
      return at;
    }
  }
  return text.size();
}

void fill(Filler& filler, std::string_view text, bool quoted) {
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    const char next = at + 1 < text.size() ? text[at + 1] : '\0';
    if (c == '$') {
      at = put_dollar(filler, text, at, quoted);
    } else if (!quoted && (c == '\'' || c == '"')) {
      const std::size_t end = quote_end(text, at);
      const std::string_view inside = text.substr(at + 1, std::max(end, at + 1) - at - 1);
      const bool all_of_it = inside == "$@" || inside == "${@}" || inside.ends_with("[@]}");
      if (!all_of_it) filler.begun = true;
      c == '"' ? fill(filler, inside, true) : filler.literal(inside);
      at = end + 1;
    } else if (c == '\\' && next == '\n') {
      at += 2;
    } else if (c == '\\' && next != '\0' &&
               (!quoted || std::string_view("$`\"\\").find(next) != std::string_view::npos)) {
      filler.literal(text.substr(at + 1, 1));
      at += 2;
    } else {
      filler.literal(text.substr(at, 1));
      ++at;
    }
  }
}

}  // namespace

ShellWords shell_words(ShellVariables& variables, const ShellToken& token, bool& filled) {
  Filler filler{.variables = variables, .mode = Mode::Cut, .line = token.line};
  fill(filler, token.text, false);
  filler.end();
  filled |= filler.filled;
  return std::move(filler.done);
}

std::string whole_word(ShellVariables& variables, std::string_view text, std::size_t line) {
  return whole(variables, text, Mode::Whole, line, 0);
}
std::string condition_word(ShellVariables& variables, std::string_view text, std::size_t line) {
  return whole(variables, text, Mode::Condition, line, 0);
}

std::size_t assigned_at(std::string_view text) {
  const std::size_t end = name_end(text, 0);
  if (end == 0 || std::isdigit(static_cast<unsigned char>(text[0])) != 0) return text.npos;
  if (text.substr(end).starts_with('=')) return end + 1;
  return text.substr(end).starts_with("+=") ? end + 2 : text.npos;
}

void assign(ShellVariables& variables, const ShellToken& token) {
  const std::string name = token.text.substr(0, name_end(token.text, 0));
  const std::size_t at = assigned_at(token.text);
  const bool more = token.text[at - 2] == '+';
  ShellValue value{.words = {}, .array = token.kind == ShellToken::Kind::Array};
  bool filled = false;
  for (const ShellToken& item : token.items) {
    for (ShellWord& word : shell_words(variables, item, filled))
      value.words.push_back(std::move(word));
  }
  if (!value.array)
    value.words = {
        {whole_word(variables, std::string_view(token.text).substr(at), token.line), token.line}};
  if (!variables.values.contains(name)) variables.names.push_back(name);
  ShellValue& old = variables.values[name];
  if (!more || (old.words.empty() && !old.array)) {
    old = std::move(value);
  } else if (value.array || old.array) {
    old.array = true;
    for (ShellWord& word : value.words) old.words.push_back(std::move(word));
  } else {
    old.words[0].text += value.words[0].text;
  }
}

void set_environment(ShellVariables& variables, const std::string& name, std::size_t line) {
  const auto found = variables.values.find(name);
  if (found != variables.values.end() && !found->second.array &&
      make(variables, size_of(found->second.words), line))
    variables.environment[name] = {fmt::format("{}={}", name, joined(found->second.words)), line};
}

}  // namespace trainwright::detail
