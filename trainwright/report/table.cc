#include <algorithm>
#include <cctype>
#include <iterator>
#include <string_view>

#include "trainwright/base/check.h"
#include "trainwright/report/report.h"

namespace trainwright {

int character_count(const std::string& text) {
  // Every byte but UTF-8's continuation bytes (10xxxxxx) begins a character.
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

namespace {

// A number stays on the line of its unit: "5 %", "79.15 GiB", "1.01 s".
bool unit_follows(std::string_view prose, std::size_t blank) {
  if (blank == 0 || blank >= prose.size()) return false;
  if (std::isdigit(static_cast<unsigned char>(prose[blank - 1])) == 0) return false;
  std::string_view word = prose.substr(blank + 1);
  word = word.substr(0, word.find_first_of(" ,;.)"));
  constexpr std::string_view kUnits[] = {"%", "B", "KiB", "MiB", "GiB", "TiB", "ms", "s", "min"};
  return std::find(std::begin(kUnits), std::end(kUnits), word) != std::end(kUnits);
}

}  // namespace

std::vector<std::string> wrapped(const std::string& prose, int width) {
  std::vector<std::string> lines(1);
  std::size_t at = 0;
  while (at < prose.size()) {
    std::size_t end = std::min(prose.find(' ', at), prose.size());
    if (unit_follows(prose, end)) end = std::min(prose.find(' ', end + 1), prose.size());
    const std::string word = prose.substr(at, end - at);
    const bool first = lines.back().empty();
    if (!first && character_count(lines.back()) + 1 + character_count(word) > width) {
      lines.push_back(word);
    } else {
      lines.back() += first ? word : " " + word;
    }
    at = end + 1;
  }
  return lines;
}

namespace {

constexpr int kGap = 2;  // blanks between columns

std::vector<int> natural_widths(const Table& table) {
  std::vector<int> widths;
  for (const Column& column : table.columns) widths.push_back(character_count(column.heading));
  for (const auto& row : table.rows) {
    TW_CHECK(row.empty() || row.size() == widths.size(), "a row has one cell per column");
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], character_count(row[i]));
    }
  }
  return widths;
}

// Takes what is too much from the Wrap columns, always from the widest, down to 12 characters.
void shrink_to(int width, const Table& table, std::vector<int>& widths) {
  constexpr int kNarrowest = 12;
  int total = kGap * (static_cast<int>(widths.size()) - 1);
  for (const int w : widths) total += w;
  while (total > width) {
    std::size_t widest = widths.size();
    for (std::size_t i = 0; i < widths.size(); ++i) {
      if (table.columns[i].align != Align::Wrap || widths[i] <= kNarrowest) continue;
      if (widest == widths.size() || widths[i] > widths[widest]) widest = i;
    }
    if (widest == widths.size()) return;
    --widths[widest];
    --total;
  }
}

void append_row(const Table& table, const std::vector<int>& widths,
                const std::vector<std::string>& cells, std::string& out) {
  std::vector<std::vector<std::string>> lines;
  std::size_t height = 1;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const bool wrap = table.columns[i].align == Align::Wrap;
    lines.push_back(wrap ? wrapped(cells[i], widths[i]) : std::vector<std::string>{cells[i]});
    height = std::max(height, lines.back().size());
  }
  for (std::size_t y = 0; y < height; ++y) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string cell = y < lines[i].size() ? lines[i][y] : "";
      const auto blanks = static_cast<std::size_t>(std::max(0, widths[i] - character_count(cell)));
      if (i > 0) line.append(kGap, ' ');
      if (table.columns[i].align == Align::Right) line.append(blanks, ' ');
      line += cell;
      if (table.columns[i].align != Align::Right) line.append(blanks, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
}

}  // namespace

std::string to_text(const Table& table, int width) {
  std::vector<int> widths = natural_widths(table);
  shrink_to(width, table, widths);
  int total = kGap * (static_cast<int>(widths.size()) - 1);
  for (const int w : widths) total += w;
  const std::string rule = std::string(static_cast<std::size_t>(std::max(total, 0)), '-') + '\n';
  std::string out;
  std::vector<std::string> headings;
  bool headed = false;
  for (const Column& column : table.columns) {
    headings.push_back(column.heading);
    headed = headed || !column.heading.empty();
  }
  if (headed) {
    append_row(table, widths, headings, out);
    out += rule;
  }
  for (const auto& row : table.rows) {
    if (row.empty()) {
      out += rule;
    } else {
      append_row(table, widths, row, out);
    }
  }
  return out;
}

}  // namespace trainwright
