"""One process of a pipeline group: takes jobs, runs each on the engine, says what happened.

All processes stay alive from job to job; only a job that failed or hung costs a new process group
(its connections may hold messages that nobody took). Rank 0 reads jobs as lines of JSON from one
pipe, tells the others through a control group of its own, gathers what they saw and writes one line
to another pipe. The end of the first pipe is the end of all processes.

A job that hangs ends by the time limit of its group: on Gloo every wait for a peer has that limit.
"""
import dataclasses
import datetime
import gc
import json
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import sys
import traceback

import torch
import torch.distributed as dist

from . import runtime
from .job import Job
from .live_storages import LiveStorages
from .schedule_csv import Schedule, read_schedule
from .stages import ModelSpec, Reference, model_spec, unpipelined

SELF_TEST_MICROBATCHES = 3


class Worker:
    """The process's state between jobs: device, process groups, unpipelined gradients."""

    def __init__(self, rendezvous: str = "env://", rank: int = -1, world: int = -1):
        self.torch_version = runtime.probe()
        torch.set_num_threads(1)
        self.device = torch.device("cpu")
        if torch.cuda.is_available():
            self.device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
            torch.cuda.set_device(self.device)
        # The control group; it only carries jobs and answers.
        dist.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=world)
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.groups: dict[tuple[int, float], dist.ProcessGroup] = {}
        self.references: dict[tuple, Reference] = {}

    def group(self, ranks: int, limit: float) -> dist.ProcessGroup:
        """The first `ranks` processes, every wait limited; made when first needed."""
        key = (ranks, limit)
        if key not in self.groups:
            backend = "nccl" if self.device.type == "cuda" else "gloo"
            self.groups[key] = dist.new_group(
                list(range(ranks)), timeout=datetime.timedelta(seconds=limit), backend=backend)
        return self.groups[key]

    def drop_group(self, ranks: int, limit: float) -> None:
        """After a failure: messages of the failed job may still be under way in it."""
        gc.collect()  # The failed job's stages and pending transfers.
        group = self.groups.pop((ranks, limit), None)
        if group is not None and self.rank < ranks:
            dist.destroy_process_group(group)

    def reference(self, spec: ModelSpec, schedule: Schedule) -> Reference:
        key = (spec, schedule.stages, schedule.microbatches)
        if key not in self.references:
            if len(self.references) > 64:
                self.references.clear()
            self.references[key] = unpipelined(spec, schedule.stages, schedule.microbatches, self.device)
        return self.references[key]

    def run(self, job: Job) -> dict | None:
        """Runs the job with all other processes; the whole answer on rank 0, None elsewhere."""
        try:
            schedule, spec = read_schedule(job.csv, job.microbatches), model_spec(job.model)
            if schedule.ranks > self.world:
                raise ValueError(f"the schedule has {schedule.ranks} ranks, the group {self.world} processes")
        except (ValueError, TypeError) as error:
            return {"status": "unreadable", "error": str(error), "ranks": []} if self.rank == 0 else None
        group = self.group(schedule.ranks, job.limit)
        seen = self._run_guarded(job, schedule, spec, group) if self.rank < schedule.ranks else None
        everything: list | None = [None] * self.world if self.rank == 0 else None
        dist.gather_object(seen, everything)
        failed = [everything is not None and any(one and one["status"] != "ran" for one in everything)]
        dist.broadcast_object_list(failed)
        if failed[0]:
            self.drop_group(schedule.ranks, job.limit)
        return summary(schedule, everything[: schedule.ranks]) if everything is not None else None

    def _run_guarded(self, job: Job, schedule: Schedule, spec: ModelSpec, group) -> dict:
        try:
            return self._run_steps(job, schedule, spec, group)
        except Exception as error:  # Whatever the engine throws is the job's result, not our end.
            status = "hung" if _is_timeout(error) else "refused" if _is_refusal(error) else "failed"
            return {"rank": self.rank, "status": status, "error": _first_cause(error)}

    def _run_steps(self, job: Job, schedule: Schedule, spec: ModelSpec, group) -> dict:
        pipeline = runtime.PipelineRank(schedule, spec, group, self.device, job.optimizer)
        live = LiveStorages() if job.memory else None
        own = [tensor for module in pipeline.modules.values() for tensor in (*module.parameters(), *module.buffers())]
        if live:
            for tensor in (pipeline.inputs, pipeline.targets, *own):
                live.ignore(tensor)
        results = []
        for step in range(job.warmup + job.steps):
            dist.barrier(group)
            results.append(pipeline.step(live, job.actions))
        if not pipeline.metadata_was_static():
            raise runtime.EngineChanged("the engine did not accept static metadata")
        reference = self.reference(spec, schedule)
        last = results[-1]
        loss = sum(last.losses) / len(last.losses) if last.losses else None
        return {
            "rank": self.rank, "status": "ran", "loss": loss, "reference_loss": reference.loss,
            "steps": [(result.start, result.end) for result in results[job.warmup:]],
            "gradient_difference": gradient_difference(pipeline.modules, reference),
            "live_peak": last.live_peak if job.memory else None,
            "weights": sum(tensor.untyped_storage().nbytes() for tensor in own),
            "tolerance": spec.tolerance,
            "actions": [dataclasses.astuple(one) for one in last.actions],
        }


def gradient_difference(modules: dict, reference: Reference) -> float:
    """The largest, over tensors, of (largest difference / largest entry) to the unpipelined one. No
    gradient counts as zeros; one that is not finite as the largest number there is."""
    worst = 0.0
    for stage, module in modules.items():
        for parameter, expected in zip(module.parameters(), reference.gradients[stage], strict=True):
            found = torch.zeros_like(expected) if parameter.grad is None else parameter.grad
            if not found.isfinite().all():
                return sys.float_info.max
            scale = expected.abs().max().item()
            difference = (found - expected).abs().max().item()
            worst = max(worst, difference / scale if scale else difference)
    return worst


def summary(schedule: Schedule, ranks: list[dict]) -> dict:
    """One answer from what the ranks saw. The worst status wins: a rank that failed lets its peers
    hang, so a hang is called one only when no rank failed by itself."""
    statuses = [one["status"] for one in ranks]
    status = next((bad for bad in ("refused", "failed", "hung") if bad in statuses), "ran")
    answer = {"status": status, "format": schedule.format, "stages": schedule.stages, "microbatches": schedule.microbatches,
              "rank_of_stage": list(schedule.rank_of_stage), "ranks": ranks}
    if status != "ran":
        answer["error"] = next(one["error"] for one in ranks if one["status"] == status)
        return answer
    steps = zip(*(one["steps"] for one in ranks))
    answer["step_seconds"] = [max(end for _, end in step) - min(start for start, _ in step) for step in steps]
    answer["loss"] = next(one["loss"] for one in ranks if one["loss"] is not None)
    answer["reference_loss"] = ranks[0]["reference_loss"]
    answer["tolerance"] = ranks[0]["tolerance"]
    answer["gradient_difference"] = max(one["gradient_difference"] for one in ranks)
    return answer


def _causes(error: BaseException | None):
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _is_timeout(error: BaseException) -> bool:
    """Waited too long, or was cut off by a peer that had waited too long."""
    signs = ("timed out", "timeout", "connection closed by peer", "connection reset by peer")
    return any(sign in str(cause).lower() for cause in _causes(error) for sign in signs)


def _is_refusal(error: BaseException) -> bool:
    """Raised while the schedule was loaded: no rank has run anything."""
    names = {frame.name for cause in _causes(error) for frame in traceback.extract_tb(cause.__traceback__)}
    return "_load_csv" in names


def _first_cause(error: BaseException) -> str:
    cause = list(_causes(error))[-1]
    text = str(cause).strip().splitlines()
    return f"{type(cause).__name__}: {text[0][:300] if text else ''}"


def self_test(worker: Worker) -> None:
    """Runs one F, I, W schedule over all processes and compares with the unpipelined model: a new
    PyTorch whose private runtime behaves differently must not go unnoticed."""
    rows = []
    for rank in range(worker.world):
        microbatches = range(SELF_TEST_MICROBATCHES)
        rows.append(",".join([f"{rank}F{m}" for m in microbatches] + [f"{rank}{kind}{m}" for m in microbatches for kind in "IW"]))
    answer = worker.run(Job(csv="\n".join(rows) + "\n"))
    if answer is None:
        return
    if answer["status"] != "ran" or answer["gradient_difference"] > 1e-12:
        raise runtime.EngineChanged(f"torch {worker.torch_version} fails the self-test: "
                                    f"{answer.get('error') or answer['gradient_difference']}")


def run_once(job: Job) -> dict | None:
    """One job as a process of a torchrun that somebody else started."""
    worker = Worker()
    self_test(worker)
    answer = worker.run(job)
    dist.destroy_process_group()
    return answer | {"torch": worker.torch_version} if answer is not None else None


def serve(folder: pathlib.Path, rank: int, world: int) -> None:
    """Runs jobs until the pipe of jobs ends. Every process of the group calls this."""
    os.environ["LOCAL_RANK"] = str(rank)
    worker = Worker(f"file://{folder / 'meet'}", rank, world)
    self_test(worker)
    gc.freeze()  # PyTorch's own objects: looking through them after each job costs 0.1 s.
    jobs = open(folder / "jobs") if worker.rank == 0 else None
    answers = open(folder / "answers", "w") if worker.rank == 0 else None
    if answers:
        print(json.dumps({"status": "ready", "torch": worker.torch_version}), file=answers, flush=True)
    while True:
        line = [jobs.readline() if jobs else None]
        dist.broadcast_object_list(line)
        if not line[0]:
            break
        answer = worker.run(Job(**json.loads(line[0])))
        if answers:
            print(json.dumps(answer), file=answers, flush=True)
    dist.destroy_process_group()


def serve_all(folder: pathlib.Path, world: int) -> int:
    """Forks, as PyTorch's import takes each process longer than a schedule. The first that fails ends all."""
    fork = multiprocessing.get_context("fork")
    ranks = [fork.Process(target=serve, args=(folder, rank, world)) for rank in range(world)]
    for one in ranks:
        one.start()
    while running := [one for one in ranks if one.is_alive()]:
        if any(one.exitcode for one in ranks):
            for one in running:
                one.kill()
        multiprocessing.connection.wait([one.sentinel for one in running])
    return int(any(one.exitcode for one in ranks))


if __name__ == "__main__":
    sys.exit(serve_all(pathlib.Path(sys.argv[1]), int(sys.argv[2])))
