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

// What decides which rank holds what.
struct PartitionKey {
  std::int64_t pp = 1, vpp = 1, first_layers = 0, last_layers = 0;
  std::int64_t count_embedding = 0, count_loss = 0, mtp_stage = -1;
  StagePlacement placement = StagePlacement::Single;
  bool vocab_parallel = false;
  std::vector<std::int64_t> layers = {};
  std::vector<Recompute> recompute_by_stage = {};
  friend bool operator==(const PartitionKey&, const PartitionKey&) = default;
};
PartitionKey partition_key(const Layout& layout) {
  return {layout.pp,
          layout.vpp,
          layout.first_layers,
          layout.last_layers,
          layout.count_embedding,
          layout.count_loss,
          layout.mtp_stage.value_or(-1),
          layout.placement,
          layout.vocab_parallel,
          layout.layers,
          layout.recompute_by_stage};
}
struct PartitionHash {
  std::size_t operator()(const PartitionKey& key) const {
    Hash hash;
    hash.add(key.pp << 32 | key.vpp);
    hash.add(key.first_layers << 32 | key.last_layers);
    hash.add(key.count_embedding << 40 | key.count_loss << 20 | (key.mtp_stage + 1));
    hash.add(static_cast<std::int64_t>(key.placement) << 1 | (key.vocab_parallel ? 1 : 0));
    for (const std::int64_t layers : key.layers) hash.add(layers);
    for (const Recompute& of : key.recompute_by_stage) {
      hash.add(static_cast<std::int64_t>(of.kind) << 40 | of.n);
    }
    return hash.value();
  }
};

// A slice of the first stage, on a partition.
struct ChunkKey {
  const void* partition = nullptr;
  Slice slice;
  friend bool operator==(const ChunkKey&, const ChunkKey&) = default;
};
struct ChunkHash {
  std::size_t operator()(const ChunkKey& key) const {
    const Slice& s = key.slice;
    Hash hash;
    hash.add(static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(key.partition)));
    hash.add(s.tp | s.cp << 32);
    hash.add(s.ep | s.etp << 32);
    hash.add(s.mbs);
    hash.add(s.seq | (s.sp ? std::int64_t{1} << 62 : 0));
    hash.add(s.cp_ulysses << 32 | static_cast<std::int64_t>(s.cp_kind) << 24 |
             static_cast<std::int64_t>(s.dispatcher) << 16 |
             static_cast<std::int64_t>(s.precision) << 8 | (s.distribute_saved ? 1 : 0));
    hash.add(s.recompute.n << 40 | static_cast<std::int64_t>(s.recompute.modules.bits) << 8 |
             static_cast<std::int64_t>(s.recompute.kind));
    return hash.value();
  }
};

struct JoinedKey {
  const void* partition = nullptr;
  detail::MomentKey moments;
  friend bool operator==(const JoinedKey&, const JoinedKey&) = default;
};
struct JoinedHash {
  std::size_t operator()(const JoinedKey& key) const {
    const detail::MomentKey& of = key.moments;
    Hash hash;
    hash.add(static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(key.partition)));
    hash.add(std::int64_t{of.ranks} << 32 | of.chunks);
    hash.add(of.microbatches);
    hash.add(std::int64_t{of.group} << 16 | std::int64_t{of.ahead} << 8 |
             static_cast<std::int64_t>(of.kind) << 1 | (of.sends_stay ? 1 : 0));
    return hash.value();
  }
};

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
  detail::KnownBy known = detail::known_by(trainer);
  Widths widths = widths_of(model, job);

  struct OfPrecision {
    Recipe recipe;
    WorkCache cache;
  };
  std::map<PrecisionKind, OfPrecision> precisions = {};
  std::unordered_map<PartitionKey, std::optional<detail::Partition>, PartitionHash> partitions = {};
  std::unordered_map<ChunkKey, std::vector<ChunkBytes>, ChunkHash> chunks = {};
  std::map<detail::MomentKey, std::optional<std::vector<Moments>>> moments = {};
  std::unordered_map<JoinedKey, std::vector<Moments>, JoinedHash> joined = {};  // by group
  std::unordered_map<std::array<std::int64_t, 9>, detail::Outside, NumbersHash> outside = {};
  detail::GroupTerms terms = {};  // scratch

  const detail::Partition* partition_for(const Layout& layout) {
    PartitionKey key = partition_key(layout);
    auto found = partitions.find(key);
    if (found == partitions.end()) {
      auto made =
          detail::partition_of(layout, model, precision_for(layout.precision).recipe.training);
      found =
          partitions.emplace(std::move(key), made ? std::optional(*std::move(made)) : std::nullopt)
              .first;
    }
    return found->second ? &*found->second : nullptr;
  }

  OfPrecision& precision_for(PrecisionKind kind) {
    const auto found = precisions.find(kind);
    if (found != precisions.end()) return found->second;
    const Recipe recipe = recipe_of(trainer, kind, job);
    return precisions.emplace(kind, OfPrecision{recipe, WorkCache(model, recipe)}).first->second;
  }

  const std::vector<ChunkBytes>& chunks_for(const Layout& layout, const Slice& first,
                                            const detail::Partition& partition,
                                            const detail::StateRules& rules) {
    ChunkKey key{&partition, first};
    const auto found = chunks.find(key);
    if (found != chunks.end()) return found->second;
    OfPrecision& precision = precision_for(layout.precision);
    const detail::ChunkQuestion of{model, precision.recipe, detail::pass_bytes(rules),
                                   detail::expert_load_of(constants, model, first, layout.pp)};
    std::vector<ChunkBytes> made;
    for (const detail::ChunkContent& content : partition.contents) {
      const Slice slice = slice_of(layout, trainer, content.stage.id.index(), attention);
      made.push_back(detail::chunk_bytes(of, content, slice, precision.cache));
    }
    return chunks.emplace(key, std::move(made)).first->second;
  }

  // The corners of each group's moments; nullptr if the schedule cannot be made.
  const std::vector<Moments>* moments_for(const detail::MomentKey& key,
                                          const detail::Partition& partition) {
    detail::MomentKey few = key;
    few.microbatches = detail::enough_microbatches(key);
    const JoinedKey joined_key{&partition, few};
    const auto found = joined.find(joined_key);
    if (found != joined.end()) return &found->second;
    auto& made = moments[few];
    if (!made) {
      auto of_ranks = detail::moments_of(few);
      if (!of_ranks) return nullptr;
      made = *std::move(of_ranks);
    }
    std::vector<Moments> groups;
    for (const detail::PipelineGroup& group : partition.groups) {
      std::vector<const Moments*> members;
      for (const std::int64_t rank : group.ranks) {
        members.push_back(&(*made)[static_cast<std::size_t>(rank)]);
      }
      groups.push_back(detail::joined(members));
    }
    return &joined.emplace(joined_key, std::move(groups)).first->second;
  }

  const detail::Outside& outside_for(const Layout& layout) {
    const std::array<std::int64_t, 9> key = {
        layout.tp,           layout.pp,   layout.dp,
        layout.cp,           layout.ep,   layout.etp,
        layout.dp_replicate, layout.zero, number_of(layout.order)};
    const auto found = outside.find(key);
    if (found != outside.end()) return found->second;
    detail::Outside made;
    if (constants.facts) {
      made = detail::outside_of(
          outside_bytes(layout, cluster, trainer, has_experts(model), *constants.facts));
    }
    return outside.emplace(key, made).first->second;
  }
};

MemoryModel::MemoryModel(const Model& model, const Cluster& cluster, const Trainer& trainer,
                         const Job& job, const MemoryConstants& constants,
                         std::optional<AttentionKernel> attention)
    : state_(std::make_unique<State>(State{model, cluster, trainer, job, constants, attention})) {}
MemoryModel::~MemoryModel() = default;
MemoryModel::MemoryModel(MemoryModel&&) noexcept = default;
MemoryModel& MemoryModel::operator=(MemoryModel&&) noexcept = default;

std::optional<MemoryModel::Least> MemoryModel::least(const Layout& layout, double enough) {
  State& state = *state_;
  if (layout.schedule == ScheduleKind::Csv) return std::nullopt;
  const Slice first = slice_of(layout, state.trainer, 0, state.attention);
  if (too_large(state.widths, first)) return std::nullopt;
  const auto rules = detail::layout_rules(layout, state.job, state.trainer, state.cluster);
  if (!rules) return std::nullopt;
  const detail::Partition* partition = state.partition_for(layout);
  if (partition == nullptr) return std::nullopt;
  const std::vector<Moments>* moments = state.moments_for(rules->moments, *partition);
  if (moments == nullptr) return std::nullopt;
  const std::vector<ChunkBytes>& chunks =
      state.chunks_for(layout, first, *partition, rules->states);
  const detail::Outside& outside = state.outside_for(layout);
  const Bytes capacity = capacity_of(state.cluster);
  Least least;
  for (std::size_t g = 0; g < partition->groups.size(); ++g) {
    detail::fill_terms(state.terms, partition->groups[g], *partition, chunks, *rules);
    const detail::ClassPeak peak = detail::class_peak(state.terms, (*moments)[g], *rules);
    RealBytes inside = peak.coming;
    for (const RealBytes part : detail::standing_bytes(state.terms)) inside += part;
    const Bytes allocated = rounded(inside);
    const detail::Settled beside = detail::settle(
        allocated, {}, outside, state.terms.shares_embedding, state.known, state.constants);
    const Bytes driver = allocated + beside.context + beside.communicators;
    least.driver = std::max(least.driver, driver);
    const Spread& spread = beside.spreads[static_cast<std::size_t>(Counter::Driver)];
    least.oom = std::max(least.oom, chance_above(capacity, driver, spread));
    if (least.oom > enough) break;
  }
  return least;
}

}  // namespace trainwright
