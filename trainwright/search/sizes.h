#pragma once
// Clusters of other sizes. Part of the public face; include trainwright/search/search.h.
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "trainwright/search/search.h"

namespace trainwright {

// The same question on other numbers of accelerators: a cluster of so many, nullopt where there is
// none.
using ClusterOf = std::function<std::optional<Cluster>(std::int64_t)>;
// Those that are tried, ascending: divisors of a node, up to 16 whole nodes, then 2^a 3^b 5^c of
// them, since other numbers leave few ways to split a model and a batch.
std::vector<std::int64_t> sizes_up_to(std::int64_t most, std::int64_t node);

// The fewest accelerators of the question's cluster, or of a part of it, that train so many tokens
// a second, with the fastest layout there; 0: on which anything fits. Nullopt if all of them are
// too few. Starts where the peak of the accelerators allows it. One search for each size.
struct Sized {
  Cluster cluster;
  PlannedLayout plan;
};
Result<std::optional<Sized>> fewest(const SearchQuestion& question, const ClusterOf& cluster_of,
                                    double tokens_per_second);

// Layouts of which none is at once as fast, as far from running out of memory and on as few
// accelerators as another: on the cluster, its half and its quarter, the fastest that leave
// nothing, 15, 30 and 50 % of the memory free. Up to 12 searches.
struct FrontPoint {
  Sized sized;
  Bytes free;  // on the fullest rank
};
Result<std::vector<FrontPoint>> pareto_front(const SearchQuestion& question,
                                             const ClusterOf& cluster_of);

}  // namespace trainwright
