// A layout as JSON and as text; the text is the same entries on one line.
#include <fmt/format.h>

#include "trainwright/base/text.h"
#include "trainwright/layout/entries.h"
#include "trainwright/layout/kinds.h"
#include "trainwright/layout/layout.h"

namespace trainwright {
namespace {

// The entries of a layout; what reads the same when it is left out is, unless all are asked for.
struct Entries {
  bool all = false;
  Json json = Json::object();

  void add(const char* key, std::int64_t value) { json.add(key, Json::of(value)); }
  void add_unless(const char* key, std::int64_t value, std::int64_t usual) {
    if (all || value != usual) add(key, value);
  }
  template <class E>
  void add_unless(const char* key, E kind, E usual) {
    if (all || kind != usual) json.add(key, Json::of(name_of(kind)));
  }
  template <class E>
  void add_set(const char* key, Flags<E> set) {
    if (set.empty()) return;
    Json names = Json::array();
    for (const std::string& name : detail::names_in(set)) names.push(Json::of(name));
    json.add(key, std::move(names));
  }
};

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

void add_degrees(Entries& to, const Layout& layout) {
  to.add("tp", layout.tp);
  to.add("pp", layout.pp);
  to.add_unless("vpp", layout.vpp, 1);
  to.add("dp", layout.dp);
  to.add_unless("cp", layout.cp, 1);
  to.add_unless("ep", layout.ep, 1);
  to.add_unless("etp", layout.etp, layout.tp);
  if (to.all || layout.sp) to.json.add("sp", Json::of(layout.sp));
}

void add_sharding(Entries& to, const Layout& layout) {
  const ShardingKind implied = layout.zero == 0 ? ShardingKind::Ddp : ShardingKind::Zero;
  // Without the gather a trainer may do without the distributed optimizer that it has unasked.
  const bool unusual = layout.off.has(Switch::OverlapParameterGather);
  if (to.all || layout.zero != 0 || layout.sharding != implied || unusual) {
    to.add("zero", layout.zero);
  }
  to.add_unless("sharding", layout.sharding, implied);
  to.add_unless("dp_replicate", layout.dp_replicate, 1);
}

void add_stages(Entries& to, const Layout& layout) {
  if (!layout.recompute_by_stage.empty()) {
    to.json.add("recompute", run_lengths(layout.recompute_by_stage,
                                         [](const Recompute& r) { return to_text(r); }));
  } else if (to.all || layout.recomputes_unasked || layout.recompute != Recompute{}) {
    to.json.add("recompute", Json::of(to_text(layout.recompute)));
  }
  to.add_unless("first_layers", layout.first_layers, 0);
  to.add_unless("last_layers", layout.last_layers, 0);
  if (!layout.layers.empty()) {
    to.json.add("layers", run_lengths(layout.layers,
                                      [](std::int64_t count) { return std::to_string(count); }));
  }
  to.add_unless("count_embedding", layout.count_embedding, 0);
  to.add_unless("count_loss", layout.count_loss, 0);
  if (layout.mtp_stage) to.add("mtp_stage", *layout.mtp_stage);
  if (to.all || layout.vocab_parallel) {
    to.json.add("vocab_parallel", Json::of(layout.vocab_parallel));
  }
}

void add_pipeline(Entries& to, const Layout& layout) {
  to.add_unless("schedule", layout.schedule, usual_schedule(layout.pp, layout.vpp));
  to.add_unless("placement", layout.placement, usual_placement(layout.schedule, layout.vpp));
  to.add_unless("micro_batch_group", layout.micro_batch_group, 0);
}

void add_kinds(Entries& to, const Layout& layout) {
  const Layout usual;
  to.add_set("offload", layout.offload);
  to.add_unless("precision", layout.precision, usual.precision);
  to.add_unless("gradients", layout.gradients, usual.gradients);
  to.add_unless("cp_kind", layout.cp_kind, usual.cp_kind);
  to.add_unless("cp_ulysses", layout.cp_ulysses, 0);
  to.add_unless("dispatcher", layout.dispatcher, usual.dispatcher);
  to.add_set("on", layout.on);
  to.add_set("off", layout.off);
  if (!layout.loss.empty()) to.json.add("loss", Json::of(layout.loss));
  if (layout.max_connections) to.add("max_connections", *layout.max_connections);
  if (to.all || layout.order != usual.order) to.json.add("order", Json::of(to_text(layout.order)));
}

Json entries_of(const Layout& layout, bool all) {
  Entries to{.all = all};
  add_degrees(to, layout);
  add_sharding(to, layout);
  to.add("mbs", layout.mbs);
  to.add("gbs", layout.gbs);
  to.add("seq", layout.seq);
  add_stages(to, layout);
  add_pipeline(to, layout);
  add_kinds(to, layout);
  return std::move(to.json);
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

Json to_json(const Layout& layout) { return entries_of(layout, false); }

Json detail::all_entries(const Layout& layout) { return entries_of(layout, true); }

std::string to_text(const Layout& layout) {
  return detail::text_of_entries(to_json(layout), {"layers", "recompute"});
}

}  // namespace trainwright
