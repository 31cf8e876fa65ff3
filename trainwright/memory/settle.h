#pragma once
// Private: what lies beside the allocator's bytes of a class, and how well all of it is known.
#include "trainwright/memory/memory.h"

namespace trainwright::detail {

// Context and communicators: of every rank, and of those that share a tied embedding.
struct Outside {
  BytesRange context, communicators, with_embedding;
};
Outside outside_of(const OutsideBytes& bytes);

// How well the bytes of a trainer's ranks can be known.
struct KnownBy {
  bool assumed = false;  // some facts are assumed or learned
  bool late = false;     // tensors of collectives come back late
};
KnownBy known_by(const Trainer& trainer);

// Reserved beyond allocated: as usually, at the upper end of what happens, and in the first step.
struct SlackBytes {
  RealBytes usual, most, first;
};

// Of one class: bytes outside the allocator, and the spreads of its counters.
struct Settled {
  Bytes context, communicators;
  std::array<Spread, 3> spreads{};
};
Settled settle(Bytes allocated, const SlackBytes& slack, const Outside& outside,
               bool shares_embedding, const KnownBy& known, const MemoryConstants& constants);

}  // namespace trainwright::detail
