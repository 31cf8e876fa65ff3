// Files by which orchestrators start launch.sh on every node. Names and counts are all that a plan
// puts into them: names through run_name and quoted, what the user is asked for as comments.
#include "trainwright/export/orchestrators.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/printable.h"
#include "trainwright/base/text.h"
#include "trainwright/export/form.h"
#include "trainwright/export/launch.h"

namespace trainwright {
namespace {

constexpr std::pair<std::string_view, Orchestrator> kOrchestrators[] = {
    {"kubeflow", Orchestrator::Kubeflow},
    {"jobset", Orchestrator::JobSet},
    {"skypilot", Orchestrator::SkyPilot},
    {"ray", Orchestrator::Ray}};

std::string text_at(const Json& json, std::string_view key) {
  const Json* value = json.find(key);
  return value != nullptr && value->is_string() ? value->string : "";
}

}  // namespace

std::vector<std::string> orchestrator_names() {
  std::vector<std::string> names;
  for (const auto& [name, kind] : kOrchestrators) names.emplace_back(name);
  return names;
}

Result<Orchestrator> find_orchestrator(std::string_view name) {
  for (const auto& [known, kind] : kOrchestrators) {
    if (known == lower_case(name)) return kind;
  }
  const auto names = orchestrator_names();
  return fail("--launch", fmt::format("'{}' is no orchestrator", name),
              did_you_mean(name, names, "one of " + enumerate(names)));
}

Result<DeviceNames> device_names(const Cluster& cluster, const std::string& data) {
  const Group& first = cluster.groups.front();
  for (const Group& group : cluster.groups) {
    if (group.accelerator == first.accelerator && group.per_node == first.per_node) continue;
    return fail("--launch", fmt::format("the nodes of {} are not all alike", cluster.name),
                "leave --launch out and start launch.sh on each node");
  }
  const std::string file = data + "/launch.json";
  const Json json = TW_TRY(read_json_file(file));
  const Accelerator& accelerator = first.accelerator;
  const Json* vendors = json.find("vendors");
  const Json* vendor = vendors == nullptr ? nullptr : vendors->find(accelerator.vendor);
  if (vendor == nullptr) {
    return fail("--launch",
                fmt::format("what orchestrators call {} of '{}' is not known", accelerator.name,
                            accelerator.vendor),
                "name its vendor in " + file);
  }
  const Json* names = json.find("skypilot");
  const std::string sky = names == nullptr ? "" : text_at(*names, accelerator.name);
  return DeviceNames{.kubernetes = text_at(*vendor, "kubernetes"),
                     .skypilot = sky.empty() ? accelerator.name : sky,
                     .ray = text_at(*vendor, "ray")};
}

namespace detail {
namespace {

constexpr const char* kHere = "/plan";  // where a pod finds the files of the export

struct Start {
  const Plan& plan;
  const std::vector<Asked>& asked;
  const DeviceNames& devices;
  std::string name;                 // of the run
  std::int64_t nodes, per_node;     // accelerators
  std::vector<std::string> needed;  // files
};

// NODE_RANK=... MASTER_ADDR=... bash launch.sh; one node needs to be told neither.
std::string start_line(const Start& start, std::string_view rank, std::string_view first) {
  if (start.nodes == 1) return "bash launch.sh";
  return fmt::format("NODE_RANK={} MASTER_ADDR={} bash launch.sh", rank, first);
}

// What pods of Kubernetes and nodes of Ray are told: empty, and launch.sh says what it is.
std::string asked_entries(const Start& start, std::string_view indent, bool as_list) {
  std::string text;
  for (const Asked& one : start.asked) {
    text += as_list ? fmt::format("{0}- name: {1}\n{0}  value: \"\"", indent, one.name)
                    : fmt::format("{}{}: \"\"", indent, one.name);
    text += "  # " + printable_line(one.what) + '\n';
  }
  return text;
}

std::string config_map_command(const Start& start, std::string_view manifest) {
  std::string text = fmt::format("kubectl create configmap {}", start.name);
  for (const std::string& file : start.needed) text += " --from-file=" + file;
  return text + fmt::format(
                    " \\\n    --dry-run=client -o yaml | kubectl apply -f -\n"
                    "  kubectl apply -f {}",
                    manifest);
}

// The files are copied to where a trainer may write; large pages of shared memory are NCCL's and
// the data loaders'.
std::string pod_lines(std::string_view indent) {
  const auto lines =
      "workingDir: /work\n"
      "volumeMounts:\n"
      "  - {name: plan, mountPath: " +
      std::string(kHere) +
      "}\n"
      "  - {name: work, mountPath: /work}  # a volume of yours, for checkpoints that stay\n"
      "  - {name: memory, mountPath: /dev/shm}\n";
  std::string text;
  for (const std::string_view line : split(lines, '\n')) {
    if (!line.empty()) text += fmt::format("{}{}\n", indent, line);
  }
  return text;
}

std::string volume_lines(const Start& start, std::string_view indent) {
  return fmt::format(
      "{0}volumes:\n"
      "{0}  - {{name: plan, configMap: {{name: {1}}}}}\n"
      "{0}  - {{name: work, emptyDir: {{}}}}\n"
      "{0}  - {{name: memory, emptyDir: {{medium: Memory}}}}\n",
      indent, start.name);
}

std::string command_lines(std::string_view indent, const std::string& line) {
  return fmt::format("{}command: [bash, -c, {}]\n", indent,
                     quoted(fmt::format("cp -L {}/* . && {}", kHere, line)));
}

std::string resource_lines(const Start& start, std::string_view indent) {
  return fmt::format("{}limits: {{{}: {}}}\n", indent, start.devices.kubernetes, start.per_node);
}

std::string head(const Start& start, const std::string& how) {
  return commented(fmt::format(
             "{} on {}: {} of {} accelerators each. In this folder:", start.plan.model.name,
             start.plan.cluster.name,
             start.nodes == 1 ? "1 node" : fmt::format("{} nodes", start.nodes), start.per_node)) +
         commented("  " + how);
}

std::string train_job(const Start& start) {
  const std::string line = start_line(start, "$PET_NODE_RANK", "$PET_MASTER_ADDR");
  return head(start, config_map_command(start, "trainjob.yaml")) +
         "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainingRuntime\n" +
         fmt::format("metadata: {{name: {}}}\n", start.name) +
         fmt::format("spec:\n  mlPolicy: {{numNodes: {}, torch: {{}}}}\n", start.nodes) +
         "  template:\n    spec:\n      replicatedJobs:\n        - name: node\n"
         "          template:\n            metadata:\n"
         "              labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}\n"
         "            spec:\n              backoffLimit: 0\n              template:\n"
         "                spec:\n                  restartPolicy: Never\n"
         "                  containers:\n                    - name: node\n" +
         pod_lines("                      ") + volume_lines(start, "                  ") +
         "---\napiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\n" +
         fmt::format("metadata: {{name: {}}}\n", start.name) +
         fmt::format(
             "spec:\n  runtimeRef: {{apiGroup: trainer.kubeflow.org, kind: "
             "TrainingRuntime, name: {}}}\n",
             start.name) +
         "  trainer:\n    image: \"\"  # yours, with the framework in it\n" +
         fmt::format("    numNodes: {}\n    numProcPerNode: {}\n", start.nodes, start.per_node) +
         "    resourcesPerNode:\n" + resource_lines(start, "      ") + command_lines("    ", line) +
         (start.asked.empty() ? "" : "    env:\n" + asked_entries(start, "      ", true));
}

std::string job_set(const Start& start) {
  const std::string first = fmt::format("{0}-node-0-0.{0}", start.name);
  const std::string in = "                  ";
  return head(start, config_map_command(start, "jobset.yaml")) +
         "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\n" +
         fmt::format("metadata: {{name: {}}}\n", start.name) +
         "spec:\n  network: {enableDNSHostnames: true}\n  replicatedJobs:\n    - name: node\n"
         "      replicas: 1\n      template:\n        spec:\n" +
         fmt::format("          parallelism: {0}\n          completions: {0}\n", start.nodes) +
         "          completionMode: Indexed\n          backoffLimit: 0\n          template:\n"
         "            spec:\n              restartPolicy: Never\n              containers:\n"
         "                - name: node\n" +
         in + "image: \"\"  # yours, with the framework in it\n" +
         command_lines(in, start_line(start, "$JOB_COMPLETION_INDEX", first)) + in +
         "resources:\n" + resource_lines(start, in + "  ") +
         (start.asked.empty() ? "" : in + "env:\n" + asked_entries(start, in + "  ", true)) +
         pod_lines(in) + volume_lines(start, "              ");
}

std::string sky_task(const Start& start) {
  std::string given;
  for (const Asked& one : start.asked) given += fmt::format(" --env {}=...", one.name);
  std::string text = head(start, "sky launch" + given + " sky.yaml");
  text += fmt::format("name: {}\nnum_nodes: {}\n", start.name, start.nodes);
  text += fmt::format("resources:\n  accelerators: {}\n",
                      quoted(fmt::format("{}:{}", start.devices.skypilot, start.per_node)));
  text += "workdir: .\n";
  if (!start.asked.empty()) text += "envs:\n";
  for (const Asked& one : start.asked) {
    text += fmt::format("  {}: null  # {}\n", one.name, printable_line(one.what));
  }
  return text + "run: |\n  " +
         start_line(start, "$SKYPILOT_NODE_RANK", "$(head -n 1 <<<\"$SKYPILOT_NODE_IPS\")") + '\n';
}

// A resource that Ray counts itself, or one of an accelerator's own.
std::string ray_devices(const Start& start) {
  if (start.devices.ray == "GPU") return fmt::format("dict(num_gpus={})", start.per_node);
  return fmt::format("dict(resources={{{}: {}}})", quoted(start.devices.ray), start.per_node);
}

std::string ray_driver(const Start& start) {
  return head(start,
              "ray job submit --runtime-env ray_job.yaml --working-dir . -- python "
              "ray_job.py") +
         "import os\nimport subprocess\nimport sys\n\nimport ray\n"
         "from ray.util.placement_group import placement_group\n"
         "from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy\n\n" +
         fmt::format("NODES = {}\nBUNDLE = {{\"CPU\": 1, {}: {}}}\nDEVICES = {}\n", start.nodes,
                     quoted(start.devices.ray), start.per_node, ray_devices(start)) +
         R"py(

@ray.remote(max_retries=0)
def address():
    return ray.util.get_node_ip_address()


@ray.remote(max_retries=0)
def run(rank, first):
    told = {"NODE_RANK": str(rank), "MASTER_ADDR": first}
    return subprocess.run(["bash", "launch.sh"], env={**os.environ, **told}).returncode


def on_node(function, rank, group):
    place = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=rank)
    return function.options(num_cpus=1, scheduling_strategy=place, **DEVICES)


def main():
    ray.init()
    group = placement_group([BUNDLE] * NODES, strategy="STRICT_SPREAD")
    ray.get(group.ready())  # waits for the nodes
    first = ray.get(on_node(address, 0, group).remote())
    running = [on_node(run, rank, group).remote(rank, first) for rank in range(NODES)]
    while running:
        ended, running = ray.wait(running)
        code = ray.get(ended[0])
        if code != 0:
            sys.exit(f"a node ended with {code}")  # which ends the others


if __name__ == "__main__":
    main()
)py";
}

std::string ray_environment(const Start& start) {
  const std::string entries = asked_entries(start, "  ", false);
  return "# What launch.sh is told on every node.\n" +
         (entries.empty() ? "env_vars: {}\n" : "env_vars:\n" + entries);
}

}  // namespace

std::vector<Artefact> orchestrated(const Plan& plan, const std::vector<Asked>& asked,
                                   const Occasion& occasion, const std::vector<Artefact>& files) {
  Start start{plan,
              asked,
              occasion.orchestration.devices,
              run_name(plan),
              node_count(plan.cluster),
              per_node(plan.cluster),
              {}};
  for (const Artefact& file : files) {
    if (file.path != "sbatch.sh") start.needed.push_back(file.path);
  }
  std::vector<Artefact> made;
  for (const Orchestrator one : occasion.orchestration.by) {
    switch (one) {
      case Orchestrator::Kubeflow: made.push_back({"trainjob.yaml", train_job(start)}); break;
      case Orchestrator::JobSet: made.push_back({"jobset.yaml", job_set(start)}); break;
      case Orchestrator::SkyPilot: made.push_back({"sky.yaml", sky_task(start)}); break;
      case Orchestrator::Ray:
        made.push_back({"ray_job.py", ray_driver(start)});
        made.push_back({"ray_job.yaml", ray_environment(start)});
        break;
    }
  }
  return made;
}

}  // namespace detail
}  // namespace trainwright
