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
// Inside a domain `kind` reaches a share of an all-to-all's rate there (dispatch_share); without a
// known backend all of it.
Seconds dispatch_time(Bytes bytes, const Chosen& chosen, const GroupPlacement& placement,
                      const Cluster& cluster, const AcceleratorRates& rates,
                      DispatcherKind kind = DispatcherKind::Flex);
// Of the rate of NCCL's all-to-all over the same links, over so many ranks of one NVLink domain:
//   deepep    0.58 on Hopper: 283 of 490 GB/s leave a rank when 4,096 and 8,192 tokens of 7,168 are
//             combined with 20 SMs (aiconfigurator's tables, H100 and H200); 0.41 on Blackwell: 342
//             of 844 (DeepEP hybrid-ep, docs/README_Hybrid-EP.md, B200, 16 and 24 SMs)
//   hybridep  0.82 - 0.034 log2(R / 8): 0.87 on 8 to 0.80 on 36 GB200 with 32 SMs, 0.77 on 8 B200,
//             kernels alone (the same page); nccl-ep likewise
double dispatch_share(DispatcherKind kind, double capability, double ranks);
// The slowest transfer between neighbours of a group, all ranks at once: stages of a pipeline. Of
// the members in a domain one sends out of it, and has what the others leave of the tier outside.
Seconds transfer_time(Bytes bytes, const GroupPlacement& placement, const Cluster& cluster,
                      const AcceleratorRates& rates);

}  // namespace trainwright
