"""Broken schedules, one fault class of `trainwright schedule check` at a time.

Each breaker takes a valid schedule apart in one place chosen by a seeded coin and returns the rows of
a broken one, or None when this schedule has no such place. Rows are lists of cells (text).
"""
import dataclasses
import random

import making

from trainwright.engine.schedule_csv import COMPUTE_KINDS, Action, parse_cell, schedule_text

Rows = list[list[str]]
# From a stage with a transfer to the stage at the transfer's other end.
_WAY = {"SEND_F": 1, "RECV_B": 1, "SEND_B": -1, "RECV_F": -1}


@dataclasses.dataclass(frozen=True)
class Broken:
    fault: str       # the checker's class
    way: str         # what was done to the schedule
    text: str
    microbatches: int
    expected: tuple[str, ...]  # outcomes on the engine


def lowered(text: str) -> Rows:
    """The rows with transfers and gradient scaling, by PyTorch's own lowering."""
    from torch.distributed.pipelining import schedules
    rows = {rank: [schedules._Action.from_str(cell) for cell in line.split(",")] for rank, line in enumerate(text.splitlines())}
    owner = {action.stage_index: rank for rank, row in rows.items() for action in row}
    microbatches = 1 + max(action.microbatch_index for row in rows.values() for action in row)
    scaled = {rank: schedules._add_reduce_grad(row, microbatches) for rank, row in rows.items()}
    full = schedules._add_send_recv(scaled, stage_to_rank=owner.__getitem__, num_stages=len(owner))
    return [[str(action) for action in full[rank]] for rank in sorted(full)]


def _cells(rows: Rows, kinds) -> list[tuple[int, int, Action]]:
    """(rank, place, action) of all actions of these kinds."""
    found = []
    for rank, row in enumerate(rows):
        for place, cell in enumerate(row):
            action = parse_cell(cell)[0]
            if action.kind in kinds:
                found.append((rank, place, action))
    return found


def _pick(coin: random.Random, found: list):
    return coin.choice(found) if found else None


def blank_row(rows: Rows, coin) -> Rows:
    return rows + [[]]


def stage_gap(rows: Rows, coin) -> Rows:
    rank, place, action = coin.choice(_cells(rows, COMPUTE_KINDS))
    rows[rank][place] = str(dataclasses.replace(action, stage=action.stage + 50))
    return rows


def microbatch_beyond(rows: Rows, coin) -> Rows:
    """All actions of one stage's micro-batch are renamed, so PyTorch's counts still add up."""
    _, _, chosen = coin.choice(_cells(rows, "F"))
    for rank, place, action in _cells(rows, COMPUTE_KINDS):
        if (action.stage, action.microbatch) == (chosen.stage, chosen.microbatch):
            rows[rank][place] = str(dataclasses.replace(action, microbatch=action.microbatch + 20))
    return rows


def other_rank(rows: Rows, coin) -> Rows | None:
    rank, place, _ = coin.choice(_cells(rows, COMPUTE_KINDS))
    if len(rows[rank]) == 1:
        return None
    cell = rows[rank].pop(place)
    other = coin.choice([r for r in range(len(rows)) if r != rank])
    rows[other].insert(coin.randrange(len(rows[other]) + 1), cell)
    return rows


def twice(kind: str):
    def broken(rows: Rows, coin) -> Rows | None:
        if not (chosen := _pick(coin, _cells(rows, kind))):
            return None
        rank, place, action = chosen
        rows[rank].insert(place + 1, str(action))
        return rows
    return broken


def mixed_backward(rows: Rows, coin) -> Rows | None:
    """A micro-batch gets a whole backward besides its split one, another loses its whole one: the
    counts that PyTorch compares stay right."""
    whole = _cells(rows, "B")
    pairs = [(lost, (rank, place, w)) for lost in whole for rank, place, w in _cells(rows, "W") if w.stage == lost[2].stage]
    if not (chosen := _pick(coin, pairs)):
        return None
    (lost_rank, lost_place, _), (rank, place, weight) = chosen
    rows[rank].insert(place + 1, str(dataclasses.replace(weight, kind="B")))
    rows[lost_rank].pop(lost_place + (1 if place + 1 <= lost_place else 0))
    return rows


def missing(kind: str):
    def broken(rows: Rows, coin) -> Rows | None:
        found = [one for one in _cells(rows, [kind]) if len(rows[one[0]]) > 1]
        if not (chosen := _pick(coin, found)):
            return None
        rows[chosen[0]].pop(chosen[1])
        return rows
    return broken


def backward_first(rows: Rows, coin) -> Rows | None:
    """F and its backward, or I and its W, change places on their rank."""
    places = {(a.stage, a.kind, a.microbatch): (rank, place) for rank, place, a in _cells(rows, COMPUTE_KINDS)}
    pairs = []
    for (stage, kind, m), where in places.items():
        for later in {"F": "IB", "I": "W"}.get(kind, ""):
            if (stage, later, m) in places:
                pairs.append((where, places[stage, later, m]))
    (rank, first), (_, second) = coin.choice(pairs)
    rows[rank][first], rows[rank][second] = rows[rank][second], rows[rank][first]
    return rows


def losses_swapped(rows: Rows, coin) -> Rows | None:
    """Micro-batches k and k+1 are exchanged in all actions of the last stage except its backward:
    F runs out of order with everything else in place. Only where both F come before both backwards
    and after both inputs have arrived, which holds when the two F are neighbours."""
    last = max(action.stage for _, _, action in _cells(rows, "F"))
    forwards = [(rank, place, a) for rank, place, a in _cells(rows, "F") if a.stage == last]
    pairs = [(one, two) for one, two in zip(forwards, forwards[1:]) if two[1] == one[1] + 1]
    if not (chosen := _pick(coin, pairs)):
        return None
    (rank, first, _), (_, second, _) = chosen
    rows[rank][first], rows[rank][second] = rows[rank][second], rows[rank][first]
    return rows


def dependent_pair(rows: Rows, coin) -> Rows | None:
    """F and backward of the same micro-batch of the last stage in one overlapped pair."""
    last = max(action.stage for _, _, action in _cells(rows, "F"))
    found = []
    for rank, place, action in _cells(rows, "F"):
        if action.stage == last and place + 1 < len(rows[rank]):
            follower = parse_cell(rows[rank][place + 1])[0]
            if follower.stage == last and follower.microbatch == action.microbatch and follower.kind == "B":
                found.append((rank, place))
    if not (chosen := _pick(coin, found)):
        return None
    rank, place = chosen
    rows[rank][place : place + 2] = [f"({rows[rank][place]};{rows[rank][place + 1]})OVERLAP_F_B"]
    return rows


def stray_send(rows: Rows, coin) -> Rows | None:
    """One SEND in a file of compute actions."""
    found = [one for one in _cells(rows, "F") if one[2].stage + 1 < 1 + max(a.stage for _, _, a in _cells(rows, "F"))]
    if not (chosen := _pick(coin, found)):
        return None
    rank, place, action = chosen
    rows[rank].insert(place + 1, str(dataclasses.replace(action, kind="SEND_F")))
    return rows


def transfer_twice(kind: str):
    return lambda rows, coin: twice([kind])(rows, coin)


def transfer_to_itself(rows: Rows, coin) -> Rows | None:
    """A SEND between two stages of one rank, which hand over without one."""
    owner = {a.stage: rank for rank, _, a in _cells(rows, "F")}
    found = [one for one in _cells(rows, "F") if owner.get(one[2].stage + 1) == one[0]]
    if not (chosen := _pick(coin, found)):
        return None
    rank, place, action = chosen
    rows[rank].insert(place + 1, str(dataclasses.replace(action, kind="SEND_F")))
    return rows


def sends_swapped(rows: Rows, coin) -> Rows | None:
    """Two sends of one direction from one rank to one other change places, after both producers:
    the receiver takes them in the old order and cannot tell."""
    owner = {a.stage: rank for rank, _, a in _cells(rows, "F")}
    found = []
    for kind in ("SEND_F", "SEND_B"):
        sends = _cells(rows, [kind])
        for one, two in zip(sends, sends[1:]):
            same_pair = one[0] == two[0] and owner[one[2].stage + _WAY[kind]] == owner[two[2].stage + _WAY[kind]]
            if same_pair and one[2] != two[2]:
                found.append((one, two))
    if not (chosen := _pick(coin, found)):
        return None
    (rank, first, early), (_, second, late) = chosen
    rows[rank].insert(second + 1, str(early))
    rows[rank].pop(first)
    return rows


def waits_for_itself(rows: Rows, coin) -> Rows | None:
    """A RECV and its backward move before the SEND of the forward that they depend on."""
    found = []
    for rank, place, send in _cells(rows, ["SEND_F"]):
        receive = str(Action(send.stage, "RECV_B", send.microbatch))
        later = [i for i, cell in enumerate(rows[rank]) if i > place and cell in
                 (receive, str(Action(send.stage, "B", send.microbatch)), str(Action(send.stage, "I", send.microbatch)))]
        if len(later) == 2:
            found.append((rank, place, later))
    if not (chosen := _pick(coin, found)):
        return None
    rank, place, later = chosen
    moved = [rows[rank][i] for i in later]
    rest = [cell for i, cell in enumerate(rows[rank]) if i not in later]
    rows[rank] = rest[:place] + moved + rest[place:]
    return rows


def both_send_first(rows: Rows, coin) -> Rows | None:
    """A RECV moves behind the next SEND to the same peer, whose own SEND waits for it likewise: fine
    while sends do not block (Gloo), a deadlock when they do."""
    owner = {a.stage: rank for rank, _, a in _cells(rows, "F")}
    found = []
    for rank, place, receive in _cells(rows, ["RECV_F", "RECV_B"]):
        peer = owner[receive.stage + _WAY[receive.kind]]
        for later in range(place + 1, len(rows[rank])):
            action = parse_cell(rows[rank][later])[0]
            if action.kind in COMPUTE_KINDS and (action.stage, action.microbatch) == (receive.stage, receive.microbatch):
                break  # It takes what was received.
            if action.kind not in _WAY or owner[action.stage + _WAY[action.kind]] != peer:
                continue
            if action.kind.startswith("RECV"):
                break  # Receives from one peer must keep their order.
            found.append((rank, place, later))
    if not (chosen := _pick(coin, found)):
        return None
    rank, place, later = chosen
    rows[rank].insert(later, rows[rank].pop(place))
    return rows


# (fault class, what is done, breaker, whether the file has transfers, what the engine then does:
# unreadable (our reader), refused (PyTorch will not load it), failed (it raises), hung, wrong (silently
# another gradient or loss), right (harmless here). A peer of a rank that fails may hang or be wrong
# first, and some places are harmless, hence several.)
BREAKERS = (
    ("Shape", "a blank row", blank_row, False, "unreadable"),
    ("StageOutOfRange", "a stage far beyond the others", stage_gap, False, "unreadable"),
    ("MicroBatchOutOfRange", "a micro-batch beyond the last", microbatch_beyond, False, "refused failed"),
    ("WrongRank", "an action on another rank", other_rank, False, "refused unreadable"),
    ("Duplicate", "F twice", twice("F"), False, "failed hung right"),
    ("Duplicate", "W twice", twice("W"), False, "failed"),
    ("Duplicate", "B twice", twice("B"), False, "failed"),
    ("MixedBackward", "B besides I and W, elsewhere none", mixed_backward, False, "refused failed"),
    ("Missing", "no F", missing("F"), False, "refused"),
    ("Missing", "no W", missing("W"), False, "refused"),
    ("Missing", "no REDUCE_GRAD", missing("REDUCE_GRAD"), True, "wrong"),
    ("OutOfOrder", "backward before forward, W before I", backward_first, False, "refused"),
    ("LossOrder", "last stage forward out of order", losses_swapped, False, "wrong"),
    ("Group", "F overlapped with its own B", dependent_pair, False, "right"),
    ("NotCompute", "one SEND among compute actions", stray_send, False, "failed"),
    ("TransferMissing", "no SEND", missing("SEND_F"), True, "hung"),
    ("TransferMissing", "no RECV", missing("RECV_B"), True, "failed"),
    ("TransferUnneeded", "SEND twice", transfer_twice("SEND_F"), True, "hung"),
    ("TransferUnneeded", "SEND within a rank", transfer_to_itself, True, "failed"),
    ("TransferOrder", "two sends change places", sends_swapped, True, "wrong hung"),
    ("Deadlock", "a backward before the send it depends on", waits_for_itself, True, "hung failed"),
    # Gloo's sends do not block. Where they do (NCCL), this stands still.
    ("Deadlock", "both ranks send before they receive", both_send_first, True, "right"),
)


def outcome(answer: dict) -> str:
    """What the engine did: the answer's status, or for one that ran whether it was right."""
    if answer["status"] != "ran":
        return answer["status"]
    loss_right = abs(answer["loss"] - answer["reference_loss"]) <= 1e-12 * abs(answer["reference_loss"])
    return "right" if loss_right and answer["gradient_difference"] <= 1e-12 else "wrong"


def broken_schedules(count: int, seed: int = 0) -> list[Broken]:
    """`count` of them, the breakers taking turns over fresh random schedules."""
    made: list[Broken] = []
    while len(made) < count:
        fault, way, breaker, transfers, expected = BREAKERS[len(made) % len(BREAKERS)]
        for seed in range(seed + 1, seed + 1000):
            text, microbatches = making.random_schedule(seed, 2 + seed % 3)
            if microbatches < 2:
                continue
            rows = lowered(text) if transfers else [line.split(",") for line in text.splitlines()]
            broken = breaker(rows, random.Random(seed))
            if broken is not None:
                made.append(Broken(fault, way, schedule_text(broken), microbatches, tuple(expected.split())))
                break
        else:
            raise ValueError(f"no schedule can be broken by: {way}")
    return made
