#!/usr/bin/env python3
"""Kills `trainwright tune`, its watchers or its trainers at random moments and resumes it, many times over.

    tools/soak/kill_tuner.py build/release/trainwright [--times 200] [--seed 1] [--victims tuner,watcher,trainer]

Each history is begun, one of the victims is killed with SIGKILL after a random while, and what was killed of the tuner is
resumed, until it comes to its end. Then: no two trials ran at the same time, no layout that ended well was tried
twice, every trial has ended, the database passes SQLite's own check, and no process of a trial is left. Where only tuners
were killed, the answer is that of an undisturbed run: a killed trainer is a crash, of which tuning learns.
"""
import argparse
import json
import os
import pathlib
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

# Prints the seconds of its layout: more tensor parallelism is faster here, whatever is predicted.
TRAINER = """
import fcntl, os, subprocess, sys, time
if "ALONE" in os.environ:
    alone = open(os.environ["ALONE"], "a")  # held until the last process of this trial is gone
    try:
        fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        open(os.environ["ALONE"] + ".broken", "a").write(sys.argv[1] + "\\n")
    os.set_inheritable(alone.fileno(), True)
    subprocess.Popen(["sleep", "1000"], close_fds=False, start_new_session=True)
knobs = dict(part.split("=") for part in sys.argv[1].split(",") if "=" in part)
tp, mbs = int(knobs.get("tp", 1)), int(knobs.get("mbs", 1))
for _ in range(8):
    time.sleep(0.01)
    print(f"step time: {1 / tp + 0.01 * mbs:.3f} s", flush=True)
"""
LAYOUTS = ["tp=1,mbs=1", "tp=2,mbs=1", "tp=4,mbs=1", "tp=4,mbs=2"]


def command(program, folder, trainer):
    among = [word for layout in LAYOUTS for word in ("--among", layout)]
    return [program, "tune", "run", "llama-3.2-1b", "--on", "4xH100", "--batch", "8", "--seq", "2048", *among,
            "--tokens", "1e15", "--history", str(folder), "--step-pattern", "step time: ([0-9.]+) s", "--json",
            "--", sys.executable, str(trainer), "{layout}"]


def left_over(mark):
    """Processes that name the folder."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if entry.name.isdigit() and int(entry.name) != os.getpid() and mark in words:
            found.append(words.replace("\0", " "))
    return found


def processes_of(folder, word, program):
    """Whose first word is `program`, with `word` and something in the folder among the others."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if entry.name.isdigit() and words[0] == program and word in words and any(str(folder) in one for one in words):
            found.append(int(entry.name))
    return found


def answer_of(text):
    answer = json.loads(text)
    return answer["stopped"], answer["best"]["layout"], sorted(one["layout"] for one in answer["trials"]
                                                              if one.get("end") == "ok")


def run_killed(program, folder, trainer, randomly, longest, victims, kills):
    """Kills until a run comes to its end, and counts by victim; its answer. A whole run takes `longest`: what is
    left of a history takes less the more often it was killed."""
    environment = {**os.environ, "ALONE": f"{folder}.alone"}
    while True:
        process = subprocess.Popen(command(program, folder, trainer), stdout=subprocess.PIPE, stderr=open(f"{folder}.stderr", "a"),
                                   text=True, env=environment)
        while True:
            try:
                output, _ = process.communicate(timeout=randomly.uniform(0, longest))
                assert process.returncode in (0, 1), (process.returncode, output, open(f"{folder}.stderr").read()[-1500:])
                return output
            except subprocess.TimeoutExpired:
                victim = randomly.choice(victims)
            if victim == "tuner":
                process.send_signal(signal.SIGKILL)
                process.communicate()
                kills[victim] += 1
                break
            # The trainer is started by words of its own; its trial's folder stands in its environment and in the watcher's words.
            found = (processes_of(folder, "watch-trial", program) if victim == "watcher"
                     else processes_of(trainer.parent, str(trainer), sys.executable))
            for pid in found:
                try:
                    os.kill(pid, signal.SIGKILL)
                    kills[victim] += 1
                except ProcessLookupError:
                    pass


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--victims", default="tuner", help="of tuner, watcher, trainer, with commas")
    arguments = parser.parse_args()
    victims = arguments.victims.split(",")
    program = os.path.abspath(arguments.program)
    randomly = random.Random(arguments.seed)
    kills, histories = dict.fromkeys(victims, 0), 0
    with tempfile.TemporaryDirectory() as top:
        trainer = pathlib.Path(top) / "trainer.py"
        trainer.write_text(TRAINER)
        longest = float("inf")  # the shortest of three: a busy host makes others longer
        for number in range(3):
            start = time.monotonic()
            plain = subprocess.run(command(program, pathlib.Path(top) / f"plain{number}", trainer), capture_output=True,
                                   text=True, env={**os.environ, "ALONE": f"{top}/plain.alone"})
            assert plain.returncode == 0, plain.stderr
            longest = min(longest, time.monotonic() - start)
        expected = answer_of(plain.stdout)
        while min(kills.values()) < arguments.times:
            folder = pathlib.Path(top) / f"history{histories}"
            output = run_killed(program, folder, trainer, randomly, longest, victims, kills)
            histories += 1
            if victims == ["tuner"]:
                assert answer_of(output) == expected, output
            assert not pathlib.Path(f"{folder}.alone.broken").exists(), "two trials at the same time"
            with sqlite3.connect(folder / "history.sqlite") as database:
                assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
                assert not database.execute("SELECT * FROM trials WHERE state <> 'ended'").fetchall()
                twice = database.execute("SELECT layout FROM trials WHERE ending = 'ok' GROUP BY layout "
                                         "HAVING count(*) > 1").fetchall()
                assert not twice, twice
        time.sleep(0.5)
        assert not left_over(top), left_over(top)
    counts = ", ".join(f"{count} of the {victim}" for victim, count in kills.items())
    same = f"the same answer, {len(expected[2])} trials, " if victims == ["tuner"] else ""
    print(f"kills: {counts}, over {histories} histories: {same}nothing lost, nothing twice, no two at the same time, nothing left running")


if __name__ == "__main__":
    main()
