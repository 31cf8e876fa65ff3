#pragma once
// Private: the part of the vocabulary that one rank holds.
#include <cstdint>

#include "trainwright/work/slice.h"

namespace trainwright::detail {

// Rows of the embedding table, columns of the head: over tp if the trainer splits it, padded as it
// pads, and over the pipeline where it is spread.
std::int64_t local_vocabulary(std::int64_t vocabulary, const Slice& slice, const Recipe& recipe);

}  // namespace trainwright::detail
