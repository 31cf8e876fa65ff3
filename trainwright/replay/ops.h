#pragma once
// Public: a replay as a table of ops: the live bytes around each, and somebody else's column beside
// them.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainwright/base/result.h"
#include "trainwright/base/units.h"
#include "trainwright/replay/replay.h"

namespace trainwright {

// Memory around one op. What dies before the next op begins is freed by this one.
struct OpMemory {
  Bytes before, allocated, freed, after;  // after = before + allocated - freed
  StorageId overwrites{-1};  // that it writes and did not make: in place, or a view; -1: none
};
std::vector<OpMemory> op_memory(const Trace& trace, std::optional<Bytes> rounding = std::nullopt);

// Live bytes that somebody else measured or estimated, before or after each op.
struct MemoryColumn {
  struct Row {
    std::string name;                // of the op
    std::optional<std::int32_t> op;  // its number in the trace; none: the next op of that name
    Bytes bytes;
    std::string place;  // where it stands, for faults
  };
  bool before = false;
  std::vector<Row> rows;
};
// CSV with a line of names: `op`, `before` or `after` (bytes), and, where names do not say which op
// a row is about, `index`.
Result<MemoryColumn> read_memory_column(const std::string& path);

// The column beside a replay. Its zero may be another: `base` is what this replay has more in the
// first row, and rows are equal when they are that far apart. O(rows + events).
struct ColumnBeside {
  bool before = false;                       // as the column
  std::vector<std::optional<Bytes>> theirs;  // by op
  Bytes base;
  std::int64_t equal = 0;  // rows
  std::optional<OpId> first_difference;
  Bytes apart;        // there: what this replay has more, without `base`
  std::string cause;  // of the first difference, in words
};
Result<ColumnBeside> beside(const Trace& trace, const std::vector<OpMemory>& ops,
                            const MemoryColumn& column);

}  // namespace trainwright
