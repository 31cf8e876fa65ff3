#pragma once
// What `trainwright replay` prints, one function per form. Private to the command line.
#include <string>

#include "trainwright/base/json.h"
#include "trainwright/replay/ops.h"
#include "trainwright/replay/replay.h"

namespace trainwright::cli {

std::string replay_text(const Trace& trace, const Replay& replay, int width);
Json replay_json(const Trace& trace, const Replay& replay);
// `theirs`: another column of live bytes by op, drawn as a line.
std::string replay_svg(const Trace& trace, const Replay& replay,
                       const std::optional<ColumnBeside>& theirs = {});
// Chrome's trace format, which Perfetto opens: counters of live and reserved bytes, one microsecond
// per op.
std::string replay_perfetto(const Trace& trace, const Replay& replay);

// --ops: one line an op. `beside`: --beside's column.
std::string ops_text(const Trace& trace, const std::vector<OpMemory>& ops,
                     const std::optional<ColumnBeside>& beside, int width);
std::string ops_csv(const Trace& trace, const std::vector<OpMemory>& ops,
                    const std::optional<ColumnBeside>& beside);
Json ops_json(const Trace& trace, const std::vector<OpMemory>& ops,
              const std::optional<ColumnBeside>& beside);

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
