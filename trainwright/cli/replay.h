#pragma once
// What `trainwright replay` prints, one function per form. Private to the command line.
#include <string>

#include "trainwright/base/json.h"
#include "trainwright/replay/replay.h"

namespace trainwright::cli {

std::string replay_text(const Trace& trace, const Replay& replay, int width);
Json replay_json(const Trace& trace, const Replay& replay);
std::string replay_svg(const Trace& trace, const Replay& replay);
// Chrome's trace format, which Perfetto opens: counters of live and reserved bytes, one microsecond
// per op.
std::string replay_perfetto(const Trace& trace, const Replay& replay);

std::string difference_text(const ReplayDifference& difference, int width);
Json difference_json(const ReplayDifference& difference);

std::string snapshot_text(const SnapshotReplay& snapshot);
Json snapshot_json(const SnapshotReplay& snapshot);

// Of a file of text: it says what the file is. A pickle has none.
Result<std::string> first_line(const std::string& path);

// "op 3 mm (backward)" and so on; "before the first op".
std::string op_title(const Trace& trace, OpId op);
std::string module_title(const Trace& trace, TraceTextId module);

}  // namespace trainwright::cli
