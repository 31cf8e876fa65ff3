#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "trainwright/base/check.h"
#include "trainwright/base/text.h"
#include "trainwright/schedule/memory_drawing.h"
#include "trainwright/schedule/schedule.h"

namespace trainwright {
namespace {

constexpr int kMostLines = 64;

// Which chunk of its rank a stage is, counted from its first.
std::vector<int> chunks_of(const Placement& placement) {
  std::vector<int> seen(static_cast<std::size_t>(placement.ranks));
  std::vector<int> chunks;
  for (const RankId rank : placement.rank_of) chunks.push_back(seen[rank.at()]++);
  return chunks;
}

// Capitals for the first chunk of a rank, small letters for the later ones.
char letter_of(Action action, int chunk) {
  const char letter = letters_of(action.kind).front();
  return chunk == 0 ? letter : static_cast<char>(letter - 'A' + 'a');
}

const char* colour_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::Forward: return "\x1b[30;44m";
    case ActionKind::BackwardInput: return "\x1b[30;46m";
    case ActionKind::BackwardWeight: return "\x1b[30;42m";
    case ActionKind::Backward: return "\x1b[30;43m";
    default: return "";
  }
}

struct Cell {
  char letter = '.';
  const char* colour = "";
};

// One rank's line. An action wide enough shows its micro-batch, others repeat their letter; one
// narrower than half a column is shown when nothing else claims that column.
std::vector<Cell> draw_rank(const std::vector<Action>& list, const std::vector<Span>& spans,
                            const std::vector<int>& chunks, double scale, int columns) {
  std::vector<Cell> line(static_cast<std::size_t>(columns));
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!computes(list[i].kind) || spans[i].end == spans[i].start) continue;
    const bool paired = i > 0 && list[i - 1].overlaps_next && spans[i - 1].start == spans[i].start;
    double start = spans[i].start.value() * scale, end = spans[i].end.value() * scale;
    if (list[i].overlaps_next && spans[i + 1].start == spans[i].start) end = (start + end) / 2;
    if (paired) start = (start + end) / 2;
    auto from = static_cast<int>(std::lround(start));
    auto until = static_cast<int>(std::lround(end));
    if (until == from && static_cast<int>(start) == from) until = from + 1;
    std::string label(1, letter_of(list[i], chunks[list[i].stage]));
    const std::string number = std::to_string(list[i].microbatch);
    if (end - start >= static_cast<double>(number.size() + 1)) label += number;
    for (int column = std::max(0, from); column < std::min(until, columns); ++column) {
      const auto at = static_cast<std::size_t>(column - from);
      Cell& cell = line[static_cast<std::size_t>(column)];
      if (end - start < 0.5 && cell.letter != '.') continue;
      cell = {at < label.size() ? label[at] : (label.size() > 1 ? '-' : label[0]),
              colour_of(list[i].kind)};
    }
  }
  return line;
}

std::string to_line(const std::vector<Cell>& cells, Colours colours) {
  std::string line;
  const char* current = "";
  for (const Cell& cell : cells) {
    if (colours == Colours::Ansi && cell.colour != current) {
      line += *cell.colour == '\0' ? "\x1b[0m" : cell.colour;
      current = cell.colour;
    }
    line += cell.letter;
  }
  if (*current != '\0') line += "\x1b[0m";
  return line;
}

// Of a width: what is left of it for time between "12 |" and the longest tail.
int columns_of(int width, int margin, std::size_t tail) {
  return std::max(width, 20) - margin - 3 - static_cast<int>(tail);
}

int margin_of(std::size_t ranks) { return static_cast<int>(std::to_string(ranks - 1).size()) + 1; }

std::size_t longest(const std::vector<std::string>& texts) {
  std::size_t most = 0;
  for (const std::string& text : texts) most = std::max(most, text.size());
  return most;
}

// The most in each of so many parts of the step.
std::vector<Bytes> most_by_column(const std::vector<MemoryPoint>& points, Seconds makespan,
                                  int columns) {
  std::vector<Bytes> most(static_cast<std::size_t>(columns));
  Bytes live;
  std::size_t next = 0;
  for (int column = 0; column < columns; ++column) {
    const Seconds end = makespan * (static_cast<double>(column + 1) / columns);
    Bytes& highest = most[static_cast<std::size_t>(column)] = live;
    while (next < points.size() && (points[next].at < end || column + 1 == columns)) {
      live = points[next++].live;
      highest = std::max(highest, live);
    }
  }
  return most;
}

}  // namespace

std::string to_memory_drawing(const Timeline& timeline, const Costs& costs, int width,
                              std::optional<Bytes> cap) {
  constexpr std::array<std::string_view, 8> kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const Bytes top = std::max(cap.value_or(Bytes(0)), peak(timeline));
  Bytes floor = top;
  std::vector<std::string> tails;
  for (std::size_t r = 0; r < timeline.ranks.size(); ++r) {
    tails.push_back(memory_text(timeline.ranks[r].peak, costs));
    for (const MemoryPoint& point : timeline.memory[r]) floor = std::min(floor, point.live);
  }
  const int margin = margin_of(timeline.ranks.size());
  const int columns = columns_of(width, margin, longest(tails));
  const double range = std::max(1.0, static_cast<double>((top - floor).value()));
  const std::size_t step = (timeline.ranks.size() + kMostLines - 1) / kMostLines;
  std::string text;
  for (std::size_t r = 0; r < timeline.ranks.size(); r += step) {
    text += fmt::format("{:>{}} |", r, margin - 1);
    for (const Bytes most : most_by_column(timeline.memory[r], timeline.makespan, columns)) {
      const double share = static_cast<double>((most - floor).value()) / range;
      text += kBlocks[static_cast<std::size_t>(std::clamp(std::lround(share * 7), 0L, 7L))];
    }
    text += fmt::format("|{}\n", tails[r]);
  }
  return text + fmt::format("memory of each rank, from {} to {}{}; its peak\n",
                            memory_text(floor, costs), memory_text(top, costs),
                            cap == top ? ", the cap" : "");
}

std::string to_drawing(const Schedule& schedule, const Timeline& timeline, int width,
                       Colours colours) {
  TW_CHECK(timeline.spans.size() == schedule.ranks.size(), "a drawing needs Detail::Full");
  const auto ranks = static_cast<int>(schedule.ranks.size());
  const int margin = margin_of(timeline.ranks.size());
  std::vector<std::string> tails;
  for (const RankTotals& rank : timeline.ranks) {
    const double share = timeline.makespan.value() > 0 ? rank.busy / timeline.makespan : 1;
    tails.push_back(fmt::format("{:3.0f} %", share * 100));
  }
  const int columns = columns_of(width, margin, longest(tails));
  const double scale = timeline.makespan.value() > 0 ? columns / timeline.makespan.value() : 0;
  const std::vector<int> chunks = chunks_of(schedule.placement);
  const int step = (ranks + kMostLines - 1) / kMostLines;
  std::string text;
  bool numbered = false;
  for (int rank = 0; rank < ranks; rank += step) {
    const auto r = static_cast<std::size_t>(rank);
    const auto cells = draw_rank(schedule.ranks[r], timeline.spans[r], chunks, scale, columns);
    numbered = numbered || std::any_of(cells.begin(), cells.end(), [](const Cell& cell) {
                 return cell.letter >= '0' && cell.letter <= '9';
               });
    text += fmt::format("{:>{}} |{}|{}\n", rank, margin - 1, to_line(cells, colours), tails[r]);
  }
  const std::string end = time_text(timeline.makespan, timeline.in_forwards);
  text += fmt::format("{:>{}} 0{:>{}}\n", "", margin, end, std::max(1, columns - 1));
  text += "F forward, B backward, I its input part, W its weight part; small letters:\n";
  text += fmt::format("later chunks of the rank; {}. idle; % busy\n",
                      numbered ? "the number is the micro-batch; " : "");
  if (step > 1) text += fmt::format("every {}th of {} ranks is shown\n", step, ranks);
  return text;
}

}  // namespace trainwright
