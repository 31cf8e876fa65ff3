#include "trainwright/memory/standing.h"

#include <array>

#include "trainwright/memory/rank_weights.h"

namespace trainwright::detail {
namespace {

RealBytes weight_bytes(const HeldWeight& weight, const StateRules& rules) {
  if (weight.stored > Bytes(0)) return real(weight.stored);
  return RealBytes(bytes_of(weight, rules).weight * numbers_of(weight.tensor));
}

void make_main_weights(Heap& heap, const ReserveQuestion& question) {
  if (question.terms.states.main_weights <= kNothing) return;
  for_each_shard(question, [&](const HeldWeight& weight, double share) {
    const double each = bytes_of(weight, question.rules.states).master;
    heap.make(RealBytes(each * numbers_of(weight.tensor) * share));
  });
}

// Weight by weight; then buffers for all of them, into which they are moved. What they leave behind
// stays in the cache.
void make_moved(Heap& heap, const ReserveQuestion& question) {
  const StateRules& rules = question.rules.states;
  Blocks originals;
  std::array<RealBytes, 2> weights{}, gradients{};  // dense, expert
  for_each_weight(question, [&](const HeldWeight& weight) {
    const RealBytes bytes = weight_bytes(weight, rules);
    const BlockId block = heap.make(bytes);
    if (!weight.trained) return;
    originals.push_back(block);
    const std::size_t buffer = weight.expert ? 1 : 0;
    weights[buffer] += bytes;
    gradients[buffer] += RealBytes(bytes_of(weight, rules).gradient * numbers_of(weight.tensor));
  });
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == kNothing) continue;
    heap.make(weights[i]);
    heap.make(gradients[i]);
  }
  heap.drop(originals);
  make_main_weights(heap, question);
}

// Weight by weight, wide at first where the model is built so.
void make_one_by_one(Heap& heap, const ReserveQuestion& question) {
  const StateRules& rules = question.rules.states;
  Blocks wide;
  std::vector<RealBytes> sizes;
  for_each_weight(question, [&](const HeldWeight& weight) {
    sizes.push_back(weight_bytes(weight, rules));
    const RealBytes at_first(rules.made * numbers_of(weight.tensor));
    wide.push_back(heap.make(std::max(at_first, sizes.back())));
  });
  for (std::size_t i = 0; i < wide.size() && rules.made > rules.bytes.weight; ++i) {
    heap.make(sizes[i]);
    heap.drop(wide[i]);
  }
  if (question.terms.states.gradients > kNothing) heap.make(question.terms.states.gradients);
  make_main_weights(heap, question);
}

// Weights and main weights list by list, gradients as one buffer.
void make_by_list(Heap& heap, const ReserveQuestion& question) {
  const States& states = question.terms.states;
  for_each_list(question, &PortionBytes::gathered,
                [&](double share) { heap.make(states.weights * share); });
  if (states.gradients > kNothing) heap.make(states.gradients);
  for_each_list(question, &PortionBytes::gradients,
                [&](double share) { heap.make(states.main_weights * share); });
}

}  // namespace

void make_standing(Heap& heap, const ReserveQuestion& question) {
  const StateRules& rules = question.rules.states;
  if (rules.weights_moved) {
    make_moved(heap, question);
  } else if (rules.by_matrix) {
    make_one_by_one(heap, question);
  } else {
    make_by_list(heap, question);
  }
  const GroupTerms& terms = question.terms;
  for (const RealBytes bytes :
       {terms.states.buckets, terms.transport, terms.left_behind, terms.gather_buffers / 2,
        terms.gather_buffers / 2, terms.workspaces, question.rules.product_workspace}) {
    if (bytes > kNothing) heap.make(bytes);
  }
}

}  // namespace trainwright::detail
