// Ranks, batch and sharding: divisions that every trainer makes.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "trainwright/layout/findings.h"
#include "trainwright/layout/shapes.h"

namespace trainwright::detail {
namespace {

// "dp=192 uses all of them; --on 16384xmeta-h100-roce is a part"
std::string world_hint(const Case& c, std::int64_t ranks, std::int64_t model) {
  const std::int64_t accelerators = accelerator_count(c.cluster);
  std::string hint = model > 0 && accelerators % model == 0
                         ? fmt::format("dp={} uses all of them", accelerators / model)
                         : fmt::format("tp x pp x cp must divide {}", accelerators);
  const bool part = ranks < accelerators && ranks % smallest_node(c.cluster) == 0;
  if (!part || c.cluster.groups.size() > 1) return hint;
  // Without its own count: "64xH100-SXM" is of H100-SXM.
  std::string_view kind = c.cluster.name;
  const std::size_t times = kind.find('x');
  if (times != kind.npos && kind.find_first_not_of("0123456789") == times) {
    kind.remove_prefix(times + 1);
  }
  if (kind.empty() || kind.find_first_not_of("0123456789") != 0) return hint;  // 32x8xH100
  return hint + fmt::format("; `--on {}x{}` is a part", ranks, kind);
}

void check_world(const Case& c, Findings& findings) {
  const Layout& layout = c.layout;
  const std::int64_t ranks = world_size(layout);
  const std::int64_t accelerators = accelerator_count(c.cluster);
  if (ranks == accelerators) return;
  const std::int64_t replica = layout.tp * layout.pp;  // at most 2^48, times cp at most 2^72
  const bool fits = replica <= accelerators && layout.cp <= accelerators / replica;
  const std::int64_t model = fits ? replica * layout.cp : 0;
  findings.forbid(
      "world-splits",
      fmt::format("tp {} x pp {} x cp {} x dp {} is {} ranks, the cluster has {} accelerators",
                  layout.tp, layout.pp, layout.cp, layout.dp,
                  ranks == INT64_MAX ? "too many" : std::to_string(ranks), accelerators),
      world_hint(c, ranks, model));
}

// The ranks of one pipeline rank are counted off twice: for dense weights and for experts.
void check_experts(const Case& c, Findings& findings) {
  const Layout& layout = c.layout;
  if (layout.ep == 1 && layout.etp == layout.tp) return;
  if (world_size(layout) > kMostAccelerators) return;   // no such cluster, and said so
  const std::int64_t experts = layout.etp * layout.ep;  // at most 2^48
  const std::int64_t ranks = world_size(layout) / layout.pp;
  if (ranks % experts != 0) {
    findings.forbid("expert-ranks-split",
                    fmt::format("etp {} x ep {} does not divide tp {} x cp {} x dp {} = {} ranks",
                                layout.etp, layout.ep, layout.tp, layout.cp, layout.dp, ranks),
                    ranks % layout.etp == 0 ? divisors_hint("ep", ranks / layout.etp, layout.ep)
                                            : divisors_hint("etp", ranks, layout.etp));
    return;
  }
  const std::int64_t of_dense = axis_stride(layout, Axis::Pp, Weights::Dense);
  const std::int64_t of_experts = axis_stride(layout, Axis::Pp, Weights::Expert);
  if (layout.pp > 1 && of_dense != of_experts) {
    findings.forbid("expert-pipeline-same",
                    fmt::format("in the order {} pipeline ranks are {} apart for dense weights and "
                                "{} for experts",
                                to_text(layout.order), of_dense, of_experts),
                    "order=tp-cp-ep-dp-pp, or etp x ep equal to tp x cp");
  }
}

void check_batch(const Case& c, Findings& findings) {
  const Layout& layout = c.layout;
  const std::int64_t once = layout.mbs * layout.dp;  // at most 2^55
  if (layout.gbs % once == 0) return;
  const std::int64_t below = layout.gbs / once * once;
  findings.forbid("batch-splits",
                  fmt::format("a global batch of {} is not a multiple of mbs {} x dp {} = {}",
                              layout.gbs, layout.mbs, layout.dp, once),
                  below == 0
                      ? fmt::format("gbs may be {}", once)
                      : fmt::format("the nearest are gbs={} and gbs={}", below, below + once));
}

void check_sharding(const Case& c, Findings& findings) {
  const Layout& layout = c.layout;
  const ShardingKind kind = layout.sharding;
  const ZeroRange range = zero_range(kind);
  if (layout.zero < range.least || layout.zero > range.most) {
    findings.forbid(
        "zero-means-sharding",
        fmt::format("zero {} and sharding {} contradict each other", layout.zero, name_of(kind)),
        "ddp is zero=0, zero is 1 to 3, fsdp and hsdp are 2 or 3");
  }
  if (layout.dp % layout.dp_replicate != 0) {
    findings.forbid(
        "data-parallel-splits",
        fmt::format("dp {} does not split into {} replicas", layout.dp, layout.dp_replicate),
        divisors_hint("dp_replicate", layout.dp, layout.dp_replicate));
  } else if (shapes_of(c.model).experts > 0 && expert_dp(layout) % layout.dp_replicate != 0) {
    findings.forbid(
        "expert-replicas-split",
        fmt::format("the {} ranks that hold the same experts do not split into {} "
                    "replicas",
                    expert_dp(layout), layout.dp_replicate),
        divisors_hint("dp_replicate", std::gcd(layout.dp, expert_dp(layout)), layout.dp_replicate));
  } else if (kind == ShardingKind::Fsdp && layout.dp_replicate > 1) {
    findings.forbid(
        "fsdp-is-one-replica",
        fmt::format("fsdp shards over all of dp, {} replicas are hsdp", layout.dp_replicate),
        "set sharding=hsdp");
  } else if (kind == ShardingKind::Hsdp && layout.dp_replicate == 1) {
    findings.forbid("hsdp-has-replicas", "hsdp needs several replicas, and dp_replicate is 1",
                    "give dp_shard, for instance dp_shard=8, or use fsdp");
  }
}

// Legal, but tensor parallelism waits for its collectives in every layer.
void check_tensor(const Case& c, Findings& findings) {
  const Layout& layout = c.layout;
  if (layout.tp == 1 || world_size(layout) != accelerator_count(c.cluster)) return;
  const std::int64_t together = place_group(layout, GroupKind::Tp, c.cluster).scale_up.together;
  if (together >= layout.tp) return;
  findings.advise("tp-in-scale-up",
                  fmt::format("tp {} reaches beyond the scale-up links, which join {} of its ranks",
                              layout.tp, together),
                  fmt::format("tp={} or less keeps its collectives off the network", together));
}

void check_context(const Case& c, Findings& findings) {
  const Layout& layout = c.layout;
  if (layout.cp == 1 || layout.cp_kind != CpKind::UlyssesRing) return;
  if (layout.cp_ulysses >= 1 && layout.cp % layout.cp_ulysses == 0) return;
  findings.forbid("ulysses-splits-cp",
                  fmt::format("cp {} does not split into groups of {} for the all-to-all",
                              layout.cp, layout.cp_ulysses),
                  divisors_hint("cp_ulysses", layout.cp, layout.cp_ulysses));
}

}  // namespace

void check_ranges(const Case& c, Findings& findings) {
  const Layout& layout = c.layout;
  const auto within = [&](const char* key, std::int64_t value, std::int64_t least,
                          std::int64_t most) {
    if (value >= least && value <= most) return;
    findings.forbid("in-range", fmt::format("{} is {}", key, value),
                    fmt::format("{} to {}", least, most));
  };
  within("tp", layout.tp, 1, kMostDegree);
  within("pp", layout.pp, 1, kMostDegree);
  within("dp", layout.dp, 1, kMostDegree);
  within("cp", layout.cp, 1, kMostDegree);
  within("vpp", layout.vpp, 1, kMostDegree);
  within("ep", layout.ep, 1, kMostDegree);
  within("etp", layout.etp, 1, kMostDegree);
  within("dp_replicate", layout.dp_replicate, 1, kMostDegree);
  within("zero", layout.zero, 0, 3);
  within("mbs", layout.mbs, 1, kMostBatch);
  within("gbs", layout.gbs, 1, kMostBatch);
  within("seq", layout.seq, 1, kMostBatch);
  within("first_layers", layout.first_layers, 0, kMostDegree);
  within("last_layers", layout.last_layers, 0, kMostDegree);
  within("count_embedding", layout.count_embedding, 0, kMostDegree);
  within("count_loss", layout.count_loss, 0, kMostDegree);
  within("micro_batch_group", layout.micro_batch_group, 0, kMostDegree);
  within("cp_ulysses", layout.cp_ulysses, 0, kMostDegree);
  Flags<Axis> axes;
  for (const Axis axis : layout.order) axes.insert(axis);
  if (axes.bits != 0b11111) findings.forbid("in-range", "an axis is missing from the rank order");
  if (c.cluster.groups.empty()) findings.forbid("in-range", "the cluster is empty");
}

void check_degrees(const Case& c, Findings& findings) {
  check_world(c, findings);
  check_experts(c, findings);
  check_batch(c, findings);
  check_sharding(c, findings);
  check_context(c, findings);
  check_tensor(c, findings);
  if (c.cluster.groups.size() > 1) {
    findings.advise("one-kind-of-accelerator",
                    fmt::format("the cluster mixes {} groups of accelerators; all ranks have the "
                                "pace, the links and the memory of the weakest",
                                c.cluster.groups.size()),
                    "plan each group by itself");
  }
}

}  // namespace trainwright::detail
