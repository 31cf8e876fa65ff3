"""Runs the program under test."""
import json
import os
import subprocess

import asked


def show_models(paths, *options):
    """One report per config file, in order, from a single run of `trainwright show model`."""
    command = [os.environ["TRAINWRIGHT_BINARY"], "show", "model", *map(str, paths), *options]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    return answer.get("models", [answer])


def answered(questions):
    """[exit code, output, error] of every command line, by one process."""
    return asked.answered(os.environ["TRAINWRIGHT_BUILD"], questions)
