"""A pipeline schedule as PyTorch's CSV file: one row per rank, one action per cell.

    cell := STAGE KIND MICROBATCH | "(" cell ";" cell ")OVERLAP_F_B" | nothing (a bubble)

KIND is F (forward), I (gradient of the input), W (gradient of the weights), B (I and W in one go),
and in files of the `compute_comms` format also SEND_F, RECV_F, SEND_B, RECV_B and, without a
micro-batch, UNSHARD, RESHARD, REDUCE_GRAD. A file that names any of the latter is `compute_comms`
and is run exactly as written; otherwise it is `compute_only` and the engine adds the transfers.

PyTorch reads cells by prefix (`2F0xyz` is `2F0`); here a cell must be an action as a whole.
"""
import csv
import dataclasses
import io
import re

COMPUTE_KINDS = ("F", "I", "W", "B")
TRANSFER_KINDS = ("SEND_F", "RECV_F", "SEND_B", "RECV_B")
STAGE_KINDS = ("UNSHARD", "RESHARD", "REDUCE_GRAD")
_ACTION = re.compile(r"(\d{1,6})(" + "|".join(TRANSFER_KINDS + STAGE_KINDS + COMPUTE_KINDS) + r")(\d{1,6})?")
_PAIR = re.compile(r"\(([^()]*)\)OVERLAP_F_B")


class ScheduleError(ValueError):
    """A schedule file that cannot be read; `faults` lists every place and what is wrong there."""

    def __init__(self, faults: list[str]):
        super().__init__("; ".join(faults[:5]) + (f"; {len(faults) - 5} more" if len(faults) > 5 else ""))
        self.faults = faults


@dataclasses.dataclass(frozen=True)
class Action:
    stage: int
    kind: str
    microbatch: int | None = None

    def __str__(self) -> str:
        return f"{self.stage}{self.kind}{'' if self.microbatch is None else self.microbatch}"


@dataclasses.dataclass(frozen=True)
class Schedule:
    """What the runner must know of a file before it can build stages for it.

    `rows[rank]` are the rank's actions with overlapped pairs taken apart; `text` is the file itself,
    which the engine reads on its own.
    """
    text: str
    format: str
    rows: tuple[tuple[Action, ...], ...]
    rank_of_stage: tuple[int, ...]
    microbatches: int

    @property
    def ranks(self) -> int:
        return len(self.rows)

    @property
    def stages(self) -> int:
        return len(self.rank_of_stage)

    def stages_of(self, rank: int) -> list[int]:
        """In ascending order, because the engine's start-up walks them in the order of the list."""
        return [stage for stage, owner in enumerate(self.rank_of_stage) if owner == rank]


def parse_cell(cell: str) -> tuple[Action, ...]:
    """The actions of one cell: none for a bubble, two or more for an overlapped pair."""
    cell = cell.strip()
    if not cell:
        return ()
    pair = _PAIR.fullmatch(cell)
    parts = pair.group(1).split(";") if pair else [cell]
    return tuple(_parse_action(part.strip()) for part in parts)


def _parse_action(text: str) -> Action:
    match = _ACTION.fullmatch(text)
    if not match:
        hint = " (BW is the grammar of 2024: write B)" if "BW" in text else ""
        raise ValueError(f"'{text[:40]}' is no action{hint}")
    stage, kind, microbatch = match.groups()
    if (microbatch is None) != (kind in STAGE_KINDS):
        raise ValueError(f"'{text}' {'lacks' if microbatch is None else 'must not have'} a micro-batch")
    return Action(int(stage), kind, None if microbatch is None else int(microbatch))


def read_schedule(text: str, microbatches: int | None = None) -> Schedule:
    """Reads a file's text; placement and, if not given, the number of micro-batches follow from it.

    Only what prevents building stages is an error here. Whether the schedule is right is the
    business of `trainwright schedule check` and, for the broken ones, of the engine.
    """
    faults: list[str] = []
    rows: list[tuple[Action, ...]] = []
    for rank, cells in enumerate(csv.reader(io.StringIO(text, newline=""))):
        row: list[Action] = []
        for column, cell in enumerate(cells):
            try:
                row.extend(parse_cell(cell))
            except ValueError as error:
                faults.append(f"row {rank + 1}, cell {column + 1}: {error}")
        if not row:
            faults.append(f"row {rank + 1}: a rank without actions (a blank line counts as a rank)")
        rows.append(tuple(row))
    if not rows:
        faults.append("the file is empty")
    if faults:
        raise ScheduleError(faults)
    actions = [action for row in rows for action in row]
    if microbatches is None:
        microbatches = 1 + max((action.microbatch or 0) for action in actions)
    comms = any(action.kind not in COMPUTE_KINDS for action in actions)
    return Schedule(text, "compute_comms" if comms else "compute_only", tuple(rows), _placement(rows), microbatches)


def _placement(rows: list[tuple[Action, ...]]) -> tuple[int, ...]:
    owner: dict[int, int] = {}
    for rank, row in enumerate(rows):
        for action in row:
            owner.setdefault(action.stage, rank)
    missing = [stage for stage in range(max(owner) + 1) if stage not in owner][:10]
    faults = [f"stage {stage} is on no rank, but stage {max(owner)} exists" for stage in missing]
    faults += [f"rank {rank} has no stage of its own" for rank in range(len(rows)) if rank not in owner.values()]
    if faults:
        raise ScheduleError(faults)
    return tuple(owner[stage] for stage in range(max(owner) + 1))


def schedule_text(rows) -> str:
    """The CSV of rows of actions or cells; `None` is a bubble."""
    return "".join(",".join("" if cell is None else str(cell) for cell in row) + "\n" for row in rows)
