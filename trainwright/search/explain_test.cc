#include "trainwright/search/explain.h"

#include <doctest/doctest.h>

#include <set>

#include "trainwright/testing/search_cases.h"

namespace trainwright {
namespace {

using testing::Job8;

Layout layout_of(const Job8& job, const std::string& text) {
  return parse_layout(text, {.world = 8, .usual = usual_layout(job.trainer)})->layout;
}

TEST_CASE("one step aside changes one knob on the same accelerators and batch") {
  const Job8 job;
  const Layout here = layout_of(job, "tp=2,pp=2,sp,zero=1,mbs=1,gbs=64,seq=4096");
  const auto list = *neighbours(job.question(), here);
  std::set<std::string> knobs;
  for (const Neighbour& of : list) {
    CHECK(world_size(of.judged.layout) == 8);
    CHECK(of.judged.layout.gbs == 64);
    CHECK(of.from != of.to);
    CHECK(of.judged.refused.empty() == of.judged.time.has_value());
    knobs.insert(of.knob + " " + of.to);
  }
  // Halved and doubled; 32 layers take two chunks; nothing is run again yet, states are shared.
  for (const char* expected : {"tp 1", "tp 4", "pp 1", "pp 4", "vpp 2", "cp 2", "mbs 2",
                               "recompute selective", "sharding ddp"}) {
    CAPTURE(expected);
    CHECK(knobs.contains(expected));
  }
  CHECK(!knobs.contains("ep 2"));
}

TEST_CASE("a step to tensor parallelism splits tokens only where the trainer does") {
  Job8 job;
  const auto sp_at_two = [&] {
    const Layout here = layout_of(job, "zero=1,mbs=1,gbs=64,seq=4096");
    const auto list = *neighbours(job.question(), here);
    for (const Neighbour& of : list) {
      if (of.judged.layout.tp == 2) return of.judged.layout.sp;
    }
    FAIL("no neighbour with tp=2");
    return false;
  };
  CHECK(sp_at_two());
  job.trainer = *find_trainer("deepspeed", TRAINWRIGHT_SOURCE_DIR "/data");
  CHECK(!sp_at_two());
}

TEST_CASE("differences of two steps add up to that of their times, largest first") {
  const Job8 job;
  const Judged one = *judged(job.question(), layout_of(job, "dp=8,zero=1,mbs=1,gbs=64,seq=4096"));
  const Judged two = *judged(job.question(), layout_of(job, "tp=8,sp,mbs=1,gbs=64,seq=4096"));
  Seconds sum;
  double before = 1e9;
  for (const auto& [part, more] : differences(*one.time, *two.time)) {
    sum += more;
    CHECK(std::abs(more.value()) <= before);
    before = std::abs(more.value());
  }
  CHECK(sum.value() == doctest::Approx((two.time->step - one.time->step).value()));
}

TEST_CASE("a layout that the trainer refuses has its reasons and no figures") {
  const Job8 job;
  // 32 heads do not split three ways, and 8 accelerators are no multiple of 3.
  const Judged none = *judged(job.question(), layout_of(job, "tp=3,dp=1,mbs=1,gbs=64,seq=4096"));
  CHECK(!none.refused.empty());
  CHECK(!none.time.has_value());
  CHECK(!none.memory.has_value());
}

TEST_CASE("more memory is never slower") {
  const Job8 job("8xA100-40GB");
  const SearchQuestion question = job.question();
  const Seconds here = search(question)->best.front().time.step;
  const auto twice = *fastest_with_memory(question, 2);
  REQUIRE(twice.has_value());
  CHECK(twice->time.step < here);  // 7 B parameters and 40 GB: recompute or small micro-batches
}

}  // namespace
}  // namespace trainwright
