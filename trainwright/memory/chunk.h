#pragma once
// Private: bytes of one chunk and one micro-batch, read off the operator lists.
#include <cstdint>
#include <vector>

#include "trainwright/memory/content.h"
#include "trainwright/work/work.h"

namespace trainwright::detail {

// Bytes are doubles here: whole numbers are exact up to 2^53, and nothing a user asks for can
// overflow.
inline double number(Bytes bytes) { return static_cast<double>(bytes.value()); }
inline double number(Params count) { return static_cast<double>(count.value()); }

// `count` equal lists in a row.
struct PortionBytes {
  const Totals* totals = nullptr;
  const ListOf* list = nullptr;
  double count = 1;
  double before = 0, half_after = 0;          // kept by earlier lists; after I, by later ones
  double kept = 0, half = 0;                  // of one list
  double forward = 0, backward = 0;           // peaks of one list
  double backward_input = 0;                  // and of its I alone
  double gathered = 0, gathered_before = 0;   // its weights as kernels read them; of earlier lists
  double unreduced = 0, unreduced_after = 0;  // its gradients as kernels make them; of later lists
  double gradients = 0, gradients_after = 0;  // as they are summed up
  bool logits = false;                        // head and loss are in it
};

struct ChunkBytes {
  std::vector<PortionBytes> portions;
  double kept = 0;  // of one micro-batch
  double half = 0;  // after I
  double input = 0, output = 0;
  double left_behind = 0;       // logits of earlier micro-batches
  std::vector<Portion> shares;  // of a spread vocabulary
  double head_share = 0;        // of these, for one micro-batch beside all others
  double gather_buffers = 0;    // of products over tp, that stay
  double logits = 0;            // of a stage with the head, in the compute type
  HeldParameters held;
  double gathered = 0, unreduced = 0, gradients = 0;  // of all portions
  double largest = 0;                                 // peak of one list by itself
  StandIns stand_ins;
};

// Bytes of one parameter of the model and of one of an adapter: as kernels read it, of its gradient
// as they make it and as it is summed up.
struct PassBytes {
  double compute = 2, gradient = 2;
  double adapter_compute = 2, adapter_gradient = 2;
};

struct ChunkQuestion {
  const Model& model;
  const Recipe& recipe;
  PassBytes bytes;
  double expert_imbalance = 1;
};
ChunkBytes chunk_bytes(const ChunkQuestion& question, const ChunkContent& content,
                       const Slice& slice, WorkCache& cache);

}  // namespace trainwright::detail
