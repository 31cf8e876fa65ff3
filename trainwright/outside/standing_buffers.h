#pragma once
// Private: buffers beside those of communicators.
#include <optional>

#include "trainwright/outside/outside.h"

namespace trainwright::detail {

// Of the flex dispatcher's backend; nullopt for other dispatchers and for a backend without a name.
std::optional<CommunicatorBytes> dispatch_buffers(const Layout& layout, const Model& model,
                                                  const Cluster& cluster);
// Of overlapped tensor parallelism, where the trainer's file says how many there are.
std::optional<CommunicatorBytes> tensor_buffers(const Layout& layout, const Model& model,
                                                const Cluster& cluster, const Trainer& trainer);

}  // namespace trainwright::detail
