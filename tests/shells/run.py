#!/usr/bin/env python3
"""Completion as real shells do it, and manual pages as man(1) formats them.

Takes the path of the program; what is not installed here is named and left out, bash is not.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
FAULTS = []


def told(*words):
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=True).stdout


def check(what, holds):
    if not holds:
        FAULTS.append(what)


def in_bash(*words):
    """What bash would offer: its complete function called as bash calls it."""
    script = """eval "$("$0" completion bash)"; COMP_WORDS=("$0" "$@"); COMP_CWORD=$#
                _trainwright "$0" "${@: -1}"; printf '%s\\n' "${COMPREPLY[@]}" """
    done = subprocess.run(["bash", "-euc", script, PROGRAM, *words], capture_output=True, text=True)
    check(f"bash says nothing on standard error: {done.stderr}", not done.stderr)
    return done.stdout.split()


def in_fish(words):
    script = f"set -x PATH {PROGRAM.parent} $PATH; trainwright completion fish | source; complete -C '{words}'"
    done = subprocess.run(["fish", "--no-config", "-c", script], capture_output=True, text=True)
    return [line.split("\t")[0] for line in done.stdout.splitlines()]


def in_zsh(words):
    """zsh completes only at a prompt: one of its own, behind a pseudo-terminal."""
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "_trainwright").write_text(told("completion", "zsh"))
        script = f"""zmodload zsh/zpty; zpty z PATH={PROGRAM.parent}:$PATH TERM=dumb zsh -f
                     zpty -w z 'fpath=({folder} $fpath); autoload -U compinit; compinit -u -d {folder}/dump; PS1=ready:'
                     zpty -r z line '*ready:*ready:*'; zpty -n -w z $'{words}\\t'; sleep 1; zpty -r -t z line '*'
                     while zpty -r -t z more; do line+=$more; done; print -r -- $line"""
        return subprocess.run(["zsh", "-fc", script], capture_output=True, text=True, timeout=60).stdout


def check_shells():
    commands = [line.split("\t")[0] for line in told("completion", "words", "--", "").splitlines()]
    check("there are commands", len(commands) > 10)
    check("bash offers every command", in_bash("") == commands)
    check("bash offers models", "llama-3.1-405b" in in_bash("plan", "llama-3.1-"))
    check("bash offers options", "--batch" in in_bash("plan", "llama-3.1-8b", "--b"))
    check("bash offers accelerators", "64xH100-SXM" in in_bash("plan", "x", "--on", "64xH1"))
    check("bash offers paths where words end", in_bash("report", "pl") == [])
    if shutil.which("fish"):
        check("fish offers every command", set(in_fish("trainwright ")) == set(commands))
        check("fish offers models", "llama-3.1-405b" in in_fish("trainwright plan llama-3.1-"))
    else:
        print("no fish here")
    if shutil.which("zsh"):
        check("zsh completes a command", "reconcile" in in_zsh("trainwright recon"))
    else:
        print("no zsh here")
    return len(commands)


def check_pages(count):
    with tempfile.TemporaryDirectory() as folder:
        told("man", "--out", folder)
        pages = sorted(pathlib.Path(folder).iterdir())
        check("every command has a page, and all have one", len(pages) == count + 1)
        for page in pages:
            groff = subprocess.run(["groff", "-man", "-ww", "-Tutf8", "-P-cbou", page], capture_output=True, text=True)
            check(f"{page.name}: {groff.stderr}", groff.returncode == 0 and not groff.stderr)
            check(f"{page.name} has its sections", all(part in groff.stdout for part in ("NAME", "SYNOPSIS", "SEE ALSO")))
            if shutil.which("mandoc"):
                lint = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", page], capture_output=True, text=True)
                # A date would be another one for every build.
                wrong = [line for line in lint.stdout.splitlines() if "missing date" not in line]
                check(f"{page.name}: {wrong}", not wrong)


check_pages(check_shells())
print("\n".join(f"FAILED {fault}" for fault in FAULTS) or "shells complete, pages format")
sys.exit(1 if FAULTS else 0)
