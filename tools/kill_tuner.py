#!/usr/bin/env python3
"""Kills `trainwright tune` at random moments and resumes it, many times over.

    tools/kill_tuner.py build/release/trainwright [--times 200] [--seed 1]

Each history is begun, killed with SIGKILL after a random while, and resumed (and killed again) until
it comes to its end. Then: the answer is that of an undisturbed run, no layout that ended well was
tried twice, the database passes SQLite's own check, and no process of a trial is left.
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
import sys, time
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


def answer_of(text):
    answer = json.loads(text)
    return answer["stopped"], answer["best"]["layout"], sorted(one["layout"] for one in answer["trials"]
                                                              if one.get("end") == "ok")


def run_killed(program, folder, trainer, randomly, longest):
    """Kills until a run comes to its end; how often that was, and its answer. A whole run takes `longest`: what is
    left of a history takes less the more often it was killed."""
    kills = 0
    while True:
        words = command(program, folder, trainer)
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            output, _ = process.communicate(timeout=randomly.uniform(0, longest))
            assert process.returncode == 0, output
            return kills, output
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    program = os.path.abspath(arguments.program)
    randomly = random.Random(arguments.seed)
    killed = histories = 0
    with tempfile.TemporaryDirectory() as top:
        trainer = pathlib.Path(top) / "trainer.py"
        trainer.write_text(TRAINER)
        longest = float("inf")  # the shortest of three: a busy host makes others longer
        for number in range(3):
            start = time.monotonic()
            plain = subprocess.run(command(program, pathlib.Path(top) / f"plain{number}", trainer), capture_output=True,
                                   text=True)
            assert plain.returncode == 0, plain.stderr
            longest = min(longest, time.monotonic() - start)
        expected = answer_of(plain.stdout)
        while killed < arguments.times:
            folder = pathlib.Path(top) / f"history{histories}"
            kills, output = run_killed(program, folder, trainer, randomly, longest)
            killed, histories = killed + kills, histories + 1
            assert answer_of(output) == expected, output
            with sqlite3.connect(folder / "history.sqlite") as database:
                assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
                assert not database.execute("SELECT * FROM trials WHERE state <> 'ended'").fetchall()
                twice = database.execute("SELECT layout FROM trials WHERE ending = 'ok' GROUP BY layout "
                                         "HAVING count(*) > 1").fetchall()
                assert not twice, twice
        time.sleep(0.5)
        assert not left_over(top), left_over(top)
    print(f"{killed} kills over {histories} histories: the same answer, {len(expected[2])} trials, nothing lost, "
          "nothing twice, nothing left running")


if __name__ == "__main__":
    main()
