#include <fmt/format.h>

#include <iterator>

#include "trainwright/base/check.h"
#include "trainwright/schedule/schedule.h"

namespace trainwright {
namespace {

// The trace format is JSON with one event per line, and counts in microseconds. Every text in it is
// one of ours and needs no escape, so the lines are written as they are: a trace of a million
// events should not be a tree in memory first.
constexpr double kMicroseconds = 1e6;

std::string_view category_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::Forward: return "forward";
    case ActionKind::BackwardInput: return "backward input";
    case ActionKind::BackwardWeight: return "backward weight";
    case ActionKind::Backward: return "backward";
    default: return "other";
  }
}

using Out = std::back_insert_iterator<std::string>;

void write_slice(Out out, std::size_t rank, std::string_view name, std::string_view category,
                 Seconds start, Seconds end, std::string_view details) {
  fmt::format_to(out,
                 ",\n{{\"ph\":\"X\",\"pid\":1,\"tid\":{},\"name\":\"{}\",\"cat\":\"{}\",\"ts\":{},"
                 "\"dur\":{},\"args\":{{{}}}}}",
                 rank, name, category, start.value() * kMicroseconds,
                 (end - start).value() * kMicroseconds, details);
}

}  // namespace

std::string to_trace(const Schedule& schedule, const Timeline& timeline) {
  TW_CHECK(timeline.spans.size() == schedule.ranks.size(), "a trace needs Detail::Full");
  std::string text =
      "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
      "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"pipeline\"}}";
  Out out(text);
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    fmt::format_to(
        out,
        ",\n{{\"ph\":\"M\",\"pid\":1,\"tid\":{0},\"name\":\"thread_name\",\"args\":"
        "{{\"name\":\"rank {0}\"}}}}"
        ",\n{{\"ph\":\"M\",\"pid\":1,\"tid\":{0},\"name\":\"thread_sort_index\",\"args\":"
        "{{\"sort_index\":{0}}}}}",
        rank);
    const auto& list = schedule.ranks[rank];
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Action action = list[i];
      // Perfetto colours slices by their name without its numbers: one colour per kind.
      write_slice(
          out, rank,
          fmt::format("{} {} stage {}", letters_of(action.kind), action.microbatch, action.stage),
          category_of(action.kind), timeline.spans[rank][i].start, timeline.spans[rank][i].end,
          fmt::format("\"microbatch\":{},\"stage\":{}", action.microbatch, action.stage));
    }
    for (const Bubble& bubble : timeline.bubbles[rank]) {
      write_slice(out, rank, fmt::format("bubble: {}", name_of(bubble.cause)), "bubble",
                  bubble.start, bubble.end, "");
    }
    for (const MemoryPoint& point : timeline.memory[rank]) {
      fmt::format_to(out,
                     ",\n{{\"ph\":\"C\",\"pid\":1,\"name\":\"memory of rank {}\",\"ts\":{},"
                     "\"args\":{{\"bytes\":{}}}}}",
                     rank, point.at.value() * kMicroseconds, point.live.value());
    }
  }
  text += "\n]}\n";
  return text;
}

}  // namespace trainwright
