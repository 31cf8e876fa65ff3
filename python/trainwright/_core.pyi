version: str

class Stop:
    """Ends the search that it was given to."""

    def __init__(self) -> None: ...
    def set(self) -> None: ...

def run(words: list[str], data: str, width: int = 80, stop: Stop | None = None,
        ) -> tuple[int, bytes, bytes, list[tuple[str, bytes]]]:
    """Answers a command line: (exit code, output, error, [(path, content)])."""
