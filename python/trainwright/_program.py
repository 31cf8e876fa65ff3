"""The `trainwright` of a wheel: runs the program inside the package, which finds its data as in any other prefix."""
import os
import pathlib
import sys

PROGRAM = pathlib.Path(__file__).parent / "bin" / "trainwright"


def main() -> None:
    os.execv(PROGRAM, [str(PROGRAM), *sys.argv[1:]])
