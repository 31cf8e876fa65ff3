// Which part of a weight one rank of tp, ep and etp holds.
#include <algorithm>
#include <array>

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

}  // namespace

HeldParameters held_parameters(const Weight& weight, const LayerKind* kind, const Slice& slice,
                               const Recipe& recipe) {
  const Params numbers = size_of(local(weight, kind, slice, recipe));
  HeldParameters held;
  (weight.part == Part::RoutedExperts ? held.expert : held.dense) = numbers;
  const bool unsplit = cut_of(weight) == Cut::Vocabulary && !recipe.vocabulary_split;
  if (cut_of(weight) == Cut::Whole || unsplit) held.replicated = numbers;
  if (takes_low_precision(weight)) held.low_precision = numbers;
  if (trains(recipe, slice, weight.part)) {
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

Bytes boundary_bytes(const Model& model, const Slice& slice, const Recipe& recipe) {
  const std::int64_t rows = detail::Builder(model, slice, recipe).rows.outer;
  return Bytes(checked_mul(checked_mul(rows, model.hidden), byte_size(recipe.compute)));
}

}  // namespace trainwright
