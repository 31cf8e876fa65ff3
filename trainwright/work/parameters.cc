// Which part of a weight one rank of tp, ep and etp holds.
#include <algorithm>
#include <utility>

#include "trainwright/base/check.h"
#include "trainwright/work/builder.h"
#include "trainwright/work/vocabulary.h"

namespace trainwright {
namespace {

using detail::share;

// The weight as this rank has it.
Weight local(Weight weight, const Slice& slice, const Recipe& recipe) {
  const bool routed = weight.part == Part::RoutedExperts;
  const std::int64_t ways = routed ? slice.etp : slice.tp;
  if (routed) weight.copies = share(weight.copies, slice.ep);
  switch (weight.cut) {
    case WeightCut::Whole: break;
    case WeightCut::Columns:
      weight.out = share(weight.out / weight.unit, ways) * weight.unit;
      break;
    case WeightCut::Rows: weight.in = share(weight.in, ways); break;
    case WeightCut::Vocabulary: {
      std::int64_t& rows = weight.use == WeightUse::Table ? weight.in : weight.out;
      rows = detail::local_vocabulary(rows, slice, recipe);
      break;
    }
  }
  return weight;
}

// Of a spread vocabulary both tables are with its shares: the first of the embedding's weights, the
// last of the head's.
std::vector<Weight> weights_of(const Model& model, const ListOf& of) {
  const bool spread = of.slice.vocabulary_ways > 1;
  std::vector<Weight> weights;
  switch (of.what) {
    case ListOf::What::Layer: return layer_weights(model, model.kinds[of.kind.at()]);
    case ListOf::What::Mtp: return mtp_weights(model);
    case ListOf::What::Copy:
    case ListOf::What::EmbeddingShare: return {embedding_weights(model).front()};
    case ListOf::What::HeadShare: return {head_weights(model).back()};
    case ListOf::What::Embedding:
      weights = embedding_weights(model);
      if (spread) weights.erase(weights.begin());
      return weights;
    case ListOf::What::Head:
      weights = head_weights(model);
      if (spread) weights.pop_back();
      return weights;
  }
  TW_CHECK(false, "no such list");
}

Params numbers_of(const HeldWeight& held) {
  const SteppedWeight& tensor = held.tensor;
  return Params(checked_mul(checked_mul(tensor.in, tensor.out), tensor.depth)) * held.copies;
}

// Experts as the modules of transformers have them are one tensor.
void set_experts(HeldWeight& held, Part part, std::int64_t copies, const Recipe& recipe) {
  held.expert = part == Part::RoutedExperts;
  (held.expert && !recipe.code.permutes_tokens ? held.tensor.depth : held.copies) *= copies;
}

// Whether a trained copy has the dtype of adapters: a program makes it so, or what it is a copy of
// is fp32, too.
bool is_like_adapters(const Recipe& recipe, Part part) {
  return recipe.training.adapters->copies_like_adapters || is_prepared(recipe, part);
}

// What all entries of a weight have, whatever its shape.
HeldWeight entry_of(const Weight& weight, const Slice& slice, const Recipe& recipe) {
  HeldWeight held;
  held.trained = trains(recipe, slice, weight.part);
  held.low_precision = weight.low_precision;
  const bool spread = weight.cut == WeightCut::Vocabulary && recipe.code.vocabulary_split;
  held.replicated =
      weight.cut == WeightCut::Whole || (weight.cut == WeightCut::Vocabulary && !spread);
  return held;
}

HeldWeight held_tensor(const Weight& weight, const Slice& slice, const Recipe& recipe) {
  HeldWeight held = entry_of(weight, slice, recipe);
  held.tensor = {.in = weight.in, .out = weight.out, .matrix = weight.use != WeightUse::Vector};
  // Filters of one channel each.
  if (weight.use == WeightUse::Convolution) {
    held.tensor.depth = std::exchange(held.tensor.out, 1);
  }
  held.tensor.hidden = weight.use == WeightUse::Matrix && weight.part != Part::Head;
  set_experts(held, weight.part, weight.copies, recipe);
  return held;
}
HeldWeight held_bias(const Weight& weight, const Slice& slice, const Recipe& recipe) {
  HeldWeight held = held_tensor(weight, slice, recipe);
  held.tensor.in = 1;
  held.tensor.matrix = held.tensor.hidden = false;
  return held;
}
// What a product multiplies with: `weight` is one of those that it joins.
HeldWeight held_matrix(const Operator& op, const Weight& weight, const Slice& slice,
                       const Recipe& recipe) {
  HeldWeight held = entry_of(weight, slice, recipe);
  held.tensor = {.in = op.matrix.in, .out = op.matrix.out, .matrix = true};
  held.tensor.hidden = op.part != Part::Head;
  set_experts(held, op.part, op.matrices, recipe);
  held.stored = Bytes(op.stored.value() / held.copies);
  held.unsharded = Bytes(op.unsharded.value() / held.copies);
  return held;
}
HeldWeight held_adapter(const Operator& op, const Recipe& recipe) {
  HeldWeight held{.tensor = {.in = op.matrix.in, .out = op.matrix.out, .matrix = true},
                  .trained = true,
                  .adapter = true,
                  .stored = {},
                  .unsharded = {}};
  held.tensor.hidden = op.part != Part::Head;
  set_experts(held, op.part, op.matrices, recipe);
  return held;
}

// An entry, and behind it the copy that is trained in its place: the frozen weight stays (peft
// 0.21.2 utils/other.py ModulesToSaveWrapper: a deep copy, of tied tables of either).
void add(std::vector<HeldWeight>& all, HeldWeight held, const Weight& weight, bool tied,
         const Recipe& recipe) {
  if (!has_trained_copy(recipe, weight.part)) {
    if (!tied) all.push_back(held);
    return;
  }
  HeldWeight copy = held;
  copy.adapter = is_like_adapters(recipe, weight.part);
  copy.low_precision = copy.replicated = false;
  copy.stored = copy.unsharded = Bytes(0);
  held.trained = false;
  if (!tied) all.push_back(held);
  all.push_back(copy);
}

// Weights without few bits beside adapters may have been made fp32.
void set_prepared(HeldWeight& held, const Weight& weight, const Recipe& recipe) {
  const bool few_bits = weight.use == WeightUse::Matrix && has_few_bits(recipe, weight.part);
  if (!is_prepared(recipe, weight.part) || few_bits) return;
  held.stored = Bytes(numbers_of(held).value() / held.copies * byte_size(Dtype::Fp32));
}

bool multiplies(const Operator& op, const Weight& weight) {
  if (weight.use != WeightUse::Matrix || weight.tied) return false;
  if (op.weights.empty()) return op.name == weight.name;
  const auto named = layer_matrix(weight.name);
  return named && op.weights.has(*named);
}

}  // namespace

std::vector<HeldWeight> held_weights(std::span<const Weight> weights, const OperatorList& list,
                                     const Slice& slice, const Recipe& recipe) {
  std::vector<HeldWeight> all;
  std::vector<bool> multiplied(weights.size());
  for (const Operator& op : list.operators) {
    if (op.matrix.in == 0) continue;
    if (op.adapter) {
      all.push_back(held_adapter(op, recipe));
      continue;
    }
    const Weight* one = nullptr;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (!multiplies(op, weights[i])) continue;
      multiplied[i] = true;
      one = &weights[i];
    }
    if (one == nullptr) continue;  // a tied head
    HeldWeight held = held_matrix(op, *one, slice, recipe);
    set_prepared(held, *one, recipe);
    add(all, held, *one, false, recipe);
  }
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const Weight weight = local(weights[i], slice, recipe);
    const auto put = [&](HeldWeight held, bool bias) {
      set_prepared(held, weight, recipe);
      add(all, held, weight, weight.tied && !bias, recipe);
    };
    if (!multiplied[i]) put(held_tensor(weight, slice, recipe), false);
    if (weight.bias) put(held_bias(weight, slice, recipe), true);
  }
  return all;
}

std::vector<HeldWeight> held_weights(const Model& model, const Recipe& recipe, const ListOf& of,
                                     const OperatorList& list) {
  return held_weights(weights_of(model, of), list, of.slice, recipe);
}

HeldParameters held_parameters(std::span<const HeldWeight> weights, const Recipe& recipe) {
  const Training& training = recipe.training;
  HeldParameters sum;
  for (const HeldWeight& weight : weights) {
    HeldGroup& group = weight.expert ? sum.expert : sum.dense;
    const Params numbers = numbers_of(weight);
    (weight.adapter ? group.adapters : group.all) += numbers;
    if (weight.trained && !weight.adapter) group.trained += numbers;
    if (weight.low_precision) group.low_precision += numbers;
    if (weight.replicated) sum.replicated += numbers;
    if (weight.stored > Bytes(0)) group.quantised += numbers;
    group.stored += weight.stored * weight.copies;
    group.unsharded += weight.unsharded * weight.copies;
    if (!weight.trained) continue;
    const OptimizerStates& states = weight.adapter ? training.adapter_states : training.states;
    const auto all = [&](double bytes) { return rounded(RealBytes(bytes)) * weight.copies; };
    group.states += all(state_bytes(states, weight.tensor));
    group.step += all(temporary_bytes(states, weight.tensor));
  }
  return sum;
}

Totals totals(const Model& model, const Recipe& recipe, const ListOf& of,
              const OperatorList& list) {
  return totals(list, held_parameters(held_weights(model, recipe, of, list), recipe));
}

Bytes boundary_bytes(const Model& model, const Slice& slice, const Recipe& recipe) {
  const std::int64_t rows = checked_mul(detail::local_rows(slice).outer, model.streams);
  const Dtype stream = settled(recipe, model, slice).wide ? Dtype::Fp32 : recipe.compute;
  return Bytes(checked_mul(checked_mul(rows, model.hidden), byte_size(stream)));
}

}  // namespace trainwright
