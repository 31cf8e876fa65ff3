#include "trainwright/cost/cost.h"

#include <doctest/doctest.h>

#include <cmath>

namespace trainwright {
namespace {

using namespace literals;

const std::string kData = TRAINWRIGHT_SOURCE_DIR "/data";

Kernels shipped() { return load_kernels(kData).value(); }
Hardware hardware() { return load_hardware(kData).value(); }
Accelerator accelerator(std::string_view name) { return *find_accelerator(hardware(), name); }

// An accelerator of round numbers: 100 TFLOP/s, 1 TB/s, everything reached in full, no start.
AcceleratorRates round_rates() {
  AcceleratorRates rates;
  for (ProductRates& product : rates.products) {
    product = {.peak = 100_TFLOPS, .operand_bytes = 2, .reached = {1}, .streamed = 1, .start = {}};
  }
  rates.attention.heads = {{64, 0.5, 1000}, {256, 0.7, 500}};
  rates.attention.backward = 0.8;
  rates.attention.full_half = 0;
  rates.streamed = {.forward = {0.8}, .backward = {0.4}};
  rates.memory_bandwidth = 1000_GBps;
  rates.settled = {0.5};
  rates.clocks = Clocks::Burst;
  return rates;
}

// Nodes of 8 at 100 GB/s below a network of 10 GB/s per accelerator.
Cluster round_cluster(std::int64_t nodes) {
  Group group;
  group.accelerator = accelerator("H100");
  group.count = nodes * 8;
  group.per_node = group.per_domain = 8;
  group.tiers = {{.name = "link", .domain = 8, .bandwidth = 100_GBps, .latency = 1_us},
                 {.name = "net", .domain = nodes * 8, .bandwidth = 10_GBps, .latency = 10_us}};
  if (nodes == 1) group.tiers.pop_back();
  Cluster cluster;
  cluster.groups = {group};
  return cluster;
}

struct Degrees {
  std::int64_t tp = 1, pp = 1, dp = 1;
};
GroupPlacement placed(const Cluster& cluster, Degrees degrees, GroupKind kind) {
  Layout layout;
  layout.tp = degrees.tp;
  layout.pp = degrees.pp;
  layout.dp = degrees.dp;
  return place_group(layout, kind, cluster);
}

TEST_CASE("a tiny product takes a launch to start, a long one its whole start") {
  AcceleratorRates rates = round_rates();
  for (ProductRates& of : rates.products) of.start = Seconds(24e-6);
  const auto beyond_work = [&](std::int64_t k) {
    const Product product{.m = 10'000, .n = 10'000, .k = k};
    return (product_time(product, rates) - product_time(product, round_rates())).value();
  };
  // 2e12 FLOPs at 100 TFLOP/s take 20 ms: 4 us + 20 us x 20,000 / 20,024.
  CHECK(beyond_work(10'000) == doctest::Approx(4e-6 + 20e-6 * 20'000 / 20'024));
  const Product tiny{.m = 64, .n = 64, .k = 64};  // 24.6 kB at 1 TB/s: 0.0246 us of work
  const double work = product_time(tiny, round_rates()).value();
  CHECK(work == doctest::Approx(0.024576e-6));
  CHECK(product_time(tiny, rates).value() ==
        doctest::Approx(4e-6 + work + 20e-6 * work / (work + 24e-6)));
}

TEST_CASE("a large product takes its FLOPs at the share of peak it reaches") {
  // 2 x 10^4 x 10^4 x 10^4 = 2e12 FLOPs at 100 TFLOP/s; its 600 MB take 0.6 ms.
  const Product product{.m = 10'000, .n = 10'000, .k = 10'000};
  AcceleratorRates rates = round_rates();
  CHECK(product_time(product, rates).value() == doctest::Approx(0.02));
  rates.clocks = Clocks::Settled;
  CHECK(product_time(product, rates).value() == doctest::Approx(0.04));
}

TEST_CASE("a narrow product takes the time of its bytes") {
  // k n of 1,000 x 10^6 in bf16 is 2 GB, the two rows beside it 2 MB + 2 kB.
  const Product product{.m = 1, .n = 1'000'000, .k = 1'000};
  CHECK(product_time(product, round_rates()).value() == doctest::Approx(2.002002e-3));
}

TEST_CASE("equal products of a call cost their number") {
  Product product{.m = 4096, .n = 4096, .k = 4096};
  const Seconds one = product_time(product, round_rates());
  product.count = 8;
  CHECK(product_time(product, round_rates()).value() == doctest::Approx(8 * one.value()));
}

TEST_CASE("attention reaches half of its share where keys are `half`, and less backward") {
  // 1e12 FLOPs at 100 TFLOP/s x 0.5 is 20 ms; 1,000 keys of half 1,000 double it.
  AttentionCall call{.flops = Flops(1e12), .head_width = 64, .keys = 1000};
  CHECK(attention_time(call, round_rates()).value() == doctest::Approx(0.04));
  call.backward = true;
  CHECK(attention_time(call, round_rates()).value() == doctest::Approx(0.05));
  call.causal = false;  // full_half is 0
  CHECK(attention_time(call, round_rates()).value() == doctest::Approx(0.025));
  // 128 lies half-way between 64 and 256 in the logarithm: share 0.6, half 750.
  call = {.flops = Flops(1e12), .head_width = 128, .keys = 750};
  CHECK(attention_time(call, round_rates()).value() == doctest::Approx(2e-2 / 0.6));
}

TEST_CASE("moved bytes take longer backward and longest unfused") {
  CHECK(streamed_time(8_GB, false, round_rates()).value() == doctest::Approx(0.01));
  CHECK(streamed_time(8_GB, true, round_rates()).value() == doctest::Approx(0.02));
}

TEST_CASE("on one node a ring moves (n - 1) / n of the bytes, an all-reduce twice that") {
  const Cluster cluster = round_cluster(1);
  const GroupPlacement tp = placed(cluster, {.tp = 8, .pp = 1, .dp = 1}, GroupKind::Tp);
  const auto time = [&](CollectiveKind kind) {
    return collective_time(kind, 8_GB, tp, cluster, round_rates()).value();
  };
  CHECK(time(CollectiveKind::AllGather) == doctest::Approx(0.07));
  CHECK(time(CollectiveKind::ReduceScatter) == doctest::Approx(0.07));
  CHECK(time(CollectiveKind::AllToAll) == doctest::Approx(0.07));
  CHECK(time(CollectiveKind::AllReduce) == doctest::Approx(0.14));
  CHECK(time(CollectiveKind::Ring) == doctest::Approx(0.08));  // all that is sent
}

TEST_CASE("across nodes the members of a group on one node send with all their adapters") {
  // dp 16 on 2 nodes, 8 members on each: 15/16 of 16 GB through 8 x 10 GB/s is 0.1875 s, slower
  // than the 0.15 s inside the node. With tp 8 each of the 2 members is alone: 8 GB at 10 GB/s.
  const Cluster cluster = round_cluster(2);
  AcceleratorRates rates = round_rates();
  const GroupPlacement wide = placed(cluster, {.tp = 1, .pp = 1, .dp = 16}, GroupKind::Dp);
  CHECK(collective_time(CollectiveKind::AllGather, 16_GB, wide, cluster, rates).value() ==
        doctest::Approx(0.1875).epsilon(0.001));
  const GroupPlacement narrow = placed(cluster, {.tp = 8, .pp = 1, .dp = 2}, GroupKind::Dp);
  CHECK(collective_time(CollectiveKind::AllGather, 16_GB, narrow, cluster, rates).value() ==
        doctest::Approx(0.8).epsilon(0.001));
}

TEST_CASE("a switch that adds takes every byte once") {
  const Cluster cluster = round_cluster(1);
  AcceleratorRates rates = round_rates();
  rates.links.in_switch = 0.8;
  const GroupPlacement tp = placed(cluster, {.tp = 8, .pp = 1, .dp = 1}, GroupKind::Tp);
  CHECK(collective_time(CollectiveKind::AllReduce, 8_GB, tp, cluster, rates).value() ==
        doctest::Approx(0.1));
}

TEST_CASE("a token crosses the network once for each node that holds any of its experts") {
  // 16 ranks on 2 nodes, 2 experts per token. Ranks met: 16 (1 - (15/16)^2) = 1.9375, of whose
  // copies 7/8 leave the rank: 1.695 GB at 100 GB/s. Nodes met: 2 (1 - (1/2)^2) = 1.5, of which
  // half is the other one: 0.75 GB at 10 GB/s, which is slower.
  const Cluster cluster = round_cluster(2);
  const GroupPlacement all = placed(cluster, {.tp = 1, .pp = 1, .dp = 16}, GroupKind::Dp);
  CHECK(dispatch_time(1_GB, {.experts = 2}, all, cluster, round_rates()).value() ==
        doctest::Approx(0.075).epsilon(0.001));
  // With 1,000 experts all are met: 14 GB over the links are slower than 1 GB over the network. An
  // all-to-all would send 500 of 1,000 copies to the other node.
  CHECK(dispatch_time(1_GB, {.experts = 1000}, all, cluster, round_rates()).value() ==
        doctest::Approx(0.14).epsilon(0.001));
  // A kernel writes to all at once: its latency does not grow with those it meets. One byte over
  // links of 1 us and a network of 10 us.
  CHECK(dispatch_time(1_B, {.experts = 1000}, all, cluster, round_rates()).value() ==
        doctest::Approx(11e-6).epsilon(0.1));
}

TEST_CASE("backends of the flex dispatcher reach shares of the links of a domain") {
  // The 14 GB over links of 100 GB/s from above, of which eight ranks share one domain.
  Cluster cluster = round_cluster(2);
  const GroupPlacement all = placed(cluster, {.tp = 1, .pp = 1, .dp = 16}, GroupKind::Dp);
  const auto of = [&](DispatcherKind kind) {
    return dispatch_time(1_GB, {.experts = 1000}, all, cluster, round_rates(), kind).value();
  };
  CHECK(of(DispatcherKind::DeepEp) == doctest::Approx(0.14 / 0.58).epsilon(0.001));
  CHECK(of(DispatcherKind::HybridEp) == doctest::Approx(0.14 / 0.82).epsilon(0.001));
  CHECK(dispatch_share(DispatcherKind::DeepEp, 10, 8) <
        dispatch_share(DispatcherKind::DeepEp, 9, 8));
  // 36 ranks are log2(4.5) = 2.17 doublings from 8.
  CHECK(dispatch_share(DispatcherKind::HybridEp, 10, 36) ==
        doctest::Approx(0.82 - 0.034 * 2.17).epsilon(1e-3));
}

TEST_CASE("a token meets the ranks of the groups that it chose") {
  // 8 experts of 4 of 8 groups. On 8 ranks, a group each: 4 (1 - (3/4)^8) = 3.600 of them; on 32,
  // of which 16 hold the groups: 16 (1 - (15/16)^8) = 6.453.
  const Chosen chosen{.experts = 8, .groups = 4, .of_groups = 8};
  CHECK(ranks_met(chosen, 8) == doctest::Approx(3.600).epsilon(0.001));
  CHECK(ranks_met(chosen, 32) == doctest::Approx(6.453).epsilon(0.001));
  // On 4, two groups each: one has none of the four with 6/8 x ... = 15/70, so 3.143 of 4 hold any.
  CHECK(ranks_met(chosen, 4) ==
        doctest::Approx(3.143 * (1 - std::pow(1 - 1 / 3.143, 8))).epsilon(0.001));
  CHECK(ranks_met({.experts = 8}, 8) == doctest::Approx(5.251).epsilon(0.001));
}

TEST_CASE("in a step, products of 8 bits have a clock of their own, and attention keeps its rate") {
  AcceleratorRates rates = round_rates();
  rates.clocks = Clocks::Settled;
  rates.settled = {0.5};
  rates.settled_narrow = {0.8};
  rates.products[static_cast<std::size_t>(ComputeType::Fp8)].operand_bytes = 1;
  // 2e12 FLOPs at 100 TFLOP/s are 20 ms.
  Product product{.m = 10'000, .n = 10'000, .k = 10'000};
  CHECK(product_time(product, rates).value() == doctest::Approx(0.04));
  product.type = ComputeType::Fp8;
  CHECK(product_time(product, rates).value() == doctest::Approx(0.025));
  const AttentionCall call{.flops = Flops(5e12), .head_width = 64, .keys = 1'000'000'000};
  CHECK(attention_time(call, rates).value() == doctest::Approx(0.1));  // half of peak
}

TEST_CASE("a group of one sends nothing") {
  const Cluster cluster = round_cluster(1);
  const GroupPlacement alone = placed(cluster, {.tp = 8, .pp = 1, .dp = 1}, GroupKind::Dp);
  CHECK(collective_time(CollectiveKind::AllReduce, 8_GB, alone, cluster, round_rates()) == 0_s);
  CHECK(transfer_time(8_GB, alone, cluster, round_rates()) == 0_s);
}

TEST_CASE("stages on different nodes send over the network, others over the links") {
  const Cluster cluster = round_cluster(2);
  AcceleratorRates rates = round_rates();
  const GroupPlacement near = placed(cluster, {.tp = 2, .pp = 4, .dp = 2}, GroupKind::Pp);
  const GroupPlacement far = placed(cluster, {.tp = 8, .pp = 2, .dp = 1}, GroupKind::Pp);
  CHECK(transfer_time(1_GB, far, cluster, rates).value() == doctest::Approx(0.10001));
  CHECK(transfer_time(1_GB, near, cluster, rates) <= transfer_time(1_GB, far, cluster, rates));
}

TEST_CASE("of an oversubscribed tier those at a border have what the others leave") {
  // Two nodes with half of what they could send between them. Of eight stages on each only one
  // sends across: 1 GB at 10 GB/s. With tp 8 all do: 5 GB/s for each.
  Cluster cluster = round_cluster(2);
  cluster.groups.front().tiers.back().oversubscription = 2;
  const GroupPlacement few = placed(cluster, {.tp = 1, .pp = 16, .dp = 1}, GroupKind::Pp);
  const GroupPlacement all = placed(cluster, {.tp = 8, .pp = 2, .dp = 1}, GroupKind::Pp);
  const auto took = [&](const GroupPlacement& stages) {
    return transfer_time(1_GB, stages, cluster, round_rates()).value();
  };
  CHECK(took(few) == doctest::Approx(0.1).epsilon(0.001));
  CHECK(took(all) == doctest::Approx(0.2).epsilon(0.001));
}

TEST_CASE("a type without a unit runs on the next wider one") {
  const Accelerator a100 = accelerator("A100"), v100 = accelerator("V100-SXM2-32GB");
  CHECK(peak_or_wider(a100, ComputeType::Fp8) == 312_TFLOPS);
  CHECK(peak_or_wider(v100, ComputeType::Bf16) == 125_TFLOPS);                       // fp16
  CHECK(peak_or_wider(v100, ComputeType::Tf32) < FlopsPerSecond(16e12));             // fp32
  CHECK(peak_or_wider(accelerator("H100"), ComputeType::Fp4).value() == 1978.9e12);  // fp8
  const AcceleratorRates rates = rates_of(shipped(), a100);
  CHECK(rates.of(ComputeType::Fp8).operand_bytes == 2);
}

TEST_CASE("what is known of an accelerator says whose timings it comes from") {
  const Kernels kernels = shipped();
  const AcceleratorRates measured = rates_of(kernels, accelerator("H100"));
  const AcceleratorRates related = rates_of(kernels, accelerator("H800"));
  const AcceleratorRates unknown = rates_of(kernels, accelerator("Ascend-910B"));
  const auto product = [](const AcceleratorRates& rates) {
    return rates.of(ComputeType::Bf16).reached;
  };
  CHECK(product(measured).known == Known::Measured);
  CHECK(product(related).known == Known::Generation);
  CHECK(product(unknown).known == Known::Default);
  CHECK(product(measured).spread < product(related).spread);
  CHECK(product(related).spread < product(unknown).spread);
}

// FlashAttention 2 on RTX 4090 at 2,048 tokens with a mask: 151 TFLOP/s forward and 99 backward
// with heads of 128, 142 and 97 with 64 (apache/tvm tl_doc/flash_perf.md).
TEST_CASE("a card that sums in fp32 at half rate has attention near its peak, as it was timed") {
  const AcceleratorRates rates = rates_of(shipped(), accelerator("RTX-4090"));
  const auto reached = [&](std::int64_t width, bool backward) {
    const AttentionCall call{
        .flops = Flops(1e15), .head_width = width, .keys = 2048, .backward = backward, .flash = 2};
    return 1e3 / attention_time(call, rates).value();
  };
  CHECK(reached(128, false) == doctest::Approx(151).epsilon(0.01));
  CHECK(reached(64, false) == doctest::Approx(142).epsilon(0.01));
  CHECK(reached(128, true) == doctest::Approx(99).epsilon(0.03));
  CHECK(reached(64, true) == doctest::Approx(97).epsilon(0.03));
}

TEST_CASE("every shipped accelerator has rates, none above what it promises") {
  const Kernels kernels = shipped();
  for (const Accelerator& one : hardware().accelerators) {
    CAPTURE(one.name);
    const AcceleratorRates rates = rates_of(kernels, one);
    for (const ProductRates& product : rates.products) {
      CHECK(product.peak.value() > 0);
      CHECK(product.reached.value > 0.2);
      CHECK(product.reached.value <= 1);
    }
    CHECK(rates.memory_bandwidth.value() > 0);
    CHECK(rates.settled.value <= 1);
  }
}

TEST_CASE("faults of a file of kernels are reported together") {
  const Json json = parse_json(R"({"accelerators": {"X": {"settled": [2, 1], "speed": 1}},
    "generations": {"new": {}}, "vendors": {}, "others": {}, "spreads": {}, "stacks": {},
    "constants": 0, "rows": 0})",
                               "k.json")
                        .value();
  const auto kernels = read_kernels(json, "k.json");
  REQUIRE(!kernels.has_value());
  const Diagnostics& faults = kernels.error().diagnostics;
  REQUIRE(faults.size() == 8);  // two of X, the key "new", five absent spreads
  CHECK(faults[0].where == "k.json:1 /accelerators/X/settled");
}

}  // namespace
}  // namespace trainwright
