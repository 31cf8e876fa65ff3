#include "trainwright/memory/heap.h"

#include <algorithm>

#include "trainwright/base/check.h"

namespace trainwright::detail {

BlockId Heap::make(Bytes bytes, StreamId stream) {
  ++calls_;
  ++launched_;
  while (!sent_.empty() && static_cast<double>(launched_ - sent_.front().launched) > lead_) {
    take_back();
  }
  const auto block = allocator_.allocate(bytes, stream);
  TW_CHECK(block.has_value(), "an allocator without limit ran out");
  most_requested_ = std::max(most_requested_, stats().requested - sent_bytes_);
  return *block;
}

void Heap::drop(BlockId& block) {
  if (block == kNone) return;
  ++calls_;
  allocator_.free(block);
  block = kNone;
}

void Heap::drop(Blocks& blocks) {
  for (BlockId& block : blocks) drop(block);
  blocks.clear();
}

void Heap::drop_sent(BlockId& block, Bytes bytes) {
  if (lead_ <= 0) return drop(block);
  if (block == kNone) return;
  sent_.push_back({block, launched_, bytes});
  sent_bytes_ += bytes;
  block = kNone;
}

void Heap::wait_for_device() {
  while (!sent_.empty()) take_back();
}

void Heap::forget_most() { most_requested_ = stats().requested; }

void Heap::take_back() {
  drop(sent_.front().block);
  sent_bytes_ -= sent_.front().bytes;
  sent_.pop_front();
}

}  // namespace trainwright::detail
