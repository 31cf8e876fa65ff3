// Memory for searches: every part of a layout that repeats is looked up.
#include <algorithm>
#include <map>
#include <unordered_map>

#include "trainwright/base/hash.h"
#include "trainwright/memory/peak.h"
#include "trainwright/memory/settle.h"

namespace trainwright {
namespace {

using detail::ChunkBytes;
using detail::Moments;

// What a stage's bytes hang on beside its content.
struct ChunkKey {
  std::int64_t pp = 0;  // where the load of experts hangs on it
  double gradient = 0;  // bytes of one parameter's
  Slice slice;
  friend bool operator==(const ChunkKey&, const ChunkKey&) = default;
};
struct ChunkHash {
  std::size_t operator()(const ChunkKey& key) const {
    Hash hash;
    hash.add(key.pp);
    hash.add(static_cast<std::int64_t>(SliceHash{}(key.slice)));
    return hash.value();
  }
};

// Of one group of ranks, by chunk and by content.
struct GroupMoments {
  Moments by_chunk;
  detail::MomentSums by_content;
};
GroupMoments moments_of_group(const PipelineGroup& group, const std::vector<Moments>& by_rank) {
  std::vector<const Moments*> members;
  for (const std::int64_t rank : group.ranks) {
    members.push_back(&by_rank[static_cast<std::size_t>(rank)]);
  }
  std::vector<std::int32_t> content_of;
  for (const std::size_t chunk : group.chunks) {
    const auto& distinct = group.distinct;
    content_of.push_back(static_cast<std::int32_t>(
        std::find(distinct.begin(), distinct.end(), chunk) - distinct.begin()));
  }
  GroupMoments of{.by_chunk = detail::joined(members), .by_content = {}};
  of.by_content = detail::summed(of.by_chunk, content_of);
  return of;
}

struct JoinedKey {
  std::int64_t inventory = 0;  // its number
  detail::MomentKey moments;
  friend bool operator==(const JoinedKey&, const JoinedKey&) = default;
};
struct JoinedHash {
  std::size_t operator()(const JoinedKey& key) const {
    const detail::MomentKey& of = key.moments;
    Hash hash;
    hash.add(key.inventory);
    hash.add(std::int64_t{of.ranks} << 32 | of.chunks);
    hash.add(of.microbatches);
    hash.add(std::int64_t{of.group} << 16 | std::int64_t{of.ahead} << 8 |
             static_cast<std::int64_t>(of.kind) << 1 | (of.sends_stay ? 1 : 0));
    return hash.value();
  }
};

// What stands all step.
RealBytes standing(const detail::States& of) {
  return of.weights + of.main_weights + of.gradients + of.states;
}

// Axes are fewer than eight.
std::int64_t number_of(const RankOrder& order) {
  std::int64_t number = 0;
  for (const Axis axis : order) number = number * 8 + static_cast<std::int64_t>(axis);
  return number;
}

}  // namespace

struct MemoryModel::State {
  const Model& model;
  const Cluster& cluster;
  const Trainer& trainer;
  const Job& job;
  MemoryConstants constants;
  std::optional<AttentionKernel> attention;
  Ground ground = ground_of(trainer, job, constants);
  Widths widths = widths_of(model, job);

  ListsOf lists = {};

  struct OfPrecision {
    Recipe recipe;
    std::optional<WorkCache> own;
    WorkCache* cache = nullptr;
  };
  std::map<StoredAs, OfPrecision> precisions = {};
  StageInventories inventories = {model, recipe_of(trainer, StoredAs(PrecisionKind::Bf16), job)};
  // By slice, then by content; most are asked for by layouts that follow each other.
  using ChunksByContent = std::unordered_map<std::size_t, ChunkBytes>;
  std::unordered_map<ChunkKey, ChunksByContent, ChunkHash> chunks = {};
  static constexpr std::size_t kMostChunks = std::size_t{1} << 12U;
  std::size_t chunks_known = 0;  // in all of them
  std::map<detail::MomentKey, std::optional<std::vector<Moments>>> moments = {};
  std::unordered_map<JoinedKey, std::vector<GroupMoments>, JoinedHash> joined = {};  // by group
  std::unordered_map<std::array<std::int64_t, 12>, detail::Outside, NumbersHash> outside = {};
  // Of the last layout: others that differ in their pipeline alone often follow.
  struct Twig {
    Layout layout;
    Slice slice;  // of the first stage
    detail::LayoutRules rules;
    ChunksByContent* chunks = nullptr;
    const detail::Outside* outside = nullptr;
  };
  std::optional<Twig> last = {};
  // Scratch.
  detail::GroupTerms terms = {};
  std::vector<detail::ContentTerms> contents_of_layout = {};  // of its inventory

  OfPrecision& precision_for(const StoredAs& kind) {
    const auto found = precisions.find(kind);
    if (found != precisions.end()) return found->second;
    OfPrecision& made = precisions[kind];
    made.recipe = recipe_of(trainer, kind, job);
    if (!lists) made.own.emplace(model, made.recipe);
    made.cache = lists ? lists(kind) : &*made.own;
    return made;
  }

  ChunksByContent& chunks_of(const Layout& layout, const Slice& slice,
                             const detail::StateRules& rules) {
    const bool by_pp = constants.expert_load.kind != ExpertLoad::Kind::Balanced;
    return chunks[{by_pp ? layout.pp : 0, detail::pass_bytes(rules).gradient, slice}];
  }

  // Of one content of an inventory, where all stages have the slice of the first or each its own.
  const ChunkBytes& chunk_for(const Layout& layout, const Slice& first, ChunksByContent& of_first,
                              const StageInventories::Known& known, std::size_t of_inventory,
                              const detail::StateRules& rules) {
    const StageContent& content = known.inventory.contents[of_inventory];
    const bool alike = layout.recompute_by_stage.empty();
    const Slice slice =
        alike ? first : slice_of(layout, trainer, content.stage.id.index(), attention);
    ChunksByContent& of_slice = alike ? of_first : chunks_of(layout, slice, rules);
    const auto [found, fresh] = of_slice.try_emplace(known.numbers[of_inventory]);
    if (fresh) {
      ++chunks_known;
      OfPrecision& precision = precision_for(StoredAs(layout));
      const detail::ChunkQuestion of{model, precision.recipe, detail::pass_bytes(rules),
                                     detail::expert_load_of(constants, model, first, layout.pp)};
      found->second = detail::chunk_bytes(of, content, slice, *precision.cache);
    }
    return found->second;
  }

  // The corners of each group's moments; nullptr if the schedule cannot be made.
  const std::vector<GroupMoments>* moments_for(const detail::MomentKey& key,
                                               const StageInventories::Known& known) {
    detail::MomentKey few = key;
    few.microbatches = detail::enough_microbatches(key);
    const JoinedKey joined_key{known.number, few};
    const auto found = joined.find(joined_key);
    if (found != joined.end()) return &found->second;
    auto& made = moments[few];
    if (!made) {
      auto of_ranks = detail::moments_of(few);
      if (!of_ranks) return nullptr;
      made = *std::move(of_ranks);
    }
    std::vector<GroupMoments> groups;
    for (const PipelineGroup& group : known.inventory.groups) {
      groups.push_back(moments_of_group(group, *made));
    }
    return &joined.emplace(joined_key, std::move(groups)).first->second;
  }

  void forget_some() {
    if (chunks_known <= kMostChunks) return;
    last.reset();
    chunks.clear();
    chunks_known = 0;
  }

  // All layers and ends in one stage; `weights`: with nothing that hangs on tokens or recompute.
  struct WholeModel {
    detail::StateRules rules;
    std::vector<const ChunkBytes*> chunks;
  };
  std::optional<WholeModel> whole_model(const Layout& layout, bool weights) {
    Slice first = slice_of(layout, trainer, 0, attention);
    if (too_large(widths, first)) return std::nullopt;
    if (weights) {
      first.mbs = 1;
      first.recompute = {};
    }
    const auto rules = detail::state_rules(layout, job, trainer, cluster);
    Layout one_stage;
    one_stage.precision = layout.precision;
    const auto known = inventories.of(one_stage);
    if (!rules || !known) return std::nullopt;
    WholeModel whole{*rules, {}};
    ChunksByContent& of_slice = chunks_of(layout, first, *rules);
    for (std::size_t chunk = 0; chunk < (*known)->numbers.size(); ++chunk) {
      whole.chunks.push_back(&chunk_for(layout, first, of_slice, **known, chunk, *rules));
    }
    return whole;
  }

  // Nullptr where there are no rules.
  const Twig* twig_for(const Layout& layout) {
    if (last && differ_in_pipeline_alone(last->layout, layout)) {
      const auto key = detail::moment_key(layout, last->rules);
      if (!key) return nullptr;
      last->rules.moments = *key;
      return &*last;
    }
    last.reset();
    const Slice slice = slice_of(layout, trainer, 0, attention);
    if (too_large(widths, slice)) return nullptr;
    auto rules = detail::layout_rules(layout, job, trainer, cluster);
    if (!rules) return nullptr;
    ChunksByContent& of_slice = chunks_of(layout, slice, rules->states);
    return &last.emplace(Twig{layout, slice, *std::move(rules), &of_slice, &outside_for(layout)});
  }

  const detail::Outside& outside_for(const Layout& layout) {
    const bool overlaps_tp = layout.tp > 1 && asks(layout, Switch::OverlapTp, trainer);
    const std::int64_t ways = static_cast<std::int64_t>(layout.dispatcher) * 32 +
                              static_cast<std::int64_t>(layout.precision) * 2 + (layout.sp ? 1 : 0);
    // Buffers hold the tokens of a micro-batch.
    const bool holds_tokens = overlaps_tp || (layout.ep > 1 && is_flex(layout.dispatcher));
    const std::array<std::int64_t, 12> key = {layout.tp,
                                              layout.pp,
                                              layout.dp,
                                              layout.cp,
                                              layout.ep,
                                              layout.etp,
                                              layout.dp_replicate,
                                              layout.zero,
                                              number_of(layout.order),
                                              holds_tokens ? layout.mbs : 0,
                                              holds_tokens ? layout.seq : 0,
                                              holds_tokens ? ways * 2 + (overlaps_tp ? 1 : 0) : 0};
    const auto found = outside.find(key);
    if (found != outside.end()) return found->second;
    detail::Outside made;
    if (constants.facts) {
      made = detail::outside_of(outside_bytes(layout, cluster, trainer, model, *constants.facts));
    }
    return outside.emplace(key, made).first->second;
  }
};

MemoryModel::MemoryModel(const Model& model, const Cluster& cluster, const Trainer& trainer,
                         const Job& job, const MemoryConstants& constants,
                         std::optional<AttentionKernel> attention, ListsOf lists)
    : state_(std::make_unique<State>(State{.model = model,
                                           .cluster = cluster,
                                           .trainer = trainer,
                                           .job = job,
                                           .constants = constants,
                                           .attention = attention,
                                           .lists = std::move(lists)})) {}
MemoryModel::~MemoryModel() = default;
MemoryModel::MemoryModel(MemoryModel&&) noexcept = default;
MemoryModel& MemoryModel::operator=(MemoryModel&&) noexcept = default;

std::optional<MemoryModel::Least> MemoryModel::least(const Layout& layout, double enough,
                                                     std::optional<Bytes> capacity) {
  State& state = *state_;
  if (layout.schedule == ScheduleKind::Csv) return std::nullopt;
  state.forget_some();
  const State::Twig* twig = state.twig_for(layout);
  if (twig == nullptr) return std::nullopt;
  const detail::LayoutRules& rules = twig->rules;
  const auto known = state.inventories.of(layout);
  if (!known) return std::nullopt;
  const StageInventory& inventory = (*known)->inventory;
  const std::vector<GroupMoments>* moments = state.moments_for(rules.moments, **known);
  if (moments == nullptr) return std::nullopt;
  state.contents_of_layout.assign(inventory.contents.size(), {});
  const Bytes room = capacity.value_or(capacity_of(state.cluster));
  Least least;
  for (std::size_t g = 0; g < inventory.groups.size(); ++g) {
    for (const std::size_t content : inventory.groups[g].distinct) {
      detail::ContentTerms& of = state.contents_of_layout[content];
      if (of.bytes != nullptr) continue;
      of = detail::content_terms(
          state.chunk_for(layout, twig->slice, *twig->chunks, **known, content, rules.states),
          inventory.contents[content], rules);
    }
    detail::fill_terms(state.terms, inventory.groups[g], state.contents_of_layout, rules);
    const auto& [by_chunk, by_content] = (*moments)[g];
    RealBytes inside = detail::coming_at_peak(state.terms, by_chunk, by_content, rules);
    RealBytes states;
    const auto standing = detail::standing_bytes(state.terms);
    for (std::size_t i = 0; i < kCategories; ++i) {
      inside += standing[i];
      if (detail::is_state(static_cast<Category>(i))) states += standing[i];
    }
    const Bytes allocated = rounded(inside);
    const detail::Settled beside =
        detail::settle({allocated, rounded(states)}, {}, *twig->outside,
                       state.terms.shares_embedding, state.ground, state.constants);
    const Bytes driver = allocated + beside.context + beside.communicators;
    least.driver = std::max(least.driver, driver);
    const Spread& spread = beside.spreads[static_cast<std::size_t>(Counter::Driver)];
    least.oom = std::max(least.oom, chance_above(room, driver, spread));
    if (least.oom > enough) break;
  }
  return least;
}

bool MemoryModel::may_take_less_outside(const Layout& layout, const Layout& than) {
  const detail::Outside a = state_->outside_for(layout), b = state_->outside_for(than);
  const auto less = [](const BytesRange& x, const BytesRange& y) {
    return x.low < y.low || x.central < y.central || x.high - x.central < y.high - y.central;
  };
  return less(a.communicators, b.communicators) || less(a.with_embedding, b.with_embedding) ||
         less(a.context, b.context);
}

// What stands is linear in parameters but for rounding up, so of all ranks together it is at least
// that of the whole model on one.
std::optional<Bytes> MemoryModel::states(const Layout& layout) {
  const auto model = state_->whole_model(layout, true);
  if (!model) return std::nullopt;
  HeldParameters held;
  for (const ChunkBytes* chunk : model->chunks) held += chunk->held;
  const RealBytes all = standing(detail::states_of(model->rules, held));
  return Bytes(static_cast<std::int64_t>(all.value() / static_cast<double>(layout.pp)));
}

std::vector<RealBytes> MemoryModel::layer_states(const Layout& layout) {
  std::vector<RealBytes> least(state_->model.kinds.size());
  const auto model = state_->whole_model(layout, true);
  if (!model) return least;
  std::vector<bool> known(least.size());
  for (const ChunkBytes* chunk : model->chunks) {
    for (const detail::PortionBytes& portion : chunk->portions) {
      if (portion.list->what != ListOf::What::Layer) continue;
      // Roundings: fewer than 16 sums of numbers of at most 16 bytes; tables are there once.
      constexpr RealBytes kRounded(256);
      const detail::States of = detail::states_of(model->rules, portion.totals->parameters);
      const RealBytes bytes = std::max(
          RealBytes(0), standing(of) - kRounded - RealBytes(model->rules.bytes.states.tables));
      const auto kind = static_cast<std::size_t>(portion.list->kind.index());
      least[kind] = known[kind] ? std::min(least[kind], bytes) : bytes;
      known[kind] = true;
    }
  }
  return least;
}

std::optional<Bytes> MemoryModel::least_kept(const Layout& layout) {
  const auto model = state_->whole_model(layout, false);
  if (!model) return std::nullopt;
  if (layout.offload.has(Offload::Activations)) return Bytes(0);
  std::optional<double> least;
  for (const ChunkBytes* chunk : model->chunks) {
    for (const detail::PortionBytes& portion : chunk->portions) {
      if (portion.end) continue;
      const double kept = portion.kept.value() / real(portion.list->slice.recompute.n);
      least = std::min(least.value_or(kept), kept);
    }
  }
  return Bytes(static_cast<std::int64_t>(least.value_or(0)));
}

}  // namespace trainwright
