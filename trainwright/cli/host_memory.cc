#include "trainwright/cli/host_memory.h"

#include <fmt/core.h>

#include <algorithm>

#include "trainwright/base/text.h"

namespace trainwright::cli {

// Of a class of ranks: what it holds with nothing offloaded, less what stays.
std::optional<HostMemory> host_memory(const MemoryQuestion& question,
                                      const MemoryEstimate& estimate) {
  if (question.layout.offload.empty()) return std::nullopt;
  Layout without = question.layout;
  without.offload = {};
  const auto all = estimate_memory({.model = question.model,
                                    .cluster = question.cluster,
                                    .trainer = question.trainer,
                                    .layout = without,
                                    .job = question.job,
                                    .attention = question.attention,
                                    .constants = question.constants,
                                    .schedule = question.schedule,
                                    .slack = Slack::None});
  if (!all || all->classes.size() != estimate.classes.size()) return std::nullopt;
  HostMemory host;
  for (std::size_t i = 0; i < all->classes.size(); ++i) {
    Bytes moved = Bytes(0);
    for (const Category of : {Category::Weights, Category::MainWeights, Category::Gradients,
                              Category::OptimizerStates, Category::Activations}) {
      const auto at = static_cast<std::size_t>(of);
      moved += std::max(Bytes(0), all->classes[i].bytes[at] - estimate.classes[i].bytes[at]);
    }
    host.per_rank = std::max(host.per_rank, moved);
  }
  host.ranks_per_node = largest_node(question.cluster);
  return host;
}

std::string to_text(const HostMemory& host) {
  return fmt::format("{} per rank, {} per node of {}", to_text(host.per_rank),
                     to_text(host.per_rank * host.ranks_per_node), host.ranks_per_node);
}

Json to_json(const HostMemory& host) {
  return Json::object()
      .add("per_rank", Json::of(host.per_rank.value()))
      .add("ranks_per_node", Json::of(host.ranks_per_node));
}

}  // namespace trainwright::cli
