"""Runs the program under test."""
import json
import os
import subprocess

PROGRAM = os.environ["TRAINWRIGHT_BINARY"]


def show_models(paths, *options):
    """One report per config file, in order, from a single run of `trainwright show model`."""
    command = [PROGRAM, "show", "model", "--json", *options, *map(str, paths)]
    if os.environ.get("TW_SHOW"):
        command = [os.environ["TW_SHOW"], *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    return answer
