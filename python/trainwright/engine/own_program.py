"""A user's own file of Python, as a module."""
from __future__ import annotations

import importlib.util
import types


def module_of_file(path: str) -> types.ModuleType:
    found = importlib.util.spec_from_file_location("own_program", path)
    if found is None or found.loader is None:
        raise SystemExit(f"{path}: it is not a file of Python\n  hint: name it FILE.py:FUNCTION")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module
