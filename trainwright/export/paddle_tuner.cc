// Layouts for PaddlePaddle's own tuner, by paddle.distributed.auto_tuner of 3.3.1: utils.py
// load_configs_from_csv, default_candidates and gen_new_args, search.py CustomizeSearch.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "trainwright/base/text.h"
#include "trainwright/export/export.h"

namespace trainwright {
namespace {

constexpr std::array<std::string_view, 9> kColumns = {
    "dp_degree",      "mp_degree",        "pp_degree",
    "vpp_degree",     "micro_batch_size", "sharding_degree",
    "sharding_stage", "use_recompute",    "recompute_granularity"};
constexpr std::size_t kNumbers = 7;  // of them, the first
using Row = std::array<std::string, kColumns.size()>;

std::optional<std::string> granularity(const Recompute& recompute) {
  if (recompute.kind == RecomputeKind::None) return "";
  if (recompute.kind == RecomputeKind::Selective) return "core_attn";
  if (recompute.kind == RecomputeKind::Full && recompute.n == 1) return "full";
  return std::nullopt;
}

// Nothing where the tuner has no word for part of it. It switches sequence parallelism on with
// tensor parallelism. Overlaps are settings of all its trials alike.
std::optional<Row> row_of(const Layout& layout) {
  constexpr Flags<Switch> kAlike{Switch::OverlapTp, Switch::OverlapGradientReduce,
                                 Switch::OverlapParameterGather, Switch::OverlapP2p};
  const auto granular = granularity(layout.recompute);
  const bool usual_schedule = layout.schedule == ScheduleKind::None ||
                              layout.schedule == ScheduleKind::OneFOneB ||
                              layout.schedule == ScheduleKind::InterleavedOneFOneB;
  const bool even = layout.layers.empty() && layout.recompute_by_stage.empty() &&
                    layout.first_layers == 0 && layout.last_layers == 0;
  const bool plain = layout.cp == 1 && layout.ep == 1 && layout.sp == (layout.tp > 1) &&
                     layout.offload == Flags<Offload>{} && (layout.on.bits & ~kAlike.bits) == 0;
  if (!granular || !usual_schedule || !even || !plain) return std::nullopt;
  const std::int64_t shards = layout.zero > 0 ? layout.dp / layout.dp_replicate : 1;
  const auto text = [](std::int64_t number) { return std::to_string(number); };
  return Row{text(layout.dp / shards),
             text(layout.tp),
             text(layout.pp),
             text(layout.vpp),
             text(layout.mbs),
             text(shards),
             text(std::max<std::int64_t>(layout.zero, 1)),
             granular->empty() ? "false" : "true",
             *granular};
}

// What the tuner's rules divide by; of the first layer that has it.
Json model_json(const Model& model, const Layout& layout) {
  Json json = Json::object();
  json.add("hidden_size", Json::of(model.hidden))
      .add("num_layers", Json::of(std::int64_t{std::ssize(model.layers)}))
      .add("vocab_size", Json::of(model.vocabulary));
  for (const LayerKind& kind : model.kinds) {
    const auto* attention = std::get_if<SoftmaxAttention>(&kind.attention);
    if (attention == nullptr) continue;
    json.add("num_attention_heads", Json::of(attention->heads));
    break;
  }
  for (const LayerKind& kind : model.kinds) {
    const auto* mlp = std::get_if<Mlp>(&kind.feed_forward);
    if (mlp == nullptr) continue;
    json.add("intermediate_size", Json::of(mlp->width));
    break;
  }
  return json.add("seq_length", Json::of(layout.seq))
      .add("max_sequence_length", Json::of(layout.seq))
      .add("global_batch_size", Json::of(layout.gbs));
}

Json value_of(std::size_t column, const std::string& text) {
  if (column < kNumbers) return Json::of(*parse_integer(text));
  return text == "true" || text == "false" ? Json::of(text == "true") : Json::of(text);
}

// The values of a column that any row has, for `grid`.
Json values_of(std::size_t column, std::span<const Row> rows) {
  std::vector<std::string> seen;
  for (const Row& row : rows) {
    const bool known = std::find(seen.begin(), seen.end(), row[column]) != seen.end();
    if (!known && !row[column].empty()) seen.push_back(row[column]);
  }
  Json list = Json::array();
  for (const std::string& text : seen) list.push(value_of(column, text));
  return list;
}

}  // namespace

std::vector<Artefact> paddle_tuner_files(const Model& model, std::span<const Layout> layouts,
                                         const std::string& folder) {
  std::vector<Row> rows;
  for (const Layout& layout : layouts) {
    auto row = row_of(layout);
    if (row && std::find(rows.begin(), rows.end(), *row) == rows.end()) rows.push_back(*row);
  }
  if (rows.empty()) return {};
  std::string table = fmt::format("{}\n", fmt::join(kColumns, ","));
  for (const Row& row : rows) table += fmt::format("{}\n", fmt::join(row, ","));
  Json json = Json::object();
  json.add("search_algo", Json::object().add("name", Json::of("customize")))
      .add("configs_csv", Json::of(folder + "/auto_tuner.csv"))
      .add("task_limit", Json::of(std::int64_t{std::ssize(rows)}))  // Past the last row it fails.
      .add("use_sequence_parallel", Json::of(true))
      .add("model_cfg", model_json(model, layouts.front()));
  for (std::size_t column = 0; column < kColumns.size(); ++column) {
    json.add(std::string(kColumns[column]), values_of(column, rows));
  }
  return {{"auto_tuner.csv", table}, {"auto_tuner.json", to_text(json)}};
}

}  // namespace trainwright
