#!/usr/bin/env python3
"""Trials as jobs of a real Slurm to which things happen: each must be told for what it was.

    tools/soak/slurm_trials.py build/release/trainwright --slurm ../shared/tools/slurm_here

`up.sh DIR` and `down.sh DIR` in the folder of --slurm start and stop a slurmctld with four nodes on this host, whose
configuration and process ids are in DIR. Every trial is a `tune run` of its own, with one trial to spend; what ends it
is done from here. In the end nothing is in the queue and no process of a trial is left. Takes about six minutes;
--record puts what it prints into docs/dev/tune.md.
"""
import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

from kill_tuner import left_over
from recorded import Output

# Eight steps in the seconds that are told, and then what is told.
TRAINER = """
import sys, time
seconds, then = float(sys.argv[1]), sys.argv[2]
held = bytearray(600_000_000) if then == "memory" else None
for _ in range(8):
    time.sleep(seconds / 8)
    print("step time: 0.5 s", flush=True)
if then == "oom":
    sys.exit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has")
if then == "crash":
    sys.exit("NCCL WARN something")
if then == "hang":
    time.sleep(1000)
"""


@dataclasses.dataclass
class Case:
    what: str
    end: str
    seconds: float = 2
    then: str = "ok"
    options: str = ""  # of sbatch
    words: tuple = ()  # of tune
    happens: object = None  # done to the job once it runs: a function of Slurm, the trial's folder and its job id


class Slurm:
    def __init__(self, scripts, folder):
        self.scripts, self.folder = pathlib.Path(scripts), folder
        os.environ["SLURM_CONF"] = str(folder / "slurm.conf")

    def up(self):
        subprocess.run([self.scripts / "up.sh", self.folder, "4"], check=True, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, start_new_session=True)

    def down(self):
        subprocess.run([self.scripts / "down.sh", self.folder], stderr=subprocess.DEVNULL)

    def ask(self, *words):
        return subprocess.run(words, capture_output=True, text=True).stdout.strip()

    def state(self, job):
        return self.ask("squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={job}")

    def stop_controller(self):
        pid = int((self.folder / "slurmctld.pid").read_text())
        os.kill(pid, signal.SIGTERM)
        while subprocess.run(["kill", "-0", str(pid)], stderr=subprocess.DEVNULL).returncode == 0:
            time.sleep(0.1)

    def start_controller(self, *options):
        process = subprocess.Popen(["slurmctld", "-D", *options, "-f", self.folder / "slurm.conf"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
                                   start_new_session=True)
        (self.folder / "slurmctld.pid").write_text(str(process.pid))
        while not self.ask("sinfo", "--noheader", "--states=idle"):
            time.sleep(0.2)


def cancel(slurm, folder, job):
    slurm.ask("scancel", job)


def node_down(slurm, folder, job):
    node = slurm.ask("squeue", "--noheader", "--format=%N", f"--jobs={job}")
    slurm.ask("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
    time.sleep(2)
    slurm.ask("scontrol", "update", f"nodename={node}", "state=resume")


def restart(*options):
    def happens(slurm, folder, job):
        slurm.stop_controller()
        time.sleep(3)
        slurm.start_controller(*options)
    return happens


def kill_tuner(slurm, folder, job):
    """The program and its watcher; then it is resumed."""
    with sqlite3.connect(folder.parent / "history.sqlite") as database:
        (watcher,) = database.execute("SELECT pid FROM trials").fetchone()
    for process in (int((folder.parent / "pid").read_text()), watcher):
        os.kill(process, signal.SIGKILL)


def interrupt(slurm, folder, job):
    os.kill(int((folder.parent / "pid").read_text()), signal.SIGINT)


def cases():
    down = {"seconds": 20, "happens": node_down}
    return [
        *[Case("runs to its end", "ok")] * 3,
        *[Case("cancelled by others", "preempted", 60, happens=cancel)] * 2,
        *[Case("Slurm's time limit", "time-limit", 300, options="--time=1")] * 2,
        *[Case("Slurm's memory limit", "out-of-memory", 60, "memory", options="--mem=200")] * 2,
        Case("out of memory by its own words", "out-of-memory", then="oom"),
        Case("crashes", "crash", then="crash"),
        Case("falls silent", "hang", then="hang", words=("--silence", "8")),
        Case("our time limit", "time-limit", 300, words=("--trial-limit", "8")),
        Case("Ctrl-C", "preempted", 300, happens=interrupt),
    ], [
        *[Case("node down, no requeue", "node-failure", options="--no-requeue", **down)] * 2,
        Case("node down, requeued", "ok", options="--requeue", **down),
        *[Case("slurmctld restarted", "ok", 30, happens=restart())] * 2,
        *[Case("slurmctld restarted with -c", "node-failure", 90, happens=restart("-c"))] * 2,
        Case("tuner and watcher killed, resumed", "ok", 15, happens=kill_tuner),
    ]


def job_of(folder):
    try:
        return (folder / "job").read_text().split()[1]
    except (OSError, IndexError):
        return None


def run(program, slurm, top, trainer, number, case):
    """How the case was told, and by which words."""
    history = top / f"history{number}"
    history.mkdir()
    words = [program, "tune", "run", "llama-3.2-1b", "--on", "4xH100", "--batch", "8", "--seq", "2048", "--among",
             "tp=1,mbs=1", "--trials", "1", "--history", str(history), "--step-pattern", "step time: ([0-9.]+) s",
             "--json", *case.words, f"--slurm=--nodes=1 {case.options}", "--",
             sys.executable, str(trainer), str(case.seconds), case.then]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=top)
    (history / "pid").write_text(str(process.pid))
    if case.happens:
        while not (job := job_of(history / "trial-1")) or slurm.state(job) != "RUNNING":
            time.sleep(0.2)
        time.sleep(2)
        case.happens(slurm, history / "trial-1", job)
    output, errors = process.communicate(timeout=600)
    if process.returncode == -signal.SIGKILL:
        output = subprocess.run([program, "tune", "resume", "--history", str(history), "--json"], capture_output=True,
                                text=True, cwd=top, timeout=600).stdout
    assert output, errors
    (trial,) = json.loads(output)["trials"]
    return trial["end"], trial["cause"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--slurm", required=True, help="folder with up.sh and down.sh")
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()
    program = os.path.abspath(arguments.program)
    wrong, say = 0, Output()
    with tempfile.TemporaryDirectory() as name:
        top = pathlib.Path(name)
        top.chmod(0o755)  # or munged does not start
        trainer = top / "trainer.py"
        trainer.write_text(TRAINER)
        slurm = Slurm(os.path.abspath(arguments.slurm), top / "slurm")
        slurm.up()
        try:
            together, alone = cases()
            one = lambda number, case: (case, run(program, slurm, top, trainer, number, case))
            with concurrent.futures.ThreadPoolExecutor(7) as pool:
                told = list(pool.map(one, range(len(together)), together))
            told += [one(number, case) for number, case in enumerate(alone, len(together))]
            say(f"{'what happened':<35}{'told':<15}by")
            for case, (end, cause) in told:
                wrong += end != case.end
                say(f"{case.what:<35}{end:<15}{cause[:70].rstrip()}{'' if end == case.end else '   WRONG, is ' + case.end}")
            queue, left = slurm.ask("squeue", "--noheader"), left_over(str(trainer))
        finally:
            slurm.down()
    say(f"{len(told)} trials, {len(told) - wrong} told right; in the queue: {queue or 'nothing'}; "
        f"left running: {left or 'nothing'}")
    if arguments.record:
        say.record("dev/tune.md", "slurm trials")
    sys.exit(bool(wrong or queue or left))


if __name__ == "__main__":
    main()
