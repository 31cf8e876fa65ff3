#pragma once
// Private: what the optimizer's step makes: before it, copies of gradients; in the first one, the
// states; in every one, temporaries; after it, whole weights again.
#include "trainwright/memory/heap.h"
#include "trainwright/memory/reserve.h"

namespace trainwright::detail {

// Gradients for the step, which stay until the next one begins; but the bucket they are flattened
// into.
Blocks copy_gradients(Heap& heap, const ReserveQuestion& question);
// Of every weight that is trained one tensor after the other.
void make_states(Heap& heap, const ReserveQuestion& question);
// Of every weight that is trained, all at once, and dropped again.
void pass_temporaries(Heap& heap, const ReserveQuestion& question);
// A rank's own part of the weights, the parts of all ranks one by one, and all of them in one
// buffer; dropped again.
void pass_gathered_weights(Heap& heap, const ReserveQuestion& question);

}  // namespace trainwright::detail
