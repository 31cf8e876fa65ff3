// A layout as text and back. The same entries, read from an object, are its JSON form.
#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/layout/entries.h"
#include "trainwright/layout/kinds.h"
#include "trainwright/layout/layout.h"

namespace trainwright {
namespace {

using detail::Entry;
using detail::EntryReader;

// Longest list of stages that is read: 1,024 pipeline ranks x 8 chunks is 8,192.
constexpr std::int64_t kMostListed = 65'536;

template <class T>
void assign(T& field, const std::optional<T>& value) {
  if (value) field = *value;
}

bool takes_number(RecomputeKind kind) {
  return kind == RecomputeKind::EveryNth || kind == RecomputeKind::Block ||
         kind == RecomputeKind::Full;
}

// "modules:norm+moe", "block:4" and so on, one stage's worth.
std::optional<Recompute> one_recompute(EntryReader& reader, const Entry& entry,
                                       std::string_view text) {
  const std::size_t colon = text.find(':');
  const auto kind = reader.one_of<RecomputeKind>(entry, trim(text.substr(0, colon)));
  if (!kind) return std::nullopt;
  Recompute recompute{.kind = *kind, .modules = {}};
  if (colon == std::string_view::npos) {
    const bool whole = !takes_number(*kind) || *kind == RecomputeKind::Full;
    if (whole && *kind != RecomputeKind::Modules) return recompute;
  } else if (*kind == RecomputeKind::Modules) {
    const auto modules = reader.members<RecomputeModule>(entry, trim(text.substr(colon + 1)));
    if (!modules) return std::nullopt;
    recompute.modules = *modules;
    return recompute;
  } else if (takes_number(*kind)) {
    const auto number =
        reader.number_in(entry, trim(text.substr(colon + 1)), {.least = 1, .most = kMostDegree});
    if (!number) return std::nullopt;
    recompute.n = *number;
    return recompute;
  }
  reader.fault(entry, fmt::format("'{}' is not a way to recompute", text),
               "for example selective, full, block:4, every-nth:2 or modules:norm+moe");
  return std::nullopt;
}

// The parts of a list with their repeats: "5/6*14/3".
struct Repeated {
  std::string_view text;
  std::int64_t times = 1;
};
std::optional<std::vector<Repeated>> repeated(EntryReader& reader, const Entry& entry) {
  std::vector<Repeated> parts;
  std::int64_t total = 0;
  for (const std::string_view part : split(*entry.value, '/')) {
    const std::size_t star = part.find('*');
    Repeated item{.text = trim(part.substr(0, star))};
    if (star != std::string_view::npos) {
      const auto times = reader.number_in(entry, trim(part.substr(star + 1)), {1, kMostListed});
      if (!times) return std::nullopt;
      item.times = *times;
    }
    total += item.times;
    parts.push_back(item);
    if (total > kMostListed) {
      reader.fault(entry, fmt::format("more than {} stages are listed", kMostListed));
      return std::nullopt;
    }
  }
  return parts;
}

void read_recompute(EntryReader& reader, Layout& layout) {
  const Entry* entry = reader.with_value("recompute");
  if (entry == nullptr) return;
  const auto parts = repeated(reader, *entry);
  if (!parts) return;
  const bool single = parts->size() == 1 && entry->value->find('*') == std::string::npos;
  for (const Repeated& part : *parts) {
    const auto recompute = one_recompute(reader, *entry, part.text);
    if (!recompute) continue;
    if (single) {
      layout.recompute = *recompute;
    } else {
      layout.recompute_by_stage.insert(layout.recompute_by_stage.end(),
                                       static_cast<std::size_t>(part.times), *recompute);
    }
  }
}

void read_layers(EntryReader& reader, Layout& layout) {
  const bool even = layout.pp > 1 && !reader.has("layers") && !reader.has("first_layers") &&
                    !reader.has("last_layers");
  if (!even) layout.count_embedding = layout.count_loss = 0;
  assign(layout.first_layers, reader.integer("first_layers"));
  assign(layout.last_layers, reader.integer("last_layers"));
  assign(layout.count_embedding, reader.flag_or_integer("count_embedding"));
  assign(layout.count_loss, reader.flag_or_integer("count_loss"));
  if (const auto stage = reader.integer("mtp_stage")) layout.mtp_stage = stage;
  layout.vocab_parallel = reader.flag("vocab_parallel");
  const Entry* entry = reader.with_value("layers");
  if (entry == nullptr) return;
  const auto parts = repeated(reader, *entry);
  if (!parts) return;
  for (const Repeated& part : *parts) {
    const auto count = reader.number_in(*entry, part.text, {.least = 0, .most = kMostDegree});
    if (!count) continue;
    layout.layers.insert(layout.layers.end(), static_cast<std::size_t>(part.times), *count);
  }
}

// Trainers without cp or ep do not name them; they then follow their neighbour of the usual order.
std::optional<RankOrder> order_of(std::string_view text) {
  std::vector<Axis> axes;
  const auto has = [&axes](Axis axis) {
    return std::find(axes.begin(), axes.end(), axis) != axes.end();
  };
  for (const std::string_view name : split(text, '-')) {
    const auto axis = named<Axis>(name);
    if (!axis || has(*axis)) return std::nullopt;
    axes.push_back(*axis);
  }
  if (!has(Axis::Tp) || !has(Axis::Dp) || !has(Axis::Pp)) return std::nullopt;
  if (!has(Axis::Cp)) axes.insert(std::find(axes.begin(), axes.end(), Axis::Tp) + 1, Axis::Cp);
  if (!has(Axis::Ep)) axes.insert(std::find(axes.begin(), axes.end(), Axis::Cp) + 1, Axis::Ep);
  RankOrder order{};
  std::copy(axes.begin(), axes.end(), order.begin());
  return order;
}

void read_order(EntryReader& reader, Layout& layout) {
  const Entry* entry = reader.with_value("order");
  if (entry == nullptr) return;
  const auto order = order_of(*entry->value);
  assign(layout.order, order);
  if (order) return;
  reader.fault(*entry, "an order names tp, dp and pp, and if need be cp and ep, once each",
               "for example tp-cp-ep-dp-pp");
}

// zero and sharding imply each other; `fsdp` and `hsdp` alone are short for sharding=...
void read_sharding(EntryReader& reader, Layout& layout, std::vector<std::string>& notes) {
  const auto zero = reader.integer("zero");
  auto kind = reader.kind<ShardingKind>("sharding");
  const bool fsdp = reader.flag("fsdp");
  const bool hsdp = reader.flag("hsdp");
  if ((fsdp || hsdp) && (reader.has("sharding") || (fsdp && hsdp))) {
    reader.fault(*reader.raw(fsdp ? "fsdp" : "hsdp"), "sharding is given twice");
  }
  if (fsdp) kind = ShardingKind::Fsdp;
  if (hsdp) kind = ShardingKind::Hsdp;
  if (kind) {
    layout.sharding = *kind;
    layout.zero = *kind == ShardingKind::Ddp ? 0 : *kind == ShardingKind::Zero ? 1 : 3;
  } else if (!zero && layout.zero > 0) {
    notes.push_back(fmt::format("zero={}: as the trainer does unasked", layout.zero));
  } else if (zero) {
    layout.sharding = *zero == 0 ? ShardingKind::Ddp : ShardingKind::Zero;
  }
  assign(layout.zero, zero);
}

void read_pipeline(EntryReader& reader, Layout& layout, std::vector<std::string>& notes) {
  const auto schedule = reader.kind<ScheduleKind>("schedule");
  const auto placement = reader.kind<StagePlacement>("placement");
  layout.schedule = schedule.value_or(usual_schedule(layout.pp, layout.vpp));
  layout.placement = placement.value_or(usual_placement(layout.schedule, layout.vpp));
  assign(layout.micro_batch_group, reader.integer("micro_batch_group"));
  if (!schedule && layout.pp > 1) {
    notes.push_back(fmt::format("schedule={}: the default for pp {} and vpp {}",
                                name_of(layout.schedule), layout.pp, layout.vpp));
  }
}

// dp = dp_shard x dp_replicate. What is not given follows from the others or from the world; where
// no dp fills the world, the largest that it holds, which is not legal ("world-splits").
void read_dp(EntryReader& reader, Layout& layout, std::optional<std::int64_t> world,
             std::vector<std::string>& notes) {
  const auto dp = reader.integer("dp");
  const auto shard = reader.integer("dp_shard");
  const auto replicate = reader.integer("dp_replicate");
  const bool asked = reader.has("dp");
  const std::int64_t model = layout.tp * layout.pp;  // at most 2^48
  if (dp) {
    layout.dp = *dp;
  } else if (shard && (replicate || !world)) {
    layout.dp = std::min(*shard * replicate.value_or(1), kMostDegree);
    notes.push_back(fmt::format("dp={}: dp_shard x dp_replicate", layout.dp));
  } else if (world && !asked) {
    layout.dp = std::max<std::int64_t>(*world / model / layout.cp, 1);
    const bool fills = *world % model == 0 && *world / model % layout.cp == 0;
    notes.push_back(fmt::format("dp={}: {}{} accelerator{} / (tp {} x pp {} x cp {})", layout.dp,
                                fills ? "" : "at most ", *world, *world == 1 ? "" : "s", layout.tp,
                                layout.pp, layout.cp));
  } else if (!asked) {
    layout.dp = replicate.value_or(1);
    notes.push_back(fmt::format("dp={}: not given, and no cluster to fill", layout.dp));
  }
  layout.dp_replicate =
      replicate.value_or(shard ? std::max<std::int64_t>(1, layout.dp / *shard) : 1);
  if (shard && layout.dp != *shard * layout.dp_replicate) {
    reader.fault(*reader.raw("dp_shard"), fmt::format("dp_shard {} x dp_replicate {} is not dp {}",
                                                      *shard, layout.dp_replicate, layout.dp));
  }
}

void read_degrees(EntryReader& reader, Layout& layout, std::vector<std::string>& notes) {
  assign(layout.tp, reader.integer("tp"));
  assign(layout.pp, reader.integer("pp"));
  assign(layout.cp, reader.integer("cp"));
  assign(layout.vpp, reader.integer("vpp"));
  assign(layout.ep, reader.integer("ep"));
  layout.sp = reader.flag("sp");
  layout.etp = reader.integer("etp").value_or(layout.tp);
  if (!reader.has("etp") && layout.tp > 1 && layout.ep > 1) {
    notes.push_back(fmt::format("etp={}: as tp", layout.etp));
  }
}

void read_batch(EntryReader& reader, Layout& layout, std::vector<std::string>& notes) {
  assign(layout.mbs, reader.integer("mbs"));
  assign(layout.seq, reader.integer("seq"));
  const auto gbs = reader.integer("gbs");
  layout.gbs = gbs.value_or(std::min(layout.mbs * layout.dp, kMostBatch));
  if (!reader.has("gbs")) {
    notes.push_back(
        fmt::format("gbs={}: one micro-batch for each of dp {}", layout.gbs, layout.dp));
  }
}

void read_kinds(EntryReader& reader, Layout& layout) {
  assign(layout.offload, reader.set<Offload>("offload"));
  assign(layout.precision, reader.kind<PrecisionKind>("precision"));
  assign(layout.gradients, reader.kind<GradientDtype>("gradients"));
  assign(layout.cp_kind, reader.kind<CpKind>("cp_kind"));
  assign(layout.cp_ulysses, reader.integer("cp_ulysses"));
  assign(layout.dispatcher, reader.kind<DispatcherKind>("dispatcher"));
  assign(layout.on, reader.set<Switch>("on"));
  assign(layout.off, reader.set<Switch>("off"));
  if (const auto* entry = reader.with_value("loss")) layout.loss = *entry->value;
  if (const auto number = reader.integer("max_connections")) {
    layout.max_connections = number;
  }
}

Result<ReadLayout> layout_of(std::vector<Entry> entries, const LayoutContext& context,
                             Diagnostics diagnostics) {
  EntryReader reader(std::move(entries), "layout", layout_keys(), diagnostics);
  ReadLayout read{.layout = context.usual, .notes = {}};
  read_degrees(reader, read.layout, read.notes);
  read_dp(reader, read.layout, context.world, read.notes);
  read_batch(reader, read.layout, read.notes);
  read_sharding(reader, read.layout, read.notes);
  read_recompute(reader, read.layout);
  read_layers(reader, read.layout);
  read_pipeline(reader, read.layout, read.notes);
  read_kinds(reader, read.layout);
  read_order(reader, read.layout);
  // Experts that are not spread have none.
  if (read.layout.ep == 1 && !reader.has("dispatcher")) {
    read.layout.dispatcher = DispatcherKind::AllToAll;
  }
  if (read.layout.dispatcher == DispatcherKind::Flex && context.flex != DispatcherKind::Flex) {
    read.layout.dispatcher = context.flex;
    read.notes.push_back(fmt::format(
        "dispatcher={}: the backend that flex has there, of deepep, hybridep and nccl-ep",
        name_of(context.flex)));
  }
  reader.finish();
  if (!diagnostics.empty()) return fail(std::move(diagnostics));
  return read;
}

}  // namespace

Result<ReadLayout> parse_layout(std::string_view text, const LayoutContext& context) {
  Diagnostics diagnostics;
  auto entries = detail::entries_of_text(text, "layout", diagnostics);
  return layout_of(std::move(entries), context, std::move(diagnostics));
}

Result<ReadLayout> read_layout(const Json& json, const std::string& origin,
                               const LayoutContext& context) {
  Diagnostics diagnostics;
  auto entries = detail::entries_of_json(json, origin, {"layers", "recompute"}, diagnostics);
  return layout_of(std::move(entries), context, std::move(diagnostics));
}

Layout usual_layout(const Trainer& trainer) {
  Layout usual;
  usual.count_embedding = trainer.pipeline.first_stage_less_layers;
  usual.count_loss = trainer.pipeline.last_stage_less_layers;
  assign(usual.order, order_of(trainer.rank_order));
  usual.recompute.kind = trainer.defaults.recompute;
  usual.recomputes_unasked = usual.recompute != Recompute{};
  for (const FlexBackend& backend : trainer.flex_backends) {
    if (backend.use == Use::Always) usual.dispatcher = backend.kind;
  }
  // Weights that are gathered behind the forward pass are those of the distributed optimizer: where
  // the one is on unasked and needs the other, that is on too (Megatron-Bridge's recipes).
  if (has_rule(trainer, "gather-overlap") &&
      overlap_use(trainer, OverlapKind::ParameterGather) == Use::ByDefault) {
    usual.sharding = ShardingKind::Zero;
    usual.zero = 1;
  }
  return usual;
}

}  // namespace trainwright
