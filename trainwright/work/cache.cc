#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "trainwright/work/vocabulary.h"
#include "trainwright/work/work.h"

namespace trainwright {
namespace {

using What = ListOf::What;

struct ListHash {
  std::size_t operator()(const ListOf& key) const {
    std::uint64_t hash = 0x9e3779b97f4a7c15U + static_cast<std::uint32_t>(key.kind.index());
    const auto mix = [&hash](std::int64_t value) {
      hash = (hash ^ static_cast<std::uint64_t>(value)) * 0xff51afd7ed558ccdU;
      hash ^= hash >> 32U;
    };
    const Slice& s = key.slice;
    mix(s.tp | s.cp << 24);
    mix(s.ep | s.etp << 24);
    mix(s.mbs | s.vocabulary_ways << 36);
    mix(s.seq);
    mix(s.cp_ulysses << 32 | static_cast<std::int64_t>(s.cp_kind) << 24 |
        static_cast<std::int64_t>(s.dispatcher) << 16 |
        static_cast<std::int64_t>(s.precision) << 8 | static_cast<std::int64_t>(s.attention) << 2 |
        (s.sp ? 2 : 0) | (s.distribute_saved ? 1 : 0) |
        (s.gradients_wait ? std::int64_t{1} << 62 : 0));
    mix(s.recompute.n << 40 | static_cast<std::int64_t>(s.recompute.modules.bits) << 8 |
        static_cast<std::int64_t>(s.recompute.kind));
    mix(static_cast<std::int64_t>(key.what) << 2 | (s.frozen ? 2 : 0) | (s.input_gradient ? 1 : 0));
    return hash;
  }
};

// Whether whole layers are run again.
bool runs_layers_again(const Recompute& recompute) {
  return recompute.kind == RecomputeKind::Full || recompute.kind == RecomputeKind::Block ||
         recompute.kind == RecomputeKind::EveryNth;
}

}  // namespace

OperatorList make_list(const Model& model, const Recipe& recipe, const ListOf& of) {
  switch (of.what) {
    case What::Embedding: return embedding_work(model, of.slice, recipe);
    case What::Mtp: return mtp_work(model, of.slice, recipe);
    case What::Head: return head_work(model, of.slice, recipe);
    case What::EmbeddingShare: return detail::embedding_share_work(model, of.slice, recipe);
    case What::HeadShare: return detail::head_share_work(model, of.slice, recipe);
    case What::Layer: break;
  }
  Slice one = of.slice;
  one.recompute.n = 1;
  return layer_work(model, model.kinds[of.kind.at()], one, recipe);
}

struct WorkCache::State {
  Model model;
  Recipe recipe;
  std::int64_t first_trained = -1;
  std::unordered_map<ListOf, Totals, ListHash> made = {};

  Portion find(const ListOf& of) {
    auto found = made.find(of);
    if (found == made.end()) {
      found = made.emplace(of, totals(model, recipe, of, make_list(model, recipe, of))).first;
    }
    return {&found->second, 1, &found->first};
  }
  // n layers that are run again as one; how many is part of the key.
  Portion together(LayerKindId kind, const Slice& slice, std::int64_t n) {
    ListOf of{What::Layer, kind, slice};
    of.slice.recompute = {.kind = RecomputeKind::Full, .modules = {}, .n = 1};
    const Portion one = find(of);
    if (n <= 1) return one;
    ListOf plain = of;
    plain.slice.recompute = {};
    of.slice.recompute.n = n;
    auto found = made.find(of);
    if (found == made.end()) {
      found = made.emplace(of, checkpointed_together(*find(plain).totals, *one.totals, n)).first;
    }
    return {&found->second, 1, &found->first};
  }
  // The i-th layer of the model, `at` in its stage.
  Portion one(LayerKindId kind, const Slice& of_stage, std::int64_t i, std::int64_t at) {
    ListOf of{What::Layer, kind, slice_at(of_stage, i)};
    of.slice.recompute = recompute_of_layer(of_stage.recompute, at);
    of.slice.recompute.n = 1;
    return find(of);
  }
  // How many of the next `left` layers, all of a kind, are run again together: those that are
  // alike.
  std::int64_t grouped(const Slice& of_stage, std::int64_t i, std::int64_t left) const {
    if (of_stage.recompute.kind != RecomputeKind::Full) return 1;
    std::int64_t n = 1;
    while (n < std::min(left, of_stage.recompute.n) &&
           slice_at(of_stage, i + n) == slice_at(of_stage, i)) {
      ++n;
    }
    return n;
  }
  // As the i-th layer of the model, or what follows all layers, has it.
  Slice slice_at(const Slice& of_stage, std::int64_t i) const {
    Slice own = of_stage;
    const Training& training = recipe.training;
    own.frozen = i < training.frozen_layers;
    own.input_gradient = first_trained < i ||
                         (training.flows_when_run_again && runs_layers_again(of_stage.recompute));
    return own;
  }
};

WorkCache::WorkCache(const Model& model, const Recipe& recipe)
    : state_(std::make_unique<State>(
          State{model, recipe, first_trained_layer(model, recipe.training)})) {}
WorkCache::~WorkCache() = default;
WorkCache::WorkCache(WorkCache&&) noexcept = default;
WorkCache& WorkCache::operator=(WorkCache&&) noexcept = default;

const Totals& WorkCache::layer(LayerKindId id, const Slice& slice) {
  return *state_->find({What::Layer, id, slice}).totals;
}
const Totals& WorkCache::together(LayerKindId id, const Slice& slice, std::int64_t n) {
  return *state_->together(id, slice, n).totals;
}
const Totals& WorkCache::embedding(const Slice& slice) {
  return *state_->find({What::Embedding, LayerKindId(0), slice}).totals;
}
const Totals& WorkCache::head(const Slice& slice) {
  return *state_->find({What::Head, LayerKindId(0), slice}).totals;
}
const Totals& WorkCache::mtp(const Slice& slice) {
  return *state_->find({What::Mtp, LayerKindId(0), slice}).totals;
}

std::vector<Portion> WorkCache::stage(const Stage& stage, const Slice& slice) {
  std::vector<Portion> portions;
  const auto add = [&](const Portion& one) {
    if (!portions.empty() && portions.back().totals == one.totals) {
      ++portions.back().count;
    } else {
      portions.push_back(one);
    }
  };
  if (stage.embedding) add(state_->find({What::Embedding, LayerKindId(0), slice}));
  std::int64_t at = 0;  // of the layer in its stage
  for (const LayerRun& run : stage.runs) {
    const std::int64_t end = at + run.count;
    while (at < end) {
      const std::int64_t n = state_->grouped(slice, stage.first + at, end - at);
      add(n > 1 ? state_->together(run.kind, state_->slice_at(slice, stage.first + at), n)
                : state_->one(run.kind, slice, stage.first + at, at));
      at += n;
    }
  }
  const auto layers = static_cast<std::int64_t>(state_->model.layers.size());
  const Slice after = state_->slice_at(slice, layers);
  for (std::int64_t i = 0; i < stage.mtp; ++i) {
    add(state_->find({What::Mtp, LayerKindId(0), after}));
    add(state_->one(state_->model.mtp[static_cast<std::size_t>(i)], slice, layers, at++));
  }
  if (stage.head) add(state_->find({What::Head, LayerKindId(0), after}));
  return portions;
}

std::vector<Portion> WorkCache::shares(const Stage& stage, const Slice& slice) {
  std::vector<Portion> portions;
  if (stage.embedding_share) {
    portions.push_back(state_->find({What::EmbeddingShare, LayerKindId(0), slice}));
  }
  if (stage.head_share) {
    const auto layers = static_cast<std::int64_t>(state_->model.layers.size());
    portions.push_back(
        state_->find({What::HeadShare, LayerKindId(0), state_->slice_at(slice, layers)}));
  }
  return portions;
}

std::size_t WorkCache::size() const { return state_->made.size(); }

}  // namespace trainwright
