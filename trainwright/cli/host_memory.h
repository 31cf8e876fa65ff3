#pragma once
// Private to `estimate` and `plan`: what offloading asks of the host.
#include <optional>
#include <string>

#include "trainwright/base/json.h"
#include "trainwright/memory/memory.h"

namespace trainwright::cli {

// What offloading moves away from the fullest rank.
struct HostMemory {
  Bytes per_rank = {};
  std::int64_t ranks_per_node = 1;
};
// Of a layout with that estimate; nullopt without offloading.
std::optional<HostMemory> host_memory(const MemoryQuestion& question,
                                      const MemoryEstimate& estimate);
// "13.09 GiB per rank, 104.7 GiB per node of 8"
std::string to_text(const HostMemory& host);
Json to_json(const HostMemory& host);

}  // namespace trainwright::cli
