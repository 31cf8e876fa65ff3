"""A few processes under Gloo on this host that run functions together."""
import os
import queue
import tempfile
import traceback

import torch.multiprocessing as mp

# After which some process hangs; a busy host takes a part of it.
HANGS_SECONDS = 900


def _serve(rank: int, world: int, store: str, jobs, answers) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank))
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    answers.put((rank, None, None))
    while (job := jobs.get()) is not None:
        function, arguments = job
        try:
            answers.put((rank, function(*arguments), None))
        except Exception:  # Whatever a job raises is its result.
            answers.put((rank, None, traceback.format_exc()))
    dist.destroy_process_group()


class Ranks:
    """`Ranks(4).run(function, *arguments)`: what the function returns on each rank, in their order. Functions
    are those of an importable module."""

    def __init__(self, world: int):
        context = mp.get_context("spawn")
        self._folder = tempfile.TemporaryDirectory()
        self._answers = context.Queue()
        self._jobs = [context.Queue() for _ in range(world)]
        store = os.path.join(self._folder.name, "store")
        self._processes = [context.Process(target=_serve, args=(rank, world, store, jobs, self._answers), daemon=True)
                           for rank, jobs in enumerate(self._jobs)]
        for process in self._processes:
            process.start()
        self._gather()

    def run(self, function, *arguments) -> list:
        for jobs in self._jobs:
            jobs.put((function, arguments))
        return self._gather()

    def close(self) -> None:
        for jobs in self._jobs:
            jobs.put(None)
        for process in self._processes:
            process.join(10)
            if process.is_alive():
                process.terminate()
        self._folder.cleanup()

    def _gather(self) -> list:
        found: dict[int, object] = {}
        try:
            while len(found) < len(self._processes):
                rank, answer, fault = self._answers.get(timeout=HANGS_SECONDS)
                if fault is not None:
                    raise RuntimeError(f"rank {rank}: {fault}")
                found[rank] = answer
        except queue.Empty:
            raise RuntimeError(f"no answer within {HANGS_SECONDS} s from some of the processes") from None
        return [found[rank] for rank in range(len(self._processes))]
