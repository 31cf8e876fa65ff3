#pragma once
// Private: bytes of one chunk and one micro-batch, read off the operator lists.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "trainwright/memory/memory.h"
#include "trainwright/work/work.h"

namespace trainwright::detail {

// Bytes are RealBytes in this module: whole numbers are exact up to 2^53, and nothing a user asks
// for can overflow.
inline double number(Params count) { return static_cast<double>(count.value()); }
inline constexpr RealBytes kNothing(0);
inline Bytes whole(RealBytes bytes) {
  return Bytes(static_cast<std::int64_t>(std::clamp(bytes.value(), 0.0, 0x1.0p60)));
}

// `count` equal lists in a row.
struct PortionBytes {
  const Totals* totals = nullptr;
  const ListOf* list = nullptr;
  double count = 1;
  RealBytes kept_before, half_after;     // kept by earlier lists; after I, by later ones
  RealBytes kept, half;                  // of one list
  RealBytes forward, backward;           // peaks of one list
  RealBytes backward_input;              // and of its I alone
  RealBytes gathered, gathered_before;   // its weights as kernels read them; of earlier lists
  RealBytes unreduced, unreduced_after;  // its gradients as kernels make them; of later lists
  RealBytes gradients, gradients_after;  // as they are summed up
  bool logits = false;                   // head and loss are in it
  bool end = false;                      // embedding, or head and loss: no layer
  bool chunked = false;  // the loss is, and the head's gradients are summed up there
};

struct ChunkBytes {
  std::vector<PortionBytes> portions;
  RealBytes kept;  // of one micro-batch
  RealBytes half;  // after I
  RealBytes input, output;
  RealBytes left_behind;        // logits of earlier micro-batches
  std::vector<Portion> shares;  // of a spread vocabulary; a copied embedding
  RealBytes head_share;         // of these, for one micro-batch beside all others
  RealBytes gather_buffers;     // of products over tp, that stay
  RealBytes logits;             // of a stage with the head, in the compute type
  HeldParameters held;
  RealBytes gathered, unreduced, gradients;  // of all portions
  RealBytes largest;                         // peak of one list by itself
  StandIns stand_ins;
};

// Bytes of one parameter of the model and of one of an adapter: as kernels read it (gathered, one
// that low-precision products take), of its gradient as they make it and as it is summed up.
struct PassBytes {
  double compute = 2, compute_low = 2, gradient = 2;
  double adapter_compute = 2, adapter_gradient = 2;
};

struct ChunkQuestion {
  const Model& model;
  const Recipe& recipe;
  PassBytes bytes;
  RankLoad experts = {};  // of the busiest rank
};
// The busiest rank of a layout's experts.
RankLoad expert_load_of(const MemoryConstants& constants, const Model& model, const Slice& slice,
                        std::int64_t pp);
ChunkBytes chunk_bytes(const ChunkQuestion& question, const StageContent& content,
                       const Slice& slice, WorkCache& cache);

}  // namespace trainwright::detail
