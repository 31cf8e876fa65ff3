#pragma once
// What one kernel or one collective takes on an accelerator: seconds from shapes and bytes.
//
// A product of m x k by k x n takes, with F = 2 m n k count and B the bytes of its operands,
//
//   w + start,  w = max(F / (peak * reached), B / (bandwidth * streamed))
//
// where of a start beyond a launch of 4 us a tiny product of 16 bits has the part w / (w + start);
// attention, with F the products of its unmasked pairs and s keys,
//
//   start + F / (peak * reached(head width)) * (1 + half / s)
//
// everything else its bytes at the bandwidth that such kernels achieve. A collective is the best of
// the ways a library has (ring, tree, hierarchical, in-switch), with w the bytes one member sends:
//
//   start + hops * latency + w / rate + sqrt(w * ramp / line rate)
//
// where a tier's rate is that of cluster.h times what the kind of collective makes of it. The last
// term is the slow rise of bandwidth with size. Constants and their sources: data/calibrations/
// kernels.json, fitted to published timings (docs/time.md, "Kernels"). All are shares of what the
// accelerator's file promises, so nothing is ever faster than peak or line rate, and a constant of
// one accelerator means something on another.
// Kernel benchmarks are short: clocks are higher than in a step, whose power is limited. `settled`
// is what remains of a product's rate in a step; attention waits for exponentials and keeps its
// own. Clocks::Burst, to compare with benchmarks, leaves it out; there the products of c seconds,
// at `reached`, take 1 + heat * c / (c + 3 ms) times as long.
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainwright/base/json.h"
#include "trainwright/base/result.h"
#include "trainwright/base/units.h"
#include "trainwright/cluster/cluster.h"
#include "trainwright/layout/layout.h"
#include "trainwright/trainer/trainer.h"
#include "trainwright/work/work.h"

namespace trainwright {

// The type that products of a precision have; fp32 runs as tf32 where there is such a unit.
ComputeType compute_type(PrecisionKind precision);
// The peak of the unit for a type, or of the next wider one an accelerator has.
FlopsPerSecond peak_or_wider(const Accelerator& accelerator, ComputeType type);

struct Product {
  std::int64_t m = 1, n = 1, k = 1;
  std::int64_t count = 1;  // equal products in one call: experts (grouped) or a batch
  ComputeType type = ComputeType::Bf16;
  bool rounds = false;  // the call also rounds its m x k operand from 16 bits to `type`
};
Flops flops_of(const Product& product);
struct AttentionCall {
  Flops flops;  // of this pass; only unmasked pairs where causal
  std::int64_t head_width = 128;
  std::int64_t keys = 1;  // of one sequence
  bool causal = true;
  bool backward = false;
  AttentionKernel kernel = AttentionKernel::Flash;
  int flash = 0;  // generation of the kernel: 1, 2, 3; 0: the best the accelerator has
};

// Whose timings a constant comes from: its own accelerator's, those of its architecture, or
// others'.
enum class Known : std::uint8_t { Measured, Generation, Default };
struct RatedShare {
  double value = 0;
  double spread = 0;  // log of the half width of a 90 % interval
  Known known = Known::Default;
  friend bool operator==(const RatedShare&, const RatedShare&) = default;
};
struct ProductRates {
  FlopsPerSecond peak;
  double operand_bytes = 2;  // of one number
  RatedShare reached;        // share of peak of large products
  double streamed = 0.7;     // share of memory bandwidth of narrow ones
  Seconds start;
  double heat = 0;  // how much longer long calls take when clocks fall within a benchmark
  friend bool operator==(const ProductRates&, const ProductRates&) = default;
};

struct HeadRates {
  std::int64_t head_width = 128;
  double reached = 0.5;  // share of the bf16 peak, forward
  double half = 700;     // keys at which half of it is reached
  friend bool operator==(const HeadRates&, const HeadRates&) = default;
};
struct AttentionRates {
  std::vector<HeadRates> heads;  // by rising width; between two, linear in the logarithm
  double spread = 0;
  Known known = Known::Default;
  double backward = 0.85;  // of the forward share
  double full_half = 300;  // `half` without a causal mask
  double unfused = 0.25;   // share of peak of the products where they are not fused
  std::array<double, 4> flash = {1, 0.5, 1, 1};  // of `reached`, by generation of the kernel
  Seconds start;
  friend bool operator==(const AttentionRates&, const AttentionRates&) = default;
};

// What kernels that only move bytes achieve of the memory's bandwidth.
struct StreamedRates {
  RatedShare forward, backward;
  friend bool operator==(const StreamedRates&, const StreamedRates&) = default;
};

struct LinkRates {
  // Of a tier's bandwidth under load, by CollectiveKind; the last one for send and receive.
  std::array<double, 6> scale_up = {1, 1, 1, 1, 1, 1};
  std::array<double, 6> network = {1, 1, 1, 1, 1, 1};
  double pair = 1;       // of `scale_up` where two members are alone: they fill fewer channels
  double in_switch = 0;  // likewise, of an all-reduce's bytes sent once; 0: the switch cannot add
  Seconds start;         // of a call
  Seconds hop;           // between two members of a scale-up domain
  Seconds ramp, network_ramp;
  double spread = 0, network_spread = 0;
  Known known = Known::Default;
  friend bool operator==(const LinkRates&, const LinkRates&) = default;
};

enum class Clocks : std::uint8_t { Settled, Burst };
struct AcceleratorRates {
  std::array<ProductRates, 9> products;  // by ComputeType
  AttentionRates attention;
  StreamedRates streamed;
  LinkRates links;
  BytesPerSecond memory_bandwidth;
  double rounding = 0.75;     // share of that bandwidth with which operands are rounded
  RatedShare settled;         // of products in 16 bits and more
  RatedShare settled_narrow;  // of products in 8 bits and fewer
  Clocks clocks = Clocks::Settled;
  double compute_capability = 0;
  double host = 1;    // what an operator takes the host it usually has, over an H100's
  Seconds gap{2e-6};  // between two kernels that wait in a queue

  const ProductRates& of(ComputeType type) const {
    return products[static_cast<std::size_t>(type)];
  }
  friend bool operator==(const AcceleratorRates&, const AcceleratorRates&) = default;
};

// Data of kernels.json as it stands there: what is known of one accelerator, of an architecture or
// of accelerators at all. Whatever a narrower entry leaves out comes from the wider one.
struct KernelFacts {
  struct Products {
    double reached = 0, streamed = 0;
    Seconds start;
    double heat = 0;
  };
  std::map<ComputeType, Products> products;
  std::optional<AttentionRates> attention;
  std::optional<std::array<double, 2>> streamed;  // forward, backward
  std::optional<LinkRates> links;
  std::optional<std::array<double, 2>> settled;  // 16 bits and more, 8 bits and fewer
  std::optional<double> host, gap;               // as AcceleratorRates; seconds
};
// What a software stack makes of the shares: its own choice of kernels.
struct KernelStack {
  double products = 1, fp8 = 1;  // of `reached`, in 16 bits and in 8
  double attention = 1;
  double rounding = 0.75;  // share of memory bandwidth
};
// Half widths by how a constant is known (enum Known).
using Spreads = std::array<double, 3>;
struct Kernels {
  std::map<std::string, KernelFacts> accelerators;  // by Accelerator::name
  std::map<double, KernelFacts> generations;        // by compute capability, as ContextFacts
  std::map<std::string, KernelFacts> vendors;       // where there is no such number
  KernelFacts others;                               // complete
  Spreads products{}, attention{}, streamed{}, links{}, settled{};
  std::map<std::string, KernelStack> stacks;  // by name: "vllm"
  std::int64_t constants = 0, rows = 0;       // fitted, to so many timings
};
Result<Kernels> read_kernels(const Json& json, const std::string& origin);
Result<Kernels> load_kernels(const std::string& data_dir);  // data_dir/calibrations/kernels.json

AcceleratorRates rates_of(const Kernels& kernels, const Accelerator& accelerator);
// With what is told of its machines: their CPU, and clocks that settle where the power is less.
// They fall with its square root: H100 of 500 instead of 700 W settle at 0.761 instead of 0.9.
AcceleratorRates rates_of(const Kernels& kernels, const Group& group);
// The same under a software stack: shares times its factors, none above 1.
AcceleratorRates on_stack(AcceleratorRates rates, const KernelStack& stack);

Seconds product_time(const Product& product, const AcceleratorRates& rates);
Seconds attention_time(const AttentionCall& call, const AcceleratorRates& rates);
// One kernel that only moves bytes, or several fused; without its launch.
Seconds streamed_time(Bytes bytes, bool backward, const AcceleratorRates& rates);

}  // namespace trainwright

// The rest of the public face: what crosses links.
#include "trainwright/cost/collectives.h"
