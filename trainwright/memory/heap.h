#pragma once
// Private: the memory of a rank while its program is played. Blocks are made and dropped in the
// order of the program; what a collective used comes back late: when the device has come by, that
// is when the host has launched `lead` kernels more (every block made stands for one kernel).
#include <cstdint>
#include <deque>
#include <vector>

#include "trainwright/allocator/allocator.h"

namespace trainwright::detail {

using Blocks = std::vector<BlockId>;
inline constexpr BlockId kNone(-1);

// Streams beside that of all kernels, each with blocks of its own: a block is only used again on
// the stream it was made on. FSDP2 fills flat buffers on one stream and makes sharded gradients on
// another (torch 2.13 _fsdp_collectives.py foreach_all_gather, foreach_reduce).
inline constexpr StreamId kKernels(0), kGathers(1), kReductions(2);

class Heap {
 public:
  Heap(const AllocatorSettings& settings, double lead) : allocator_(settings), lead_(lead) {}

  BlockId make(Bytes bytes, StreamId stream = kKernels);
  BlockId make(RealBytes bytes, StreamId stream = kKernels) { return make(rounded(bytes), stream); }
  void drop(BlockId& block);  // leaves kNone; of kNone nothing
  void drop(Blocks& blocks);  // leaves none
  // The program has it no more, but a collective may still read it.
  void drop_sent(BlockId& block, Bytes bytes);
  void wait_for_device();  // all that was sent is back
  void forget_most();      // `most_requested` counts from here on

  Bytes most_requested() const { return most_requested_; }  // by the program, at one time
  const AllocatorStats& stats() const { return allocator_.stats(); }
  std::int64_t calls() const { return calls_; }  // of the allocator

 private:
  struct Sent {
    BlockId block;
    std::int64_t launched;  // kernels before it was let go
    Bytes bytes;
  };
  void take_back();

  Allocator allocator_;
  double lead_;  // kernels
  std::deque<Sent> sent_;
  Bytes sent_bytes_;
  Bytes most_requested_;
  std::int64_t launched_ = 0;
  std::int64_t calls_ = 0;
};

}  // namespace trainwright::detail
