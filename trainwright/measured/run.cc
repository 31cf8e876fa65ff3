// The six kinds of tables, and how their rows become runs.
#include "trainwright/measured/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "trainwright/measured/table.h"

namespace trainwright {
namespace {

using detail::Column;
using detail::TableReader;
using Header = std::span<const std::string_view>;
using Runs = std::vector<MeasuredRun>;

constexpr std::array<Column<MeasuredRun>, 41> kRunColumns{{
    {"source", &MeasuredRun::source, true},
    {"source_ref", &MeasuredRun::source_ref},
    {"model_name", &MeasuredRun::model_name},
    {"params_b", &MeasuredRun::params_b},
    {"layers", &MeasuredRun::layers},
    {"hidden", &MeasuredRun::hidden},
    {"ffn_hidden", &MeasuredRun::ffn_hidden},
    {"heads", &MeasuredRun::heads},
    {"kv_heads", &MeasuredRun::kv_heads},
    {"head_dim", &MeasuredRun::head_dim},
    {"vocab", &MeasuredRun::vocab},
    {"seq_len", &MeasuredRun::seq_len},
    {"moe_experts", &MeasuredRun::moe_experts},
    {"moe_topk", &MeasuredRun::moe_topk},
    {"accelerator", &MeasuredRun::accelerator},
    {"gpus", &MeasuredRun::gpus},
    {"gpus_per_node", &MeasuredRun::gpus_per_node},
    {"inter_node_net", &MeasuredRun::inter_node_net},
    {"intra_node_net", &MeasuredRun::intra_node_net},
    {"precision", &MeasuredRun::precision},
    {"global_batch", &MeasuredRun::global_batch},
    {"micro_batch", &MeasuredRun::micro_batch},
    {"dp", &MeasuredRun::dp},
    {"tp", &MeasuredRun::tp},
    {"pp", &MeasuredRun::pp},
    {"vpp", &MeasuredRun::vpp},
    {"cp", &MeasuredRun::cp},
    {"ep", &MeasuredRun::ep},
    {"sequence_parallel", &MeasuredRun::sequence_parallel},
    {"zero_stage", &MeasuredRun::zero_stage},
    {"recompute", &MeasuredRun::recompute},
    {"attention_kernel", &MeasuredRun::attention_kernel},
    {"schedule", &MeasuredRun::schedule},
    {"framework", &MeasuredRun::framework},
    {"step_time_s", &MeasuredRun::step_time},
    {"tokens_per_s_per_gpu", &MeasuredRun::tokens_per_s_per_gpu},
    {"tflops_per_gpu", &MeasuredRun::tflops_per_gpu},
    {"mfu_pct", &MeasuredRun::mfu_pct},
    {"peak_mem_gb", &MeasuredRun::peak_mem_gb},
    {"outcome", &MeasuredRun::outcome, true},
    {"notes", &MeasuredRun::notes},
}};

// Memory of one rank of one of SimuMax's B200 cases.
struct RankRow {
  std::string source_ref, name, model, parallel;
  std::optional<std::int64_t> layers, micro_batches, pp_comm_async, rank;
  std::optional<double> step_time_ms, allocated_mib, reserved_mib;
};
constexpr std::array<Column<RankRow>, 11> kRankColumns{{
    {"source_ref", &RankRow::source_ref, true},
    {"case", &RankRow::name, true},
    {"model", &RankRow::model, true},
    {"parallel", &RankRow::parallel},
    {"layers", &RankRow::layers, true},
    {"micro_batches", &RankRow::micro_batches, true},
    {"pp_comm_async", &RankRow::pp_comm_async},
    {"step_time_ms", &RankRow::step_time_ms, true},
    {"rank", &RankRow::rank, true},
    {"max_allocated_mib", &RankRow::allocated_mib, true},
    {"max_reserved_mib", &RankRow::reserved_mib, true},
}};

struct SailorRow {
  std::string cluster, model, file, gpu_types, layers_per_stage;
  std::optional<std::int64_t> gpus, nodes, tp, pp, dp, mbs, gbs, seq, peak_bytes;
  std::optional<double> grad_reduce_s;
  std::optional<Seconds> step_time;
};
constexpr std::array<Column<SailorRow>, 16> kSailorColumns{{
    {"cluster", &SailorRow::cluster, true},
    {"model", &SailorRow::model, true},
    {"file", &SailorRow::file, true},
    {"gpus", &SailorRow::gpus, true},
    {"nodes_N", &SailorRow::nodes, true},
    {"gpu_types", &SailorRow::gpu_types, true},
    {"tp", &SailorRow::tp, true},
    {"pp", &SailorRow::pp, true},
    {"dp", &SailorRow::dp, true},
    {"mbs", &SailorRow::mbs, true},
    {"gbs", &SailorRow::gbs, true},
    {"seq", &SailorRow::seq, true},
    {"real_iter_s", &SailorRow::step_time, true},
    {"real_grad_reduce_s", &SailorRow::grad_reduce_s},
    {"real_peak_mem_bytes", &SailorRow::peak_bytes, true},
    {"layers_per_stage", &SailorRow::layers_per_stage, true},
}};

// One card of the 1F1B and ZB-H1 runs on four RTX 3090.
struct CardRow {
  std::string schedule;
  std::optional<std::int64_t> card;
  std::optional<double> allocated_mb, reserved_mb;
};
constexpr std::array<Column<CardRow>, 4> kCardColumns{{
    {"schedule", &CardRow::schedule, true},
    {"card", &CardRow::card, true},
    {"max_memory_allocated_mb", &CardRow::allocated_mb, true},
    {"max_memory_reserved_mb", &CardRow::reserved_mb, true},
}};

// One of nanotron's runs whose time is set apart: its line in that table, and why. The other
// columns repeat the run.
struct ApartRow {
  std::string model, why;
  std::optional<std::int64_t> line, gpus, dp, tp, pp, micro_batch, zero_stage;
  std::optional<double> tokens_per_s_per_gpu;
};
constexpr std::array<Column<ApartRow>, 10> kApartColumns{{
    {"line", &ApartRow::line, true},
    {"model_name", &ApartRow::model},
    {"gpus", &ApartRow::gpus, true},
    {"dp", &ApartRow::dp},
    {"tp", &ApartRow::tp},
    {"pp", &ApartRow::pp},
    {"micro_batch", &ApartRow::micro_batch},
    {"zero_stage", &ApartRow::zero_stage},
    {"tokens_per_s_per_gpu", &ApartRow::tokens_per_s_per_gpu},
    {"why", &ApartRow::why, true},
}};

// A run of one's own.
struct OwnRow {
  std::string source, label, model, on, trainer, layout, job, attention, schedule, kind, measured,
      outcome;
  std::optional<std::int64_t> pipeline_rank;
};
constexpr std::array<Column<OwnRow>, 13> kOwnColumns{{
    {"source", &OwnRow::source, false, true},
    {"label", &OwnRow::label, false, true},
    {"model", &OwnRow::model, true},
    {"on", &OwnRow::on, true},
    {"trainer", &OwnRow::trainer, false, true},
    {"layout", &OwnRow::layout, true},
    {"job", &OwnRow::job, false, true},
    {"attention", &OwnRow::attention, false, true},
    {"schedule", &OwnRow::schedule, false, true},
    {"kind", &OwnRow::kind, false, true},
    {"pipeline_rank", &OwnRow::pipeline_rank, false, true},
    {"measured", &OwnRow::measured},
    {"outcome", &OwnRow::outcome, false, true},
}};

Bytes mebibytes(double count) {
  constexpr double kMost = 1e12;
  return Bytes(std::llround(std::min(count, kMost) * (1 << 20)));
}

std::string place(std::string_view origin, int line) { return fmt::format("{}:{}", origin, line); }

Result<Runs> read_runs(CsvRecords& records, Header header, std::string_view origin) {
  auto rows =
      TW_TRY(TableReader<MeasuredRun>(kRunColumns, std::string(origin)).read(records, header));
  Runs runs;
  runs.reserve(rows.size());
  for (auto& [line, run] : rows) {
    run.origin = place(origin, line);
    runs.push_back(std::move(run));
  }
  return runs;
}

// Rows that follow each other under one key become one run.
MeasuredRun& last_run(Runs& runs, std::string source, std::string source_ref, std::string origin) {
  if (runs.empty() || runs.back().source_ref != source_ref) {
    MeasuredRun& run = runs.emplace_back();
    run.source = std::move(source);
    run.source_ref = std::move(source_ref);
    run.origin = std::move(origin);
  }
  return runs.back();
}

Result<Runs> read_ranks(CsvRecords& records, Header header, std::string_view origin) {
  const auto rows =
      TW_TRY(TableReader<RankRow>(kRankColumns, std::string(origin)).read(records, header));
  Runs runs;
  for (const auto& [line, row] : rows) {
    MeasuredRun& run =
        last_run(runs, "simumax_b200_ranks", fmt::format("{} case {}", row.source_ref, row.name),
                 place(origin, line));
    run.model_name = row.model;
    run.layers = row.layers;
    run.step_time = Seconds(*row.step_time_ms / 1e3);
    run.ranks.push_back({*row.rank, mebibytes(*row.allocated_mib), mebibytes(*row.reserved_mib)});
  }
  return runs;
}

Result<Runs> read_plans(CsvRecords& records, Header header, std::string_view origin) {
  const auto rows =
      TW_TRY(TableReader<SailorRow>(kSailorColumns, std::string(origin)).read(records, header));
  Runs runs;
  Diagnostics diagnostics;
  for (const auto& [line, row] : rows) {
    MeasuredRun& run = runs.emplace_back();
    run.source = "sailor";
    run.source_ref = fmt::format("{}/{}/{}", row.cluster, row.model, row.file);
    run.model_name = row.model;
    run.accelerator = row.gpu_types;
    run.gpus = row.gpus;
    run.seq_len = row.seq;
    run.global_batch = row.gbs;
    run.micro_batch = row.mbs;
    run.dp = row.dp;
    run.tp = row.tp;
    run.pp = row.pp;
    run.step_time = row.step_time;
    run.peak_mem_gb = static_cast<double>(*row.peak_bytes) / 1e9;
    run.origin = place(origin, line);
    for (const std::string_view items : split(row.layers_per_stage, '|')) {
      const auto count = parse_integer(trim(items));
      if (count && *count >= 0 && *count <= detail::kMostWhole) {
        run.stage_items.push_back(*count);
      } else if (diagnostics.size() < detail::kMostTableFaults) {
        diagnostics.push_back({run.origin + " layers_per_stage",
                               fmt::format("'{}' is not a list of counts", row.layers_per_stage),
                               "counts are joined by |, as in 12|14"});
        break;
      }
    }
  }
  if (!diagnostics.empty()) return fail(std::move(diagnostics));
  return runs;
}

Result<Runs> read_cards(CsvRecords& records, Header header, std::string_view origin) {
  const auto rows =
      TW_TRY(TableReader<CardRow>(kCardColumns, std::string(origin)).read(records, header));
  Runs runs;
  for (const auto& [line, row] : rows) {
    MeasuredRun& run =
        last_run(runs, "zbh1_3090", fmt::format("zbh1_3090 {}", row.schedule), place(origin, line));
    run.schedule = row.schedule;
    run.ranks.push_back({*row.card, mebibytes(*row.allocated_mb), mebibytes(*row.reserved_mb)});
  }
  return runs;
}

Result<Runs> read_apart(CsvRecords& records, Header header, std::string_view origin) {
  const auto rows =
      TW_TRY(TableReader<ApartRow>(kApartColumns, std::string(origin)).read(records, header));
  Runs runs;
  for (const auto& [line, row] : rows) {
    MeasuredRun& run = runs.emplace_back();
    run.source = "nanotron_set_apart";
    run.source_ref = fmt::format("nanotron_playbook.csv:{}", *row.line);
    run.gpus = row.gpus;
    run.tp = row.tp;
    run.tokens_per_s_per_gpu = row.tokens_per_s_per_gpu;
    run.set_apart = row.why;
    run.origin = place(origin, line);
  }
  return runs;
}

constexpr std::array<std::pair<std::string_view, MemoryKind>, 5> kOwnKinds{{
    {"", MemoryKind::Driver},
    {"driver", MemoryKind::Driver},
    {"reserved", MemoryKind::Reserved},
    {"allocated", MemoryKind::Allocated},
    {"static", MemoryKind::Static},
}};

// The figure of a row of one's own; faults are added.
void read_figure(const OwnRow& row, MeasuredRun& run, Diagnostics& faults) {
  const auto fault = [&](const char* column, const std::string& cell, const char* hint) {
    faults.push_back({fmt::format("{} {}", run.origin, column),
                      fmt::format("'{}' is not understood", cell), hint});
  };
  const auto kind = std::find_if(kOwnKinds.begin(), kOwnKinds.end(),
                                 [&](const auto& known) { return known.first == trim(row.kind); });
  const bool is_time = trim(row.kind) == "step";
  if (kind == kOwnKinds.end() && !is_time) {
    fault("kind", row.kind, "driver, reserved, allocated, static or step");
  }
  const std::string_view outcome = trim(row.outcome);
  if (!outcome.empty() && outcome != "oom" && outcome != "ok") {
    fault("outcome", row.outcome, "ok or oom");
  }
  if (outcome == "oom") run.outcome = Outcome::Oom;
  if (trim(row.measured).empty() && run.outcome == Outcome::Oom) return;
  if (is_time) {
    const auto time = parse_seconds(trim(row.measured));
    if (!time || *time <= Seconds(0)) fault("measured", row.measured, "for instance 14.2 s");
    if (time) run.step_time = *time;
    return;
  }
  const auto bytes = parse_bytes(trim(row.measured));
  if (!bytes || *bytes <= Bytes(0)) fault("measured", row.measured, "for instance 61.3 GiB");
  if (kind == kOwnKinds.end() || !bytes) return;
  run.readings.push_back({.kind = kind->second,
                          .at = row.pipeline_rank ? ReadAt::PipelineRank : ReadAt::WorstRank,
                          .index = row.pipeline_rank.value_or(0),
                          .size = *bytes,
                          .rounding = Bytes(0)});
}

Result<Runs> read_own(CsvRecords& records, Header header, std::string_view origin) {
  auto rows = TW_TRY(TableReader<OwnRow>(kOwnColumns, std::string(origin)).read(records, header));
  Runs runs;
  Diagnostics faults;
  for (auto& [line, row] : rows) {
    MeasuredRun& run = runs.emplace_back();
    run.source = trim(row.source).empty() ? std::string(origin) : row.source;
    run.origin = place(origin, line);
    run.source_ref = trim(row.label).empty() ? run.origin : row.label;
    run.model_name = row.model;
    run.asked =
        Words{row.model, row.on, row.trainer, row.layout, row.job, row.attention, row.schedule};
    if (faults.size() < detail::kMostTableFaults) read_figure(row, run, faults);
  }
  if (!faults.empty()) return fail(std::move(faults));
  return runs;
}

}  // namespace

std::optional<std::string> column_text(const MeasuredRun& run, std::string_view column) {
  if (column.starts_with("notes.")) return std::string(noted(run.notes, column.substr(6)));
  for (const Column<MeasuredRun>& known : kRunColumns) {
    if (known.name != column) continue;
    return std::visit([&](auto member) { return detail::cell_text(run.*member); }, known.field);
  }
  return std::nullopt;
}

std::vector<std::string> column_names() {
  std::vector<std::string> names;
  for (const Column<MeasuredRun>& known : kRunColumns) names.emplace_back(known.name);
  return names;
}

bool fill_column(MeasuredRun& run, std::string_view column, std::string_view text) {
  for (const Column<MeasuredRun>& known : kRunColumns) {
    if (known.name != column) continue;
    return !std::visit([&](auto member) { return detail::store(text, run.*member); }, known.field);
  }
  return false;
}

Result<std::vector<MeasuredRun>> parse_measured_runs(std::string_view text,
                                                     std::string_view origin) {
  CsvRecords records(text);
  std::vector<std::string> kept;
  while (!records.done()) {
    const auto& cells = records.take();
    const bool comment = trim(cells.front()).starts_with('#');
    if (comment || (cells.size() == 1 && trim(cells.front()).empty())) continue;
    kept.assign(cells.begin(), cells.end());
    break;
  }
  if (kept.empty()) return fail(std::string(origin), "the table has no header");
  const std::vector<std::string_view> header(kept.begin(), kept.end());
  const auto has = [&](std::string_view name) {
    return std::any_of(header.begin(), header.end(),
                       [&](std::string_view cell) { return trim(cell) == name; });
  };
  if (has("layout") && has("on")) return read_own(records, header, origin);
  if (has("max_allocated_mib")) return read_ranks(records, header, origin);
  if (has("real_peak_mem_bytes")) return read_plans(records, header, origin);
  if (has("max_memory_allocated_mb")) return read_cards(records, header, origin);
  if (has("line") && has("why")) return read_apart(records, header, origin);
  return read_runs(records, header, origin);
}

std::string_view noted(std::string_view notes, std::string_view key) {
  for (std::size_t at = notes.find(key); at != std::string_view::npos;
       at = notes.find(key, at + 1)) {
    if (key.empty()) return {};
    const char before = at == 0 ? ' ' : notes[at - 1];
    const std::string_view rest = notes.substr(at + key.size());
    const bool starts = before == ' ' || before == ';' || before == '(' || before == ',';
    if (!starts || rest.empty() || (rest.front() != '=' && rest.front() != ':')) continue;
    return trim(rest.substr(1, std::min(rest.find(';'), rest.size()) - 1));
  }
  return {};
}

}  // namespace trainwright
