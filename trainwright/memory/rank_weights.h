#pragma once
// Private: the weights of a rank as its program makes them, one by one or list by list.
#include <algorithm>

#include "trainwright/memory/reserve.h"

namespace trainwright::detail {

inline const ParameterBytes& bytes_of(const HeldWeight& weight, const StateRules& rules) {
  return weight.adapter ? rules.adapter : rules.bytes;
}

template <class Use>
void for_each_weight(const ReserveQuestion& question, Use use) {
  for (const ChunkProgram& chunk : question.chunks) {
    for (const ListWeights* list : chunk.weights) {
      for (const HeldWeight& weight : list->tensors) use(weight);
    }
  }
}

// This rank's part of what is trained, as use(weight, share): the first weights, and a share of the
// last of them.
template <class Use>
void for_each_shard(const ReserveQuestion& question, Use use) {
  const Sharding& sharding = question.rules.states.sharding;
  for (const bool expert : {false, true}) {
    const double ways = static_cast<double>((expert ? sharding.expert : sharding.dense).ways);
    const auto mine = [&](const HeldWeight& weight) {
      return weight.trained && weight.expert == expert;
    };
    double left = 0;  // numbers
    for_each_weight(question, [&](const HeldWeight& weight) {
      if (mine(weight)) left += numbers_of(weight.tensor) / ways;
    });
    for_each_weight(question, [&](const HeldWeight& weight) {
      if (!mine(weight) || left < 1) return;
      const double numbers = numbers_of(weight.tensor);
      use(weight, std::min(left, numbers) / numbers);
      left -= numbers;
    });
  }
}

// Every list as use(share): of the weights of all lists, or of their gradients.
template <class Use>
void for_each_list(const ReserveQuestion& question, RealBytes PortionBytes::* of, Use use) {
  RealBytes all;
  for (const ChunkProgram& chunk : question.chunks) {
    for (const PortionBytes* portion : chunk.portions) all += portion->*of;
  }
  for (const ChunkProgram& chunk : question.chunks) {
    for (const PortionBytes* portion : chunk.portions) {
      if (portion->*of > RealBytes(0)) use(portion->*of / all);
    }
  }
}

}  // namespace trainwright::detail
