"""Many questions to one process, which reads the data once (answers.cc)."""
import json
import pathlib
import subprocess


def answered(build, questions):
    """[exit code, output, error] of every command line; `build` is the folder of the program and of `answers`."""
    run = subprocess.run([pathlib.Path(build) / "answers", pathlib.Path(build) / "data"], capture_output=True, text=True,
                         input="".join(json.dumps(words) + "\n" for words in questions), check=True)
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(answers) == len(questions), run.stderr
    return answers
