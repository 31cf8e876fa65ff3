#pragma once
// Private: the lists of a layout on its links.
//
// Where a group of ranks lies follows from its strides, and how long a collective takes from that,
// its kind and its bytes. Layouts share most groups, so each is placed once, and each call on it is
// timed once.
#include <array>
#include <cstdint>
#include <unordered_map>

#include "trainwright/base/hash.h"
#include "trainwright/simulate/list_time.h"
#include "trainwright/simulate/simulate.h"

namespace trainwright::detail {

// A group of ranks on its links, with the times of collectives by kind, bytes and, where tokens are
// dispatched, ep and the backend.
struct Link {
  GroupPlacement place;
  std::unordered_map<std::array<std::int64_t, 3>, Seconds, NumbersHash> times = {};
};
struct RankGroupHash {
  std::size_t operator()(const RankGroup& group) const {
    Hash hash;
    hash.add(group.size);
    hash.add(group.count);
    for (const Stride& stride : group.strides) hash.add(stride.members << 32 | stride.stride);
    return hash.value();
  }
};
// Where a group lies follows from its strides: layouts share most of them.
using KnownLinks = std::unordered_map<RankGroup, Link, RankGroupHash>;
// The groups of layouts with the same degrees, by kind.
using LinksByKind = std::array<Link*, static_cast<std::size_t>(GroupKind::World) + 1>;

// Of the layers where a token goes to most experts; to none where there are no experts.
Chosen chosen_of(const Model& model);

// What decides which ranks form groups.
using Degrees = std::array<std::int64_t, 13>;
Degrees degrees_of(const Layout& of);

// What a collective's time hangs on beside its list.
struct Wires {
  const Layout& layout;
  const Cluster& cluster;
  const Trainer& trainer;
  const AcceleratorRates& rates;
  const Chosen& chosen;  // experts of a token
  double busiest;        // rank's share of the rows that experts receive, over the mean
  bool one_by_one;       // experts without a grouped product
  KnownLinks& known;
  LinksByKind& links;

  Link& link(GroupKind kind);
  const GroupPlacement& place(GroupKind kind) { return link(kind).place; }
  bool leaves_node(GroupKind kind);
  // Most passes make the same calls.
  Seconds time(CollectiveKind kind, GroupKind group, Bytes bytes);
  bool hides(Beside beside) const;
  // An all-reduce of pipeline ranks: so many, each so many behind the one before.
  Seconds pipeline_sum(const Stride& ranks, Bytes bytes);
};

// A pass of a list with its collectives.
PassPieces placed(const ListTime& list, Pass pass, Wires& wires);

}  // namespace trainwright::detail
