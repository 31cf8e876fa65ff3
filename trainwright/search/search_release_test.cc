#include <doctest/doctest.h>

#include <set>
#include <tuple>

#include "trainwright/search/search.h"
#include "trainwright/testing/layout_cases.h"
#include "trainwright/testing/search_cases.h"
#include "trainwright/testing/slow_search.h"

namespace trainwright {
namespace {

const std::string kData = TRAINWRIGHT_SOURCE_DIR "/data";

using testing::Job8;

TEST_CASE("126 layers are listed on 16 ranks with both ends counted as layers") {
  Job8 job("8192xH100");
  job.model = *find_model("llama-3.1-405b", kData);
  bool listed = false;
  for (const Layout& layout : list_layouts(job.question(2048, 8192))) {
    listed |=
        layout.tp == 8 && layout.pp == 16 && layout.count_embedding == 1 && layout.count_loss == 1;
    // Of chunks that come out even neither way each stage is listed.
    if (layout.vpp == 1 || !layout.layers.empty()) continue;
    CHECK((126 + layout.count_embedding + layout.count_loss) % stage_count(layout) == 0);
  }
  CHECK(listed);
}

TEST_CASE("switches and a dispatcher that are fixed are those of every layout that feels them") {
  Job8 job;
  job.model = *find_model("mixtral-8x7b", kData);
  SearchQuestion question = job.question();
  question.limits = {*parse_limit("dispatcher=flex", "--fix"),
                     *parse_limit("on=overlap-ep+part-graphs", "--fix")};
  const std::vector<Layout> listed = list_layouts(question);
  CHECK(!listed.empty());
  for (const Layout& layout : listed) {
    CHECK((layout.on.has(Switch::OverlapEp) && layout.on.has(Switch::PartGraphs)));
    CHECK((layout.ep > 1 && is_flex(layout.dispatcher)));
  }
  // Not where tokens stay on their rank: there is no overlap to switch on.
  question.also = {Also::Overlaps, Also::Dispatcher};
  std::set<std::string> seen;
  for (const Layout& layout : list_layouts(question)) CHECK(seen.insert(to_text(layout)).second);
}

TEST_CASE("who stops a search gets the best so far, at once what a dive finds, and no proof") {
  const Job8 job;
  SearchQuestion question = job.question();
  question.stop = [](std::int64_t) { return SearchStop::Interrupt; };
  const SearchResult at_once = *search(question);
  CHECK(at_once.stopped == SearchStop::Interrupt);
  CHECK_FALSE(at_once.proven);
  REQUIRE(!at_once.best.empty());
  // Half of the branches that a proof takes.
  question.stop = {};
  const SearchResult proven = *search(question);
  const std::int64_t half = (proven.bounded + proven.evaluated) / 2;
  question.stop = [half](std::int64_t branches) {
    return branches > half ? SearchStop::Time : SearchStop::Not;
  };
  const SearchResult some = *search(question);
  CHECK(some.stopped == SearchStop::Time);
  REQUIRE(!some.best.empty());
  CHECK(some.bound <= proven.best.front().time.step);
  CHECK(some.best.front().time.step >= proven.best.front().time.step);
}

TEST_CASE("from what is run today at most two knobs change, and nothing faster is that near") {
  const Job8 job;
  SearchQuestion question = job.question();
  const LayoutContext context{8, usual_layout(job.trainer)};
  const Layout today =
      parse_layout("tp=4,sp,zero=1,mbs=1,gbs=64,seq=4096,recompute=full,off=compile", context)
          ->layout;
  question.from = today;
  const std::vector<Layout> near = list_layouts(question);
  CHECK(std::find(near.begin(), near.end(), today) != near.end());
  for (const Layout& layout : near) {
    CHECK(count_of(changed_knobs(today, layout)) <= 2);
    CHECK(layout.off == today.off);
  }
  const SearchResult result = *search(question);
  CHECK(result.space == std::ssize(near));
  REQUIRE(!result.best.empty());
  const std::vector<PlannedLayout> all = testing::slow_search(question);
  CHECK(result.best.front().layout == all.front().layout);
  // Bounds do not rest on what is run today.
  question.most = 1;
  CHECK(search(question)->best.front().layout == all.front().layout);
}

TEST_CASE("states go to the host where that is allowed, and the slow step is counted") {
  Job8 job("2xRTX-4090");
  job.trainer = *find_trainer("pytorch", Job8::kData);
  SearchQuestion question = job.question(16);
  CHECK(search(question)->end == SearchEnd::NothingFits);
  question.offload = true;
  const SearchResult result = *search(question);
  REQUIRE(!result.best.empty());
  const PlannedLayout& best = result.best.front();
  // One switch moves both.
  CHECK(best.layout.offload == Flags<Offload>{Offload::Optimizer, Offload::Parameters});
  // 6.74 B parameters at 2 x (2 + 2 + 4) bytes and 58 GB/s.
  CHECK(best.time.parts[static_cast<std::size_t>(TimePart::Optimizer)].value() > 1.8);
}

TEST_CASE("of a front none is beaten in time, free memory and accelerators at once") {
  const Job8 job;
  const Hardware hardware = *load_hardware(Job8::kData);
  const ClusterOf of = [&](std::int64_t count) -> std::optional<Cluster> {
    return *parse_cluster(std::to_string(count) + "xH100", hardware);
  };
  const std::vector<FrontPoint> front = *pareto_front(job.question(), of);
  REQUIRE(front.size() > 2);
  for (const FrontPoint& a : front) {
    for (const FrontPoint& b : front) {
      const bool beaten = a.sized.plan.time.step < b.sized.plan.time.step && a.free > b.free &&
                          accelerator_count(a.sized.cluster) < accelerator_count(b.sized.cluster);
      CHECK(!beaten);
    }
  }
  const SearchResult fastest = *search(job.question());
  CHECK(front.front().sized.plan.layout == fastest.best.front().layout);
}

TEST_CASE("a search takes the kernel of attention that is asked for") {
  const Job8 job;
  SearchQuestion question = job.question();
  const PlannedLayout flash = search(question)->best.front();
  question.attention = AttentionKernel::Eager;  // scores of 32 heads x 4096^2 in every layer
  const SearchResult eager = *search(question);
  REQUIRE(!eager.best.empty());
  CHECK(eager.best.front().time.step > flash.time.step);
  // The same layout needs more, so what fits is another one.
  CHECK(eager.best.front().layout != flash.layout);
}

TEST_CASE("where the trainer refuses everything, the reason and its hint are given") {
  Job8 job("8xV100-32GB");
  SearchQuestion question = job.question(64, 2048);
  const SearchResult refused = *search(question);
  CHECK(refused.end == SearchEnd::AllRefused);
  CHECK(refused.space > 0);
  REQUIRE(refused.refusal.has_value());
  // Volta multiplies fp16 only (NVIDIA V100 whitepaper, 2017).
  CHECK(refused.refusal->violation.id == "precision-in-hardware");
  CHECK(refused.refusal->violation.hint == "precision=fp16");
  CHECK(refused.refusal->layouts == refused.refusal->refused);
  question.precision = usual_precision(job.cluster, job.trainer);
  CHECK(question.precision == PrecisionKind::Fp16);
  const SearchResult found = *search(question);
  CHECK(found.end == SearchEnd::Found);
  CHECK(found.best.front().time.mfu > 0.1);
}

TEST_CASE("a mixed cluster has the memory of its smallest and the pace of its slowest") {
  Job8 mixed("8xH200+8xA100-40GB");
  const Job8 small("16xA100-40GB");
  const SearchResult result = *search(mixed.question());
  REQUIRE(!result.best.empty());
  for (const PlannedLayout& plan : result.best) {
    CHECK(plan.memory.capacity == capacity_of(small.cluster));
    CHECK(plan.memory.oom <= kUsualRisk);
  }
  // All go at the pace of the slower: of the peaks' sum at most 2 x 312 / (312 + 989.5).
  CHECK(result.best.front().time.mfu <= 2 * 312 / (312 + 989.5));
  // 70 billion parameters do not fit there, whichever is named first.
  for (const char* on : {"8xH200+8xA100-40GB", "8xA100-40GB+8xH200"}) {
    Job8 large(on);
    large.model = *find_model("llama-2-70b", kData);
    const SearchResult none = *search(large.question());
    CHECK(none.end == SearchEnd::NothingFits);
    REQUIRE(none.smallest.has_value());
    const MemoryEstimate& memory = none.smallest->memory;
    CHECK(memory.classes[memory.worst].driver > memory.capacity);
  }
}

}  // namespace
}  // namespace trainwright
