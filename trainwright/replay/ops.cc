// The table of ops: live bytes before and after each, and why another column differs.
#include "trainwright/replay/ops.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/check.h"
#include "trainwright/base/text.h"
#include "trainwright/replay/walk.h"

namespace trainwright {
namespace {

// The first storage that the op writes and did not make.
StorageId overwritten(const Trace& trace, const TraceOp& op) {
  for (std::size_t k = op.reads; k < op.reads + op.writes; ++k) {
    const StorageId storage = trace.operands[op.operands + k];
    if (storage < op.made_first || storage.at() >= op.made_first.at() + op.made) return storage;
  }
  return StorageId(-1);
}

// The ops of the trace that a column's rows are about: by number, or by name, in order.
Result<std::vector<std::int32_t>> ops_of(const Trace& trace, const MemoryColumn& column) {
  std::vector<std::int32_t> ops;
  std::int32_t next = 0;
  const auto count = static_cast<std::int32_t>(trace.ops.size());
  for (const MemoryColumn::Row& row : column.rows) {
    std::int32_t op = row.op.value_or(next);
    const auto is_it = [&](std::int32_t at) {
      const TraceTextId name = trace.ops[static_cast<std::size_t>(at)].name;
      return name.index() >= 0 && trace.texts[name.at()] == row.name;
    };
    while (!row.op && op < count && !is_it(op)) ++op;
    if (op < next || op >= count) {
      return fail(row.place,
                  row.op ? fmt::format("there is no op {} from here on", op)
                         : fmt::format("no op '{}' follows op {}", row.name, next - 1),
                  "rows stand in the order of the trace's ops; a column 'index' says which op a "
                  "row is about");
    }
    ops.push_back(op);
    next = op + 1;
  }
  return ops;
}

std::string storage_title(const Trace& trace, StorageId id) {
  const Storage& storage = trace.storages[id.at()];
  const auto name = [&](TraceTextId text) {
    return text.index() < 0 ? std::string("(unnamed)") : trace.texts[text.at()];
  };
  if (storage.made_by.index() < 0) return fmt::format("'{}'", name(storage.name));
  return fmt::format("the output of op {} {}", storage.made_by.index(),
                     name(trace.ops[storage.made_by.at()].name));
}

// What happens to storages between two ops, both included: made, written in place, freed.
struct Between {
  std::vector<StorageId> made, reused, freed, held;  // held: alive at the end
};

Between between(const Trace& trace, std::int32_t first, std::int32_t last) {
  Between found;
  std::vector<bool> alive(trace.storages.size(), false);
  std::int32_t now = -1;
  for (const TraceEvent& event : trace.events) {
    const auto subject = static_cast<std::size_t>(event.subject);
    if (event.kind == TraceEvent::Kind::Op) {
      now = event.subject;
      if (now > last) break;
      const TraceOp& op = trace.ops[subject];
      for (std::size_t i = 0; i < op.made; ++i) {
        alive[op.made_first.at() + i] = true;
        if (now >= first)
          found.made.push_back(StorageId(op.made_first.index() + static_cast<std::int32_t>(i)));
      }
      const StorageId reused = overwritten(trace, op);
      if (now >= first && reused.index() >= 0) found.reused.push_back(reused);
    } else if (event.kind == TraceEvent::Kind::Exist) {
      alive[subject] = true;
    } else if (event.kind == TraceEvent::Kind::Free) {
      alive[subject] = false;
      if (now >= first) found.freed.emplace_back(event.subject);
    }
  }
  for (std::size_t s = 0; s < alive.size(); ++s) {
    if (alive[s]) found.held.emplace_back(static_cast<std::int32_t>(s));
  }
  return found;
}

// The storage of these whose size is `size`: the one made last.
std::optional<StorageId> of_size(const Trace& trace, const std::vector<StorageId>& storages,
                                 Bytes size) {
  std::optional<StorageId> found;
  for (const StorageId id : storages) {
    if (trace.storages[id.at()].size == size && (!found || *found < id)) found = id;
  }
  return found;
}

std::string cause_of(const Trace& trace, std::int32_t first, std::int32_t op, Bytes more,
                     bool here) {
  const Between seen = between(trace, first, op);
  const std::string bytes = to_text(more);
  if (here) {
    if (const auto id = of_size(trace, seen.made, more)) {
      return fmt::format(
          "this replay allocates {}, {}; there it is written in place, or never made",
          storage_title(trace, *id), bytes);
    }
    if (const auto id = of_size(trace, seen.held, more)) {
      return fmt::format(
          "this replay still holds {}, {}, for an op that follows; there it has been freed",
          storage_title(trace, *id), bytes);
    }
    return fmt::format("no tensor of {} is made or held here: several differ at once", bytes);
  }
  if (const auto id = of_size(trace, seen.reused, more)) {
    return fmt::format("this op writes in place into {}, {}; there it takes a tensor of its own",
                       storage_title(trace, *id), bytes);
  }
  if (const auto id = of_size(trace, seen.freed, more)) {
    return fmt::format(
        "this replay frees {}, {}, after its last use; there it is kept, "
        "as if an op that follows needed it",
        storage_title(trace, *id), bytes);
  }
  return fmt::format("no tensor of {} is freed or written in place here: several differ at once",
                     bytes);
}

}  // namespace

std::vector<OpMemory> op_memory(const Trace& trace, std::optional<Bytes> rounding) {
  TW_CHECK(trace.frees == Frees::Recorded, "a static program is resolved before");
  std::vector<OpMemory> ops;
  ops.reserve(trace.ops.size());
  detail::TraceWalk walk(trace, rounding.value_or(trace.rounding));
  for (const TraceEvent& event : trace.events) {
    const Bytes before(walk.live);
    const bool is_op = event.kind == TraceEvent::Kind::Op;
    if (is_op && !ops.empty()) ops.back().after = before;
    walk.apply(trace, event);
    const Bytes live(walk.live);
    if (is_op) {
      const TraceOp& op = trace.ops[static_cast<std::size_t>(event.subject)];
      ops.push_back({.before = before,
                     .allocated = live - before,
                     .freed = Bytes(0),
                     .after = live,
                     .overwrites = overwritten(trace, op)});
    } else if (!ops.empty()) {
      Bytes& changed = live < before ? ops.back().freed : ops.back().allocated;
      changed += live < before ? before - live : live - before;
    }
  }
  if (!ops.empty()) ops.back().after = Bytes(walk.live);
  return ops;
}

Result<ColumnBeside> beside(const Trace& trace, const std::vector<OpMemory>& ops,
                            const MemoryColumn& column) {
  ColumnBeside found{.before = column.before,
                     .theirs = {},
                     .base = {},
                     .first_difference = {},
                     .apart = {},
                     .cause = {}};
  found.theirs.resize(ops.size());
  const std::vector<std::int32_t> about = TW_TRY(ops_of(trace, column));
  const auto ours = [&](std::size_t row) {
    const OpMemory& op = ops[static_cast<std::size_t>(about[row])];
    return column.before ? op.before : op.after;
  };
  for (std::size_t row = 0; row < about.size(); ++row) {
    const Bytes theirs = column.rows[row].bytes;
    found.theirs[static_cast<std::size_t>(about[row])] = theirs;
    if (row == 0) found.base = ours(0) - theirs;
    if (ours(row) - theirs == found.base) {
      ++found.equal;
      continue;
    }
    if (found.first_difference) continue;
    const Bytes apart = ours(row) - theirs - found.base;
    // A row before its op shows what the ops up to the one before it did.
    const std::int32_t from = row == 0 ? 0 : about[row - 1] + (column.before ? 0 : 1);
    const std::int32_t to = about[row] - (column.before ? 1 : 0);
    found.first_difference = OpId(about[row]);
    found.apart = apart;
    found.cause =
        cause_of(trace, from, to, apart < Bytes(0) ? Bytes(0) - apart : apart, apart > Bytes(0));
  }
  return found;
}

}  // namespace trainwright
