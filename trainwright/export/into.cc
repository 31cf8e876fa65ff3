// A user's own file with settings of a plan in it: only the lines of their keys change.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "trainwright/base/text.h"
#include "trainwright/export/form.h"

namespace trainwright {
namespace detail {
namespace {

using Lines = std::vector<std::string>;

Lines::iterator at(Lines& lines, std::size_t line) {
  return lines.begin() + static_cast<std::ptrdiff_t>(line);
}

std::size_t indent_of(const std::string& line) { return line.find_first_not_of(' '); }
bool is_blank(const std::string& line) {
  const std::size_t first = indent_of(line);
  return first == std::string::npos || line[first] == '#';
}

// Where a comment begins, outside of quotes; the line's end if there is none.
std::size_t comment_at(const std::string& line) {
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (quote != 0) {
      if (line[i] == quote) quote = 0;
    } else if (line[i] == '"' || line[i] == '\'') {
      quote = line[i];
    } else if (line[i] == '#' && (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t')) {
      return i;
    }
  }
  return line.size();
}

// The key in front of `sign`, without blanks and quotes; empty where the line has none.
std::string key_of(const std::string& line, char sign) {
  const std::string code = line.substr(0, comment_at(line));
  const std::size_t at = code.find(sign);
  if (at == std::string::npos) return "";
  std::string key(trim(code.substr(0, at)));
  if (key.size() >= 2 && (key.front() == '"' || key.front() == '\'')) {
    key = key.substr(1, key.size() - 2);
  }
  return key;
}

// The line with another value; its comment stays.
std::string with_value(const std::string& line, char sign, const std::string& value) {
  const std::size_t at = line.find(sign), comment = comment_at(line);
  const std::string tail = comment < line.size() ? "  " + line.substr(comment) : "";
  return line.substr(0, at + 1) + ' ' + value + tail;
}

// Lines [first, last) that a value takes which begins on line `first`: to where its brackets close.
std::size_t end_of_brackets(const Lines& lines, std::size_t first) {
  int open = 0;
  for (std::size_t i = first; i < lines.size(); ++i) {
    const std::string code = lines[i].substr(0, comment_at(lines[i]));
    open += static_cast<int>(std::count(code.begin(), code.end(), '['));
    open -= static_cast<int>(std::count(code.begin(), code.end(), ']'));
    if (open <= 0) return i + 1;
  }
  return lines.size();
}

void put_toml(Lines& lines, const Setting& setting, const std::string& value) {
  const std::size_t dot = setting.key.rfind('.');
  const std::string section = dot == std::string::npos ? "" : setting.key.substr(0, dot);
  const std::string key = dot == std::string::npos ? setting.key : setting.key.substr(dot + 1);
  const auto is_header = [](const std::string& line) { return trim(line).starts_with('['); };
  std::size_t first = 0;
  if (!section.empty()) {
    const auto header = std::find_if(lines.begin(), lines.end(), [&](const std::string& line) {
      return trim(line.substr(0, comment_at(line))) == '[' + section + ']';
    });
    if (header == lines.end()) {
      if (!lines.empty() && !is_blank(lines.back())) lines.emplace_back();
      lines.push_back('[' + section + ']');
      first = lines.size();
    } else {
      first = static_cast<std::size_t>(header - lines.begin()) + 1;
    }
  }
  std::size_t behind = first;  // the last line of the section that says something
  for (std::size_t i = first; i < lines.size() && !is_header(lines[i]);) {
    const std::size_t end = is_blank(lines[i]) ? i + 1 : end_of_brackets(lines, i);
    if (!is_blank(lines[i]) && key_of(lines[i], '=') == key) {
      lines[i] = with_value(lines[i], '=', value);
      lines.erase(at(lines, i + 1), at(lines, end));
      return;
    }
    if (!is_blank(lines[i])) behind = end;
    i = end;
  }
  lines.insert(at(lines, behind), key + " = " + value);
}

// Behind the block that belongs to a key at `indent`, which begins on line `first`.
std::size_t end_of_block(const Lines& lines, std::size_t first, std::size_t last,
                         std::size_t indent) {
  std::size_t end = first;
  for (std::size_t i = first; i < last; ++i) {
    if (is_blank(lines[i])) continue;
    const std::size_t own = indent_of(lines[i]);
    const bool item = own == indent && lines[i][own] == '-';  // a list may stand below its key
    if (own <= indent && !item) break;
    end = i + 1;
  }
  return end;
}

void put_yaml(Lines& lines, const Setting& setting, const std::string& value) {
  const auto path = split(setting.key, '.');
  std::size_t first = 0, last = lines.size(), indent = 0;
  for (std::size_t depth = 0; depth < path.size(); ++depth) {
    std::size_t found = last, behind = first;
    bool any = false;
    for (std::size_t i = first; i < last; ++i) {
      if (is_blank(lines[i]) || lines[i].starts_with("---")) continue;
      if (!any) indent = indent_of(lines[i]);
      any = true;
      behind = i + 1;
      if (indent_of(lines[i]) == indent && key_of(lines[i], ':') == path[depth]) {
        found = i;
        break;
      }
    }
    if (found == last) {  // it and all below it are new
      if (!any) indent = depth == 0 ? 0 : indent + 2;
      Lines fresh;
      for (std::size_t rest = depth; rest < path.size(); ++rest) {
        const std::string blanks(indent + 2 * (rest - depth), ' ');
        const bool leaf = rest + 1 == path.size();
        fresh.push_back(blanks + std::string(path[rest]) + (leaf ? ": " + value : ":"));
      }
      lines.insert(at(lines, behind), fresh.begin(), fresh.end());
      return;
    }
    const std::size_t end = end_of_block(lines, found + 1, last, indent);
    if (depth + 1 == path.size()) {
      lines[found] = with_value(lines[found], ':', value);
      lines.erase(at(lines, found + 1), at(lines, end));
      return;
    }
    first = found + 1;
    last = end;
  }
}

void put_json(Json& at, std::string_view key, const Json& value) {
  const std::size_t dot = key.find('.');
  const std::string name(key.substr(0, dot));
  auto member = std::find_if(at.members.begin(), at.members.end(),
                             [&](const JsonMember& one) { return one.key == name; });
  if (member == at.members.end()) {
    at.add(name, Json::object());
    member = at.members.end() - 1;
  }
  if (dot == std::string_view::npos) {
    member->value = value;
  } else {
    if (!member->value.is_object()) member->value = Json::object();
    put_json(member->value, key.substr(dot + 1), value);
  }
}

Lines lines_of(std::string_view text) {
  Lines lines;
  for (const std::string_view line : split(text, '\n')) lines.emplace_back(line);
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

std::string text_of(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  return text;
}

std::string value_line(const Setting& setting, SettingsForm form) {
  const std::string text = form == SettingsForm::Toml ? to_toml({setting}) : to_yaml({setting});
  const Lines lines = lines_of(text);
  const std::string& last = lines.back();
  return last.substr(last.find(form == SettingsForm::Toml ? '=' : ':') + 2);
}

Result<std::string> edited(std::string_view text, std::string_view origin,
                           const std::vector<Setting>& settings, SettingsForm form) {
  if (form == SettingsForm::Json) {
    Json tree = TW_TRY(parse_json(text, origin));
    for (const Setting& one : settings) {
      put_json(tree, one.key, value_of(one.values.empty() ? "true" : one.values.front()));
    }
    return to_text(tree);
  }
  Lines lines = lines_of(text);
  for (Setting one : settings) {
    one.why.clear();
    const std::string value = value_line(one, form);
    form == SettingsForm::Toml ? put_toml(lines, one, value) : put_yaml(lines, one, value);
  }
  return text_of(lines);
}

// Lines of the longest common subsequence of both, as pairs of places.
std::vector<std::pair<std::size_t, std::size_t>> common(const Lines& a, const Lines& b) {
  std::vector<std::vector<std::size_t>> longest(a.size() + 1,
                                                std::vector<std::size_t>(b.size() + 1, 0));
  for (std::size_t i = a.size(); i-- > 0;) {
    for (std::size_t j = b.size(); j-- > 0;) {
      longest[i][j] =
          a[i] == b[j] ? longest[i + 1][j + 1] + 1 : std::max(longest[i + 1][j], longest[i][j + 1]);
    }
  }
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i] == b[j]) {
      pairs.emplace_back(i++, j++);
    } else {
      longest[i + 1][j] >= longest[i][j + 1] ? ++i : ++j;
    }
  }
  return pairs;
}

}  // namespace
}  // namespace detail

Result<std::string> put_into(std::string_view text, std::string_view origin,
                             const std::vector<Setting>& settings, const Target& target) {
  std::vector<Setting> own;
  std::copy_if(settings.begin(), settings.end(), std::back_inserter(own), [](const Setting& one) {
    return !is_environment(one) && !detail::is_of_script(one);
  });
  TW_TRY(read_settings(text, origin, target.form));  // faults of the user's own
  std::string changed = TW_TRY(detail::edited(text, origin, own, target.form));
  // The editing knows little of TOML and YAML: what came out is read back.
  const auto wanted = TW_TRY(read_settings(settings_text(own, target), "settings", target.form));
  const auto found = read_settings(changed, origin, target.form);
  Diagnostics faults;
  for (const Setting& one : wanted) {
    const bool said = found && std::any_of(found->begin(), found->end(), [&](const Setting& two) {
                        return one.key == two.key && one.values == two.values;
                      });
    if (!said) {
      faults.push_back({std::string(origin), fmt::format("{} could not be put into it", one.key),
                        "write it by hand; the settings are printed without --into"});
    }
  }
  if (!faults.empty()) return fail(std::move(faults));
  return changed;
}

std::string line_diff(std::string_view before, std::string_view after, std::string_view name) {
  constexpr std::size_t kAround = 3;
  const detail::Lines a = detail::lines_of(before), b = detail::lines_of(after);
  auto pairs = detail::common(a, b);
  pairs.emplace_back(a.size(), b.size());
  struct Line {
    char mark;
    std::string text;
    std::size_t old_at, new_at;
  };
  std::vector<Line> all;
  std::size_t i = 0, j = 0;
  for (const auto& [next_i, next_j] : pairs) {
    for (; i < next_i; ++i) all.push_back({'-', a[i], i, j});
    for (; j < next_j; ++j) all.push_back({'+', b[j], i, j});
    if (i < a.size() && j < b.size()) all.push_back({' ', a[i], i, j});
    ++i, ++j;
  }
  std::string text;
  for (std::size_t at = 0; at < all.size();) {
    if (all[at].mark == ' ') {
      ++at;
      continue;
    }
    const std::size_t first = at > kAround ? at - kAround : 0;
    std::size_t last = at;  // of the hunk: until more lines in a row are alike than are shown
    for (std::size_t k = at; k < all.size() && k <= last + 2 * kAround; ++k) {
      if (all[k].mark != ' ') last = k;
    }
    const std::size_t end = std::min(all.size(), last + kAround + 1);
    std::size_t old_lines = 0, new_lines = 0;
    std::string body;
    for (std::size_t k = first; k < end; ++k) {
      old_lines += all[k].mark != '+';
      new_lines += all[k].mark != '-';
      body += all[k].mark + all[k].text + '\n';
    }
    text += fmt::format("@@ -{},{} +{},{} @@\n{}", all[first].old_at + (old_lines > 0), old_lines,
                        all[first].new_at + (new_lines > 0), new_lines, body);
    at = end;
  }
  return text.empty() ? "" : fmt::format("--- {0}\n+++ {0}\n{1}", name, text);
}

}  // namespace trainwright
