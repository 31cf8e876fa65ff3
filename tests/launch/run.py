#!/usr/bin/env python3
"""Files of `export --launch`, judged by those who read them: Kubernetes' schemas, SkyPilot's parser, Ray.

    build/launchers/bin/python tests/launch/run.py build/release --shared ../shared

Every plan is exported for all orchestrators. TrainJob, TrainingRuntime and JobSet must be valid by their CustomResourceDefinitions,
without a field that these do not know; SkyPilot must parse its task, and refuse it where what the user has to say is not said; Ray
must take its job's environment, and a local Ray cluster of as many nodes with as many devices as the plan's runs the driver. Each
starts launch.sh, and on every node that must start the same process, with the same words, as by hand.
"""
import argparse
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

import jsonschema
import yaml

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
import asked  # noqa: E402

SKIPPED = 77
ORCHESTRATORS = ["kubeflow", "jobset", "skypilot", "ray"]
# model, layout, cluster, trainer: every launcher, one node, part of a node, several, racks, other vendors
PLANS = [
    ("llama-2-7b", "tp=2,pp=2,mbs=1,gbs=64,seq=4096,zero=1,sp", "16xH100", "megatron-core", "H100:8", "nvidia.com/gpu", "GPU"),
    ("llama-2-7b", "tp=2,mbs=1,gbs=64,seq=4096", "16xH100", "megatron-bridge", "H100:8", "nvidia.com/gpu", "GPU"),
    ("llama-3.1-8b", "fsdp,mbs=1,gbs=64,seq=4096", "4xA100-80GB", "torchtitan", "A100-80GB:4", "nvidia.com/gpu", "GPU"),
    ("llama-2-7b", "fsdp,mbs=1,gbs=64,seq=4096", "32xH200", "torchtitan@0.2", "H200:8", "nvidia.com/gpu", "GPU"),
    ("llama-2-7b", "zero=3,mbs=1,gbs=64,seq=4096", "16xMI300X", "deepspeed", "MI300X:8", "amd.com/gpu", "GPU"),
    ("llama-2-7b", "fsdp,mbs=1,gbs=64,seq=4096", "16xGB200", "accelerate", "GB200:4", "nvidia.com/gpu", "GPU"),
    ("llama-2-7b", "fsdp,mbs=1,gbs=64,seq=4096", "16xH100", "nemo-automodel", "H100:8", "nvidia.com/gpu", "GPU"),
    ("llama-2-7b", "tp=2,mbs=1,gbs=64,seq=4096", "16xH100", "nanotron", "H100:8", "nvidia.com/gpu", "GPU"),
    ("llama-2-7b", "tp=2,mbs=1,gbs=64,seq=4096", "16xAscend-910B", "paddleformers", "Ascend-910B:8", "huawei.com/Ascend910", "NPU"),
]
ON_RAY = [0, 2, 8]  # of these, started on a cluster: several nodes, one, devices of its own name
PROGRAMS = ["torchrun", "deepspeed", "accelerate", "python"]
NOTE = "#!/bin/bash\nprintf '%s\\n' \"${0##*/} $*\" >> \"$STARTED/${NODE:-ray}\"\n"


def exported(build):
    questions = [["export", layout, "--model", model, "--on", on, "--trainer", trainer, "--json",
                  *(word for name in ORCHESTRATORS for word in ("--launch", name))] for model, layout, on, trainer, *_ in PLANS]
    for code, output, error in asked.answered(build, questions):
        assert code == 0, (output, error)
        yield {file["path"]: file["text"] for file in json.loads(output)["files"]}


def closed(schema):
    """As a server with strict field validation reads it: of an object with listed fields no others."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: closed(value) for key, value in schema.items()}
    if schema.get("x-kubernetes-int-or-string"):
        schema.pop("type", None)
    known = isinstance(schema.get("properties"), dict) and "additionalProperties" not in schema
    if known and not schema.get("x-kubernetes-preserve-unknown-fields"):
        schema["additionalProperties"] = False
    return schema


def schemas(folder):
    found = {}
    for path in folder.glob("*.yaml"):
        crd = yaml.load(path.read_text(), yaml.CSafeLoader)["spec"]
        for version in crd["versions"]:
            schema = closed(version["schema"]["openAPIV3Schema"])
            schema["properties"]["metadata"] = {"type": "object", "required": ["name"]}
            found[f"{crd['group']}/{version['name']} {crd['names']['kind']}"] = schema
    return found


def manifests(text, known):
    documents = list(yaml.safe_load_all(text))
    for document in documents:
        jsonschema.validate(document, known[f"{document['apiVersion']} {document['kind']}"])
        assert re.fullmatch("[a-z]([-a-z0-9]{0,38}[a-z0-9])?", document["metadata"]["name"]), document["metadata"]
    return documents


def by_hand(script):
    """Which variables of the user launch.sh asks for, and the counts that it holds."""
    asks = re.findall(r'^: "\$\{(\w+):\?', script, re.M)
    counts = re.search(r"^NODES=(\d+) PER_NODE=(\d+)$", script, re.M)
    return [name for name in asks if name not in ("NODE_RANK", "MASTER_ADDR")], int(counts[1]), int(counts[2])


def run_line(line, folder, node, told):
    """Runs a shell's line in the folder of an export as node NODE of so many."""
    done = subprocess.run(["bash", "-c", line], cwd=folder, env={**told, "NODE": str(node)}, capture_output=True, text=True)
    assert done.returncode == 0, (line, done.stderr)


class Judge:
    def __init__(self, scratch, shared):
        self.scratch = scratch
        self.known = schemas(shared / "fixtures/crds")
        shims = scratch / "shims"
        shims.mkdir()
        for name in PROGRAMS:
            (shims / name).write_text(NOTE)
            (shims / name).chmod(0o755)
        self.path = f"{shims}:/usr/bin:/bin"

    def started(self, name, runs):
        """What every node starts: `runs` are a line and the environment that the orchestrator gives it, node by node."""
        noted = self.scratch / f"started-{name}"
        noted.mkdir()
        for node, (line, folder, told) in enumerate(runs):
            run_line(line, folder, node, {"PATH": self.path, "STARTED": str(noted), **told})
        return [path.read_text() for path in sorted(noted.iterdir(), key=lambda path: int(path.name))]

    def kubeflow(self, files, users, nodes, per_node, resource):
        runtime, job = manifests(files["trainjob.yaml"], self.known)
        trainer, policy = job["spec"]["trainer"], runtime["spec"]["mlPolicy"]
        assert job["spec"]["runtimeRef"]["name"] == runtime["metadata"]["name"]
        assert (trainer["numNodes"], trainer["numProcPerNode"], policy["numNodes"]) == (nodes, per_node, nodes)
        assert trainer["resourcesPerNode"]["limits"] == {resource: per_node} and trainer["image"] == ""
        (replicated,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
        assert replicated["name"] == "node"  # the host of the first is NAME-node-0-0.NAME
        assert [one["name"] for one in trainer.get("env", [])] == users
        return trainer["command"], f"{job['metadata']['name']}-node-0-0.{job['metadata']['name']}"

    def jobset(self, files, users, nodes, per_node, resource):
        (jobset,) = manifests(files["jobset.yaml"], self.known)
        (replicated,) = jobset["spec"]["replicatedJobs"]
        job = replicated["template"]["spec"]
        assert (replicated["replicas"], job["parallelism"], job["completions"], job["completionMode"]) == (1, nodes, nodes, "Indexed")
        (container,) = job["template"]["spec"]["containers"]
        assert container["resources"]["limits"] == {resource: per_node} and container["image"] == ""
        assert [one["name"] for one in container.get("env", [])] == users
        assert {one["name"] for one in container["volumeMounts"]} == {one["name"] for one in job["template"]["spec"]["volumes"]}
        name = jobset["metadata"]["name"]
        return container["command"], f"{name}-{replicated['name']}-0-0.{name}"

    def skypilot(self, files, users, nodes, per_node, accelerators):
        from sky import Task
        config = yaml.safe_load(files["sky.yaml"])
        task = Task.from_yaml_config(dict(config), env_overrides=[(name, "said") for name in users])
        assert task.num_nodes == nodes
        (resources,) = task.resources
        (name, count), = resources.accelerators.items()
        assert (f"{name}:{count:g}", count) == (accelerators, per_node)
        if users:
            try:
                Task.from_yaml_config(yaml.safe_load(files["sky.yaml"]))
            except ValueError as error:
                assert users[0] in str(error), error
            else:
                raise AssertionError("SkyPilot took a task without what the user has to say")
        return task.run

    def ray_environment(self, files, users):
        from ray.runtime_env import RuntimeEnv
        env = yaml.safe_load(files["ray_job.yaml"])
        assert RuntimeEnv(**env).get("env_vars", {}) == env["env_vars"]
        assert list(env["env_vars"]) == users

    def on_ray(self, folder, files, noted, said, nodes, per_node, device):
        """As `ray job submit` starts it: the environment, and the folder, are the job's."""
        from ray.cluster_utils import Cluster
        given = {"num_gpus": per_node} if device == "GPU" else {"resources": {device: per_node}}
        job = yaml.safe_load(files["ray_job.yaml"])
        job["env_vars"] |= {**said, "PATH": self.path, "STARTED": str(noted)}
        job["working_dir"] = str(folder)
        cluster = Cluster()
        try:
            for _ in range(nodes):
                cluster.add_node(num_cpus=1, object_store_memory=80 << 20, include_dashboard=False, **given)
            env = {**os.environ, "RAY_ADDRESS": cluster.address, "RAY_JOB_CONFIG_JSON_ENV_VAR": json.dumps({"runtime_env": job})}
            done = subprocess.run([sys.executable, "ray_job.py"], cwd=folder, env=env, capture_output=True, text=True, timeout=300)
            assert done.returncode == 0, done.stderr[-3000:]
        finally:
            cluster.shutdown()

    def judge(self, number, files, plan):
        *_, accelerators, resource, device = plan
        folder = self.scratch / f"plan-{number}"
        folder.mkdir()
        for path, text in files.items():
            (folder / path).write_text(text)
        users, nodes, per_node = by_hand(files["launch.sh"])
        said = {name: f"/said/{name}" for name in users}
        command, first = self.kubeflow(files, users, nodes, per_node, resource)
        here = [command[0], command[1], command[2].replace("cp -L /plan/* .", "true")]
        line, ranks = shlex.join(here), range(nodes)
        # What pkg/runtime/framework/plugins/torch/torch.go of Kubeflow Trainer puts into the environment.
        starts = self.started(f"{number}-kubeflow", [
            (line, folder, {**said, "PET_NODE_RANK": str(rank), "PET_MASTER_ADDR": first}) for rank in ranks])
        hand = self.started(f"{number}-hand", [
            ("bash launch.sh", folder, {**said, "NODE_RANK": str(rank), "MASTER_ADDR": first}) for rank in ranks])
        assert starts == hand and len(hand) == nodes, (starts, hand)
        command, host = self.jobset(files, users, nodes, per_node, resource)
        assert host == first
        line = shlex.join([command[0], command[1], command[2].replace("cp -L /plan/* .", "true")])
        assert hand == self.started(f"{number}-jobset", [
            (line, folder, {**said, "JOB_COMPLETION_INDEX": str(rank)}) for rank in ranks])
        run = self.skypilot(files, users, nodes, per_node, accelerators)
        ips = "\n".join([first, *(f"10.0.0.{rank}" for rank in ranks[1:])])
        assert hand == self.started(f"{number}-sky", [
            (run, folder, {**said, "SKYPILOT_NODE_RANK": str(rank), "SKYPILOT_NODE_IPS": ips}) for rank in ranks])
        self.ray_environment(files, users)
        compile(files["ray_job.py"], "ray_job.py", "exec")
        if number not in ON_RAY:
            return
        noted = self.scratch / f"started-{number}-ray"
        noted.mkdir()
        self.on_ray(folder, files, noted, said, nodes, per_node, device)
        lines = sorted(line for path in noted.iterdir() for line in path.read_text().splitlines())
        address = re.compile(r"(--master-addr|--main_process_ip|--master) \S+")
        assert [address.sub(r"\1", line) for line in lines] == [address.sub(r"\1", line.strip()) for line in sorted(hand)], (lines, hand)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--shared", type=pathlib.Path, required=True)
    options = parser.parse_args()
    if not (options.shared / "fixtures/crds").is_dir():
        print("no schemas of Kubernetes' resources")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="trainwright-") as scratch:
        os.environ["HOME"] = scratch  # SkyPilot and Ray keep files there
        judge = Judge(pathlib.Path(scratch), options.shared)
        for number, (files, plan) in enumerate(zip(exported(options.build), PLANS)):
            judge.judge(number, files, plan)
            print(f"{plan[3]} on {plan[2]}: {', '.join(ORCHESTRATORS)} start what launch.sh starts by hand"
                  + (", Ray on a cluster of its own" if number in ON_RAY else ""), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
