#!/usr/bin/env python3
"""Of tools/run_tests.py: what has not changed since it passed is not run again; what has changed, failed or is in no line is.

    tests/remembered/run.py
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
FILES = {
    "tools/layers.txt": "low:\nhigh: low\n",
    "tools/install_packages.sh": "packages=(cmake)\n",
    "tools/test_inputs.txt": "facts = facts.txt\nmiddle: reads -> @low facts -left.txt\nmiddle: fails -> facts\nstep packs -> @high\n",
    "trainwright/low/low.cc": "", "trainwright/low/low_test.cc": "", "trainwright/high/high.cc": "", "facts.txt": "", "left.txt": "",
    "CMakePresets.json": '{"version": 6, "configurePresets": [{"name": "one", "generator": "Ninja", "binaryDir": "${sourceDir}/build/one"}],'
                         ' "testPresets": [{"name": "one", "configurePreset": "one"}]}',
    "CMakeLists.txt": "cmake_minimum_required(VERSION 3.25)\nproject(one NONE)\nenable_testing()\n"
                      'add_test(NAME "middle: reads" COMMAND sh -c "echo run >> ${PROJECT_SOURCE_DIR}/build/ran")\n'
                      'add_test(NAME "middle: fails" COMMAND sh -c "test -e ${PROJECT_SOURCE_DIR}/build/well")\n'
                      'add_test(NAME "nobody: said" COMMAND true)\n',
    ".gitignore": "/build/\n",
}


class Project:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.environment = {**os.environ, "TRAINWRIGHT_TESTS_CACHE": f"{folder}/../remembered", "TRAINWRIGHT_FORGET": ""}
        for name, text in FILES.items():
            self.write(name, text)
        shutil.copy(TOOLS / "run_tests.py", self.folder / "tools")
        subprocess.run(["git", "init", "-q", "."], cwd=folder, check=True)
        subprocess.run(["cmake", "--preset", "one"], cwd=folder, check=True, capture_output=True)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run(self, *words):
        done = subprocess.run([sys.executable, "tools/run_tests.py", *words], cwd=self.folder, env=self.environment, capture_output=True,
                              text=True)
        return done.returncode, done.stdout.splitlines()[-1].partition(", which took")[0] if done.stdout else done.stderr


def expect(got, code, line):
    if got != (code, line):
        sys.exit(f"expected {(code, line)}, got {got}")


def main():
    with tempfile.TemporaryDirectory() as top:
        project = Project(f"{top}/a")
        expect(project.run("one"), 8, "one: 3 tests, of which 3 ran and 0 are remembered")
        expect(project.run("one"), 8, "one: 3 tests, of which 2 ran and 1 are remembered")  # not what failed or nobody spoke of
        project.write("trainwright/low/low_test.cc", "// no other program is made of it")
        project.write("trainwright/high/high.cc", "// low does not use it")
        project.write("left.txt", "left out")
        project.write("build/well", "")  # what fails does so no more
        expect(project.run("one"), 0, "one: 3 tests, of which 2 ran and 1 are remembered")
        expect(project.run("one"), 0, "one: 3 tests, of which 1 ran and 2 are remembered")
        project.write("facts.txt", "changed")
        expect(project.run("one"), 0, "one: 3 tests, of which 3 ran and 0 are remembered")
        project.write("trainwright/low/low.cc", "changed")
        expect(project.run("one"), 0, "one: 3 tests, of which 2 ran and 1 are remembered")
        project.write("facts.txt", "")
        project.write("trainwright/low/low.cc", "")
        expect(project.run("one"), 0, "one: 3 tests, of which 1 ran and 2 are remembered")  # as it was once
        expect(project.run("one", "--forget"), 0, "one: 3 tests, of which 3 ran and 0 are remembered")
        elsewhere = Project(f"{top}/deeper/b")
        elsewhere.environment = project.environment
        expect(elsewhere.run("one"), 0, "one: 3 tests, of which 1 ran and 2 are remembered")  # the same in another folder
        expect(project.run("step", "packs", "--", "false"), 1, "")
        expect(project.run("step", "packs", "--", "echo", "packed"), 0, "packed")
        expect(project.run("step", "packs", "--", "echo", "packed"), 0, "packs: remembered, nothing that it reads has changed")
        project.write("trainwright/low/low.cc", "changed")  # high uses it
        expect(project.run("step", "packs", "--", "echo", "packed"), 0, "packed")
    print("what has changed, failed or is not spoken of is run; all else is remembered")


main()
