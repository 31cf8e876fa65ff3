// trainwright show cluster: the hardware behind an `--on` text or a cluster file.
#include <fmt/core.h>

#include "trainwright/base/text.h"
#include "trainwright/cli/glance.h"
#include "trainwright/cli/show.h"
#include "trainwright/cluster/cluster.h"
#include "trainwright/report/report.h"

namespace trainwright::cli {
namespace {

std::string accelerator_table(const Accelerator& accelerator, bool verbose, int width) {
  Table table{{{"accelerator"}, {accelerator.name, Align::Wrap}}, {}};
  const auto row = [&](std::string what, std::string value) {
    table.rows.push_back({std::move(what), std::move(value)});
  };
  row("memory",
      fmt::format("{} ({} visible) at {}", to_text(accelerator.memory),
                  to_text(accelerator.memory_visible), to_text(accelerator.memory_bandwidth)));
  std::vector<std::string> peaks;
  for (const auto& [type, rate] : accelerator.peak) {
    peaks.push_back(fmt::format("{} {}", name_of(type), to_text(rate)));
  }
  row("dense peak", join(peaks, ", "));
  row("host link", to_text(accelerator.host_link) + " each way");
  for (const auto& [fact, source] : accelerator.sources) {
    if (verbose || fact == "note") row(fact == "note" ? "note" : "source of " + fact, source);
  }
  return to_text(table, width);
}

std::string tiers_table(const Group& group, int width) {
  Table table{{{"tier"},
               {"accelerators", Align::Right},
               {"each way", Align::Right},
               {"under load", Align::Right},
               {"latency", Align::Right}},
              {}};
  for (const Tier& tier : group.tiers) {
    table.rows.push_back({tier.name, with_thousands(tier.domain), to_text(tier.bandwidth),
                          to_text(bandwidth_under_load(tier)), to_text(tier.latency)});
  }
  return to_text(table, width);
}

Result<Output> run_show_cluster(const Invocation& invocation) {
  const Hardware& hardware = *TW_TRY(invocation.data.hardware());
  const Cluster cluster = TW_TRY(parse_cluster(*invocation.text("cluster"), hardware));
  if (invocation.json) return Output{document_text(invocation.data, to_json(cluster))};
  std::string text =
      fmt::format("{}: {} accelerators in {} nodes\n", cluster.name,
                  with_thousands(accelerator_count(cluster)), with_thousands(node_count(cluster)));
  for (const Group& group : cluster.groups) {
    text += fmt::format("\n{} x {}, {} per node, {} per scale-up domain\n\n",
                        with_thousands(group.count), group.accelerator.name, group.per_node,
                        group.per_domain);
    text += tiers_table(group, invocation.width) + '\n';
    text += accelerator_table(group.accelerator, invocation.flag("verbose"), invocation.width);
  }
  return Output{text};
}

}  // namespace

Command show_cluster_command() {
  return {
      .name = "cluster",
      .summary = "accelerators and network tiers of a cluster",
      .details =
          "A cluster is COUNTxACCELERATOR, NODESxPER_NODExACCELERATOR, a known cluster's "
          "name, or the path of a JSON file.",
      .examples = {"trainwright show cluster 64xH100",
                   "trainwright show cluster 32x8xA100-80GB --json"},
      .arguments = {{"cluster", Argument::Kind::Text, "what --on takes elsewhere", true, "CLUSTER"},
                    verbose_argument("also the source of every fact")},
      .run = run_show_cluster};
}

}  // namespace trainwright::cli
