// Larger is never faster, a faster machine never slower, nothing beats peak or line rate.
#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <vector>

#include "trainwright/cost/cost.h"

namespace trainwright {
namespace {

const std::string kData = TRAINWRIGHT_SOURCE_DIR "/data";

const Hardware& hardware() {
  static const Hardware all = load_hardware(kData).value();
  return all;
}

AcceleratorRates any_rates() {
  static const Kernels kernels = load_kernels(kData).value();
  AcceleratorRates rates = rates_of(kernels, *rc::gen::elementOf(hardware().accelerators));
  rates.clocks = *rc::gen::element(Clocks::Settled, Clocks::Burst);
  return rates;
}

Product any_product() {
  const auto side = [] { return *rc::gen::inRange<std::int64_t>(1, 65536); };
  return {.m = side(),
          .n = side(),
          .k = side(),
          .count = *rc::gen::inRange<std::int64_t>(1, 64),
          .type = static_cast<ComputeType>(*rc::gen::inRange(0, 9)),
          .rounds = *rc::gen::arbitrary<bool>()};
}

TEST_CASE("a product with a longer side is never faster, and none beats the peak") {
  CHECK(rc::check([] {
    const AcceleratorRates rates = any_rates();
    const Product product = any_product();
    const Seconds time = product_time(product, rates);
    RC_ASSERT(time >= flops_of(product) / rates.of(product.type).peak);
    Product larger = product;
    const auto side = *rc::gen::element(&Product::m, &Product::n, &Product::k, &Product::count);
    larger.*side += *rc::gen::inRange<std::int64_t>(1, 4096);
    RC_ASSERT(product_time(larger, rates) >= time);
  }));
}

TEST_CASE("attention over more pairs is never faster, and none beats the peak") {
  CHECK(rc::check([] {
    const AcceleratorRates rates = any_rates();
    const auto keys = *rc::gen::inRange<std::int64_t>(1, 131072);
    const auto more = keys + *rc::gen::inRange<std::int64_t>(1, 4096);
    const auto call = [width = *rc::gen::inRange<std::int64_t>(16, 512),
                       causal = *rc::gen::arbitrary<bool>(),
                       backward = *rc::gen::arbitrary<bool>()](std::int64_t s) {
      const double pairs = static_cast<double>(s) * static_cast<double>(s);
      return AttentionCall{.flops = Flops(4.0 * pairs * static_cast<double>(width)),
                           .head_width = width,
                           .keys = s,
                           .causal = causal,
                           .backward = backward};
    };
    const Seconds time = attention_time(call(keys), rates);
    RC_ASSERT(time >= call(keys).flops / rates.of(ComputeType::Bf16).peak);
    RC_ASSERT(attention_time(call(more), rates) >= time);
  }));
}

// A cluster of whole nodes of any accelerator, and a group in it.
struct Case {
  Cluster cluster;
  Layout layout;
  GroupKind group = GroupKind::Tp;
  CollectiveKind kind = CollectiveKind::AllReduce;
  Bytes bytes;

  Seconds time(const AcceleratorRates& rates) const {
    return collective_time(kind, bytes, place_group(layout, group, cluster), cluster, rates);
  }
};
Case any_case() {
  Case made;
  const Accelerator one = *rc::gen::elementOf(hardware().accelerators);
  const std::int64_t nodes = std::int64_t{1} << *rc::gen::inRange(0, 5);
  const std::int64_t per_node = one.node.accelerators;
  made.cluster.groups = {usual_group(one, nodes, per_node)};
  made.layout.tp = std::int64_t{1} << *rc::gen::inRange(0, 3);
  made.layout.dp = nodes * per_node / made.layout.tp;
  made.group = *rc::gen::element(GroupKind::Tp, GroupKind::Dp);
  made.kind = *rc::gen::elementOf(kCollectiveKinds);
  made.bytes = Bytes(*rc::gen::inRange<std::int64_t>(1, std::int64_t{1} << 36));
  return made;
}

TEST_CASE("more bytes never take less time on the way, and faster links never more") {
  CHECK(rc::check([] {
    const AcceleratorRates rates = any_rates();
    const Case less = any_case();
    Case more = less;
    more.bytes += Bytes(*rc::gen::inRange<std::int64_t>(1, std::int64_t{1} << 30));
    RC_ASSERT(more.time(rates) >= less.time(rates));
    Case faster = less;
    auto& tiers = faster.cluster.groups[0].tiers;
    Tier& tier = tiers[*rc::gen::inRange<std::size_t>(0, tiers.size())];
    tier.bandwidth = tier.bandwidth * 1.5;
    RC_ASSERT(faster.time(rates).value() <= less.time(rates).value() * (1 + 1e-12));
  }));
}

TEST_CASE("no collective beats the fastest tier that its group uses") {
  CHECK(rc::check([] {
    const AcceleratorRates rates = any_rates();
    const Case one = any_case();
    const GroupPlacement placement = place_group(one.layout, one.group, one.cluster);
    const double n = static_cast<double>(placement.group.size);
    if (n <= 1) return;
    double line = 0;
    for (const Tier& tier : one.cluster.groups[0].tiers) {
      line = std::max(line, tier.bandwidth.value());
    }
    // Every member must at least receive what it does not have; of an all-to-all over two tiers at
    // the same time, half of it over one of them.
    const double bytes = static_cast<double>(one.bytes.value()) * (n - 1) / n;
    const double tiers = static_cast<double>(one.cluster.groups[0].tiers.size());
    RC_ASSERT(one.time(rates).value() >=
              bytes / line / (one.kind == CollectiveKind::AllToAll ? tiers : 1));
  }));
}

}  // namespace
}  // namespace trainwright
