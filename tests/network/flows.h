#pragma once
// Collectives as flows between ranks: which pairs send how many bytes at once, round by round.
//
// The ways that a library has (cost.h: ring, hierarchical, tree), told rank by rank and message by
// message, in the words of nothing but ranks: the slow and obvious twin of the closed forms.
#include <cstdint>
#include <vector>

#include "trainwright/cluster/cluster.h"
#include "trainwright/layout/layout.h"
#include "trainwright/work/work.h"

namespace trainwright::network {

struct Flow {
  std::int64_t from = 0, to = 0;
  double bytes = 0;
};
// All groups of a kind at once; repeated so often.
struct Round {
  std::vector<Flow> flows;
  double times = 1;
};
using Way = std::vector<Round>;  // one after the other

// All groups of a kind: the members of each, rising.
std::vector<std::vector<std::int64_t>> all_groups(const RankGroup& group, std::int64_t world);
// Every way in which a library might do it.
std::vector<Way> ways_of(CollectiveKind kind, double bytes,
                         const std::vector<std::vector<std::int64_t>>& groups, const Group& on);
// Every stage to the next one.
Way transfer(double bytes, const std::vector<std::vector<std::int64_t>>& groups);

}  // namespace trainwright::network
