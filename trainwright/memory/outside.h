#pragma once
// Private: what depends on the cluster: communicators, workspaces of libraries, the capacity.
#include "trainwright/memory/memory.h"

namespace trainwright::detail {

// Bytes of the communicators a rank opens. Groups with the same members share one. Those of one
// member are none. `ties_ends`: the rank shares a tied embedding with another stage.
struct Communicators {
  double shared = 0;     // of every rank
  double embedding = 0;  // more on ranks that share the embedding
};
Communicators communicators_of(const Layout& layout, const Cluster& cluster, const Trainer& trainer,
                               const MemoryConstants& constants);

// What the trainer's libraries take once and keep, where their sizes are known.
struct Workspaces {
  double everywhere = 0;
  double own_products = 0;  // more on ranks with products of the framework's own
};
Workspaces workspaces_of(const Layout& layout, const Cluster& cluster, const Trainer& trainer);

// What a program can use on the smallest accelerator.
Bytes capacity_of(const Cluster& cluster);

}  // namespace trainwright::detail
