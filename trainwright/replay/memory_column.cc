// Somebody else's live bytes, op by op, as CSV.
#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/csv.h"
#include "trainwright/base/json.h"
#include "trainwright/base/text.h"
#include "trainwright/replay/ops.h"

namespace trainwright {
namespace {

constexpr std::size_t kMostFaults = 20;
constexpr std::size_t kAbsent = SIZE_MAX;

struct Header {
  std::size_t op = kAbsent, index = kAbsent, bytes = kAbsent, cells = 0;
  bool before = false;
};

Result<Header> header_of(const std::vector<std::string_view>& cells, const std::string& place) {
  Header header{.cells = cells.size()};
  Diagnostics faults;
  const std::string hint =
      "columns are op, before or after, and index where names do not say which op a row is about";
  const auto take = [&](std::size_t& column, std::size_t at) {
    if (column != kAbsent)
      faults.push_back({place, "one column of bytes, before or after, at a time", hint});
    column = at;
  };
  for (std::size_t at = 0; at < cells.size(); ++at) {
    if (cells[at] == "op") {
      take(header.op, at);
    } else if (cells[at] == "index") {
      take(header.index, at);
    } else if (cells[at] == "before" || cells[at] == "after") {
      take(header.bytes, at);
      header.before = cells[at] == "before";
    } else {
      faults.push_back({place, fmt::format("unknown column '{}'", cells[at]), hint});
    }
  }
  if (header.bytes == kAbsent) faults.push_back({place, "no column 'before' or 'after'", hint});
  if (header.op == kAbsent && header.index == kAbsent) {
    faults.push_back({place, "no column 'op' or 'index'", hint});
  }
  if (!faults.empty()) return fail(std::move(faults));
  return header;
}

Result<MemoryColumn::Row> row_of(const std::vector<std::string_view>& cells, const Header& header,
                                 const std::string& place) {
  if (cells.size() != header.cells) {
    return fail(place, fmt::format("{} cells, not {}", cells.size(), header.cells));
  }
  MemoryColumn::Row row;
  row.place = place;
  if (header.op != kAbsent) row.name = std::string(cells[header.op]);
  const auto bytes = parse_integer(cells[header.bytes]);
  if (!bytes || *bytes < 0) {
    return fail(place, fmt::format("'{}' is no number of bytes", cells[header.bytes]));
  }
  row.bytes = Bytes(*bytes);
  if (header.index == kAbsent) return row;
  const auto index = parse_integer(cells[header.index]);
  if (!index || *index < 0 || *index > INT32_MAX) {
    return fail(place, fmt::format("'{}' is no number of an op", cells[header.index]));
  }
  row.op = static_cast<std::int32_t>(*index);
  return row;
}

}  // namespace

Result<MemoryColumn> read_memory_column(const std::string& path) {
  const std::string text = TW_TRY(read_file(path));
  CsvRecords records(text);
  MemoryColumn column;
  std::optional<Header> header;
  Diagnostics faults;
  while (!records.done() && faults.size() < kMostFaults) {
    const auto& cells = records.take();
    const std::string place = fmt::format("{}:{}", path, records.line());
    if (!records.well_formed()) return fail(place, "a quoted cell does not end");
    if (cells.empty() || cells[0].starts_with('#') || (cells.size() == 1 && cells[0].empty()))
      continue;
    if (!header) {
      header = TW_TRY(header_of(cells, place));
      column.before = header->before;
    } else if (auto row = row_of(cells, *header, place)) {
      column.rows.push_back(std::move(*row));
    } else {
      faults.push_back(row.error().diagnostics.front());
    }
  }
  if (!faults.empty()) return fail(std::move(faults));
  if (column.rows.empty()) return fail(path, "no rows", "a line of names, then one line an op");
  return column;
}

}  // namespace trainwright
