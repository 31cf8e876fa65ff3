#!/usr/bin/env python3
"""Runs `trainwright tune` on a disk that fills up, makes room and resumes, many times over. Needs root: it
mounts a small tmpfs.

    tools/soak/full_disk.py build/release/trainwright [--times 50] [--seed 1]

Between 0 and 140 kB are left on the disk, so that it fills up at another write each time: of the history, of
a trial's files, of its log or its end. Whoever meets that says so; after room was made the answer is that of
an undisturbed run, and the database passes SQLite's own check.
"""
import argparse
import os
import pathlib
import random
import sqlite3
import subprocess
import tempfile

from kill_tuner import TRAINER, answer_of, command

SIZE, MOST_LEFT = 1 << 20, 140_000


def tuned(program, folder, trainer):
    return subprocess.run(command(program, folder, trainer), capture_output=True, text=True, timeout=600)


def on_full_disk(program, disk, trainer, left):
    """Whether the disk filled up, and the answer in the end."""
    filler = disk / "filler"
    state = os.statvfs(disk)
    filler.write_bytes(b"x" * max(0, state.f_bavail * state.f_frsize - left))
    first = tuned(program, disk / "history", trainer)
    if first.returncode != 0:
        assert first.returncode == 2 and "hint:" in first.stderr, first.stderr
    filler.unlink()
    second = tuned(program, disk / "history", trainer)
    assert second.returncode == 0, second.stderr
    with sqlite3.connect(disk / "history" / "history.sqlite") as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    database.close()
    return first.returncode != 0, answer_of(second.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    program = os.path.abspath(arguments.program)
    randomly, full = random.Random(arguments.seed), 0
    with tempfile.TemporaryDirectory() as top:
        trainer, disk = pathlib.Path(top) / "trainer.py", pathlib.Path(top) / "disk"
        trainer.write_text(TRAINER)
        disk.mkdir()
        expected = answer_of(tuned(program, pathlib.Path(top) / "plain", trainer).stdout)
        for _ in range(arguments.times):
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(disk)], check=True)
            try:
                met, answer = on_full_disk(program, disk, trainer, randomly.randrange(MOST_LEFT))
            finally:
                subprocess.run(["umount", "--lazy", str(disk)], check=True)
            full += met
            assert answer == expected, answer
    print(f"{arguments.times} disks, {full} of them full before the end: said so, and the same answer once there was room")


if __name__ == "__main__":
    main()
