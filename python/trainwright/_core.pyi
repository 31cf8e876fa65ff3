version: str

def run(words: list[str], data: str, width: int = 80) -> tuple[int, bytes, bytes, list[tuple[str, bytes]]]:
    """Answers a command line: (exit code, output, error, [(path, content)])."""
