#!/usr/bin/env python3
"""Whether `plan --time-limit` and Ctrl-C keep their word; its last output is in docs/dev/plan.md.

    tools/soak/limit_check.py build/release/trainwright [--count 200] [--seed 1] [--slack 0]

Asks COUNT random questions, half of them of everything there is to search, with limits of 0.3 to 5 s, and presses Ctrl-C
at one in four instead. Each has to end within its limit, 10 % and 0.2 s. Of questions about models that surely fit those
that were given 2 s or more have to have a layout. Then Ctrl-C is pressed twice at once: the second ends the program, if the first has not by then.
`--slack` is added to what is allowed, for machines that do other work.
"""
import argparse
import json
import random
import signal
import subprocess
import sys
import time

# Model, accelerators, sequences, tokens, and whether something fits for certain.
QUESTIONS = [
    ("llama-3.1-8b", "16xH100", 512, 8192, True),
    ("llama-3.1-70b", "64xH100", 1024, 8192, True),
    ("llama-3.1-70b", "8xH100", 64, 4096, False),
    ("llama-3.1-405b", "1024xH100", 2048, 8192, True),
    ("llama-3.1-405b", "16384xH100", 2048, 8192, True),
    ("gpt3-175b", "1024xA100-80GB", 1536, 2048, True),
    ("qwen3-30b-a3b", "8xGB200", 512, 4096, True),
    ("qwen3-235b-a22b", "64xH100", 512, 4096, False),
    ("qwen3-235b-a22b", "1024xH100", 2048, 4096, True),
    ("deepseek-v3", "64xH800", 512, 4096, False),
    ("deepseek-v3", "2048xH800", 15360, 4096, True),
    ("deepseek-v3", "16384xH100", 16384, 4096, True),
    ("examples/moe-10t.json", "1024xGB200", 2048, 8192, False),
    ("examples/moe-10t.json", "131072xGB200", 32768, 8192, True),
]
ALSO = ["--also", "overlaps", "--also", "dispatcher", "--also", "order"]


def ask(program: str, words: list[str], press: list[float]) -> tuple[float, int, str, str]:
    """Seconds from the start, or from the first Ctrl-C, to the end; exit code, what was printed."""
    start = time.monotonic()
    child = subprocess.Popen([program, "plan", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    since = start
    for i, at in enumerate(press):
        time.sleep(max(0.0, start + at - time.monotonic()))
        if i == 0:
            since = time.monotonic()
        child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=600)
    return time.monotonic() - since, child.returncode, out, err


def one_question(program: str, chance: random.Random, slack: float) -> tuple[str, list[str]]:
    model, on, batch, seq, fits = chance.choice(QUESTIONS)
    limit = chance.choice([0.3, 0.5, 1.0, 2.0, 3.0, 5.0])
    words = [model, "--on", on, "--batch", str(batch), "--seq", str(seq), "--json"]
    if chance.random() < 0.5:
        words += ALSO
    interrupted = chance.random() < 0.25
    if not interrupted:
        words += ["--time-limit", str(limit)]
    took, code, out, err = ask(program, words, [limit] if interrupted else [])
    allowed = (0.0 if interrupted else 1.1 * limit) + 0.2 + slack
    line = f"{'Ctrl-C' if interrupted else '':6} {limit:4.1f} s {took:6.2f} s  {' '.join(words[:3])}{' --also' if ALSO[0] in words else ''}"
    faults = []
    if took > allowed:
        faults.append(f"took {took:.2f} s of {allowed:.2f}: {' '.join(words)}")
    if code not in (0, 1):
        faults.append(f"exit {code}: {' '.join(words)}: {err.strip()[-200:]}")
    elif fits and limit >= 2 and not json.loads(out).get("best"):
        faults.append(f"no layout in {limit} s: {' '.join(words)}")
    return line, faults


def pressed_twice(program: str, slack: float) -> list[str]:
    words = ["deepseek-v3", "--on", "2048xH800", "--batch", "15360", "--seq", "4096", *ALSO]
    took, code, _, _ = ask(program, words, [1.0, 1.02])  # at the same moment they would be one signal
    # As a shell sees it: 130. It may have answered the first in between.
    return [] if code in (-signal.SIGINT, 0) and took < 0.2 + slack else [f"Ctrl-C twice: exit {code} after {took:.2f} s"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slack", type=float, default=0)
    asked = parser.parse_args()
    chance = random.Random(asked.seed)
    faults: list[str] = []
    for _ in range(asked.count):
        line, found = one_question(asked.program, chance, asked.slack)
        print(line, flush=True)
        faults += found
    faults += pressed_twice(asked.program, asked.slack)
    print(f"{asked.count} questions, {len(faults)} faults")
    for fault in faults:
        print("  " + fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
