#pragma once
// A caching allocator as a value: allocations and frees in, segments, reserved bytes, fragmentation
// and the out-of-memory message out. No memory is touched; addresses are numbers we invent.
//
// A device call (cudaMalloc) is slow, so a trainer's allocator keeps what it got. It asks the
// device for *segments*, cuts them into *blocks*, and hands out the smallest free block that is
// large enough. What it holds ("reserved") is therefore more than what the program uses
// ("allocated"), and reserved is what must fit on the device:
//
//   requested <= allocated <= reserved <= capacity
//
// Strategies:
//   PyTorch   CUDACachingAllocator.cpp of PyTorch 2.x. Sizes round up to 512 bytes; requests up to
//             1 MiB live in 2 MiB segments (small pool), others in segments of 20 MiB, or of their
//             own size rounded up to 2 MiB from 10 MiB on (large pool). Best fit, lowest address
//             first; free neighbours merge; nothing goes back to the device until it runs short.
//             With `expandable` one growing segment per stream and pool is mapped in pages.
//   Paddle    AutoGrowthBestFitAllocator of PaddlePaddle: 256-byte alignment, one segment ("chunk")
//             per miss, best fit, cuts the request off the *end* of a free block.
//
// Assumptions: new segments get increasing addresses that do not touch (a real device's are
// unknown; they only decide ties); the device grants every request up to `capacity`.
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/base/ids.h"
#include "trainwright/base/result.h"
#include "trainwright/base/units.h"

namespace trainwright {

namespace detail {
struct AllocatorState;  // state.h
}

using StreamId = Id<struct StreamTag>;  // a device queue; memory freed on one is reused on that one
using BlockId = Id<struct BlockTag>;    // an allocation that has not been freed yet

enum class AllocatorStrategy { PyTorch, Paddle };

// How an allocator behaves. The names are those of PYTORCH_ALLOC_CONF where it has one.
struct AllocatorSettings {
  AllocatorStrategy strategy = AllocatorStrategy::PyTorch;
  // What the device has for this allocator. The default never runs out.
  Bytes capacity = Bytes(std::int64_t{1} << 50);
  // The share of the capacity the program may take (set_per_process_memory_fraction). Garbage
  // collection only runs when it is set, as in PyTorch.
  std::optional<double> memory_fraction = std::nullopt;

  // PyTorch only.
  bool expandable_segments = false;
  std::optional<Bytes> max_split_size = std::nullopt;       // blocks from here on are never split
  Bytes max_non_split_rounding = Bytes(20 << 20);           // slack such a block may have
  std::array<std::int32_t, 16> roundup_power2_divisions{};  // for sizes from 1 MiB << i; 0: off
  double garbage_collection_threshold = 0;                  // share of the allowed memory; 0: off
  Bytes large_segment = Bytes(20 << 20);                    // large_segment_size_mb

  // Paddle only: FLAGS_auto_growth_chunk_size_in_mb; a chunk is at least this large.
  Bytes chunk_size = Bytes(0);

  friend bool operator==(const AllocatorSettings&, const AllocatorSettings&) = default;
};

// Reads the text of PYTORCH_ALLOC_CONF, for example
// "expandable_segments:True,max_split_size_mb:128,roundup_power2_divisions:[256:1,512:2,>:4]".
// Settings that do not change what is reserved (backend, pinned memory) are accepted and ignored.
Result<AllocatorSettings> parse_allocator_settings(std::string_view text);
// Faults in settings that no text made: fractions outside (0, 1], max_split_size under 20 MiB, ...
Diagnostics check(const AllocatorSettings& settings);

enum class BlockState { Allocated, AwaitingFree, Free };

struct Block {
  std::int64_t address = 0;
  Bytes size;
  Bytes requested;  // 0 when free
  BlockState state = BlockState::Free;

  friend bool operator==(const Block&, const Block&) = default;
};

// One piece of device memory with its blocks, which lie side by side without gaps. Of an expandable
// segment only the mapped ranges are listed, each as a segment of its own.
struct Segment {
  std::int64_t address = 0;
  Bytes size;
  StreamId stream;
  bool small = false;       // small or large pool
  bool expandable = false;  // a mapped range of an expandable segment
  std::vector<Block> blocks;

  friend bool operator==(const Segment&, const Segment&) = default;
};

struct AllocatorStats {
  Bytes requested, allocated, reserved;                 // now
  Bytes requested_peak, allocated_peak, reserved_peak;  // the most of each so far, at any time
  std::int64_t segments_made = 0;      // device calls that gave memory (a mapping counts as one)
  std::int64_t segments_freed = 0;     // device calls that gave memory back
  std::int64_t retries = 0;            // times the cache was emptied to satisfy a request
  std::int64_t garbage_collected = 0;  // segments freed by garbage collection
  std::int64_t out_of_memory = 0;      // requests that failed

  // The share of reserved memory that is not allocated: 1 - allocated / reserved; 0 if none is.
  double fragmentation() const;

  friend bool operator==(const AllocatorStats&, const AllocatorStats&) = default;
};

// A change of what the device has given: positive size for a new or mapped range, negative for one
// given back.
struct SegmentEvent {
  std::int64_t address = 0;
  std::int64_t size = 0;
  StreamId stream;

  friend bool operator==(const SegmentEvent&, const SegmentEvent&) = default;
};

// The allocator of one device. Every operation is O(log n) in the number of free blocks of one
// stream and pool, except those that search the cache when the device is full.
class Allocator {
 public:
  // Settings must have passed `check`.
  explicit Allocator(const AllocatorSettings& settings = {});
  ~Allocator();
  Allocator(Allocator&&) noexcept;
  Allocator& operator=(Allocator&&) noexcept;

  // Nullopt when the device is full even after emptying the cache; `out_of_memory_message` then
  // says why. A request of 0 bytes occupies nothing but has an id all the same.
  std::optional<BlockId> allocate(Bytes requested, StreamId stream = StreamId(0));
  // The id may be used again afterwards.
  void free(BlockId block);
  // The block is also used on another stream: when freed it waits until that stream is done.
  void record_stream(BlockId block, StreamId user);
  // The work queued on that stream so far is done: the blocks that waited for it become free at the
  // next allocation, where PyTorch looks.
  void complete(StreamId stream);
  // Gives back every segment without a block in use (torch.cuda.empty_cache).
  void empty_cache();

  std::int64_t address(BlockId block) const;
  const AllocatorStats& stats() const;
  // In address order.
  std::vector<Segment> segments() const;
  // What the device gave and got back since the last call, in order; kept only when asked for.
  void keep_segment_events();
  std::vector<SegmentEvent> take_segment_events();
  // Worded as the trainer words it, for the request that failed last; empty if none did.
  const std::string& out_of_memory_message() const;

 private:
  std::unique_ptr<detail::AllocatorState> state_;
};

}  // namespace trainwright
