#pragma once
// Private: scripts that start a run.
#include <cstdint>
#include <string>
#include <vector>

#include "trainwright/export/export.h"

namespace trainwright::detail {

std::int64_t per_node(const Cluster& cluster);
// The model's name as hosts, jobs and tasks may be called: [a-z][a-z0-9-]*, at most 40 letters.
std::string run_name(const Plan& plan);

// What only the user knows (paths, data, the script): nothing starts without it.
struct Asked {
  std::string name;  // MEGATRON
  std::string what;
};
std::vector<Asked> asked_of_user(const Target& target, const Translation& translation);

// On one node, given NODE_RANK and MASTER_ADDR where there are several. What only the user knows is
// asked for by name.
std::string launch_script(const Plan& plan, const Target& target, const Translation& translation);
// Under Slurm: the other one on every node.
std::string sbatch_script(const Plan& plan);
// Under an orchestrator. `files` are those of the export so far, which every node needs.
std::vector<Artefact> orchestrated(const Plan& plan, const std::vector<Asked>& asked,
                                   const Occasion& occasion, const std::vector<Artefact>& files);

}  // namespace trainwright::detail
