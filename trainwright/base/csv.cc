#include "trainwright/base/csv.h"

#include <algorithm>

namespace trainwright {

// Takes a cell that begins with a quote; `rest_` then stands behind the closing one.
std::string_view CsvRecords::take_quoted() {
  std::size_t from = 1;
  std::size_t doubled = 0;
  for (;;) {
    const std::size_t quote = rest_.find('"', from);
    if (quote == std::string_view::npos) {
      well_formed_ = false;
      const std::string_view all = rest_.substr(1);
      next_line_ += static_cast<int>(std::count(all.begin(), all.end(), '\n'));
      rest_ = {};
      return all;
    }
    if (quote + 1 < rest_.size() && rest_[quote + 1] == '"') {
      ++doubled;
      from = quote + 2;
      continue;
    }
    const std::string_view raw = rest_.substr(1, quote - 1);
    next_line_ += static_cast<int>(std::count(raw.begin(), raw.end(), '\n'));
    rest_.remove_prefix(quote + 1);
    if (doubled == 0) return raw;
    std::string& plain = unquoted_.emplace_back();
    plain.reserve(raw.size() - doubled);
    for (std::size_t i = 0; i < raw.size(); ++i) {
      plain += raw[i];
      if (raw[i] == '"') ++i;
    }
    return plain;
  }
}

const std::vector<std::string_view>& CsvRecords::take() {
  cells_.clear();
  unquoted_.clear();
  line_ = next_line_;
  well_formed_ = true;
  for (;;) {
    std::string_view cell;
    if (!rest_.empty() && rest_.front() == '"') {
      cell = take_quoted();
      if (!rest_.empty() && rest_.find_first_of(",\r\n") != 0) {
        well_formed_ = false;
        rest_.remove_prefix(std::min(rest_.find_first_of(",\n"), rest_.size()));
      }
      if (rest_.starts_with("\r\n")) rest_.remove_prefix(1);
    } else {
      const std::size_t end = std::min(rest_.find_first_of(",\n"), rest_.size());
      cell = rest_.substr(0, end);
      const bool last = end == rest_.size() || rest_[end] == '\n';
      if (last && cell.ends_with('\r')) cell.remove_suffix(1);
      rest_.remove_prefix(end);
    }
    cells_.push_back(cell);
    const bool more = !rest_.empty() && rest_.front() == ',' && cells_.size() < kMostCells;
    if (more) {
      rest_.remove_prefix(1);
      continue;
    }
    break;
  }
  const std::size_t line_end = std::min(rest_.find('\n'), rest_.size());
  if (line_end > 0) well_formed_ = false;  // too many cells
  if (line_end < rest_.size()) ++next_line_;
  rest_.remove_prefix(std::min(line_end + 1, rest_.size()));
  return cells_;
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

}  // namespace trainwright
