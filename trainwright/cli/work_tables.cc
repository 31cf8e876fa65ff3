#include "trainwright/cli/work_tables.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "trainwright/base/text.h"
#include "trainwright/report/report.h"

namespace trainwright::cli {
namespace {

// What an operator adds, for sorting and for its row.
struct Row {
  std::size_t at = 0;
  Flops forward, backward;
  Bytes moved, kept;
};

Bytes moved(const Effort& effort) { return effort.read + effort.written; }

// A kept tensor counts for the operator that made it; the list's input has none.
std::vector<Row> rows_of(const OperatorList& list) {
  std::vector<Row> rows(list.operators.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Operator& op = list.operators[i];
    rows[i] = {i, op.forward.matmul, op.input_gradient.matmul + op.weight_gradient.matmul,
               moved(op.forward), Bytes(0)};
  }
  std::vector<bool> counted(list.tensors.size());
  for (const Kept& kept : kept_tensors(list)) {
    for (std::size_t i = 0; i < rows.size() && !counted[kept.tensor.at()]; ++i) {
      for (const TensorId made : list.operators[i].outputs) {
        if (made != kept.tensor || counted[made.at()]) continue;
        rows[i].kept += list.at(made).bytes();
        counted[made.at()] = true;
      }
    }
  }
  return rows;
}

void sort_rows(std::vector<Row>& rows, const OperatorList& list, WorkSort sort) {
  const auto before = [&](const Row& a, const Row& b) {
    switch (sort) {
      case WorkSort::Order: return false;
      case WorkSort::Flops: return a.forward + a.backward > b.forward + b.backward;
      case WorkSort::Kept: return a.kept > b.kept;
      case WorkSort::Name: return list.operators[a.at].name < list.operators[b.at].name;
    }
    return false;
  };
  std::stable_sort(rows.begin(), rows.end(), before);
}

std::string or_nothing(Flops work) { return work == Flops(0) ? "" : to_text(work); }
std::string or_nothing(Bytes size) { return size == Bytes(0) ? "" : to_text(size); }

std::string_view short_name(Pass pass) {
  switch (pass) {
    case Pass::Forward: return "F";
    case Pass::InputGradient: return "I";
    case Pass::WeightGradient: return "W";
    case Pass::Recompute: return "again";
  }
  return "";
}

std::string_view short_name(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::AllReduce: return "AR";
    case CollectiveKind::AllGather: return "AG";
    case CollectiveKind::ReduceScatter: return "RS";
    case CollectiveKind::AllToAll: return "A2A";
    case CollectiveKind::Ring: return "ring";
  }
  return "";
}

constexpr const char* kLegend =
    "F forward, I input gradient, W weight gradient; AG all-gather, RS reduce-scatter, AR "
    "all-reduce, A2A all-to-all";

// Calls of the same group and size stand together: "tp 128 MiB: F AG, I RS, W AG".
std::string calls_text(const Operator& op) {
  std::vector<std::string> heads;
  std::vector<std::string> texts;
  for (const Collective& call : op.collectives) {
    const std::string head = fmt::format("{} {}", name_of(call.group), to_text(call.bytes));
    const std::string one = fmt::format("{} {}", short_name(call.pass), short_name(call.kind));
    const auto same = std::find(heads.begin(), heads.end(), head);
    if (same == heads.end()) {
      heads.push_back(head);
      texts.push_back(fmt::format("{}: {}", head, one));
    } else {
      texts[static_cast<std::size_t>(same - heads.begin())] += ", " + one;
    }
  }
  return join(texts, "; ");
}

std::string_view again_text(Again again) {
  switch (again) {
    case Again::No: return "";
    case Again::Rerun: return "yes";
    case Again::Discarded: return "output too";
    case Again::Stored: return "stored";
    case Again::Tail: return "not run";
  }
  return "";
}

bool any_again(const OperatorList& list) {
  return std::any_of(list.operators.begin(), list.operators.end(),
                     [](const Operator& op) { return op.again != Again::No; });
}

// The rows of a layer's input, which no operator makes.
Bytes kept_from_before(const std::vector<Row>& rows, Bytes all) {
  for (const Row& row : rows) all -= row.kept;
  return all;
}

}  // namespace

std::string legend_text(int width) { return join(wrapped(kLegend, width), "\n") + '\n'; }

std::string piece_text(const WorkPiece& piece, WorkSort sort, int width) {
  const OperatorList& list = piece.list;
  std::vector<Row> rows = rows_of(list);
  const Bytes before = kept_from_before(rows, piece.totals.kept);
  sort_rows(rows, list, sort);
  const bool again = any_again(list);
  Table table{{{"operator"},
               {"forward", Align::Right},
               {"backward", Align::Right},
               {"moves", Align::Right},
               {"keeps", Align::Right}},
              {}};
  if (again) table.columns.push_back({"again"});
  table.columns.push_back({"collectives", Align::Wrap});
  const auto add = [&](std::vector<std::string> cells, std::string_view mark, std::string calls) {
    if (again) cells.emplace_back(mark);
    cells.push_back(std::move(calls));
    table.rows.push_back(std::move(cells));
  };
  if (before > Bytes(0)) add({"(its input)", "", "", "", to_text(before)}, "", "");
  for (const Row& row : rows) {
    const Operator& op = list.operators[row.at];
    add({std::string(op.name), or_nothing(row.forward), or_nothing(row.backward),
         to_text(row.moved), or_nothing(row.kept)},
        again_text(op.again), calls_text(op));
  }
  table.rows.emplace_back();
  const auto& effort = piece.totals.effort;
  add({"one", to_text(effort[0].matmul), to_text(effort[1].matmul + effort[2].matmul),
       to_text(moved(effort[0])), to_text(piece.totals.kept)},
      "", "");
  std::string heading = piece.what;
  if (piece.count > 1) heading = fmt::format("{} {}s", piece.count, piece.what);
  if (!piece.title.empty()) heading += ": " + piece.title;
  return join(wrapped(heading, width), "\n") + "\n\n" + to_text(table, width);
}

std::string kinds_text(const std::vector<WorkPiece>& pieces, int width) {
  struct Sum {
    Flops forward, backward;
    Bytes moved, kept;
  };
  std::map<OperatorKind, Sum> sums;
  Sum all;
  for (const WorkPiece& piece : pieces) {
    const double count = static_cast<double>(piece.count);
    const auto rows = rows_of(piece.list);
    for (const Row& row : rows) {
      Sum& sum = sums[piece.list.operators[row.at].kind];
      for (Sum* to : {&sum, &all}) {
        to->forward += row.forward * count;
        to->backward += row.backward * count;
        to->moved += row.moved * piece.count;
        to->kept += row.kept * piece.count;
      }
    }
    all.kept += kept_from_before(rows, piece.totals.kept) * piece.count;
  }
  Table table{{{"by kind"},
               {"forward", Align::Right},
               {"backward", Align::Right},
               {"moves", Align::Right},
               {"keeps", Align::Right}},
              {}};
  Bytes inputs = all.kept;
  for (const auto& [kind, sum] : sums) {
    table.rows.push_back({std::string(name_of(kind)), or_nothing(sum.forward),
                          or_nothing(sum.backward), to_text(sum.moved), or_nothing(sum.kept)});
    inputs -= sum.kept;
  }
  table.rows.push_back({"(inputs)", "", "", "", or_nothing(inputs)});
  table.rows.emplace_back();
  table.rows.push_back(
      {"all", to_text(all.forward), to_text(all.backward), to_text(all.moved), to_text(all.kept)});
  return to_text(table, width);
}

namespace {

std::string passes_table(const Totals& sum, int width) {
  Table table{{{"pass"},
               {"products", Align::Right},
               {"other", Align::Right},
               {"reads", Align::Right},
               {"writes", Align::Right}},
              {}};
  for (const Pass pass : kPasses) {
    const Effort& effort = sum.effort[static_cast<std::size_t>(pass)];
    if (pass == Pass::Recompute && effort == Effort{}) continue;
    table.rows.push_back({std::string(name_of(pass)), to_text(effort.matmul), to_text(effort.other),
                          to_text(effort.read), to_text(effort.written)});
  }
  return to_text(table, width);
}

std::string collectives_table(const Totals& sum, int width) {
  Table table{
      {{"collective"}, {"over"}, {"pass"}, {"calls", Align::Right}, {"bytes", Align::Right}}, {}};
  for (const GroupKind group : {GroupKind::Tp, GroupKind::Cp, GroupKind::Ep, GroupKind::Etp}) {
    for (const CollectiveKind kind : kCollectiveKinds) {
      for (const Pass pass : kPasses) {
        const Traffic traffic = sum.traffic.at(group, kind, pass);
        if (traffic.calls == 0) continue;
        table.rows.push_back({std::string(name_of(kind)), std::string(name_of(group)),
                              std::string(name_of(pass)), with_thousands(traffic.calls),
                              to_text(traffic.bytes)});
      }
    }
  }
  return table.rows.empty() ? "" : '\n' + to_text(table, width);
}

}  // namespace

std::string sums_text(const Totals& sum, int width) {
  std::string text = passes_table(sum, width);
  Table table{{{"memory of a micro-batch"}, {"", Align::Right}, {"", Align::Wrap}}, {}};
  const auto add = [&](std::string what, Bytes size, std::string note) {
    table.rows.push_back({std::move(what), to_text(size), std::move(note)});
  };
  add("kept for backward", sum.kept, "from forward to backward");
  if (sum.kept_of_experts > Bytes(0)) {
    add("  of experts", sum.kept_of_experts, "if every expert gets its even share");
  }
  add("  until weights", sum.kept_for_weights, "what the weight gradients need, if they wait");
  add("gradients held", sum.held_gradients, "for weight gradients, if they wait");
  add("forward peak", sum.forward.bytes, "kept, inputs, outputs, workspace");
  add("backward peak", sum.backward.bytes, "kept, run again, gradients, workspace");
  text += '\n' + to_text(table, width);
  text += fmt::format("\nparameters: {}", to_text(both(sum.parameters, &HeldGroup::all)));
  if (sum.parameters.expert.all > Params(0)) {
    text += fmt::format(", of experts {}", to_text(sum.parameters.expert.all));
  }
  text += fmt::format("; on every rank of tp alike {}", to_text(sum.parameters.replicated));
  const HeldParameters& held = sum.parameters;
  const Params adapters = both(held, &HeldGroup::adapters);
  const Params trained = both(held, &HeldGroup::trained);
  if (adapters > Params(0)) text += fmt::format("; adapters {}", to_text(adapters));
  if (trained < both(held, &HeldGroup::all)) {
    text += fmt::format("; trained {}", to_text(trained + adapters));
  }
  text += '\n';
  return text + collectives_table(sum, width);
}

}  // namespace trainwright::cli
