"""The reference trainer does what its constants say."""
import importlib.util
import pathlib
import statistics
import subprocess
import sys

import pytest

PATH = pathlib.Path(__file__).resolve().parents[1] / "trainwright" / "engine" / "reference_trainer.py"
SPEC = importlib.util.spec_from_file_location("reference_trainer", PATH)
trainer = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(trainer)
FITS = "tp=2,pp=2,dp=1,mbs=1,gbs=32,seq=2048"


def run(layout, *words, seed=3, timeout=60):
    return subprocess.run([sys.executable, str(PATH), layout, "--seed", str(seed), *words], capture_output=True,
                          text=True, timeout=timeout)


def layout_with(fate, seed):
    constants = trainer.Constants(seed)
    return next(text for micro in range(1, 1000)
                if trainer.fate(text := f"tp=4,mbs=1,gbs=4,seq=2048,first_layers={micro}", constants) == fate)


def test_steps_last_as_long_as_the_constants_say():
    done = run(FITS, "--steps", "5")
    assert done.returncode == 0, done.stderr
    seconds = [float(line.split()[-2]) for line in done.stdout.splitlines()]
    true = trainer.true_step(FITS, trainer.Constants(3))
    # Sleeping never ends early; how much later hangs on the host.
    assert true <= statistics.median(seconds) < 1.5 * true


def test_memory_is_really_allocated():
    """With a little less than it needs an allocation fails, with more it runs."""
    needed = trainer.true_bytes(FITS, trainer.Constants(3)) / trainer.GIB
    short = run(FITS, "--steps", "1", "--capacity", str(0.9 * needed))
    assert short.returncode == 1 and "CUDA out of memory. Tried to allocate" in short.stdout
    assert run(FITS, "--steps", "1", "--capacity", str(1.1 * needed)).returncode == 0


def test_some_layouts_crash_and_some_hang():
    crashed = run(layout_with("crash", 3), "--steps", "3")
    assert crashed.returncode == 3 and "NCCL WARN" in crashed.stdout
    with pytest.raises(subprocess.TimeoutExpired):
        run(layout_with("hang", 3), "--steps", "3", timeout=10)


def test_a_seed_is_a_machine():
    steps = {trainer.true_step(FITS, trainer.Constants(seed)) for seed in range(5)}
    assert len(steps) == 5
    assert trainer.true_step(FITS, trainer.Constants(7)) == trainer.true_step(FITS, trainer.Constants(7))
