#pragma once
// What one collective or transfer takes on a cluster's links. Part of cost.h: include that one.
#include <cstdint>

#include "trainwright/base/units.h"
#include "trainwright/cluster/cluster.h"
#include "trainwright/cost/cost.h"
#include "trainwright/layout/layout.h"
#include "trainwright/work/work.h"

namespace trainwright {

// One call by every group of the kind at once, so that all accelerators send: groups that share a
// NIC share it. `bytes` as in Collective (work/list.h): the larger side on one rank; of a ring,
// what is sent in all its steps. A group of one takes no time.
Seconds collective_time(CollectiveKind kind, Bytes bytes, const GroupPlacement& placement,
                        const Cluster& cluster, const AcceleratorRates& rates);
// How a token finds its experts: so many, in so many of the groups that they come in.
struct Chosen {
  std::int64_t experts = 1;
  std::int64_t groups = 1, of_groups = 1;
  friend bool operator==(const Chosen&, const Chosen&) = default;
};
// The ranks that hold any of a token's experts, on average, of n that hold them all in turn: n
// (1 - (1 - 1/n)^experts), with n only those that hold one of the groups that were chosen.
double ranks_met(const Chosen& chosen, double ranks);
// Tokens to the ranks of their experts as DeepEP sends them: a token of `bytes` in all crosses a
// network once for each domain and a link once for each rank that it meets.
Seconds dispatch_time(Bytes bytes, const Chosen& chosen, const GroupPlacement& placement,
                      const Cluster& cluster, const AcceleratorRates& rates);
// The slowest transfer between neighbours of a group, all ranks at once: stages of a pipeline. Of
// the members in a domain one sends out of it, and has what the others leave of the tier outside.
Seconds transfer_time(Bytes bytes, const GroupPlacement& placement, const Cluster& cluster,
                      const AcceleratorRates& rates);

}  // namespace trainwright
