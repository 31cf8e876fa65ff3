// The constants of one accelerator out of all that is known.
#include <algorithm>
#include <cmath>
#include <span>

#include "trainwright/base/check.h"
#include "trainwright/cost/cost.h"

namespace trainwright {
namespace {

// What does the work of a type, the type itself first.
std::span<const ComputeType> or_wider(ComputeType type) {
  using enum ComputeType;
  static constexpr std::array kTypes = {Fp4, Fp6, Fp8, Bf16, Fp16, Tf32, Fp32, Fp64};
  static constexpr std::array kInt8 = {Int8, Bf16, Fp16, Fp32};
  static constexpr std::array kFp16 = {Fp16, Bf16, Tf32, Fp32, Fp64};
  if (type == Int8) return kInt8;
  if (type == Fp16) return kFp16;
  const auto first = std::find(kTypes.begin(), kTypes.end(), type);
  return {&*first, static_cast<std::size_t>(kTypes.end() - first)};
}

ComputeType unit_for(const Accelerator& accelerator, ComputeType type) {
  for (const ComputeType wider : or_wider(type)) {
    if (peak(accelerator, wider)) return wider;
  }
  return type;
}

double bytes_of(ComputeType type) {
  switch (type) {
    case ComputeType::Fp64: return 8;
    case ComputeType::Fp32:
    case ComputeType::Tf32: return 4;
    case ComputeType::Fp16:
    case ComputeType::Bf16: return 2;
    case ComputeType::Fp8:
    case ComputeType::Int8: return 1;
    case ComputeType::Fp6: return 0.75;
    case ComputeType::Fp4: return 0.5;
  }
  TW_CHECK(false, "no such compute type");
}

// Its own facts, those of its architecture, those of all: what there is, in this order.
struct Entry {
  const KernelFacts* facts = nullptr;
  Known known = Known::Default;
};
std::vector<Entry> entries_for(const Kernels& kernels, const Accelerator& accelerator) {
  std::vector<Entry> entries;
  if (const auto own = kernels.accelerators.find(accelerator.name);
      own != kernels.accelerators.end()) {
    entries.push_back({&own->second, Known::Measured});
  }
  const auto above = kernels.generations.upper_bound(accelerator.compute_capability);
  if (accelerator.compute_capability > 0 && above != kernels.generations.begin()) {
    entries.push_back({&std::prev(above)->second, Known::Generation});
  }
  if (const auto vendor = kernels.vendors.find(accelerator.vendor);
      vendor != kernels.vendors.end()) {
    entries.push_back({&vendor->second, Known::Generation});
  }
  entries.push_back({&kernels.others, Known::Default});
  return entries;
}

double spread_of(const Spreads& spreads, Known known) {
  return spreads[static_cast<std::size_t>(known)];
}

template <class Has>
Entry first_with(const std::vector<Entry>& entries, Has has) {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const Entry& entry) { return has(*entry.facts); });
  TW_CHECK(found != entries.end(), "the facts of all accelerators are complete");
  return *found;
}

ProductRates product_rates(const Kernels& kernels, const std::vector<Entry>& entries,
                           const Accelerator& accelerator, ComputeType type) {
  const ComputeType unit = unit_for(accelerator, type);
  // A type nobody timed has the shares of the next wider one.
  for (const ComputeType like : or_wider(unit)) {
    for (const Entry& entry : entries) {
      const auto found = entry.facts->products.find(like);
      if (found == entry.facts->products.end()) continue;
      const Known known = like == unit ? entry.known : std::max(entry.known, Known::Generation);
      return {.peak = peak_or_wider(accelerator, type),
              .operand_bytes = bytes_of(unit),
              .reached = {found->second.reached, spread_of(kernels.products, known), known},
              .streamed = found->second.streamed,
              .start = found->second.start,
              .heat = found->second.heat};
    }
  }
  TW_CHECK(false, "the facts of all accelerators tell of fp64 and int8 too");
}

}  // namespace

ComputeType compute_type(PrecisionKind precision) {
  switch (precision) {
    case PrecisionKind::Fp32: return ComputeType::Tf32;
    case PrecisionKind::Fp16: return ComputeType::Fp16;
    case PrecisionKind::Bf16: return ComputeType::Bf16;
    case PrecisionKind::Fp8Delayed:
    case PrecisionKind::Fp8Tensorwise:
    case PrecisionKind::Fp8Rowwise:
    case PrecisionKind::Fp8Blockwise:
    case PrecisionKind::Mxfp8: return ComputeType::Fp8;
    case PrecisionKind::Nvfp4: return ComputeType::Fp4;
  }
  TW_CHECK(false, "no such precision");
}

FlopsPerSecond peak_or_wider(const Accelerator& accelerator, ComputeType type) {
  return peak(accelerator, unit_for(accelerator, type)).value_or(FlopsPerSecond(1e12));
}

AcceleratorRates rates_of(const Kernels& kernels, const Accelerator& accelerator) {
  const std::vector<Entry> entries = entries_for(kernels, accelerator);
  AcceleratorRates rates;
  rates.compute_capability = accelerator.compute_capability;
  for (std::size_t i = 0; i < rates.products.size(); ++i) {
    rates.products[i] = product_rates(kernels, entries, accelerator, static_cast<ComputeType>(i));
  }
  const Entry attention =
      first_with(entries, [](const KernelFacts& facts) { return facts.attention.has_value(); });
  rates.attention = *attention.facts->attention;
  rates.attention.known = attention.known;
  rates.attention.spread = spread_of(kernels.attention, attention.known);
  const Entry streamed =
      first_with(entries, [](const KernelFacts& facts) { return facts.streamed.has_value(); });
  const auto share = [&](std::size_t which) {
    return RatedShare{(*streamed.facts->streamed)[which],
                      spread_of(kernels.streamed, streamed.known), streamed.known};
  };
  rates.streamed = {.forward = share(0), .backward = share(1)};
  const Entry links =
      first_with(entries, [](const KernelFacts& facts) { return facts.links.has_value(); });
  rates.links = *links.facts->links;
  rates.links.known = links.known;
  rates.links.spread = spread_of(kernels.links, links.known);
  rates.links.network_spread = spread_of(kernels.links, Known::Default);
  const Entry settled =
      first_with(entries, [](const KernelFacts& facts) { return facts.settled.has_value(); });
  const double spread = spread_of(kernels.settled, settled.known);
  rates.settled = {(*settled.facts->settled)[0], spread, settled.known};
  rates.settled_narrow = {(*settled.facts->settled)[1], spread, settled.known};
  for (const Entry& entry : entries) {
    if (entry.facts->host) {
      rates.host = *entry.facts->host;
      break;
    }
  }
  for (const Entry& entry : entries) {
    if (entry.facts->gap) {
      rates.gap = Seconds(*entry.facts->gap);
      break;
    }
  }
  rates.memory_bandwidth = accelerator.memory_bandwidth;
  return rates;
}

AcceleratorRates rates_of(const Kernels& kernels, const Group& group) {
  AcceleratorRates rates = rates_of(kernels, group.accelerator);
  if (group.told.host) rates.host = group.told.host->pace;
  if (group.told.power > 0) {
    const double slower = std::sqrt(group.told.power / group.accelerator.power);
    rates.settled.value *= slower;
    rates.settled_narrow.value *= slower;
  }
  return rates;
}

AcceleratorRates on_stack(AcceleratorRates rates, const KernelStack& stack) {
  for (ProductRates& product : rates.products) {
    const double factor = product.operand_bytes < 2 ? stack.fp8 : stack.products;
    product.reached.value = std::min(1.0, product.reached.value * factor);
  }
  for (HeadRates& head : rates.attention.heads) {
    head.reached = std::min(1.0, head.reached * stack.attention);
  }
  rates.rounding = stack.rounding;
  return rates;
}

}  // namespace trainwright
