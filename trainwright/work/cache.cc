#include <algorithm>
#include <array>
#include <iterator>
#include <unordered_map>

#include "trainwright/base/hash.h"
#include "trainwright/work/vocabulary.h"
#include "trainwright/work/work.h"

namespace trainwright {
namespace {

using What = ListOf::What;

struct ListHash {
  std::size_t operator()(const ListOf& key) const {
    Hash hash;
    hash.add(static_cast<std::int64_t>(SliceHash{}(key.slice)));
    hash.add(std::int64_t{key.kind.index()} << 8 | static_cast<std::int64_t>(key.what));
    return hash.value();
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
    case What::Copy: {
      OperatorList nothing;
      nothing.tensors.push_back({.name = "nothing"});
      nothing.input = nothing.output = TensorId(0);
      return nothing;
    }
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
  Reader reader = {};
  Sums sums = Sums::All;
  std::unordered_map<ListOf, Totals, ListHash> made = {};
  std::unordered_map<ListOf, HeldParameters, ListHash> held = {};
  // As they were asked for last: one stage after the other asks for the same few.
  struct Asked {
    ListOf of;
    Portion found;
  };
  std::array<Asked, 8> recent = {};
  std::size_t next_recent = 0;

  // A key without what its list does not hang on: lists are shared by more slices that way.
  ListOf plainly(ListOf of) const {
    const bool end = of.what != What::Layer;
    const bool dense = of.what == What::Layer && !std::holds_alternative<MixtureOfExperts>(
                                                     model.kinds[of.kind.at()].feed_forward);
    if (end) of.slice.recompute = {};
    if (end || dense) {
      of.slice.ep = of.slice.etp = 1;
      of.slice.dispatcher = {};
    }
    return of;
  }

  // What a rank holds does not hang on its tokens, nor on what is run again.
  Totals totals_of(const ListOf& of, const OperatorList& list) {
    ListOf key = of;
    key.slice.mbs = key.slice.seq = key.slice.cp = 1;
    key.slice.recompute = {};
    const auto known = held.find(key);
    if (known == held.end()) {
      Totals sum = totals(model, recipe, of, list);
      held.emplace(key, sum.parameters);
      return sum;
    }
    Totals sum = sums == Sums::Work ? efforts(list) : totals(list);
    sum.parameters = known->second;
    return sum;
  }

  Portion find(const ListOf& asked) {
    for (const Asked& one : recent) {
      if (one.found.totals != nullptr && one.of == asked) return one.found;
    }
    const Portion found = find_or_make(asked);
    recent[next_recent++ % recent.size()] = {asked, found};
    return found;
  }
  Portion find_or_make(const ListOf& asked) {
    const ListOf of = plainly(asked);
    auto found = made.find(of);
    if (found == made.end()) {
      const OperatorList list = make_list(model, recipe, of);
      found = made.emplace(of, totals_of(of, list)).first;
      if (reader) reader(found->second, list);
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
    of = plainly(of);
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
  Portion beside_layers(StageWeight weight, const Slice& of_stage) {
    ListOf of{What::Copy, LayerKindId(0), of_stage};
    if (weight == StageWeight::EmbeddingShare) of.what = What::EmbeddingShare;
    if (weight == StageWeight::HeadShare) {
      of.what = What::HeadShare;
      of.slice = slice_at(of_stage, static_cast<std::int64_t>(model.layers.size()));
    }
    return find(of);
  }
  // Of `left` layers of a kind from the i-th of the model on, `at` in its stage, so many have the
  // same list.
  std::int64_t alike(const Slice& of_stage, std::int64_t i, std::int64_t at,
                     std::int64_t left) const {
    std::int64_t n = left;
    const auto until = [&](std::int64_t border, std::int64_t here) {
      if (here < border) n = std::min(n, border - here);
    };
    until(recipe.training.frozen_layers, i);
    until(first_trained + 1, i);
    if (of_stage.recompute.kind == RecomputeKind::Block) until(of_stage.recompute.n, at);
    return of_stage.recompute.kind == RecomputeKind::EveryNth ? 1 : n;
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

WorkCache::WorkCache(const Model& model, const Recipe& recipe, Reader reader, Sums sums)
    : state_(std::make_unique<State>(State{
          model, recipe, first_trained_layer(model, recipe.training), std::move(reader), sums})) {}
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

const Totals& WorkCache::embedding_copy(const Slice& slice) {
  return *state_->find({What::Copy, LayerKindId(0), slice}).totals;
}

std::vector<Portion> WorkCache::stage(const Stage& stage, const Slice& slice) {
  std::vector<Portion> portions;
  portions.reserve(stage.runs.size() + 3);
  const auto add = [&](const Portion& one, std::int64_t count = 1) {
    if (!portions.empty() && portions.back().totals == one.totals) {
      portions.back().count += count;
    } else {
      portions.push_back({one.totals, count, one.list});
    }
  };
  if (stage.embedding) add(state_->find({What::Embedding, LayerKindId(0), slice}));
  std::int64_t at = 0;  // of the layer in its stage
  for (const LayerRun& run : stage.runs) {
    const std::int64_t end = at + run.count;
    while (at < end) {
      const std::int64_t i = stage.first + at;
      const std::int64_t n = state_->alike(slice, i, at, end - at);
      const std::int64_t unit = slice.recompute.kind == RecomputeKind::Full
                                    ? std::max<std::int64_t>(slice.recompute.n, 1)
                                    : 1;
      if (unit == 1) {
        add(state_->one(run.kind, slice, i, at), n);
      } else {
        const Slice own = state_->slice_at(slice, i);
        if (n >= unit) add(state_->together(run.kind, own, unit), n / unit);
        if (n % unit > 0) add(state_->together(run.kind, own, n % unit));
      }
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
  for (const StageWeight weight :
       weights_beside_layers(stage, state_->model, state_->recipe.code)) {
    const Portion one = state_->beside_layers(weight, slice);
    if (!portions.empty() && portions.back().totals == one.totals) {
      ++portions.back().count;
    } else {
      portions.push_back(one);
    }
  }
  return portions;
}

std::size_t WorkCache::size() const { return state_->made.size(); }

}  // namespace trainwright
