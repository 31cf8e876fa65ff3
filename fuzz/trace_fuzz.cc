// Whatever the trace reader accepts replays without a fault, under every way of counting, and reads
// back from its own text. The same bytes are tried as a snapshot and as allocator settings.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "trainwright/replay/replay.h"

using namespace trainwright;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void replay_everyway(const Trace& trace) {
  AllocatorSettings expandable{.capacity = Bytes(std::int64_t{1} << 30)};
  expandable.expandable_segments = true;
  const AllocatorSettings paddle{.strategy = AllocatorStrategy::Paddle};
  for (const Aliases aliases : {Aliases::Honour, Aliases::Ignore}) {
    const Trace resolved = resolve(trace, aliases);
    for (const AllocatorSettings& settings : {AllocatorSettings{}, expandable, paddle}) {
      const Replay replayed = replay(resolved, {.rounding = Bytes(512), .allocator = settings});
      require(replayed.live.size() == resolved.ops.size());
      require(replayed.after.size() == resolved.ops.size());
      Bytes kinds;
      for (const Bytes bytes : replayed.by_kind) kinds += bytes;
      require(kinds == replayed.peak);
    }
    require(to_text(*parse_trace(to_text(resolved), "again")) == to_text(resolved));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto trace = parse_trace(text, "fuzz")) replay_everyway(*trace);
  (void)replay_snapshot(text, "fuzz");
  (void)parse_allocator_settings(text);
  return 0;
}
