#pragma once
// Where a run is started, beside a shell and Slurm. Part of the public face; include
// trainwright/export/export.h.
//
// An orchestrator finds the nodes, starts launch.sh once on each, and tells it two things: the
// number of the node and the name of the first, whose port 29500 the ranks meet at.
//
//   kubeflow   trainjob.yaml  TrainJob with its TrainingRuntime    PET_NODE_RANK, PET_MASTER_ADDR
//   jobset     jobset.yaml    JobSet of one Indexed Job            JOB_COMPLETION_INDEX, DNS of pod
//   skypilot   sky.yaml       task                                 SKYPILOT_NODE_RANK, _NODE_IPS
//   ray        ray_job.py     a placement group, a node a bundle   the bundle's number and address
//
// What only the user knows (image, data, script) stands there empty, and nothing starts without it.
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/base/result.h"
#include "trainwright/cluster/cluster.h"

namespace trainwright {

enum class Orchestrator { Kubeflow, JobSet, SkyPilot, Ray };
std::vector<std::string> orchestrator_names();
Result<Orchestrator> find_orchestrator(std::string_view name);

// What an accelerator is called there: data/launch.json.
struct DeviceNames {
  std::string kubernetes;  // "nvidia.com/gpu"
  std::string skypilot;    // "H100"
  std::string ray;         // "GPU"
};
struct Orchestration {
  std::vector<Orchestrator> by;
  DeviceNames devices;  // as they call them
};
// Diagnoses clusters whose nodes are not all alike, and vendors that are not listed.
Result<DeviceNames> device_names(const Cluster& cluster, const std::string& data);

}  // namespace trainwright
