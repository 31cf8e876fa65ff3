#include "trainwright/measured/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "trainwright/base/printable.h"

namespace trainwright {
namespace {

constexpr std::array<std::pair<Outcome, std::string_view>, 6> kOutcomes{{
    {Outcome::Ok, "ok"},
    {Outcome::Oom, "oom"},
    {Outcome::OomOrCrash, "oom_or_crash"},
    {Outcome::CrashLikely, "crash_likely"},
    {Outcome::KernelUnavailable, "kernel_unavailable"},
    {Outcome::Other, "other"},
}};

// Enough of a cell to recognise it by.
std::string shown(std::string_view cell) {
  constexpr std::size_t kMost = 40;
  return cell.size() <= kMost ? std::string(cell) : std::string(cell.substr(0, kMost)) + "...";
}

}  // namespace

std::string_view name_of(Outcome outcome) {
  return kOutcomes[static_cast<std::size_t>(outcome)].second;
}

namespace detail {

std::optional<Outcome> outcome_named(std::string_view name) {
  for (const auto& [outcome, known] : kOutcomes) {
    if (known == name) return outcome;
  }
  return std::nullopt;
}

std::vector<std::string> outcome_names() {
  std::vector<std::string> names;
  for (const auto& entry : kOutcomes) names.emplace_back(entry.second);
  return names;
}

std::optional<CellFault> store(std::string_view cell, std::string& field) {
  if (const std::string hidden = hidden_fault(cell); !hidden.empty()) {
    return CellFault{"the text " + hidden, std::string(kHiddenHint)};
  }
  field = std::string(cell);
  return std::nullopt;
}

std::optional<CellFault> store(std::string_view cell, std::optional<std::int64_t>& field) {
  cell = trim(cell);
  if (cell.empty()) return std::nullopt;
  const auto number = parse_integer(cell);
  if (!number || *number < 0 || *number > kMostWhole) {
    return CellFault{fmt::format("'{}' is not a whole number from 0", shown(cell)),
                     "leave the cell empty where the source is silent"};
  }
  field = number;
  return std::nullopt;
}

std::optional<CellFault> store(std::string_view cell, std::optional<double>& field) {
  constexpr double kMost = 1e18;
  cell = trim(cell);
  if (cell.empty()) return std::nullopt;
  const auto number = parse_number(cell);
  if (!number || !(*number >= 0) || *number > kMost) {
    return CellFault{fmt::format("'{}' is not a number from 0", shown(cell)),
                     "leave the cell empty where the source is silent"};
  }
  field = number;
  return std::nullopt;
}

std::optional<CellFault> store(std::string_view cell, std::optional<Seconds>& field) {
  std::optional<double> number;
  auto found = store(cell, number);
  if (number) field = Seconds(*number);
  return found;
}

std::optional<CellFault> store(std::string_view cell, Outcome& field) {
  const auto outcome = outcome_named(trim(cell));
  if (outcome) {
    field = *outcome;
    return std::nullopt;
  }
  const auto names = outcome_names();
  return CellFault{fmt::format("'{}' is not an outcome", shown(cell)),
                   did_you_mean(trim(cell), names, "one of " + enumerate(names, "or"))};
}

std::string cell_text(const std::string& field) { return field; }
std::string cell_text(const std::optional<std::int64_t>& field) {
  return field ? std::to_string(*field) : std::string();
}
std::string cell_text(const std::optional<double>& field) {
  return field ? fmt::format("{}", *field) : std::string();
}
std::string cell_text(const std::optional<Seconds>& field) {
  return field ? fmt::format("{}", field->value()) : std::string();
}
std::string cell_text(Outcome field) { return std::string(name_of(field)); }

std::vector<std::size_t> match_header(std::span<const std::string_view> header,
                                      std::span<const ColumnName> columns, const std::string& where,
                                      Diagnostics& diagnostics) {
  std::vector<std::string> names;
  for (const ColumnName& column : columns) names.push_back(column.name);
  std::vector<std::size_t> order;
  std::vector<bool> seen(names.size(), false);
  for (const std::string_view cell : header) {
    const auto at = std::find(names.begin(), names.end(), trim(cell));
    if (at == names.end()) {
      if (diagnostics.size() < kMostTableFaults) {
        diagnostics.push_back({where, fmt::format("unknown column '{}'", shown(cell)),
                               did_you_mean(shown(cell), names)});
      }
      continue;
    }
    const auto index = static_cast<std::size_t>(at - names.begin());
    if (seen[index]) {
      diagnostics.push_back({where, fmt::format("column '{}' stands twice", *at), {}});
    }
    seen[index] = true;
    order.push_back(index);
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!seen[i] && !columns[i].optional)
      diagnostics.push_back({where, fmt::format("no column '{}'", names[i]), {}});
  }
  return order;
}

}  // namespace detail
}  // namespace trainwright
