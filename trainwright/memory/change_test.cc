// The smallest change that fits.
#include <doctest/doctest.h>

#include "trainwright/memory/memory.h"
#include "trainwright/testing/memory_cases.h"

namespace trainwright {
namespace {

using namespace testing;

TEST_CASE("gradients in bf16 may be the smallest change") {
  // Nothing is left to recompute, and Megatron's ZeRO shards no more: next would be a pipeline.
  const char* words = "dp=8,zero=1,mbs=1,gbs=64,seq=512,recompute=full";
  Case c = llama_in_80_gib("megatron@0.19", words);
  const auto tightened = [&c] {
    const auto worst = c.estimate().classes[0];
    const Bytes gradients = bytes_of(worst, Category::Gradients);
    c.cluster.groups[0].accelerator.memory_visible = worst.driver - gradients / 8;
    return smallest_change_that_fits(c.question());
  };
  const auto change = tightened();
  REQUIRE(change.has_value());
  CHECK(change_to(words, change->layout) == "gradients=bf16");
  c.layout.precision = PrecisionKind::Fp32;
  const auto other = tightened();
  CHECK((!other || other->layout.gradients == GradientDtype::AsTrainer));
}

TEST_CASE("what does not fit comes with the smallest change that does") {
  Case c = llama_in_80_gib("megatron@0.12", "dp=8,mbs=8,gbs=64,seq=4096");
  c.cluster.groups[0].accelerator.memory_visible = c.estimate().classes[0].driver - Bytes(1 << 30);
  const MemoryEstimate estimate = c.estimate();
  const auto change = smallest_change_that_fits(c.question());
  REQUIRE(change.has_value());
  CHECK(change->driver < estimate.capacity);
  CHECK(change->layout.mbs < 8);
  CHECK(change_to("dp=8,mbs=8,gbs=64,seq=4096", change->layout) ==
        "mbs=" + std::to_string(change->layout.mbs));
  c.cluster.groups[0].accelerator.memory_visible = Bytes(1 << 20);
  CHECK(!smallest_change_that_fits(c.question()).has_value());
}

TEST_CASE("where logits are too large, a loss that makes them by chunks is the smallest change") {
  const char* words = "dp=8,mbs=8,gbs=64,seq=4096,recompute=full";
  Case c = llama_in_80_gib("accelerate", words);
  // fp32 logits of 32,768 tokens and 32,000 words are 3.9 GiB, several times.
  c.cluster.groups[0].accelerator.memory_visible =
      c.estimate().classes[0].driver - Bytes(std::int64_t{1} << 30);
  const auto change = smallest_change_that_fits(c.question());
  REQUIRE(change.has_value());
  CHECK(change_to(words, change->layout) == "loss=liger");
  std::erase_if(c.trainer.losses, [](const Loss& loss) { return loss.name == "liger"; });
  REQUIRE(smallest_change_that_fits(c.question()).has_value());
  CHECK(smallest_change_that_fits(c.question())->layout.loss.empty());
}

TEST_CASE("where a trainer runs operators again, the smallest change knows it") {
  const char* words = "fsdp,mbs=1,gbs=8,seq=8192";
  Case c = llama_in_80_gib("torchtitan@0.3", words);
  // Of just that size; and a micro-batch cannot be smaller.
  c.cluster.groups[0].accelerator.memory_visible = c.estimate().classes[0].driver;
  const auto change = smallest_change_that_fits(c.question());
  REQUIRE(change.has_value());
  CHECK(change_to(words, change->layout) == "recompute=op-selective");
}

TEST_CASE("the smallest change fits at the risk that is asked for") {
  // Half of the cases of a figure are above it, so a card of just its size is a risk of one half.
  Case c = llama_in_80_gib("megatron@0.12", "dp=8,mbs=8,gbs=64,seq=4096");
  c.cluster.groups[0].accelerator.memory_visible = c.estimate().classes[0].driver + Bytes(1);
  const auto bold = smallest_change_that_fits(c.question(), 0.6);
  REQUIRE(bold.has_value());
  CHECK(bold->layout == c.layout);
  for (const double risk : {kUsualRisk, 1e-6}) {
    CAPTURE(risk);
    const auto change = smallest_change_that_fits(c.question(), risk);
    REQUIRE(change.has_value());
    CHECK(change->layout.mbs < 8);
    c.layout = change->layout;
    CHECK(c.estimate().oom <= risk);
    c.layout.mbs = 8;
  }
}

TEST_CASE("the smallest change may be several, and keeps tensor parallelism inside the links") {
  Case c = llama_in_80_gib("megatron@0.12", "dp=8,mbs=8,gbs=64,seq=4096");
  // Weights and fp32 gradients are 6 bytes a parameter, here are 4: both must be split further.
  const Bytes room = bytes_of(c.estimate().classes[0], Category::Weights) * 2;
  c.cluster.groups[0].accelerator.memory_visible = room;
  const auto change = smallest_change_that_fits(c.question());
  REQUIRE(change.has_value());
  CHECK(change->driver < room);
  CHECK(change->layout.tp <= 8);
  CHECK(world_size(change->layout) == 8);
  CHECK(change_to(to_text(c.layout), change->layout).find(',') != std::string::npos);
}

}  // namespace
}  // namespace trainwright
