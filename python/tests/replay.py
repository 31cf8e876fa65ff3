"""A slow, obvious replay of a schedule: when each action ends and how many bytes are alive.

Independent of the program's clock, so that both and the engine can be held against each other.
"""
import csv
import dataclasses
import io

from trainwright.engine.schedule_csv import Action, parse_cell


@dataclasses.dataclass(frozen=True)
class Times:
    """Seconds of F, I, W, B per stage, and of a transfer between ranks."""
    stages: tuple[dict[str, float], ...]
    transfer: float = 0.0


def engine_times(stages: int, seconds, own: dict[str, float] | None = None, transfer: float = 0.0) -> Times:
    """What sleeping stages take on PyTorch's runtime: I of stage 0 does nothing, its W does both.

    `seconds` as in ModelSpec, repeated over the stages; `own` is the engine's own cost per action.
    """
    own = own or dict.fromkeys("FIWB", 0.0)
    table = []
    for stage in range(stages):
        forward, by_input, by_weight = seconds[stage % len(seconds)]
        first = stage == 0
        bare = {"F": forward, "I": 0.0 if first else by_input, "W": by_weight + (by_input if first else 0.0), "B": by_input + by_weight}
        table.append({kind: bare[kind] + own[kind] for kind in "FIWB"})
    return Times(tuple(table), transfer)


def grouped_rows(text: str) -> list[list[tuple[Action, ...]]]:
    """Rows of cells; an overlapped pair stays together, bubbles are dropped."""
    return [[parse_cell(cell) for cell in row if cell.strip()] for row in csv.reader(io.StringIO(text))]


def step_time(text: str, times: Times) -> float:
    """Seconds from the first start to the last end. Members of a pair run one after the other and
    send when the pair has ended, as PyTorch's runtime does."""
    rows = grouped_rows(text)
    owner = {action.stage: rank for rank, row in enumerate(rows) for cell in row for action in cell}
    last, clock, position = max(owner), [0.0] * len(rows), [0] * len(rows)
    done: dict[tuple[int, str, int], float] = {}

    def arrival(action: Action, rank: int) -> float | None:
        """When the action's input is there; 0 when it needs none, None when it is not yet known."""
        if action.kind == "F" and action.stage > 0:
            source = action.stage - 1, "F", action.microbatch
        elif action.kind in "IB" and action.stage < last:
            source = action.stage + 1, "I", action.microbatch
        else:
            return 0.0
        return done.get(source) and done[source] + (times.transfer if owner[source[0]] != rank else 0.0)

    progress = True
    while progress:
        progress = False
        for rank, row in enumerate(rows):
            while position[rank] < len(row):
                arrivals = [arrival(action, rank) for action in row[position[rank]]]
                if None in arrivals:
                    break
                for action, at in zip(row[position[rank]], arrivals):
                    clock[rank] = max(clock[rank], at) + times.stages[action.stage][action.kind]
                for action in row[position[rank]]:
                    done[action.stage, action.kind.replace("B", "I"), action.microbatch] = clock[rank]
                position[rank] += 1
                progress = True
    if any(position[rank] < len(row) for rank, row in enumerate(rows)):
        raise ValueError("the schedule waits for itself")
    return max(clock)


@dataclasses.dataclass(frozen=True)
class StageBytes:
    """Of one micro-batch: `kept` is alive after F, its output included; I frees `by_input` of it
    (negative: it saves more for W than it frees), the gradient that it makes not counted; W or B
    frees the rest. `stays` outlives the backward (the loss value, which the engine keeps)."""
    kept: int
    by_input: int
    stays: int = 0


def live_bytes(text: str, stages: list[StageBytes], boundary: int, microbatches: int) -> list[list[tuple[str, int]]]:
    """Bytes alive on each rank after each action, by the rules of PyTorch's runtime; weights and
    their gradients not counted. `boundary`: bytes of the tensor between two stages.

    One buffer per micro-batch waits at every stage that gets an activation and at every stage that
    gets a gradient, also from a stage of the same rank, where the tensor itself takes the buffer's
    place. What is sent to another rank stays alive until the step ends, because only then does the
    runtime wait for its sends.
    """
    rows = grouped_rows(text)
    owner = {action.stage: rank for rank, row in enumerate(rows) for cell in row for action in cell}
    last, curves = max(owner), []
    for rank, row in enumerate(rows):
        mine = [stage for stage in owner if owner[stage] == rank]
        live = sum(microbatches * boundary * ((stage > 0) + (stage < last)) for stage in mine)
        curve = []
        for action in (action for cell in row for action in cell):
            live += _change(action, stages[action.stage], boundary, last, owner)
            curve.append((str(action), live))
        curves.append(curve)
    return curves


def _change(action: Action, stage: StageBytes, boundary: int, last: int, owner: dict[int, int]) -> int:
    rank = owner[action.stage]
    output_stays = boundary if action.stage < last else 0  # sent, or now the next stage's buffer
    replaces_buffer = boundary if owner.get(action.stage + 1) == rank else 0
    gradient_sent = boundary if action.stage > 0 and owner[action.stage - 1] != rank else 0
    by_input = 0 if action.stage == 0 else stage.by_input
    rest = stage.kept - stage.stays - output_stays
    return {
        "F": stage.kept - replaces_buffer,
        "I": gradient_sent - by_input,
        "W": by_input - rest,
        "B": gradient_sent - rest,
    }[action.kind]
