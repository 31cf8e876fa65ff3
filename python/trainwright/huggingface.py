"""A callback for the Hugging Face Trainer: the running job beside its prediction.

    from trainwright.huggingface import BesidePlan
    predicted = trainwright.estimate("llama-3.1-8b", on="8xH100", trainer="accelerate", layout=plan.layout)
    Trainer(..., callbacks=[BesidePlan(predicted)])

says after a few steps and at the end "predicted 14.2 s, measured 15.1 s; memory 61.30 of 61.00 GiB reserved". Needs `transformers`.
"""
from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback

from .answers import Estimate


class BesidePlan(TrainerCallback):
    """Steps count from one end to the next, data loading included; the median leaves out evaluations and checkpoints.

    The first `warm_up` steps are left out, and `early` later ones say the first time how the run compares. `say` gets every
    sentence, on the first process only.
    """

    def __init__(self, predicted: Estimate, warm_up: int = 5, say: Callable[[str], Any] = print,
                 clock: Callable[[], float] = time.perf_counter, early: int = 5):
        self.predicted = predicted
        self.warm_up = warm_up
        self.early = early
        self.say = say
        self.clock = clock
        self.steps: list[float] = []  # seconds of each after the warm-up
        self._seen = 0
        self._last: float | None = None

    @property
    def step(self) -> float | None:
        """Seconds of a step so far; nothing before the warm-up is over."""
        return statistics.median(self.steps) if self.steps else None

    def text(self) -> str:
        """Measured so far, beside predicted."""
        return self.predicted.beside(self.step, **peaks())

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        layout = self.predicted.layout  # ranks of tp, cp and pp work on the same sequences
        running = args.train_batch_size * args.gradient_accumulation_steps * args.world_size // (layout.tp * layout.cp * layout.pp)
        if layout.gbs not in (None, running) and state.is_world_process_zero:
            self.say(f"the prediction is for {layout.gbs} sequences a step, this run has {running}: they do not compare")

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        now = self.clock()
        if self._last is not None and self._seen >= self.warm_up:
            self.steps.append(now - self._last)
            if len(self.steps) == self.early and state.is_world_process_zero:
                self.say(f"after {self._seen + 1} steps: {self.text()}")
        self._seen += 1
        self._last = now

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.is_world_process_zero and self.step is not None:
            self.say(self.text())


def peaks() -> dict[str, int]:
    """The most that this process had reserved and allocated on its GPU; nothing without one."""
    import torch
    if not torch.cuda.is_available():
        return {}
    return {"reserved": torch.cuda.max_memory_reserved(), "allocated": torch.cuda.max_memory_allocated()}
