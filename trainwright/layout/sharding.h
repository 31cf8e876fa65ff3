#pragma once
// Who shares weights, gradients and optimizer states, and when they travel. Part of layout.h:
// include that one.
//
// dp x cp ranks train the same dense weights, edp ranks the same experts. Each group of `ways` of
// them holds one copy of what is cut into parts, and `replicas` such groups hold the same. What a
// rank holds and what it sends in a step of m micro-batches both follow from this one value, for N
// parameters of that sort on the rank:
//
//   held       N / ways of what is cut, N of what is not
//   gathered   gathers(m) x N over `shard`: parts become whole weights
//   reduced    reductions(m) x N over `shard`, then N / ways over `replicate`
//
// ZeRO (arXiv:1910.02054) cuts states, then gradients, then weights. PyTorch's FSDP2 always stores
// weights in parts; its zero=2 does not free them between forward and backward
// (reshard_after_forward=False), and under PyTorch's pipelines they stay, with whole gradients,
// until the last backward pass (torch 2.13 distributed/pipelining/stage.py
// backward_maybe_with_nosync; torchtitan 0.2 apply_fsdp). Megatron's FSDP cuts what its strategy
// says and frees weights after every pass, pipeline or not (megatron-core 0.14
// distributed/fsdp/src/megatron_fsdp: param_and_grad_buffer.py, megatron_fsdp.py _post_forward).
//
// FSDP2 copies gathered weights out of the buffer they came in, and gradients into the one that is
// reduced (torch 2.13 _fsdp_collectives.py foreach_all_gather_copy_out, foreach_reduce: both on the
// stream that computes). DeepSpeed's ZeRO-3 joins the parts of weights that travel together, but a
// weight larger than the prefetch bucket travels alone, where it is used (0031ae3 runtime/zero/
// partition_parameters.py all_gather_coalesced): most of a large model's do, so none is counted.
#include <cstdint>

#include "trainwright/layout/decision.h"
#include "trainwright/layout/placement.h"

namespace trainwright {

// When parts are made whole, and how long whole weights last.
enum class Gather {
  Never,       // nothing is cut, or there is nobody to share with
  Step,        // once; until the step ends, or for good where weights are not cut
  MicroBatch,  // before each forward pass, until its backward pass is done with them
  Pass,        // before each forward and each backward pass, for that pass
};
// When gradients are summed up over ranks.
enum class Reduce { Step, MicroBatch };

// The ranks that hold weights of one sort.
struct Sharers {
  std::int64_t ways = 1;      // that share one copy of what is cut
  std::int64_t replicas = 1;  // groups of so many
  GroupKind shard = GroupKind::Shard, replicate = GroupKind::Replicate;
  friend bool operator==(const Sharers&, const Sharers&) = default;
};

struct Sharding {
  Sharers dense, expert;
  bool states = false, gradients = false, weights = false;  // what is cut
  Gather gather = Gather::Never;
  Reduce reduce = Reduce::Step;
  bool by_unit = false;       // a call for every layer
  bool flat_buffers = false;  // FSDP2: each through a flat buffer, with a copy
  bool fp8_gather = false;    // low-precision weights travel as they are
  GradientLife life = GradientLife::Buffer;
  Seconds host_per_module = {};  // what seeing to cut weights takes of the host, in every pass
  friend bool operator==(const Sharding&, const Sharding&) = default;
};
Sharding sharding_of(const Layout& layout, const Trainer& trainer);

// What lies in the memory of the host. One switch of FSDP2 (CPUOffloadPolicy) moves parameters and
// states: asked for either, both go.
Flags<Offload> offloaded(const Layout& layout, const Trainer& trainer);

// In a step of so many micro-batches.
std::int64_t gathers(const Sharding& sharding, std::int64_t micro_batches);
std::int64_t reductions(const Sharding& sharding, std::int64_t micro_batches);

// Whole weights are there beside their parts: never, for a while, or until the step.
constexpr bool gathers_parts(const Sharding& sharding) {
  return sharding.weights && sharding.gather != Gather::Never;
}
constexpr bool stays_gathered(const Sharding& sharding) {
  return sharding.weights && sharding.gather == Gather::Step;
}
// Gradients are cut, but only once all micro-batches have been summed up.
constexpr bool cut_at_step(const Sharding& sharding) {
  return sharding.gradients && sharding.reduce == Reduce::Step;
}

// The stages of ZeRO that a kind of sharding knows.
struct ZeroRange {
  std::int64_t least = 0, most = 3;
};
ZeroRange zero_range(ShardingKind kind);

}  // namespace trainwright
