// Which part of a weight one rank of tp, ep and etp holds.
#include <algorithm>
#include <array>
#include <utility>

#include "trainwright/work/builder.h"
#include "trainwright/work/vocabulary.h"

namespace trainwright {
namespace {

using detail::share;

// How a weight of that name is cut. By heads and kv heads: its outputs are whole heads.
enum class Cut { Whole, Columns, Rows, KvHeads, Vocabulary };

struct NamedCut {
  std::string_view name;
  Cut cut;
};
constexpr std::array kCuts = {
    NamedCut{"query", Cut::Columns},
    NamedCut{"attention_gate", Cut::Columns},
    NamedCut{"key", Cut::KvHeads},
    NamedCut{"value", Cut::KvHeads},
    NamedCut{"query_up", Cut::Columns},
    NamedCut{"kv_up", Cut::Columns},
    NamedCut{"attention_output", Cut::Rows},
    NamedCut{"sinks", Cut::Columns},
    NamedCut{"beta", Cut::Columns},
    NamedCut{"decay", Cut::Columns},
    NamedCut{"convolution", Cut::Columns},
    NamedCut{"decay_bias", Cut::Columns},
    NamedCut{"decay_rate", Cut::Columns},
    NamedCut{"mamba_in", Cut::Columns},
    NamedCut{"mamba_convolution", Cut::Columns},
    NamedCut{"mamba_skip", Cut::Columns},
    NamedCut{"mamba_norm", Cut::Columns},
    NamedCut{"mamba_out", Cut::Rows},
    NamedCut{"gate", Cut::Columns},
    NamedCut{"up", Cut::Columns},
    NamedCut{"down", Cut::Rows},
    NamedCut{"expert_gate", Cut::Columns},
    NamedCut{"expert_up", Cut::Columns},
    NamedCut{"expert_down", Cut::Rows},
    NamedCut{"shared_gate", Cut::Columns},
    NamedCut{"shared_up", Cut::Columns},
    NamedCut{"shared_down", Cut::Rows},
    NamedCut{"embedding", Cut::Vocabulary},
    NamedCut{"head", Cut::Vocabulary},
    NamedCut{"mtp_projection", Cut::Columns},
};

Cut cut_of(const Weight& weight) {
  const auto* found = std::find_if(
      kCuts.begin(), kCuts.end(), [&](const NamedCut& entry) { return entry.name == weight.name; });
  return found == kCuts.end() ? Cut::Whole : found->cut;
}

// Grouped-query attention holds at least one key and value head on every rank.
std::int64_t kv_share(const Weight& weight, const LayerKind* kind, std::int64_t tp) {
  const auto* a = kind == nullptr ? nullptr : std::get_if<SoftmaxAttention>(&kind->attention);
  if (a == nullptr) return share(weight.out, tp);
  return share(a->kv_heads, tp) * a->head_dim;
}

// The weight as this rank has it.
Weight local(Weight weight, const LayerKind* kind, const Slice& slice, const Recipe& recipe) {
  const bool routed = weight.part == Part::RoutedExperts;
  const std::int64_t ways = routed ? slice.etp : slice.tp;
  if (routed) weight.copies = share(weight.copies, slice.ep);
  switch (cut_of(weight)) {
    case Cut::Whole: break;
    case Cut::Columns: weight.out = share(weight.out, ways); break;
    case Cut::Rows: weight.in = share(weight.in, ways); break;
    case Cut::KvHeads: weight.out = kv_share(weight, kind, ways); break;
    case Cut::Vocabulary: {
      std::int64_t& rows = weight.use == WeightUse::Table ? weight.in : weight.out;
      rows = detail::local_vocabulary(rows, slice, recipe);
      break;
    }
  }
  return weight;
}

// Matrices that low-precision recipes take: those of layers but the router's.
bool takes_low_precision(const Weight& weight) {
  if (weight.use != WeightUse::Matrix || weight.name == "shared_scale") return false;
  return weight.part != Part::Router && weight.part != Part::Head && weight.name != "embedding_up";
}

constexpr std::size_t index(Part part) { return static_cast<std::size_t>(part); }
constexpr std::size_t kParts = index(Part::Head) + 1;

const LayerKind* kind_of(const Model& model, const ListOf& of) {
  return of.what == ListOf::What::Layer ? &model.kinds[of.kind.at()] : nullptr;
}
// Of a spread vocabulary both tables are with its shares: the first of the embedding's weights, the
// last of the head's.
std::vector<Weight> weights_of(const Model& model, const ListOf& of) {
  const bool spread = of.slice.vocabulary_ways > 1;
  std::vector<Weight> weights;
  switch (of.what) {
    case ListOf::What::Layer: return layer_weights(model, *kind_of(model, of));
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

Weight untied(Weight weight) {
  weight.tied = false;
  return weight;
}

// Whether a trained copy has the dtype of adapters: a program makes it so, or what it is a copy of
// is fp32, too.
bool is_like_adapters(const Recipe& recipe, Part part) {
  return recipe.training.adapters->copies_like_adapters || is_prepared(recipe, part);
}

// Beside the frozen weight, which stays (peft 0.21.2 utils/other.py ModulesToSaveWrapper: a deep
// copy, of tied tables of either).
void add_copy(HeldParameters& held, const Weight& weight, const Recipe& recipe) {
  const Params numbers = size_of(weight);
  if (is_like_adapters(recipe, weight.part)) {
    held.adapter_dense += numbers;
    return;
  }
  held.dense += numbers;
  held.trained_dense += numbers;
}

// A weight as this rank has it.
HeldWeight held_weight(const Weight& weight, const Slice& slice, const Recipe& recipe) {
  HeldWeight held;
  held.tensor = {.in = weight.in, .out = weight.out, .matrix = weight.use != WeightUse::Vector};
  // Filters of one channel each.
  if (weight.use == WeightUse::Convolution) {
    held.tensor.depth = std::exchange(held.tensor.out, 1);
  }
  held.tensor.hidden = weight.use == WeightUse::Matrix && weight.part != Part::Head;
  held.trained = trains(recipe, slice, weight.part);
  held.adapter = has_trained_copy(recipe, weight.part) && is_like_adapters(recipe, weight.part);
  set_experts(held, weight.part, weight.copies, recipe);
  return held;
}
HeldWeight held_bias(const Weight& weight, const Slice& slice, const Recipe& recipe) {
  HeldWeight held = held_weight(weight, slice, recipe);
  held.tensor.in = 1;
  held.tensor.matrix = held.tensor.hidden = false;
  return held;
}
HeldWeight held_matrix(const Operator& op, const Recipe& recipe) {
  HeldWeight held;
  held.tensor = {.in = op.matrix.in, .out = op.matrix.out, .matrix = true};
  held.tensor.hidden = op.part != Part::Head;
  held.trained = op.trained;
  held.adapter =
      op.adapter || (has_trained_copy(recipe, op.part) && is_like_adapters(recipe, op.part));
  set_experts(held, op.part, op.matrices, recipe);
  held.stored = Bytes(op.stored.value() / held.copies);
  return held;
}

}  // namespace

HeldParameters held_parameters(const Weight& weight, const LayerKind* kind, const Slice& slice,
                               const Recipe& recipe) {
  const Params numbers = size_of(local(weight, kind, slice, recipe));
  HeldParameters held;
  (weight.part == Part::RoutedExperts ? held.expert : held.dense) = numbers;
  const bool unsplit = cut_of(weight) == Cut::Vocabulary && !recipe.code.vocabulary_split;
  if (cut_of(weight) == Cut::Whole || unsplit) held.replicated = numbers;
  if (takes_low_precision(weight)) {
    held.low_precision_dense = held.dense;
    held.low_precision_expert = held.expert;
  }
  const bool few_bits = weight.use == WeightUse::Matrix && has_few_bits(recipe, weight.part);
  if (is_prepared(recipe, weight.part) && !few_bits) {
    held.quantised_dense = held.dense;
    held.quantised_expert = held.expert;
    held.stored_dense = Bytes(checked_mul(held.dense.value(), byte_size(Dtype::Fp32)));
    held.stored_expert = Bytes(checked_mul(held.expert.value(), byte_size(Dtype::Fp32)));
  }
  if (has_trained_copy(recipe, weight.part)) {
    add_copy(held, local(untied(weight), kind, slice, recipe), recipe);
  } else if (trains(recipe, slice, weight.part)) {
    held.trained_dense = held.dense;
    held.trained_expert = held.expert;
  }
  return held;
}

HeldParameters held_parameters(std::span<const Weight> weights, const LayerKind* kind,
                               const Slice& slice, const Recipe& recipe) {
  HeldParameters sum;
  for (const Weight& weight : weights) sum += held_parameters(weight, kind, slice, recipe);
  return sum;
}

std::vector<HeldWeight> held_weights(std::span<const Weight> weights, const LayerKind* kind,
                                     const Slice& slice, const Recipe& recipe) {
  std::vector<HeldWeight> held;
  for (const Weight& whole : weights) {
    const Weight weight = local(whole, kind, slice, recipe);
    if (!weight.tied) held.push_back(held_weight(weight, slice, recipe));
    if (weight.bias) held.push_back(held_bias(weight, slice, recipe));
  }
  return held;
}

std::vector<HeldWeight> held_weights(const Model& model, const Recipe& recipe, const ListOf& of,
                                     const OperatorList& list) {
  const LayerKind* kind = kind_of(model, of);
  const std::vector<Weight> weights = weights_of(model, of);
  // Numbers of matrices by part, and of products. Where they differ products say nothing: one may
  // read what is held elsewhere (a tied head), or be counted whole.
  std::array<Params, kParts> matrices{}, products{};
  for (const Weight& weight : weights) {
    if (weight.use != WeightUse::Matrix || weight.tied) continue;
    const HeldWeight held = held_weight(local(weight, kind, of.slice, recipe), of.slice, recipe);
    matrices[index(weight.part)] += numbers_of(held);
  }
  for (const Operator& op : list.operators) {
    if (!op.adapter) products[index(op.part)] += numbers_of(held_matrix(op, recipe));
  }
  const auto joined = [&](Part part) { return matrices[index(part)] == products[index(part)]; };
  std::vector<HeldWeight> all;
  for (const Operator& op : list.operators) {
    const bool known = op.adapter || joined(op.part);
    if (op.matrix.in > 0 && known) all.push_back(held_matrix(op, recipe));
  }
  for (const Weight& whole : weights) {
    const Weight weight = local(whole, kind, of.slice, recipe);
    const bool there = weight.tied || (weight.use == WeightUse::Matrix && joined(weight.part));
    if (!there) all.push_back(held_weight(weight, of.slice, recipe));
    if (weight.bias) all.push_back(held_bias(weight, of.slice, recipe));
  }
  return all;
}

void add_states(HeldParameters& held, std::span<const HeldWeight> weights, const Recipe& recipe) {
  const Training& training = recipe.training;
  for (const HeldWeight& weight : weights) {
    if (!weight.trained) continue;
    const OptimizerStates& states = weight.adapter ? training.adapter_states : training.states;
    const auto all = [&](double bytes) { return rounded(RealBytes(bytes)) * weight.copies; };
    const Bytes stays = all(state_bytes(states, weight.tensor));
    const Bytes goes = all(temporary_bytes(states, weight.tensor));
    (weight.expert ? held.states_expert : held.states_dense) += stays;
    (weight.expert ? held.step_expert : held.step_dense) += goes;
  }
}

Totals totals(const Model& model, const Recipe& recipe, const ListOf& of,
              const OperatorList& list) {
  Totals sum =
      totals(list, held_parameters(weights_of(model, of), kind_of(model, of), of.slice, recipe));
  add_states(sum.parameters, held_weights(model, recipe, of, list), recipe);
  return sum;
}

std::int64_t embedding_copies(const Stage& stage, const Model& model, const Recipe& recipe) {
  if (!stage.away) return 0;
  // Megatron-Core 0.16.1, 0.19.2 models/gpt/gpt_model.py: the head's own is made beside that of the
  // modules, though it then reads theirs.
  const bool for_head = model.tied && stage.head && !stage.head_share;
  const bool for_mtp = recipe.code.mtp_copies_embedding && stage.mtp > 0;
  return (for_head ? 1 : 0) + (for_mtp ? 1 : 0);
}

Bytes boundary_bytes(const Model& model, const Slice& slice, const Recipe& recipe) {
  const std::int64_t rows = detail::local_rows(slice).outer;
  const Dtype stream = settled(recipe, model, slice).wide ? Dtype::Fp32 : recipe.compute;
  return Bytes(checked_mul(checked_mul(rows, model.hidden), byte_size(stream)));
}

}  // namespace trainwright
