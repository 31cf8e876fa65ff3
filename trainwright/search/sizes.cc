// The same question on other numbers of accelerators.
#include <algorithm>

#include "trainwright/search/search.h"

namespace trainwright {
namespace {

bool is_smooth(std::int64_t n) {
  for (const std::int64_t prime : {2, 3, 5}) {
    while (n % prime == 0) n /= prime;
  }
  return n == 1;
}

// What no layout can beat: a forward pass at the peak of all accelerators, and the backward pass of
// everything where everything is trained.
double least_accelerators(const SearchQuestion& question, double tokens_per_second) {
  const TokenFlops flops =
      token_flops(question.model, Tokens(question.seq), AttentionPairs::Causal);
  const bool all =
      !question.job.lora && question.job.frozen.empty() && question.job.frozen_layers == 0;
  double peak = 0;
  for (const Group& group : question.cluster.groups) {
    peak =
        std::max(peak, peak_or_wider(group.accelerator, compute_type(question.precision)).value());
  }
  return tokens_per_second * (all ? flops.train() : flops.forward()).value() / peak;
}

bool dominates(const FrontPoint& a, const FrontPoint& b) {
  const std::int64_t x = accelerator_count(a.sized.cluster);
  const std::int64_t y = accelerator_count(b.sized.cluster);
  const Seconds s = a.sized.plan.time.step, t = b.sized.plan.time.step;
  return s <= t && a.free >= b.free && x <= y && (s < t || a.free > b.free || x < y);
}

}  // namespace

std::vector<std::int64_t> sizes_up_to(std::int64_t most, std::int64_t node) {
  constexpr std::int64_t kEvery = 16;
  std::vector<std::int64_t> sizes;
  for (std::int64_t n = 1; n < node && n <= most; ++n) {
    if (node % n == 0) sizes.push_back(n);
  }
  for (std::int64_t nodes = 1; nodes * node <= most; ++nodes) {
    if (nodes <= kEvery || is_smooth(nodes)) sizes.push_back(nodes * node);
  }
  return sizes;
}

Result<std::optional<Sized>> fewest(const SearchQuestion& question, const ClusterOf& cluster_of,
                                    double wanted) {
  const double least = least_accelerators(question, wanted);
  for (const std::int64_t size :
       sizes_up_to(accelerator_count(question.cluster), smallest_node(question.cluster))) {
    if (static_cast<double>(size) < least) continue;
    std::optional<Cluster> cluster = cluster_of(size);
    if (!cluster) continue;
    SearchQuestion part = with_cluster(question, *cluster);
    part.most = 1;
    part.find_smallest = false;
    SearchResult result = TW_TRY(search(part));
    if (result.end == SearchEnd::Stopped) return std::nullopt;
    if (!result.best.empty() && tokens_per_second(result.best.front().time) >= wanted) {
      return Sized{*std::move(cluster), std::move(result.best.front())};
    }
  }
  return std::nullopt;
}

Result<std::vector<FrontPoint>> pareto_front(const SearchQuestion& question,
                                             const ClusterOf& cluster_of) {
  std::vector<FrontPoint> points;
  const std::int64_t all = accelerator_count(question.cluster);
  for (const std::int64_t parts : {1, 2, 4}) {
    const std::optional<Cluster> cluster =
        parts == 1 ? std::optional(question.cluster)
                   : (all % parts == 0 ? cluster_of(all / parts) : std::nullopt);
    if (!cluster) continue;
    const SearchQuestion part = with_cluster(question, *cluster);
    for (const double share : {1.0, 0.85, 0.7, 0.5}) {
      const auto fastest = TW_TRY(fastest_with_memory(part, share));
      if (!fastest) break;
      PlannedLayout plan = TW_TRY(planned(part, fastest->layout));
      const Bytes used = plan.memory.classes[plan.memory.worst].driver;
      points.push_back({{*cluster, std::move(plan)}, capacity_of(*cluster) - used});
    }
  }
  std::vector<FrontPoint> front;
  for (const FrontPoint& one : points) {
    const bool twin = std::any_of(front.begin(), front.end(), [&](const FrontPoint& other) {
      return other.sized.plan.layout == one.sized.plan.layout;
    });
    const bool beaten = std::any_of(points.begin(), points.end(),
                                    [&](const FrontPoint& other) { return dominates(other, one); });
    if (!twin && !beaten) front.push_back(one);
  }
  return front;
}

}  // namespace trainwright
