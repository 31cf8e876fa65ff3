"""A group of worker processes that outlives its jobs: start once, run many schedules.

    with EngineGroup(4) as engine:
        answer = engine.run(Job(csv=open("schedule.csv").read()))

Starting costs seconds, most of them the import of PyTorch, a small schedule milliseconds.
"""
import dataclasses
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from .job import Job

START_SECONDS = 180.0
# Beyond the time limits of a job's waits, for the work of its steps. Then the processes are ended.
GRACE_SECONDS = 60.0


class EngineFailed(RuntimeError):
    """The worker processes did not start, or died."""


class EngineGroup:
    """`processes` workers on this host, ready for schedules of up to that many ranks.
    `grace`: seconds that the steps of a job may take besides waiting."""

    def __init__(self, processes: int, grace: float = GRACE_SECONDS):
        self.processes, self.grace = processes, grace
        self._workers: subprocess.Popen | None = None
        self._start()

    def __enter__(self) -> "EngineGroup":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def run(self, job: Job) -> dict:
        """The job's answer; `status` is ran, hung, failed (the engine raised), refused (the engine
        would not load it), unreadable, or dead (workers had to be started again)."""
        expected = job.limit * (2 + job.warmup + job.steps) + self.grace
        try:
            self._jobs.write(json.dumps(dataclasses.asdict(job)) + "\n")
            self._jobs.flush()
            return self._answer(expected)
        except (EngineFailed, BrokenPipeError) as error:
            self.close(patience=0)
            self._start()
            return {"status": "dead", "error": str(error), "ranks": []}

    def close(self, patience: float = 10) -> None:
        """Ends the workers: they leave by themselves when the pipe of jobs is closed, those at work after `patience`."""
        if self._workers is None:
            return
        self._jobs.close()
        try:
            self._workers.wait(timeout=patience)
        except subprocess.TimeoutExpired:
            self._kill()
        os.close(self._answers)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._workers = None

    def _start(self) -> None:
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="trainwright-engine-"))
        jobs, answers = self._folder / "jobs", self._folder / "answers"
        os.mkfifo(jobs)
        os.mkfifo(answers)
        command = [sys.executable, "-m", "trainwright.engine.worker", str(self._folder), str(self.processes)]
        environment = os.environ | {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
        here = str(pathlib.Path(__file__).resolve().parents[2])
        environment["PYTHONPATH"] = os.pathsep.join([here] + [one for one in [os.environ.get("PYTHONPATH")] if one])
        self._log = open(self._folder / "log", "w+")
        self._workers = subprocess.Popen(command, env=environment, stdout=self._log, stderr=subprocess.STDOUT, start_new_session=True)
        # Opened for both directions, so that neither open waits for the other side.
        self._jobs = os.fdopen(os.open(jobs, os.O_RDWR), "w")
        self._answers = os.open(answers, os.O_RDWR)
        self._text = b""
        try:
            self.torch_version = self._answer(START_SECONDS)["torch"]
        except EngineFailed:
            self.close()
            raise

    def _answer(self, seconds: float) -> dict:
        deadline = time.monotonic() + seconds
        assert self._workers is not None
        while b"\n" not in self._text:
            if self._workers.poll() is not None:
                raise EngineFailed(f"the workers ended with status {self._workers.returncode}: {self._last_words()}")
            if time.monotonic() > deadline:
                raise EngineFailed(f"no answer within {seconds:.0f} s: {self._last_words()}")
            if select.select([self._answers], [], [], 0.5)[0]:
                self._text += os.read(self._answers, 1 << 20)
        line, _, self._text = self._text.partition(b"\n")
        return json.loads(line)

    def _last_words(self) -> str:
        self._log.seek(0)
        lines = [line.strip() for line in self._log.read().splitlines() if line.strip()]
        errors = [line for line in lines if "Error:" in line or "EngineChanged" in line]
        return (errors or lines or ["nothing was said"])[-1][:400]

    def _kill(self) -> None:
        assert self._workers is not None
        os.killpg(self._workers.pid, signal.SIGKILL)
        self._workers.wait()
