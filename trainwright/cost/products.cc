// Kernels: products, attention, and what only moves bytes.
#include <algorithm>
#include <cmath>

#include "trainwright/base/check.h"
#include "trainwright/cost/cost.h"

namespace trainwright {
namespace {

// Operands once, a result of 16 bits or as wide as the operands.
double product_bytes(const Product& product, double operand_bytes) {
  const double m = real(product.m), n = real(product.n), k = real(product.k);
  const double result_bytes = std::max(2.0, operand_bytes);
  return real(product.count) * ((m * k + k * n) * operand_bytes + m * n * result_bytes);
}

double settled_share(const ProductRates& of, const AcceleratorRates& rates) {
  if (rates.clocks == Clocks::Burst) return 1.0;
  return of.operand_bytes < 2 ? rates.settled_narrow.value : rates.settled.value;
}

// In a burst clocks fall while a call lasts; 3 ms is where half of it is seen.
Seconds computing_time(Flops flops, const ProductRates& of, const AcceleratorRates& rates) {
  constexpr Seconds kHalf(3e-3);
  const Seconds time = flops / (of.peak * (of.reached.value * settled_share(of, rates)));
  if (rates.clocks == Clocks::Settled) return time;
  return time * (1.0 + of.heat * (time / (time + kHalf)));
}

// Between two known widths linear in the logarithm, beyond them as the nearest.
HeadRates head_rates(const AttentionRates& attention, std::int64_t head_width) {
  const auto& heads = attention.heads;
  TW_CHECK(!heads.empty(), "attention has rates for at least one head width");
  const auto above = std::find_if(heads.begin(), heads.end(), [&](const HeadRates& head) {
    return head.head_width >= head_width;
  });
  if (above == heads.end()) return heads.back();
  if (above == heads.begin() || above->head_width == head_width) return *above;
  const HeadRates& below = *(above - 1);
  const double place = std::log(real(head_width) / real(below.head_width)) /
                       std::log(real(above->head_width) / real(below.head_width));
  return {.head_width = head_width,
          .reached = below.reached + place * (above->reached - below.reached),
          .half = below.half + place * (above->half - below.half)};
}

// A start is fitted to products of middling size, whose last wave of tiles fills the accelerator in
// part. A tiny one is a single wave and takes a launch; in between, the rest grows with the work.
// In 8 bits it is that of the kernels that round operands, which tiny products have as well.
Seconds starting(const ProductRates& of, Seconds work) {
  constexpr Seconds kLaunch(4e-6);
  if (of.start <= kLaunch || of.operand_bytes < 2) return of.start;
  return kLaunch + (of.start - kLaunch) * (work / (work + of.start));
}

}  // namespace

Flops flops_of(const Product& product) {
  return Flops(2.0 * real(product.m) * real(product.n) * real(product.k) * real(product.count));
}

Seconds product_time(const Product& product, const AcceleratorRates& rates) {
  const ProductRates& of = rates.of(product.type);
  const Seconds computing = computing_time(flops_of(product), of, rates);
  const Seconds moving(product_bytes(product, of.operand_bytes) /
                       (rates.memory_bandwidth.value() * of.streamed));
  const Seconds work = std::max(computing, moving);
  Seconds time = starting(of, work) + work;
  if (product.rounds) {
    const double bytes =
        real(product.count) * real(product.m) * real(product.k) * (2.0 + of.operand_bytes);
    time += Seconds(bytes / (rates.memory_bandwidth.value() * rates.rounding));
  }
  return time;
}

Seconds attention_time(const AttentionCall& call, const AcceleratorRates& rates) {
  const AttentionRates& attention = rates.attention;
  const FlopsPerSecond peak = rates.of(ComputeType::Bf16).peak;
  if (call.kernel != AttentionKernel::Flash) {
    return attention.start + call.flops / (peak * attention.unfused);
  }
  const HeadRates head = head_rates(attention, call.head_width);
  const double half = call.causal ? head.half : std::min(head.half, attention.full_half);
  const double slower = 1.0 + half / std::max(1.0, real(call.keys));
  const auto generation = static_cast<std::size_t>(std::clamp(call.flash, 0, 3));
  const double reached =
      head.reached * attention.flash[generation] * (call.backward ? attention.backward : 1.0);
  return attention.start + call.flops / (peak * reached) * slower;
}

Seconds streamed_time(Bytes bytes, bool backward, const AcceleratorRates& rates) {
  const RatedShare& share = backward ? rates.streamed.backward : rates.streamed.forward;
  return bytes / (rates.memory_bandwidth * share.value);
}

}  // namespace trainwright
