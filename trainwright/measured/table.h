#pragma once
// Private to the module: a table of comma-separated text, read into a vector of structs by a list
// of columns, all faults at once.
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "trainwright/base/csv.h"
#include "trainwright/base/text.h"
#include "trainwright/measured/run.h"

namespace trainwright::detail {

inline constexpr std::size_t kMostTableFaults = 50;
inline constexpr std::int64_t kMostWhole = std::int64_t{1} << 53;  // every double below is exact

template <class Row>
struct Column {
  std::string_view name;
  std::variant<std::string Row::*, std::optional<std::int64_t> Row::*, std::optional<double> Row::*,
               std::optional<Seconds> Row::*, Outcome Row::*>
      field;
  bool required = false;  // no cell is empty
  bool optional = false;  // a table may lack the column
};

std::optional<Outcome> outcome_named(std::string_view name);
std::vector<std::string> outcome_names();

struct CellFault {
  std::string what, hint;
};
// What is wrong with a cell, or nothing after it was stored.
std::optional<CellFault> store(std::string_view cell, std::string& field);
std::optional<CellFault> store(std::string_view cell, std::optional<std::int64_t>& field);
std::optional<CellFault> store(std::string_view cell, std::optional<double>& field);
std::optional<CellFault> store(std::string_view cell, std::optional<Seconds>& field);
std::optional<CellFault> store(std::string_view cell, Outcome& field);

// What a field holds, as a cell would; empty where it holds nothing.
std::string cell_text(const std::string& field);
std::string cell_text(const std::optional<std::int64_t>& field);
std::string cell_text(const std::optional<double>& field);
std::string cell_text(const std::optional<Seconds>& field);
std::string cell_text(Outcome field);

// For each cell of the header the column it fills; faults for unknown and repeated ones, and for
// missing ones that are not optional.
struct ColumnName {
  std::string name;
  bool optional = false;
};
std::vector<std::size_t> match_header(std::span<const std::string_view> header,
                                      std::span<const ColumnName> names, const std::string& where,
                                      Diagnostics& diagnostics);

// Reads the records that follow the header. Rows carry the line they began on.
template <class Row>
class TableReader {
 public:
  TableReader(std::span<const Column<Row>> columns, std::string origin)
      : columns_(columns), origin_(std::move(origin)) {}

  Result<std::vector<std::pair<int, Row>>> read(CsvRecords& records,
                                                std::span<const std::string_view> header) {
    std::vector<ColumnName> names;
    for (const auto& column : columns_) {
      names.push_back({std::string(column.name), column.optional});
    }
    const std::vector<std::size_t> order =
        match_header(header, names, place(records.line(), {}), diagnostics_);
    if (!diagnostics_.empty()) return fail(std::move(diagnostics_));
    while (!records.done() && diagnostics_.size() < kMostTableFaults) {
      const auto& cells = records.take();
      if (cells.size() == 1 && trim(cells.front()).empty()) continue;
      const int line = records.line();
      if (!records.well_formed()) {
        fault(line, {}, {"a quoted cell does not end where a cell should", "double inner quotes"});
      } else if (cells.size() != order.size()) {
        fault(line, {},
              {std::to_string(cells.size()) + " cells under " + std::to_string(order.size()) +
                   " columns",
               "quote cells that hold a comma"});
      } else if (rows_.size() == kMostMeasuredRuns) {
        fault(line, {}, {"more than " + std::to_string(kMostMeasuredRuns) + " rows", {}});
        break;
      } else {
        read_row(line, cells, order);
      }
    }
    if (!diagnostics_.empty()) return fail(std::move(diagnostics_));
    return std::move(rows_);
  }

 private:
  std::string place(int line, std::string_view column) const {
    std::string where = origin_ + ":" + std::to_string(line);
    return column.empty() ? where : where + " " + std::string(column);
  }

  void fault(int line, std::string_view column, CellFault found) {
    if (diagnostics_.size() >= kMostTableFaults) return;
    diagnostics_.push_back({place(line, column), std::move(found.what), std::move(found.hint)});
  }

  void read_row(int line, const std::vector<std::string_view>& cells,
                const std::vector<std::size_t>& order) {
    Row& row = rows_.emplace_back(line, Row{}).second;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const Column<Row>& column = columns_[order[i]];
      if (column.required && trim(cells[i]).empty()) {
        fault(line, column.name, {"the cell is empty", {}});
        continue;
      }
      auto found =
          std::visit([&](auto member) { return store(cells[i], row.*member); }, column.field);
      if (found) fault(line, column.name, *std::move(found));
    }
  }

  std::span<const Column<Row>> columns_;
  std::string origin_;
  Diagnostics diagnostics_;
  std::vector<std::pair<int, Row>> rows_;
};

}  // namespace trainwright::detail
