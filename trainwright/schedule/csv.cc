#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "trainwright/base/text.h"
#include "trainwright/schedule/schedule.h"

namespace trainwright {
namespace {

constexpr std::string_view kOverlap = "OVERLAP_F_B";

// Longer letters first, so that "SEND_F" is not read as something shorter.
constexpr std::array<ActionKind, 11> kKindsByLength{
    ActionKind::ReduceGrad,     ActionKind::Unshard,     ActionKind::Reshard,
    ActionKind::SendForward,    ActionKind::RecvForward, ActionKind::SendBackward,
    ActionKind::RecvBackward,   ActionKind::Forward,     ActionKind::BackwardInput,
    ActionKind::BackwardWeight, ActionKind::Backward};

constexpr bool needs_microbatch(ActionKind kind) { return kind <= ActionKind::RecvBackward; }

std::string to_cell(std::span<const Action> group) {
  if (group.size() == 1) return to_text(group.front());
  std::string cell = "(";
  for (const Action& member : group) {
    if (cell.size() > 1) cell += ';';
    cell += to_text(member);
  }
  return cell + ")" + std::string(kOverlap);
}

// Takes the digits at the front of `text` off; nullopt when there are none or too many.
std::optional<std::int64_t> take_number(std::string_view& text) {
  std::size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') ++digits;
  const auto number = parse_integer(text.substr(0, digits));
  if (number) text.remove_prefix(digits);
  return number;
}

class CsvReader {
 public:
  explicit CsvReader(std::string_view origin) : origin_(origin) {}

  Result<Schedule> read(std::string_view text) && {
    if (text.ends_with('\n')) text.remove_suffix(1);
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (trim(text).empty()) return fail(origin_, "the file has no actions");
    for (const std::string_view line : split(text, '\n')) {
      if (full()) break;
      read_row(line);
    }
    if (diagnostics_.empty()) place_stages();
    if (!diagnostics_.empty()) return fail(std::move(diagnostics_));
    return std::move(schedule_);
  }

 private:
  static constexpr std::size_t kMostFaults = 50;
  bool full() const { return diagnostics_.size() >= kMostFaults; }

  void fault(std::string what, std::string hint = {}) {
    if (full()) return;
    diagnostics_.push_back({fmt::format("{}:{} cell {}", origin_, schedule_.ranks.size(), cell_),
                            std::move(what), std::move(hint)});
  }

  void read_row(std::string_view line) {
    schedule_.ranks.emplace_back();
    cell_ = 0;
    if (schedule_.ranks.size() > static_cast<std::size_t>(kMaxRanks)) {
      fault(fmt::format("more than {} ranks", kMaxRanks));
      return;
    }
    if (trim(line).empty()) {
      fault("an empty row would be one more rank", "remove the blank line");
      return;
    }
    for (const std::string_view cell : split(line, ',')) {
      ++cell_;
      if (full()) return;
      read_cell(trim(cell));
    }
    if (schedule_.ranks.back().empty() && diagnostics_.empty()) {
      fault("a rank without actions", "every rank holds a stage");
    }
  }

  void read_cell(std::string_view cell) {
    if (cell.empty()) return;  // a bubble
    if (cell.front() == '"') {
      fault("quoted cells are not used in schedules", "remove the quotes");
      return;
    }
    if (cell.front() != '(') {
      if (const auto action = read_action(cell)) schedule_.ranks.back().push_back(*action);
      return;
    }
    const std::size_t close = cell.find(')');
    if (close == std::string_view::npos || trim(cell.substr(close + 1)) != kOverlap) {
      fault(fmt::format("'{}' is not a group", shorten(cell)),
            "a group is written (2F4;5B1)OVERLAP_F_B");
      return;
    }
    std::vector<Action> group;
    for (const std::string_view member : split(cell.substr(1, close - 1), ';')) {
      const auto action = read_action(trim(member));
      if (!action) return;
      group.push_back(*action);
    }
    if (group.size() < 2) {
      fault("a group needs two actions", "write a single action without parentheses");
      return;
    }
    for (std::size_t i = 0; i + 1 < group.size(); ++i) group[i].overlaps_next = true;
    auto& list = schedule_.ranks.back();
    list.insert(list.end(), group.begin(), group.end());
  }

  std::optional<Action> read_action(std::string_view text) {
    std::string_view rest = text;
    const auto stage = take_number(rest);
    const auto* kind = std::find_if(kKindsByLength.begin(), kKindsByLength.end(),
                                    [&](ActionKind k) { return rest.starts_with(letters_of(k)); });
    if (!stage || kind == kKindsByLength.end()) {
      fault(fmt::format("'{}' is not an action", shorten(text)),
            "an action is stage, letters, micro-batch: 2F0, 3SEND_B7, 1REDUCE_GRAD");
      return std::nullopt;
    }
    rest.remove_prefix(letters_of(*kind).size());
    if (*kind == ActionKind::Backward && rest.starts_with('W')) {
      fault(fmt::format("'{}' is of the old grammar", shorten(text)),
            "since torch 2.6 a full backward is B and the gradient of the input is I");
      return std::nullopt;
    }
    const auto microbatch = take_number(rest);
    if (!rest.empty() || microbatch.has_value() != needs_microbatch(*kind)) {
      fault(fmt::format("'{}' is not an action", shorten(text)),
            needs_microbatch(*kind)
                ? "a micro-batch number and nothing more must follow the letters"
                : "it takes no micro-batch");
      return std::nullopt;
    }
    if (*stage >= kMaxStages || microbatch.value_or(0) >= kMaxMicroBatches) {
      fault(
          fmt::format("'{}' is out of range", shorten(text)),
          fmt::format("stages are below {}, micro-batches below {}", kMaxStages, kMaxMicroBatches));
      return std::nullopt;
    }
    return make_action(*kind, static_cast<int>(*stage), static_cast<int>(microbatch.value_or(-1)));
  }

  static std::string shorten(std::string_view text) {
    std::string shown(text.substr(0, 24));
    for (char& c : shown) {
      if (static_cast<unsigned char>(c) < 32 || static_cast<unsigned char>(c) > 126) c = '?';
    }
    return text.size() > 24 ? shown + "..." : shown;
  }

  // A stage lies on the rank whose row names it; all stages up to the largest must be named.
  void place_stages() {
    int stages = 0;
    for (const auto& list : schedule_.ranks) {
      for (const Action& action : list) {
        stages = std::max(stages, action.stage + 1);
        schedule_.microbatches = std::max(schedule_.microbatches, action.microbatch + 1);
      }
    }
    std::vector<int> rank_of(static_cast<std::size_t>(stages), -1);
    for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      for (const Action& action : schedule_.ranks[rank]) {
        int& place = rank_of[action.stage];
        if (place < 0) place = static_cast<int>(rank);
        if (place == static_cast<int>(rank) || full()) continue;
        diagnostics_.push_back({fmt::format("{}:{}", origin_, rank + 1),
                                fmt::format("{} is here, but stage {} began on row {}",
                                            to_text(action), action.stage, place + 1),
                                "a stage lies on one rank"});
        return;
      }
    }
    schedule_.placement.ranks = static_cast<int>(schedule_.ranks.size());
    for (std::size_t stage = 0; stage < rank_of.size() && !full(); ++stage) {
      if (rank_of[stage] < 0) {
        diagnostics_.push_back({origin_, fmt::format("no row names stage {}", stage),
                                "stages are numbered from 0 without gaps"});
      }
      schedule_.placement.rank_of.emplace_back(rank_of[stage]);
    }
  }

  std::string origin_;
  Schedule schedule_;
  Diagnostics diagnostics_;
  std::size_t cell_ = 0;
};

}  // namespace

std::string to_csv(const Schedule& schedule) {
  std::string csv;
  for (const auto& list : schedule.ranks) {
    for (std::size_t i = 0; i < list.size();) {
      std::size_t last = i;
      while (list[last].overlaps_next && last + 1 < list.size()) ++last;
      if (i > 0) csv += ',';
      csv += to_cell(std::span(list).subspan(i, last - i + 1));
      i = last + 1;
    }
    csv += '\n';
  }
  return csv;
}

Result<Schedule> read_schedule_csv(std::string_view text, std::string_view origin) {
  return CsvReader(origin).read(text);
}

}  // namespace trainwright
