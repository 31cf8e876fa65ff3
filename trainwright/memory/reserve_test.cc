#include "trainwright/memory/reserve.h"

#include <doctest/doctest.h>

#include "trainwright/memory/prepared.h"
#include "trainwright/testing/memory_cases.h"

namespace trainwright {
namespace {

using namespace testing;

Case llama_case(const std::string& trainer, const std::string& layout) {
  return {.model = deeper(llama_model(2048, 16, 16, 5632), 16),
          .trainer = picked_trainer(trainer),
          .cluster = h100s(8),
          .layout = layout_of(layout),
          .slack = Slack::Replayed};
}

detail::Reserved replayed(const Case& c, std::int64_t rank, double lead = 0) {
  const MemoryQuestion question = c.question();
  auto work = detail::prepare(question);
  REQUIRE(work.has_value());
  detail::SlackReplay replay(*work);
  detail::GroupTerms terms;
  for (const PipelineGroup& group : work->inventory.groups) {
    if (std::find(group.ranks.begin(), group.ranks.end(), rank) == group.ranks.end()) continue;
    detail::fill_terms(terms, group, work->terms, work->rules);
    const auto found = replay.replayed(group, terms, rank, lead);
    REQUIRE(found.has_value());
    return *found;
  }
  return {};
}

TEST_CASE("the replay of a step needs what the highest moment says") {
  // The moments are sums of totals, the replay is one tensor after the other.
  for (const char* layout :
       {"pp=1,dp=8,zero=1,mbs=1,gbs=32,seq=2048", "pp=4,dp=2,mbs=1,gbs=32,seq=2048",
        "tp=2,sp,pp=4,vpp=2,dp=1,mbs=2,gbs=32,seq=2048",
        "pp=4,dp=2,mbs=1,gbs=32,seq=2048,recompute=full",
        "pp=2,dp=4,mbs=1,gbs=32,seq=2048,recompute=selective",
        "pp=2,dp=4,mbs=1,gbs=32,seq=2048,recompute=full:3",
        "pp=2,dp=4,mbs=1,gbs=32,seq=2048,recompute=block:3", "pp=4,dp=2,mbs=1,gbs=4,seq=2048"}) {
    CAPTURE(layout);
    const Case c = llama_case("megatron@0.12", layout);
    const MemoryEstimate estimate = c.estimate();
    for (const RankClass& of : estimate.classes) {
      CAPTURE(of.pipeline_rank);
      const detail::Reserved found = replayed(c, of.pipeline_rank);
      CHECK(found.requested / of.allocated == doctest::Approx(1).epsilon(0.002));
    }
  }
}

TEST_CASE("layers run again two by two are replayed with the weights of their own kind") {
  // Two layers with one feed-forward part, then four with nine: 8 experts and the shared one.
  Case c = llama_case("megatron@0.12", "dp=8,zero=1,mbs=1,gbs=8,seq=512,recompute=full:2");
  c.model = moe(8, 4096, 2, 0, {.layers = 6});
  const RankClass of = c.estimate().classes.at(0);
  CHECK(replayed(c, 0).requested / of.allocated == doctest::Approx(1).epsilon(0.002));
}

TEST_CASE("what collectives used comes back the later the further the host is ahead") {
  const Case c = llama_case("megatron@0.12", "tp=2,pp=2,dp=2,mbs=4,gbs=32,seq=2048");
  const detail::Reserved at_once = replayed(c, 0);
  Bytes before = at_once.reserved;
  for (const double lead : {16.0, 64.0, 256.0}) {
    const detail::Reserved late = replayed(c, 0, lead);
    // The program itself holds the same.
    CHECK(late.requested == at_once.requested);
    CHECK(late.reserved >= before);
    // Of every 4 tensors made at most one is a sum of 4 x 2048 x 2048 numbers of 2 bytes.
    const Bytes sum(std::int64_t{4} * 2048 * 2048 * 2);
    CHECK(late.reserved <= at_once.reserved + sum * static_cast<std::int64_t>(lead / 4 + 1));
    before = late.reserved;
  }
  CHECK(before > at_once.reserved + Bytes(1 << 30));
}

// The 1B model of the Ultra-Scale Playbook's sweep.
Case playbook_case(const std::string& layout) {
  Case c{.model = deeper(llama_model(2048, 32, 32, 8192), 16),
         .trainer = picked_trainer("nanotron-main"),
         .layout = layout_of(layout),
         .slack = Slack::Replayed};
  c.model.vocabulary = 131072;
  c.model.tied = true;
  c.cluster = h100s(world_size(c.layout));
  c.cluster.groups[0].accelerator.compute_capability = 9;
  return c;
}

TEST_CASE("a replay makes no more blocks for 65,536 ranks that share weights than for 2,048") {
  const auto calls = [](const std::string& dp) {
    return replayed(playbook_case("dp=" + dp + ",zero=1,mbs=1,gbs=65536,seq=4096"), 0).calls;
  };
  CHECK(calls("65536") <= calls("2048"));
}

TEST_CASE("nanotron without tensor parallelism reserves what the playbook's runs did") {
  // huggingface/nanotron's sweep, bench_final2_mfu2.csv "Mem Res (GB)", GiB of rank 0. From one
  // micro-batch a step to two it is 2 GiB, a tensor of fp32 logits: the workspace of autograd's
  // thread has settled in the block that had one.
  const auto reserved = [](const std::string& layout) {
    const MemoryEstimate estimate = playbook_case(layout).estimate();
    return static_cast<double>(estimate.classes[0].reserved.value()) / 0x1.0p30;
  };
  CHECK(reserved("dp=256,zero=1,mbs=1,gbs=256,seq=4096") == doctest::Approx(21.7).epsilon(0.01));
  CHECK(reserved("dp=64,zero=1,mbs=1,gbs=256,seq=4096") == doctest::Approx(23.76).epsilon(0.01));
  CHECK(reserved("dp=8,zero=1,mbs=1,gbs=256,seq=4096") == doctest::Approx(24.24).epsilon(0.01));
  CHECK(reserved("dp=8,mbs=2,gbs=256,seq=4096") == doctest::Approx(50.18).epsilon(0.01));
}

TEST_CASE(
    "FSDP2 reserves sharded gradients and flat buffers beside all else, on streams of their own") {
  // A Llama-3 8B of four layers on eight ranks, as torchtitan runs it: the peak is at the loss,
  // where neither gradients nor flat buffers are alive. A recorded step of the real program (FSDP2
  // of torch 2.13 on a fake group of eight, op-selective recompute), played with its streams,
  // allocates 17.66 GiB and reserves 22.33 with expandable segments.
  Case c = llama_case("torchtitan@0.2", "fsdp,dp=8,mbs=1,gbs=8,seq=8192,recompute=op-selective");
  c.model = deeper(llama_model(4096, 32, 8, 14336), 4);
  c.model.vocabulary = 128256;
  const RankClass of = c.estimate().classes.at(0);
  CHECK(of.moment.operator_name == "log_softmax");
  const auto gib = [](Bytes bytes) { return static_cast<double>(bytes.value()) / 0x1.0p30; };
  CHECK(gib(of.allocated) == doctest::Approx(17.66).epsilon(0.01));
  CHECK(gib(of.reserved) == doctest::Approx(22.33).epsilon(0.03));
  // Gradients of 4 bytes, an eighth of each; the head's flat buffer in 2.
  const double parameters = 4 * 218112000.0 + 2 * 128256.0 * 4096;
  const double pools = 4 * parameters / 8 + 2 * 128256.0 * 4096;
  CHECK(static_cast<double>((of.reserved - of.allocated).value()) > pools);
}

TEST_CASE("states that are dealt out whole, and weights made in fp32, are what the moments say") {
  Case c = llama_case("paddlenlp@2.6", "tp=2,pp=1,dp=4,zero=1,mbs=1,gbs=32,seq=2048");
  const RankClass of = c.estimate().classes.at(0);
  const detail::Reserved narrow = replayed(c, 0);
  CHECK(narrow.requested / of.allocated == doctest::Approx(1).epsilon(0.002));
  // The cache never shrinks below 4 bytes for each weight of 2.
  c.trainer.code.weights_made_wide = true;
  c.layout.seq = 16;
  const detail::Reserved wide = replayed(c, 0);
  CHECK(wide.requested < wide.reserved);
  CHECK(wide.reserved >= bytes_of(of, Category::Weights) * 2);
}

}  // namespace
}  // namespace trainwright
