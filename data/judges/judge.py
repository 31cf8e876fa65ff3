"""What the judges share. A judge is a program that has a trainer's own code rule on questions, without an accelerator:

    python x_judge.py ARGUMENTS < questions.jsonl > answers.jsonl

A line has a list of questions and is answered by a line with as many answers, each null or why it is refused. Each judge is
a process of its own, since trainers need packages of their own. `check.py` asks one about an export; tests/oracle ask them
about many.
"""
import contextlib
import importlib.machinery
import inspect
import io
import json
import logging
import os
import sys
import types
import warnings


class StandIn(types.ModuleType):
    """A module of which every name is a decorator."""
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *given, **_: given[0] if given and callable(given[0]) else self.__getattr__(name)


def stand_in_for_triton():
    # PyTorch must have looked for the real one first, or its compiler believes in this one.
    import torch._dynamo
    import torch._inductor.runtime.triton_compat
    import torch.utils._triton
    torch.utils._triton.has_triton_package()
    for name in ("triton", "triton.language", "triton.language.extra", "triton.language.extra.libdevice",
                 "triton.runtime", "triton.testing"):
        module = sys.modules[name] = StandIn(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
        outer, _, inner = name.rpartition(".")
        if outer:
            setattr(sys.modules[outer], inner, module)
    sys.modules["triton"].__version__ = "3.0.0"


def refusal(verdict, question):
    """Why `verdict` raised, or None."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            verdict(question)
    except SystemExit:
        text = " ".join(said.getvalue().split())
        return f"parser: {text[:250]} ... {text[-200:]}"  # some parsers begin with the fault, some end with it
    except Exception as fault:  # whatever stops the trainer
        frame = inspect.trace()[-1]
        return (f"{type(fault).__name__}: {' '.join(str(fault).split())[:200]} "
                f"({os.path.basename(frame.filename)}:{frame.lineno})")
    return None


def answer_all(verdict):
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    answers = sys.stdout
    sys.stdout = sys.stderr
    for line in sys.stdin:
        print(json.dumps([refusal(verdict, question) for question in json.loads(line)]), file=answers, flush=True)
