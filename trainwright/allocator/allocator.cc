#include "trainwright/allocator/allocator.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainwright/allocator/state.h"
#include "trainwright/base/check.h"

namespace trainwright {

using detail::AllocatorState;
using detail::BlockNode;
using detail::kNone;

namespace {

// No device is larger, so that a request beyond it fails like any other and nothing overflows.
constexpr std::int64_t kLargestRequest = std::int64_t{1} << 60;

std::int64_t allowed_bytes(const AllocatorSettings& settings) {
  const std::int64_t capacity = settings.capacity.value();
  if (!settings.memory_fraction) return capacity;
  return static_cast<std::int64_t>(*settings.memory_fraction * static_cast<double>(capacity));
}

// Two decimals, as PyTorch's format_size.
std::string size_in_message(Bytes size) {
  const auto number = static_cast<double>(size.value());
  if (size.value() <= 1 << 10) return fmt::format("{} bytes", size.value());
  if (size.value() <= 1 << 20) return fmt::format("{:.2f} KiB", number / (1 << 10));
  if (size.value() <= 1 << 30) return fmt::format("{:.2f} MiB", number / (1 << 20));
  return fmt::format("{:.2f} GiB", number / (1 << 30));
}

std::string out_of_memory_text(const AllocatorState& state, Bytes requested) {
  const AllocatorStats& stats = state.stats;
  const Bytes capacity = state.settings.capacity;
  if (state.settings.strategy == AllocatorStrategy::Paddle) {
    return fmt::format(
        "Out of memory error on GPU 0. Cannot allocate {} memory on GPU 0, {} memory has been "
        "allocated and available memory is only {}.",
        size_in_message(requested), size_in_message(stats.reserved),
        size_in_message(Bytes(state.allowed) - stats.reserved));
  }
  const std::string allowed =
      state.settings.memory_fraction
          ? fmt::format("{} allowed; ", size_in_message(Bytes(state.allowed)))
          : "";
  return fmt::format(
      "CUDA out of memory. Tried to allocate {}. GPU 0 has a total capacity of {} of which {} is "
      "free. {}Of the allocated memory {} is allocated by PyTorch, and {} is reserved by PyTorch "
      "but unallocated.{}",
      size_in_message(requested), size_in_message(capacity),
      size_in_message(capacity - stats.reserved), allowed, size_in_message(stats.allocated),
      size_in_message(stats.reserved - stats.allocated),
      state.settings.expandable_segments
          ? ""
          : " If reserved but unallocated memory is large try setting "
            "PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.");
}

void count_allocated(AllocatorStats& stats, std::int64_t size, std::int64_t requested) {
  stats.allocated += Bytes(size);
  stats.requested += Bytes(requested);
  stats.allocated_peak = std::max(stats.allocated_peak, stats.allocated);
  stats.requested_peak = std::max(stats.requested_peak, stats.requested);
}

// The mapped blocks from `first` to the end of its segment or mapped range.
Segment segment_from(const AllocatorState& state, std::int32_t first) {
  const BlockNode& head = state.at(first);
  Segment segment{.address = head.address,
                  .size = Bytes(0),
                  .stream = StreamId(head.stream),
                  .small = head.small,
                  .expandable = head.expandable,
                  .blocks = {}};
  for (std::int32_t at = first; at != kNone && state.at(at).mapped; at = state.at(at).next) {
    const BlockNode& node = state.at(at);
    segment.size += Bytes(node.size);
    segment.blocks.push_back({node.address, Bytes(node.size), Bytes(node.requested), node.state});
  }
  return segment;
}

}  // namespace

double AllocatorStats::fragmentation() const {
  return reserved == Bytes(0) ? 0 : 1 - allocated / reserved;
}

Allocator::Allocator(const AllocatorSettings& settings)
    : state_(std::make_unique<AllocatorState>()) {
  TW_CHECK(check(settings).empty(), "settings are checked before");
  state_->settings = settings;
  state_->allowed = allowed_bytes(settings);
  state_->max_split_size = settings.max_split_size ? settings.max_split_size->value() : INT64_MAX;
}
Allocator::~Allocator() = default;
Allocator::Allocator(Allocator&&) noexcept = default;
Allocator& Allocator::operator=(Allocator&&) noexcept = default;

std::optional<BlockId> Allocator::allocate(Bytes requested, StreamId stream) {
  AllocatorState& state = *state_;
  TW_CHECK(requested >= Bytes(0) && stream.index() >= 0, "sizes and streams are not negative");
  std::int32_t block = kNone;
  const std::int64_t bounded = std::min(requested.value(), kLargestRequest);
  if (bounded == 0) {
    block = detail::new_block(state, {.mapped = false});
  } else if (state.settings.strategy == AllocatorStrategy::PyTorch) {
    block = detail::allocate_pytorch(state, bounded, stream.index());
  } else {
    block = detail::allocate_paddle(state, bounded, stream.index());
  }
  if (block == kNone) {
    ++state.stats.out_of_memory;
    state.message = out_of_memory_text(state, requested);
    return std::nullopt;
  }
  BlockNode& node = state.at(block);
  node.state = BlockState::Allocated;
  node.requested = bounded;
  count_allocated(state.stats, node.size, node.requested);
  return BlockId(block);
}

void Allocator::free(BlockId block) {
  AllocatorState& state = *state_;
  const std::int32_t index = block.index();
  BlockNode& node = state.at(index);
  TW_CHECK(node.state == BlockState::Allocated, "a block is freed once");
  count_allocated(state.stats, -node.size, -node.requested);
  if (node.size == 0) {
    node.state = BlockState::Free;
    state.used_on.erase(index);
    state.unused.push_back(index);
    return;
  }
  const auto users = state.used_on.empty() ? state.used_on.end() : state.used_on.find(index);
  if (users == state.used_on.end()) {
    detail::make_free(state, index);
    return;
  }
  node.state = BlockState::AwaitingFree;
  for (const std::int32_t stream : users->second) {
    state.waiting[stream].blocks.push_back(index);
    ++node.waits;
  }
  state.used_on.erase(users);
}

void Allocator::record_stream(BlockId block, StreamId user) {
  const BlockNode& node = state_->at(block.index());
  TW_CHECK(node.state == BlockState::Allocated, "a freed block is used on no stream");
  if (node.stream != user.index()) state_->used_on[block.index()].insert(user.index());
}

void Allocator::complete(StreamId stream) {
  const auto found = state_->waiting.find(stream.index());
  if (found == state_->waiting.end()) return;
  found->second.ready = found->second.blocks.size();
  state_->any_ready = true;
}

void Allocator::empty_cache() {
  if (state_->settings.strategy == AllocatorStrategy::PyTorch) {
    detail::empty_cache_pytorch(*state_);
  } else {
    detail::empty_cache_paddle(*state_);
  }
}

std::int64_t Allocator::address(BlockId block) const { return state_->at(block.index()).address; }
const AllocatorStats& Allocator::stats() const { return state_->stats; }
const std::string& Allocator::out_of_memory_message() const { return state_->message; }
void Allocator::keep_segment_events() { state_->events_kept = true; }
std::vector<SegmentEvent> Allocator::take_segment_events() { return std::move(state_->events); }

std::vector<Segment> Allocator::segments() const {
  std::vector<bool> dead(state_->blocks.size(), false);
  for (const std::int32_t block : state_->unused) dead[static_cast<std::size_t>(block)] = true;
  std::vector<Segment> segments;
  for (std::size_t i = 0; i < state_->blocks.size(); ++i) {
    const BlockNode& node = state_->blocks[i];
    if (dead[i] || !node.mapped) continue;
    if (node.previous != kNone && state_->at(node.previous).mapped) continue;
    segments.push_back(segment_from(*state_, static_cast<std::int32_t>(i)));
  }
  std::sort(segments.begin(), segments.end(),
            [](const Segment& a, const Segment& b) { return a.address < b.address; });
  return segments;
}

}  // namespace trainwright
