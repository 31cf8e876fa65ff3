#pragma once
// Cells of comma-separated text.
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace trainwright {

// Takes record after record off a text as RFC 4180 has them: cells between commas, a cell in double
// quotes may hold commas, line ends and doubled quotes. Whatever the bytes, it ends.
class CsvRecords {
 public:
  explicit CsvRecords(std::string_view text) : rest_(text) {}

  bool done() const { return rest_.empty(); }
  // Line on which the record last taken began, from 1.
  int line() const { return line_; }
  // False when a quoted cell has no end or is followed by something else than a comma.
  bool well_formed() const { return well_formed_; }
  // The cells of the next record; valid until the next call.
  const std::vector<std::string_view>& take();

 private:
  static constexpr std::size_t kMostCells = 1000;

  std::string_view take_quoted();

  std::string_view rest_;
  int line_ = 0;
  int next_line_ = 1;
  bool well_formed_ = true;
  std::vector<std::string_view> cells_;
  std::deque<std::string> unquoted_;  // cells that held doubled quotes; cells_ points into them
};

// A cell as it is written: quoted where it holds a comma, a quote or a line end.
std::string csv_cell(const std::string& text);

}  // namespace trainwright
