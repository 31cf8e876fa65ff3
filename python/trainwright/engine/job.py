"""What a group of workers is asked to do. Knows no PyTorch, so that asking costs no import of it."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Job:
    """A schedule to run. `steps` timed steps follow `warmup` ones; gradients are those of the last.

    `limit`: seconds that a rank may wait for a peer. `memory`: count live storages (slows the
    stages down). `actions`: return each rank's actions with their times. `optimizer`: none, sgd or
    adamw, stepped at the end of every step.
    """
    csv: str
    model: dict = dataclasses.field(default_factory=dict)
    microbatches: int | None = None
    warmup: int = 0
    steps: int = 1
    limit: float = 30.0
    memory: bool = False
    actions: bool = False
    optimizer: str = "none"
