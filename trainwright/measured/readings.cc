#include "trainwright/measured/readings.h"

#include <algorithm>
#include <cmath>

#include "trainwright/base/text.h"
#include "trainwright/measured/fill.h"

namespace trainwright::detail {
namespace {

Bytes bytes_in(double value, const std::string& unit) {
  constexpr double kMost = 1e18;
  const double scale = unit == "GB" ? 1e9 : unit == "GiB" ? 1024.0 * 1024.0 * 1024.0 : 1;
  return Bytes(std::llround(std::min(value * scale, kMost)));
}

MemoryReading printed(double value, const ReadingRule& rule, std::int64_t index) {
  const double last_digit = rule.unit == "B" ? 0 : std::pow(10, -rule.decimals);
  return {.kind = rule.kind,
          .at = rule.at,
          .index = index,
          .size = bytes_in(value, rule.unit),
          .rounding = bytes_in(last_digit / 2, rule.unit)};
}

// "46.77\*2 + 36.59\*2 + ...": one figure for each pipeline rank, or one for all.
void add_each(const ReadingRule& rule, const MeasuredRun& row,
              std::vector<MemoryReading>& readings) {
  std::vector<double> figures;
  const std::string list = column_text(row, rule.each).value_or("");
  for (const std::string_view part : split(list, '+')) {
    const std::string_view text = trim(part);
    const auto figure = parse_number(trim(text.substr(0, text.find_first_of("\\* "))));
    if (!figure || *figure <= 0) return;
    figures.push_back(*figure);
  }
  const bool one_for_all = figures.size() == 1 && row.pp.value_or(1) > 1;
  for (std::size_t i = 0; i < figures.size(); ++i) {
    readings.push_back(printed(figures[i], rule, static_cast<std::int64_t>(i)));
    readings.back().at = one_for_all ? ReadAt::WorstRank : ReadAt::PipelineRank;
  }
}

void add_ranks(const ReadingRule& rule, const MeasuredRun& row,
               std::vector<MemoryReading>& readings) {
  constexpr double kMiB = 1 << 20;
  // Figures of ranks are in MiB, printed to so many digits; without any they are whole bytes.
  const Bytes rounding(rule.decimals > 0 ? std::llround(0.5 * std::pow(10, -rule.decimals) * kMiB)
                                         : 0);
  for (const RankMemory& rank : row.ranks) {
    const Bytes size = rule.ranks == "reserved" ? rank.reserved : rank.allocated;
    readings.push_back({rule.kind, ReadAt::Rank, rank.rank, size, rounding});
  }
}

}  // namespace

std::vector<MemoryReading> readings_of(const MeasuredRun& row,
                                       std::span<const ReadingRule* const> rules) {
  std::vector<MemoryReading> readings;
  for (const ReadingRule* rule : rules) {
    if (!rule->each.empty()) add_each(*rule, row, readings);
    if (!rule->ranks.empty()) add_ranks(*rule, row, readings);
    if (rule->value.empty()) continue;
    std::string missing;
    const auto value = parse_number(filled(rule->value, row, missing));
    const auto index = parse_integer(filled(rule->index, row, missing));
    if (!value || !index || *value <= 0) continue;
    readings.push_back(printed(*value, *rule, *index));
  }
  return readings;
}

}  // namespace trainwright::detail
