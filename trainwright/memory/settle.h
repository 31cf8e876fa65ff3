#pragma once
// Private: what lies beside the allocator's bytes of a class, and how well all of it is known.
#include "trainwright/memory/memory.h"

namespace trainwright::detail {

// Context and communicators: of every rank, and of those that share an embedding.
struct Outside {
  BytesRange context, communicators, with_embedding;
};
Outside outside_of(const OutsideBytes& bytes);

// What tensors take, and how much of it stays whatever runs: weights and optimizer states.
struct AllocatedBytes {
  Bytes all, states;
};

// Reserved beyond allocated: as usually, at the upper end of what happens, and in the first step.
struct SlackBytes {
  RealBytes usual, most, first;
};

// Of one class: bytes outside the allocator, and the spreads of its counters.
struct Settled {
  Bytes context, communicators;
  std::array<Spread, 3> spreads{};
};
Settled settle(const AllocatedBytes& allocated, const SlackBytes& slack, const Outside& outside,
               bool shares_embedding, const Ground& ground, const MemoryConstants& constants);

// Whether a category is of what stays.
constexpr bool is_state(Category category) {
  return category == Category::Weights || category == Category::MainWeights ||
         category == Category::OptimizerStates;
}

}  // namespace trainwright::detail
