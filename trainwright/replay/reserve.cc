// The allocations of a trace through a model of a caching allocator.
#include "trainwright/replay/walk.h"

namespace trainwright::detail {
namespace {

constexpr std::int32_t kNoBlock = -1;

class Reserver {
 public:
  Reserver(const Trace& trace, const AllocatorSettings& settings)
      : trace_(trace), allocator_(settings), blocks_(trace.storages.size(), kNoBlock) {
    reserved_.after_op.reserve(trace.ops.size());
  }

  void apply(const TraceEvent& event) {
    const auto subject = static_cast<std::size_t>(event.subject);
    switch (event.kind) {
      case TraceEvent::Kind::Op: return run(OpId(event.subject));
      case TraceEvent::Kind::Exist:
        return allocate(subject, trace_.storages[subject].size, StreamId(0));
      case TraceEvent::Kind::Free: return free(subject);
      case TraceEvent::Kind::Resize:
        free(subject);
        return allocate(subject, Bytes(event.value), StreamId(0));
      case TraceEvent::Kind::Use:
        if (blocks_[subject] == kNoBlock) return;
        return allocator_.record_stream(BlockId(blocks_[subject]),
                                        StreamId(static_cast<std::int32_t>(event.value)));
      case TraceEvent::Kind::Done: return allocator_.complete(StreamId(event.subject));
      case TraceEvent::Kind::Relabel:
      case TraceEvent::Kind::Mark:
      case TraceEvent::Kind::View:
      case TraceEvent::Kind::InPlace:
      case TraceEvent::Kind::Persist: return;
    }
  }

  void note_peak() { reserved_.at_live_peak = allocator_.stats().reserved; }

  ReservedBytes finish() && {
    reserved_.stats = allocator_.stats();
    return std::move(reserved_);
  }

 private:
  void run(OpId index) {
    now_ = index;
    const TraceOp& op = trace_.ops[index.at()];
    for (std::size_t i = 0; i < op.made; ++i) {
      const std::size_t storage = op.made_first.at() + i;
      allocate(storage, trace_.storages[storage].size, op.stream);
    }
    reserved_.after_op.push_back(allocator_.stats().reserved);
  }

  void allocate(std::size_t storage, Bytes size, StreamId stream) {
    if (const auto block = allocator_.allocate(size, stream)) {
      blocks_[storage] = block->index();
    } else if (!reserved_.out_of_memory) {
      reserved_.out_of_memory = now_;
      reserved_.message = allocator_.out_of_memory_message();
    }
  }

  void free(std::size_t storage) {
    if (blocks_[storage] == kNoBlock) return;
    allocator_.free(BlockId(blocks_[storage]));
    blocks_[storage] = kNoBlock;
  }

  const Trace& trace_;
  Allocator allocator_;
  std::vector<std::int32_t> blocks_;  // by storage
  OpId now_{-1};
  ReservedBytes reserved_;
};

}  // namespace

ReservedBytes reserve(const Trace& trace, const AllocatorSettings& settings,
                      std::size_t peak_event) {
  Reserver reserver(trace, settings);
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    reserver.apply(trace.events[i]);
    if (i == peak_event) reserver.note_peak();
  }
  return std::move(reserver).finish();
}

}  // namespace trainwright::detail
