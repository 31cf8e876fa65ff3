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
  double count = 1;
  double before = 0, half_after = 0;  // kept by earlier lists; after I, by later ones
  double kept = 0, half = 0;          // of one list
  double forward = 0, backward = 0;   // peaks of one list
  double backward_input = 0;          // and of its I alone
  double parameters = 0;              // of one list
  double parameters_after = 0;        // of all later lists
  bool logits = false;                // head and loss are in it
};

struct ChunkBytes {
  std::vector<PortionBytes> portions;
  double kept = 0;  // of one micro-batch
  double half = 0;  // after I
  double input = 0, output = 0;
  double left_behind = 0;     // logits of earlier micro-batches
  double gather_buffers = 0;  // of products over tp, that stay
  double logits = 0;          // of a stage with the head, in the compute type
  HeldParameters held, trained;
  double parameters = 0;  // of all portions
  double largest = 0;     // peak of one list by itself
  StandIns stand_ins;
};

struct ChunkQuestion {
  const Model& model;
  const Job& job;
  const Recipe& recipe;
  double expert_imbalance = 1;
};
ChunkBytes chunk_bytes(const ChunkQuestion& question, const ChunkContent& content,
                       const Slice& slice, WorkCache& cache);

}  // namespace trainwright::detail
