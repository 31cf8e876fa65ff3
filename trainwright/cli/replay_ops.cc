// `trainwright replay --ops`: every op, its memory, and somebody else's column beside it.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "trainwright/base/csv.h"
#include "trainwright/base/text.h"
#include "trainwright/cli/replay.h"
#include "trainwright/report/report.h"

namespace trainwright::cli {
namespace {

std::string name_of_op(const Trace& trace, OpId op) {
  const TraceTextId name = trace.ops[op.at()].name;
  return name.index() < 0 ? "(unnamed)" : trace.texts[name.at()];
}

// What an op writes into: "op 2 mean", or the name of what was there before the first op.
std::string overwritten_title(const Trace& trace, StorageId id) {
  if (id.index() < 0) return "";
  const Storage& storage = trace.storages[id.at()];
  if (storage.made_by.index() >= 0) {
    return fmt::format("{} {}", storage.made_by.index(), name_of_op(trace, storage.made_by));
  }
  return storage.name.index() < 0 ? "(unnamed)" : trace.texts[storage.name.at()];
}

std::string bytes_or_nothing(Bytes bytes) {
  return bytes == Bytes(0) ? "" : with_thousands(bytes.value());
}

// What the replay has more than the column, beside its zero: "=" where they are equal.
std::string apart_text(const OpMemory& op, Bytes theirs, const ColumnBeside& beside) {
  const Bytes apart = (beside.before ? op.before : op.after) - theirs - beside.base;
  return apart == Bytes(0)
             ? "="
             : fmt::format("{}{}", apart > Bytes(0) ? "+" : "", with_thousands(apart.value()));
}

std::string verdict(const Trace& trace, const ColumnBeside& beside) {
  const auto rows = static_cast<std::int64_t>(
      std::count_if(beside.theirs.begin(), beside.theirs.end(),
                    [](const auto& theirs) { return theirs.has_value(); }));
  std::string text = fmt::format("{} of {} rows are equal to the byte",
                                 with_thousands(beside.equal), with_thousands(rows));
  if (beside.base != Bytes(0)) {
    const bool more = beside.base > Bytes(0);
    text += fmt::format("; the column counts from another zero: {} bytes {} in the first row",
                        with_thousands(more ? beside.base.value() : -beside.base.value()),
                        more ? "less" : "more");
  }
  text += ".\n";
  if (!beside.first_difference) return text;
  const bool more = beside.apart > Bytes(0);
  return text +
         fmt::format(
             "The first difference is at op {} {}: the column has {} bytes {}.\nCause: {}.\n",
             beside.first_difference->index(), name_of_op(trace, *beside.first_difference),
             with_thousands(more ? beside.apart.value() : -beside.apart.value()),
             more ? "less" : "more", beside.cause);
}

}  // namespace

std::string ops_text(const Trace& trace, const std::vector<OpMemory>& ops,
                     const std::optional<ColumnBeside>& beside, int width) {
  // Beside a column the one that is compared; what stands before an op is what the op before it
  // left.
  Table table{{{"op", Align::Wrap}}, {}};
  const auto column = [&](const char* name) { table.columns.push_back({name, Align::Right}); };
  const bool before = !beside || beside->before, after = !beside || !beside->before;
  if (before) column("before");
  column("allocates");
  column("frees");
  if (after) column("after");
  if (beside) column("beside");
  if (beside) column("here");
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const OpMemory& op = ops[i];
    std::string name =
        fmt::format("{:>3} {}", i, name_of_op(trace, OpId(static_cast<std::int32_t>(i))));
    if (op.overwrites.index() >= 0)
      name += fmt::format(" (into {})", overwritten_title(trace, op.overwrites));
    std::vector<std::string> row = {std::move(name)};
    if (before) row.push_back(with_thousands(op.before.value()));
    row.push_back(bytes_or_nothing(op.allocated));
    row.push_back(bytes_or_nothing(op.freed));
    if (after) row.push_back(with_thousands(op.after.value()));
    if (beside) {
      const auto& theirs = beside->theirs[i];
      row.push_back(theirs ? with_thousands(theirs->value()) : "");
      row.push_back(theirs ? apart_text(op, *theirs, *beside) : "");
    }
    table.rows.push_back(std::move(row));
  }
  std::string text =
      fmt::format("{}: {} ops; bytes\n\n", trace.program, with_thousands(std::ssize(ops))) +
      to_text(table, width);
  if (beside) text += "\n" + verdict(trace, *beside);
  return text;
}

std::string ops_csv(const Trace& trace, const std::vector<OpMemory>& ops,
                    const std::optional<ColumnBeside>& beside) {
  std::string text = "index,op,phase,before,allocated,freed,after,writes_into";
  text += beside ? ",beside\n" : "\n";
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const OpMemory& op = ops[i];
    const OpId id(static_cast<std::int32_t>(i));
    text += fmt::format("{},{},{},{},{},{},{},{}", i, csv_cell(name_of_op(trace, id)),
                        name_of(trace.ops[i].phase), op.before.value(), op.allocated.value(),
                        op.freed.value(), op.after.value(),
                        csv_cell(overwritten_title(trace, op.overwrites)));
    if (beside) text += beside->theirs[i] ? fmt::format(",{}", beside->theirs[i]->value()) : ",";
    text += '\n';
  }
  return text;
}

Json ops_json(const Trace& trace, const std::vector<OpMemory>& ops,
              const std::optional<ColumnBeside>& beside) {
  Json list = Json::array();
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const OpMemory& op = ops[i];
    Json row = Json::object();
    row.add("name", Json::of(name_of_op(trace, OpId(static_cast<std::int32_t>(i)))))
        .add("phase", Json::of(name_of(trace.ops[i].phase)))
        .add("before", Json::of(op.before.value()))
        .add("allocated", Json::of(op.allocated.value()))
        .add("freed", Json::of(op.freed.value()))
        .add("after", Json::of(op.after.value()))
        .add("writes_into", op.overwrites.index() < 0
                                ? Json{}
                                : Json::of(overwritten_title(trace, op.overwrites)));
    if (beside)
      row.add("beside", beside->theirs[i] ? Json::of(beside->theirs[i]->value()) : Json{});
    list.push(std::move(row));
  }
  Json json = Json::object();
  json.add("program", Json::of(trace.program)).add("ops", std::move(list));
  if (!beside) return json;
  Json difference;
  if (beside->first_difference) {
    difference = Json::object();
    difference.add("op", Json::of(beside->first_difference->index()))
        .add("bytes_more_here", Json::of(beside->apart.value()))
        .add("cause", Json::of(beside->cause));
  }
  json.add("equal_rows", Json::of(beside->equal))
      .add("base", Json::of(beside->base.value()))
      .add("first_difference", std::move(difference));
  return json;
}

}  // namespace trainwright::cli
