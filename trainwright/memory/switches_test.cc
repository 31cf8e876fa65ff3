// What switches take: CUDA graphs, experts' all-to-all behind another micro-batch, buffers of
// dispatchers and of overlapped tensor parallelism.
#include <doctest/doctest.h>

#include <initializer_list>
#include <string>

#include "trainwright/testing/memory_cases.h"

namespace trainwright {
namespace {

using namespace testing;

constexpr const char* kMegatron = "megatron@0.19";

Case experts_case(const std::string& layout) {
  Case c{.model = moe(16, 1024, 0), .trainer = picked_trainer(kMegatron)};
  c.layout = layout_of(layout);
  c.cluster = h100s(world_size(c.layout));
  return c;
}
RankClass worst_of(const Case& c) {
  const MemoryEstimate estimate = c.estimate();
  return estimate.classes[estimate.worst];
}

TEST_CASE("overlapped experts hold one layer's forward pass beside a backward pass") {
  for (const char* plain : {"dp=8,ep=8,zero=1,mbs=1,gbs=32,seq=2048",
                            "dp=8,pp=2,vpp=2,ep=8,zero=1,mbs=1,gbs=64,seq=2048"}) {
    const Case one = experts_case(plain);
    Case two = one, deeper = one;
    two.layout.on.insert(Switch::OverlapEp);
    deeper.model.layers.assign(12, LayerKindId(1));  // three on each of four stages, or twelve
    const RankClass before = one.estimate().classes[0], after = two.estimate().classes[0];
    CHECK(after.moment.in_flight == before.moment.in_flight);
    const auto kept = [](const Case& of) { return stage_bytes(of.question())->front().kept; };
    const std::int64_t more = one.layout.pp > 1 ? 1 : 4;
    const Bytes layer = (kept(deeper) - kept(one)) / more;
    CHECK(after.allocated - before.allocated >= layer);
    CHECK(after.allocated - before.allocated < layer * 2);
    CHECK(after.between_steps == before.between_steps);
  }
  Case alone = experts_case("dp=8,ep=8,zero=1,mbs=1,gbs=8,seq=2048");
  const Bytes before = worst_of(alone).allocated;
  alone.layout.on.insert(Switch::OverlapEp);  // no other micro-batch
  CHECK(worst_of(alone).allocated == before);
}

TEST_CASE("the optimizer's step has no use of what a graph of the passes holds") {
  const std::string plain = "dp=8,zero=1,mbs=4,gbs=64,seq=4096,gradients=bf16";
  Case eager{.model = gpt(), .trainer = picked_trainer(kMegatron), .layout = layout_of(plain)};
  Case graphed = eager;
  graphed.layout.on.insert(Switch::Graphs);
  const RankClass before = worst_of(eager), after = worst_of(graphed);
  REQUIRE(before.moment.kind != Moment::Kind::Step);
  const Bytes step = bytes_of(after, Category::StepBuffers);
  // bf16 gradients are copied to fp32 for the step: 4 B for a rank's eighth of the parameters.
  CHECK(step > Bytes(0));
  CHECK(after.allocated - before.allocated == step);
}

TEST_CASE("graphs of parts of layers keep temporaries of their own") {
  const Case eager = experts_case("dp=8,ep=8,zero=1,mbs=1,gbs=32,seq=2048");
  Case graphed = eager;
  graphed.layout.on.insert(Switch::PartGraphs);
  const RankClass before = worst_of(eager), after = worst_of(graphed);
  const Bytes more = after.allocated - before.allocated;
  CHECK(more > Bytes(0));
  CHECK(more >= bytes_of(before, Category::Transients));
}

TEST_CASE("memory never falls with a switch that takes some, in searches and estimates alike") {
  const MemoryConstants constants = *load_memory_constants(kShippedData);
  for (const char* layout :
       {"dp=8,ep=8,zero=1,mbs=1,gbs=32,seq=2048,dispatcher=hybridep",
        "tp=2,sp,dp=4,pp=2,vpp=2,ep=4,etp=1,zero=1,mbs=2,gbs=64,seq=2048,dispatcher=deepep",
        "tp=2,sp,dp=8,pp=1,ep=8,etp=2,zero=1,mbs=1,gbs=64,seq=4096"}) {
    Case c = experts_case(layout);
    c.constants = constants;
    MemoryModel model(c.model, c.cluster, c.trainer, c.job, c.constants);
    const auto least = [&](const Layout& of) { return model.least(of)->driver; };
    const Bytes plain = least(c.layout);
    for (const Switch what :
         {Switch::OverlapTp, Switch::OverlapEp, Switch::Graphs, Switch::PartGraphs}) {
      CAPTURE(layout);
      CAPTURE(name_of(what));
      Case switched = c;
      switched.layout.on.insert(what);
      CHECK(least(switched.layout) >= plain);
      CHECK(least(switched.layout) == worst_of(switched).driver);
    }
    CHECK(least(c.layout) == plain);
  }
}

TEST_CASE("a search sees buffers grow with the tokens of a micro-batch") {
  Case c = experts_case("dp=8,ep=8,zero=1,mbs=1,gbs=32,seq=2048,dispatcher=hybridep");
  c.constants = *load_memory_constants(kShippedData);
  MemoryModel model(c.model, c.cluster, c.trainer, c.job, c.constants);
  Layout plain = c.layout, more = c.layout, plain_more;
  plain.dispatcher = DispatcherKind::Flex;  // of no known backend: no buffers
  more.mbs = 2;
  plain_more = plain;
  plain_more.mbs = 2;
  // 2,048 tokens of each of 8 ranks: rows of 2 x 1,024 B, scores of 16 experts in fp32, fp32 scales
  // for 128 numbers.
  const std::int64_t one = std::int64_t{2048} * 8 * (2 * 1024 + 4 * 16 + 4 * 1024 / 128);
  const auto buffers = [&](const Layout& with, const Layout& without) {
    return model.least(with)->driver - model.least(without)->driver;
  };
  CHECK(buffers(c.layout, plain) == Bytes(one));
  CHECK(buffers(more, plain_more) == Bytes(2 * one));
}

}  // namespace
}  // namespace trainwright
