// A layout as JSON and as text; the text is the same entries on one line.
#include <fmt/format.h>

#include "trainwright/base/text.h"
#include "trainwright/layout/entries.h"
#include "trainwright/layout/kinds.h"
#include "trainwright/layout/layout.h"

namespace trainwright {
namespace {

void add_unless(Json& json, const char* key, std::int64_t value, std::int64_t usual) {
  if (value != usual) json.add(key, Json::of(value));
}

template <class E>
void add_unless(Json& json, const char* key, E kind, E usual) {
  if (kind != usual) json.add(key, Json::of(name_of(kind)));
}

template <class E>
void add_set(Json& json, const char* key, Flags<E> set) {
  if (set.empty()) return;
  Json names = Json::array();
  for (const std::string& name : detail::names_in(set)) names.push(Json::of(name));
  json.add(key, std::move(names));
}

// Equal neighbours are written once, with a count. A list of one keeps its count, because without
// one it would read as a value for all stages.
template <class T, class Text>
Json run_lengths(const std::vector<T>& list, Text text) {
  Json runs = Json::array();
  for (std::size_t i = 0; i < list.size();) {
    std::size_t end = i + 1;
    while (end < list.size() && list[end] == list[i]) ++end;
    const std::string item = text(list[i]);
    const bool counted = end - i > 1 || list.size() == 1;
    runs.push(Json::of(counted ? fmt::format("{}*{}", item, end - i) : item));
    i = end;
  }
  return runs;
}

void add_sharding(Json& json, const Layout& layout) {
  const ShardingKind implied = layout.zero == 0 ? ShardingKind::Ddp : ShardingKind::Zero;
  if (layout.zero != 0 || layout.sharding != implied) json.add("zero", Json::of(layout.zero));
  add_unless(json, "sharding", layout.sharding, implied);
  add_unless(json, "dp_replicate", layout.dp_replicate, 1);
}

void add_stages(Json& json, const Layout& layout) {
  if (!layout.recompute_by_stage.empty()) {
    json.add("recompute",
             run_lengths(layout.recompute_by_stage, [](const Recompute& r) { return to_text(r); }));
  } else if (layout.recompute != Recompute{}) {
    json.add("recompute", Json::of(to_text(layout.recompute)));
  }
  add_unless(json, "first_layers", layout.first_layers, 0);
  add_unless(json, "last_layers", layout.last_layers, 0);
  if (!layout.layers.empty()) {
    json.add("layers",
             run_lengths(layout.layers, [](std::int64_t count) { return std::to_string(count); }));
  }
  add_unless(json, "count_embedding", layout.count_embedding, 0);
  add_unless(json, "count_loss", layout.count_loss, 0);
  if (layout.mtp_stage) json.add("mtp_stage", Json::of(*layout.mtp_stage));
  if (layout.vocab_parallel) json.add("vocab_parallel", Json::of(true));
}

void add_pipeline(Json& json, const Layout& layout) {
  add_unless(json, "schedule", layout.schedule, usual_schedule(layout.pp, layout.vpp));
  add_unless(json, "placement", layout.placement, usual_placement(layout.schedule, layout.vpp));
  add_unless(json, "micro_batch_group", layout.micro_batch_group, 0);
}

}  // namespace

std::string to_text(const Recompute& recompute) {
  std::string text(name_of(recompute.kind));
  if (recompute.kind == RecomputeKind::Modules) {
    text += ":" + join(detail::names_in(recompute.modules), "+");
  }
  const bool counted =
      recompute.kind == RecomputeKind::EveryNth || recompute.kind == RecomputeKind::Block;
  if (counted || recompute.n != 1) text += fmt::format(":{}", recompute.n);
  return text;
}

std::string to_text(const RankOrder& order) {
  std::vector<std::string> names;
  for (const Axis axis : order) names.emplace_back(name_of(axis));
  return join(names, "-");
}

Json to_json(const Layout& layout) {
  const Layout usual;
  Json json = Json::object();
  json.add("tp", Json::of(layout.tp)).add("pp", Json::of(layout.pp));
  add_unless(json, "vpp", layout.vpp, 1);
  json.add("dp", Json::of(layout.dp));
  add_unless(json, "cp", layout.cp, 1);
  add_unless(json, "ep", layout.ep, 1);
  add_unless(json, "etp", layout.etp, layout.tp);
  if (layout.sp) json.add("sp", Json::of(true));
  add_sharding(json, layout);
  json.add("mbs", Json::of(layout.mbs)).add("gbs", Json::of(layout.gbs));
  json.add("seq", Json::of(layout.seq));
  add_stages(json, layout);
  add_pipeline(json, layout);
  add_set(json, "offload", layout.offload);
  add_unless(json, "precision", layout.precision, usual.precision);
  add_unless(json, "cp_kind", layout.cp_kind, usual.cp_kind);
  add_unless(json, "cp_ulysses", layout.cp_ulysses, 0);
  add_unless(json, "dispatcher", layout.dispatcher, usual.dispatcher);
  add_set(json, "on", layout.on);
  add_set(json, "off", layout.off);
  if (layout.max_connections) json.add("max_connections", Json::of(*layout.max_connections));
  if (layout.order != usual.order) json.add("order", Json::of(to_text(layout.order)));
  return json;
}

std::string to_text(const Layout& layout) {
  return detail::text_of_entries(to_json(layout), {"layers", "recompute"});
}

}  // namespace trainwright
