#pragma once
// Private: scripts that start a run.
#include <string>

#include "trainwright/export/export.h"

namespace trainwright::detail {

// On one node, given NODE_RANK and MASTER_ADDR where there are several. What only the user knows
// (paths, data, the script) is asked for by name, and nothing starts without it.
std::string launch_script(const Plan& plan, const Target& target, const Translation& translation);
// Under Slurm: the other one on every node.
std::string sbatch_script(const Plan& plan);

}  // namespace trainwright::detail
