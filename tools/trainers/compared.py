"""Runs of several layouts against one process: what every step printed, as a table."""
import dataclasses
import pathlib
import re
from collections.abc import Callable

DOCUMENTS = pathlib.Path(__file__).resolve().parents[2] / "docs"
MOST_OFF = 1e-4  # where weights are split over ranks, whose norms are summed in another order
Steps = list[tuple[str, str]]  # loss and norm of gradients as printed; "-" where there is none


@dataclasses.dataclass
class Case:
    name: str
    layout: str
    schedule: list[str] | None = None  # of `schedule make`
    ranks: int = 4
    more: list[str] = dataclasses.field(default_factory=list)  # words for the trainer
    differs: bool = False  # it is wrong, and known to be


class Output:
    """Prints lines as they come and keeps them for a document."""

    def __init__(self):
        self.lines: list[str] = []

    def __call__(self, line: str) -> None:
        print(line, flush=True)
        self.lines.append(line)

    def record(self, name: str, document: str = "trainers.md") -> None:
        """Between the marks of that name."""
        path = DOCUMENTS / document
        block = "\n".join([f"<!-- {name}: begin -->", "```", *self.lines, "```", f"<!-- {name}: end -->"])
        text, count = re.subn(f"<!-- {name}: begin -->.*?<!-- {name}: end -->", lambda _: block, path.read_text(), flags=re.DOTALL)
        assert count == 1, f"no marks of {name} in {path}"
        path.write_text(text)


def largest_differences(found: Steps, expected: Steps) -> list[float]:
    """Of the losses and of the norms, as decimals; infinite where steps are missing."""
    if len(found) != len(expected):
        return [float("inf")] * 2
    pairs = [[(a, b) for a, b in zip(mine, theirs) if "-" not in (a, b)] for mine, theirs in zip(zip(*found), zip(*expected))]
    return [max((round(abs(float(a) - float(b)), 5) for a, b in column), default=0) for column in pairs]


def verdict(found: Steps, expected: Steps, layout: str) -> str:
    """Equal in all printed decimals; with split weights close within 1e-4, of a norm above 1 relative to it."""
    loss, norm = largest_differences(found, expected)
    if loss == norm == 0:
        return "equal"
    split = "tp=" in layout or "fsdp" in layout
    largest = max(1.0, *(float(b) for _, b in expected if b != "-"))
    return "close" if split and loss <= MOST_OFF and norm <= MOST_OFF * largest else "differs"


def compare(cases: list[Case], train: Callable[[int, Case], Steps], say: Output) -> int:
    """How many are not as they should be; the first case is what the others are compared with."""
    width, expected, wrong = max(len(case.name) for case in cases), None, 0
    say(f"{'layout':<{width}}  loss: first, last  norm: first, last  largest difference of both")
    for number, case in enumerate(cases):
        found = train(number, case)
        expected = expected or found
        said = verdict(found, expected, case.layout)
        wrong += (said == "differs") != case.differs
        differences = "  ".join(f"{one:.5f}" for one in largest_differences(found, expected))
        say((f"{case.name:<{width}}  {found[0][0]:>7}   {found[-1][0]:>7}  {found[0][1]:>7}  {found[-1][1]:>8}"
             + (f"  {differences}  {said}" if number else "")).rstrip())
    say(f"{len(cases) - 1 - wrong} of {len(cases) - 1} as they should be, by what all {len(expected)} steps print")
    return wrong
