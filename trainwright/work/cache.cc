#include <unordered_map>

#include "trainwright/work/work.h"

namespace trainwright {
namespace {

// What a list is of: a layer kind, or one of the ends.
constexpr std::int32_t kEmbedding = -1;
constexpr std::int32_t kHead = -2;
constexpr std::int32_t kMtp = -3;

struct Key {
  std::int32_t of = 0;
  Slice slice;
  friend bool operator==(const Key&, const Key&) = default;
};

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    std::uint64_t hash = 0x9e3779b97f4a7c15U + static_cast<std::uint32_t>(key.of);
    const auto mix = [&hash](std::int64_t value) {
      hash = (hash ^ static_cast<std::uint64_t>(value)) * 0xff51afd7ed558ccdU;
      hash ^= hash >> 32U;
    };
    const Slice& s = key.slice;
    mix(s.tp | s.cp << 24);
    mix(s.ep | s.etp << 24);
    mix(s.mbs);
    mix(s.seq);
    mix(s.cp_ulysses << 32 | static_cast<std::int64_t>(s.cp_kind) << 24 |
        static_cast<std::int64_t>(s.dispatcher) << 16 |
        static_cast<std::int64_t>(s.precision) << 8 | static_cast<std::int64_t>(s.attention) << 2 |
        (s.sp ? 2 : 0) | (s.distribute_saved ? 1 : 0) |
        (s.gradients_wait ? std::int64_t{1} << 62 : 0));
    mix(s.recompute.n << 40 | static_cast<std::int64_t>(s.recompute.modules.bits) << 8 |
        static_cast<std::int64_t>(s.recompute.kind));
    return hash;
  }
};

}  // namespace

struct WorkCache::State {
  Model model;
  Recipe recipe;
  std::unordered_map<Key, Totals, KeyHash> made;

  // A recompute that only layers know makes no difference to the ends.
  template <class Make>
  const Totals& find(std::int32_t of, const Slice& slice, Make make) {
    const Key key{of, slice};
    const auto found = made.find(key);
    if (found != made.end()) return found->second;
    return made.emplace(key, make()).first->second;
  }
};

WorkCache::WorkCache(const Model& model, const Recipe& recipe)
    : state_(std::make_unique<State>(State{model, recipe, {}})) {}
WorkCache::~WorkCache() = default;
WorkCache::WorkCache(WorkCache&&) noexcept = default;
WorkCache& WorkCache::operator=(WorkCache&&) noexcept = default;

const Totals& WorkCache::layer(LayerKindId id, const Slice& slice) {
  return state_->find(id.index(), slice, [&] {
    const LayerKind& kind = state_->model.kinds[id.at()];
    const auto weights = layer_weights(state_->model, kind);
    return totals(layer_work(state_->model, kind, slice, state_->recipe),
                  held_parameters(weights, &kind, slice, state_->recipe));
  });
}

// Layers of one kind that are run again as one; how many is part of the key.
const Totals& WorkCache::together(LayerKindId id, const Slice& slice, std::int64_t n) {
  Slice full = slice;
  full.recompute = {.kind = RecomputeKind::Full, .modules = {}, .n = 1};
  if (n <= 1) return layer(id, full);
  Slice plain = slice;
  plain.recompute = {};
  Slice key = full;
  key.recompute.n = n;
  const Totals& one = layer(id, full);
  const Totals& whole = layer(id, plain);
  return state_->find(id.index(), key, [&] { return checkpointed_together(whole, one, n); });
}

const Totals& WorkCache::embedding(const Slice& slice) {
  return state_->find(kEmbedding, slice, [&] {
    return totals(
        embedding_work(state_->model, slice, state_->recipe),
        held_parameters(embedding_weights(state_->model), nullptr, slice, state_->recipe));
  });
}

const Totals& WorkCache::head(const Slice& slice) {
  return state_->find(kHead, slice, [&] {
    return totals(head_work(state_->model, slice, state_->recipe),
                  held_parameters(head_weights(state_->model), nullptr, slice, state_->recipe));
  });
}

const Totals& WorkCache::mtp(const Slice& slice) {
  return state_->find(kMtp, slice, [&] {
    return totals(mtp_work(state_->model, slice, state_->recipe),
                  held_parameters(mtp_weights(state_->model), nullptr, slice, state_->recipe));
  });
}

std::vector<Portion> WorkCache::stage(const Stage& stage, const Slice& slice) {
  std::vector<Portion> portions;
  if (stage.embedding) portions.push_back({&embedding(slice), 1});
  const bool grouped = slice.recompute.kind == RecomputeKind::Full && slice.recompute.n > 1;
  std::int64_t at = 0;  // of the layer in its stage
  for (const LayerRun& run : stage.runs) {
    if (grouped) {
      const std::int64_t n = slice.recompute.n;
      if (run.count >= n) portions.push_back({&together(run.kind, slice, n), run.count / n});
      if (run.count % n > 0) portions.push_back({&together(run.kind, slice, run.count % n), 1});
      continue;
    }
    for (std::int64_t i = 0; i < run.count; ++i, ++at) {
      Slice own = slice;
      own.recompute = recompute_of_layer(slice.recompute, at);
      const Totals* one = &layer(run.kind, own);
      if (!portions.empty() && portions.back().totals == one) {
        ++portions.back().count;
      } else {
        portions.push_back({one, 1});
      }
    }
  }
  for (std::int64_t i = 0; i < stage.mtp; ++i) {
    portions.push_back({&mtp(slice), 1});
    Slice own = slice;
    own.recompute = recompute_of_layer(slice.recompute, at++);
    own.recompute.n = 1;
    portions.push_back({&layer(state_->model.mtp[static_cast<std::size_t>(i)], own), 1});
  }
  if (stage.head) portions.push_back({&head(slice), 1});
  return portions;
}

std::size_t WorkCache::size() const { return state_->made.size(); }

}  // namespace trainwright
