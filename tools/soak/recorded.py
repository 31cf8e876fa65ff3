"""What a tool prints, kept for the document that shows its last output."""
import pathlib
import re

DOCUMENTS = pathlib.Path(__file__).resolve().parents[2] / "docs"


class Output:
    """Prints lines as they come and keeps them."""

    def __init__(self):
        self.lines: list[str] = []

    def __call__(self, line: str = "") -> None:
        print(line, flush=True)
        self.lines.append(line)

    def record(self, document: str, name: str) -> None:
        """Into docs/`document`, between the marks of that name."""
        path = DOCUMENTS / document
        block = "\n".join([f"<!-- {name}: begin -->", "```", *self.lines, "```", f"<!-- {name}: end -->"])
        text, count = re.subn(f"<!-- {name}: begin -->.*?<!-- {name}: end -->", lambda _: block, path.read_text(), flags=re.DOTALL)
        if count != 1:
            raise SystemExit(f"{path} has {count} places marked {name}, not one")
        path.write_text(text)
