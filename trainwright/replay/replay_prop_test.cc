// What holds for every trace.
#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "trainwright/replay/replay.h"
#include "trainwright/testing/slow_liveness.h"

using namespace trainwright;

namespace {

Random some_random() { return Random(*rc::gen::arbitrary<std::uint64_t>()); }

}  // namespace

TEST_CASE("live bytes, peak and sums are those of counting every storage at every op") {
  CHECK(rc::check([] {
    Random random = some_random();
    const auto read = parse_trace(testing::random_trace(random, 40), "random");
    RC_ASSERT(read.has_value());
    const Trace& trace = *read;
    const Replay replayed = replay(trace);
    Bytes peak;
    std::size_t op = 0;
    for (std::size_t e = 0; e < trace.events.size(); ++e) {
      const Bytes live = testing::slow_live(trace, e);
      peak = std::max(peak, live);
      if (trace.events[e].kind == TraceEvent::Kind::Op) RC_ASSERT(replayed.live[op++] == live);
    }
    RC_ASSERT(replayed.peak == peak);
    Bytes kinds, modules;
    for (const Bytes bytes : replayed.by_kind) kinds += bytes;
    for (const auto& [module, bytes] : replayed.by_module) modules += bytes;
    RC_ASSERT(kinds == peak);
    RC_ASSERT(modules == peak);
    RC_ASSERT(to_text(*parse_trace(to_text(trace), "again")) == to_text(trace));
  }));
}

TEST_CASE(
    "the allocator never reserves less than is live, and suggestions never promise too much") {
  CHECK(rc::check([] {
    Random random = some_random();
    const Trace trace = *parse_trace(testing::random_trace(random, 60), "random");
    const Replay replayed = replay(trace, {.allocator = AllocatorSettings{}});
    RC_ASSERT(replayed.reserved->at_live_peak >= replayed.peak);
    RC_ASSERT(replayed.reserved->stats.requested_peak >= replayed.peak);
    for (const RecomputeOption& option : replayed.recompute) {
      RC_ASSERT(option.saved > Bytes(0));
      RC_ASSERT(option.saved <= option.size);
      RC_ASSERT(option.ops >= 1);
    }
  }));
}

TEST_CASE("a static program's variables live from their op to their last use") {
  CHECK(rc::check([] {
    Random random = some_random();
    const Trace program = *parse_trace(testing::random_program(random, 30, true), "random");
    const Replay replayed = replay(resolve(program, Aliases::Ignore));
    for (std::size_t i = 0; i < program.ops.size(); ++i) {
      RC_ASSERT(replayed.live[i] == testing::slow_live_static(program, i));
    }
  }));
}

TEST_CASE("doing things in place never needs more memory") {
  CHECK(rc::check([] {
    Random random = some_random();
    const Trace program = *parse_trace(testing::random_program(random, 40, false), "random");
    const Replay in_place = replay(resolve(program, Aliases::Honour));
    const Replay separate = replay(resolve(program, Aliases::Ignore));
    RC_ASSERT(in_place.peak <= separate.peak);
  }));
}
