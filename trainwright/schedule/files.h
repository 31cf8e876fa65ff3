#pragma once
// Schedules in and out as text. Part of the public face; include trainwright/schedule/schedule.h.
#include <string>
#include <string_view>

#include "trainwright/schedule/schedule.h"

namespace trainwright {

// PyTorch's CSV: one row per rank, one action per cell ("0F3", "(2F4;5B1)OVERLAP_F_B"). A schedule
// of compute actions becomes the format `compute_only`, a lowered one `compute_comms`. Reading
// gives back the same schedule: the placement is inferred from the rows that name a stage, the
// number of micro-batches is the largest named plus one, empty cells (bubbles) are skipped.
// The reader bounds what it accepts (kMaxRanks, kMaxStages, kMaxMicroBatches) and reports every
// faulty cell with row and column; what it returns still wants `check`.
std::string to_csv(const Schedule& schedule);
Result<Schedule> read_schedule_csv(std::string_view text, std::string_view origin);

// "F=1,I=1,W=1,comm=0": seconds per stage (a chunk of a rank) and per transfer between ranks. Also
// B (fused backward, I + W if absent), loss, action (the engine's own cost per action), overlap
// (0..1, of groups), kept, input and size in bytes (kept by F, released by I, transferred).
// Without `kept` an activation counts one byte. Further bytes: resident, gradients, and the peaks
// inside actions peak_F, peak_I, peak_W, peak_B (that of B is the larger of I's and W's if absent),
// first_W, first_B.
// The JSON form is an object with the same names, where all of a stage may be lists by stage and
// comm, size lists by boundary.
Result<Costs> parse_costs(std::string_view text, int stages);
Result<Costs> read_costs_json(std::string_view text, std::string_view origin, int stages);

// "1.2 GiB", or "16 kept" where costs have no sizes and memory counts kept activations.
std::string memory_text(Bytes memory, const Costs& costs);
// "57 F" where costs are multiples of one forward, else "3.75 s".
std::string time_text(Seconds time, bool in_forwards);

// The rest needs a Timeline with Detail::Full of the same schedule.
// Chrome trace JSON for ui.perfetto.dev: a track per rank with actions and named bubbles, and a
// memory counter per rank.
std::string to_trace(const Schedule& schedule, const Timeline& timeline);
std::string to_svg(const Schedule& schedule, const Timeline& timeline, const Costs& costs);
// One line per rank, time from left to right, at most `width` columns (at least 20).
enum class Colours : std::uint8_t { None, Ansi };
std::string to_drawing(const Schedule& schedule, const Timeline& timeline, int width = 80,
                       Colours colours = Colours::None);

}  // namespace trainwright
