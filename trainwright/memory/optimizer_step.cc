#include "trainwright/memory/optimizer_step.h"

#include "trainwright/memory/rank_weights.h"

namespace trainwright::detail {
namespace {

void make_states_of(Heap& heap, const HeldWeight& weight, const StateRules& rules, double share) {
  for (const double bytes : state_tensors(bytes_of(weight, rules).states, weight.tensor)) {
    heap.make(RealBytes(bytes * share));
  }
}

RealBytes temporary_of(const HeldWeight& weight, const StateRules& rules) {
  if (!weight.trained) return kNothing;
  return RealBytes(temporary_bytes(bytes_of(weight, rules).states, weight.tensor));
}

}  // namespace

Blocks copy_gradients(Heap& heap, const ReserveQuestion& question) {
  const States& states = question.terms.states;
  const StateRules& rules = question.rules.states;
  Blocks copies;
  if (states.flattened > kNothing) {
    BlockId bucket = heap.make(states.flattened);
    heap.drop(bucket);
  }
  const RealBytes all = copied_gradients(states);
  if (all <= kNothing) return copies;
  if (rules.weights_moved) {
    for_each_shard(question, [&](const HeldWeight& weight, double share) {
      const double bytes = bytes_of(weight, rules).gradient_at_step * numbers_of(weight.tensor);
      copies.push_back(heap.make(RealBytes(bytes * share)));
    });
    return copies;
  }
  for_each_list(question, &PortionBytes::gradients,
                [&](double share) { copies.push_back(heap.make(all * share)); });
  return copies;
}

void make_states(Heap& heap, const ReserveQuestion& question) {
  const StateRules& rules = question.rules.states;
  const RealBytes tables(rules.bytes.states.tables);
  const RealBytes all = question.terms.states.states - tables;
  if (all <= kNothing) return;
  if (tables > kNothing) heap.make(tables);
  if (rules.weights_moved || rules.by_matrix) {
    for_each_shard(question, [&](const HeldWeight& weight, double share) {
      make_states_of(heap, weight, rules, share);
    });
    return;
  }
  RealBytes whole;
  for_each_weight(question, [&](const HeldWeight& weight) {
    if (!weight.trained) return;
    whole += RealBytes(state_bytes(bytes_of(weight, rules).states, weight.tensor));
  });
  for_each_weight(question, [&](const HeldWeight& weight) {
    if (weight.trained) make_states_of(heap, weight, rules, all / whole);
  });
}

void pass_temporaries(Heap& heap, const ReserveQuestion& question) {
  const StateRules& rules = question.rules.states;
  const RealBytes all = question.terms.states.temporaries;
  if (all <= kNothing) return;
  RealBytes whole;
  for_each_weight(question,
                  [&](const HeldWeight& weight) { whole += temporary_of(weight, rules); });
  Blocks blocks;
  for_each_weight(question, [&](const HeldWeight& weight) {
    const RealBytes bytes = temporary_of(weight, rules);
    if (bytes > kNothing) blocks.push_back(heap.make(bytes * all.value() / whole.value()));
  });
  heap.drop(blocks);
}

void pass_gathered_weights(Heap& heap, const ReserveQuestion& question) {
  const States& states = question.terms.states;
  const StateRules& rules = question.rules.states;
  if (states.gathered <= kNothing) return;
  const auto ways = static_cast<double>(rules.sharding.dense.ways);
  const RealBytes whole = states.gathered / (rules.step_gathers + 1 / ways);
  // More parts are too small to matter, and nothing may grow with the ranks of a group.
  constexpr double kMostParts = 1024;
  const double parts = std::min(ways, kMostParts);
  Blocks blocks;
  for (double i = 0; i <= parts; ++i) blocks.push_back(heap.make(whole / parts));
  for (double i = 1; i < rules.step_gathers; ++i) blocks.push_back(heap.make(whole));
  heap.drop(blocks);
}

}  // namespace trainwright::detail
