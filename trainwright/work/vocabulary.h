#pragma once
// Private: the part of the vocabulary that one rank holds.
#include <cstdint>

#include "trainwright/work/list.h"
#include "trainwright/work/slice.h"

namespace trainwright::detail {

// Rows of the embedding table, columns of the head: over tp if the trainer splits it, padded as it
// pads, and over the pipeline where it is spread.
std::int64_t local_vocabulary(std::int64_t vocabulary, const Slice& slice, const Recipe& recipe);

// Of a vocabulary spread over the pipeline (arXiv:2411.05288) every rank looks up the rows and
// multiplies with the columns that it has, for every micro-batch, beside the passes of its stages.
// The first stage begins with the sum over all ranks, the last one ends with the norm.
OperatorList embedding_share_work(const Model& model, const Slice& slice, const Recipe& recipe);
OperatorList head_share_work(const Model& model, const Slice& slice, const Recipe& recipe);

}  // namespace trainwright::detail
