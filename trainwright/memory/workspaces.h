#pragma once
// Private: workspaces of libraries, which depend on the accelerator.
#include "trainwright/memory/memory.h"

namespace trainwright::detail {

// What the trainer's libraries take once and keep, where their sizes are known.
struct Workspaces {
  RealBytes everywhere;
  RealBytes own_products;  // more on ranks with products of the framework's own
};
Workspaces workspaces_of(const Layout& layout, const Cluster& cluster, const Trainer& trainer);
// Of one thread, where the library of products takes it from the allocator.
RealBytes product_workspace(const Cluster& cluster, const Trainer& trainer);

}  // namespace trainwright::detail
