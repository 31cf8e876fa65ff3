#!/usr/bin/env python3
"""Runs notebooks without Jupyter: code cells one after the other, what they print and their last value as output.

  tests/wheel/notebook.py NOTEBOOK...    runs them and writes their outputs down, in an environment with the wheel
"""
import ast
import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile


def shown(value):
    if value is None:
        return []
    data = {"text/plain": repr(value).splitlines(keepends=True)}
    if hasattr(value, "_repr_html_"):
        data = {"text/html": value._repr_html_().splitlines(keepends=True), "text/plain": [f"<{type(value).__name__}>"]}
    return [{"output_type": "execute_result", "data": data, "metadata": {}}]


def run_cell(source, names):
    tree = ast.parse(source)
    last = ast.Expression(tree.body.pop().value) if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        value = eval(compile(last, "cell", "eval"), names) if last else None
    text = printed.getvalue()
    outputs = [{"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)}] if text else []
    return outputs + shown(value)


def run(path):
    """The notebook with the outputs that its cells have now. They run in a folder of their own."""
    notebook = json.loads(path.read_text())
    names, here, count = {"__name__": "__main__"}, os.getcwd(), 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for cell in notebook["cells"]:
                if cell["cell_type"] != "code":
                    continue
                count += 1
                cell["execution_count"] = count
                cell["outputs"] = run_cell("".join(cell["source"]), names)
                for output in cell["outputs"]:
                    if output["output_type"] == "execute_result":
                        output["execution_count"] = count
        finally:
            os.chdir(here)
    return notebook


def text_of(notebook):
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        pathlib.Path(name).write_text(text_of(run(pathlib.Path(name))))
