"""The package as a guest in somebody's process. Runs where a wheel is installed (tools/check/try_wheel.sh)."""
import concurrent.futures
import copy
import doctest
import importlib
import importlib.metadata
import multiprocessing
import pathlib
import pickle
import signal
import subprocess
import sys
import threading
import time

import pytest
import trainwright

PACKAGE = pathlib.Path(trainwright.__file__).parent
FORBIDDEN = ("cholmod", "spqr", "suitesparse", "cxsparse", "amd.so", "colamd", "atlas", "blas", "lapack", "gfortran",
             "quadmath", "gomp")


@pytest.mark.parametrize("module", ["trainwright", "trainwright._ask", "trainwright.layout", "trainwright.questions"])
def test_examples_in_docstrings_are_true(module):
    assert doctest.testmod(importlib.import_module(module)).failed == 0


def test_the_version_is_that_of_the_program_and_of_the_wheel():
    assert trainwright.__version__ == importlib.metadata.version("trainwright")
    assert trainwright.ask("list", "families")["made_by"]["version"] == trainwright.__version__
    with pytest.raises(AttributeError, match="no attribute 'version'"):
        trainwright.version


def test_nothing_but_the_engine_imports_pytorch_or_pandas():
    script = ("import sys, trainwright; trainwright.plan('llama-2-7b', on='8xH100', batch=64, seq=4096).rows(); "
              "print({'torch', 'pandas', 'numpy', 'transformers'} & set(sys.modules))")
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "set()\n"


def test_no_library_under_the_gpl_is_inside():
    names = [path.name.lower() for path in PACKAGE.parent.glob("trainwright*/**/*") if ".so" in path.name]
    assert len(names) > 3
    assert not [name for name in names if any(one in name for one in FORBIDDEN)]


def test_other_threads_run_while_a_question_is_answered():
    answered = threading.Event()

    def work():
        trainwright.plan("llama-3.1-70b", on="64xH100", batch=1024, seq=8192)
        answered.set()
    thread = threading.Thread(target=work)
    thread.start()
    turns = 0
    while not answered.is_set():
        turns += 1
        time.sleep(0.001)
    thread.join()
    assert turns > 20  # it takes tenths of a second; one turn if the lock were held


def test_control_c_ends_a_search_and_leaves_nothing_running():
    script = ("import trainwright\n"
              "print('asking', flush=True)\n"
              "try:\n"
              "    trainwright.plan('deepseek-v3', on='16384xH100', batch=15360, seq=4096, top=100)\n"
              "except KeyboardInterrupt:\n"
              "    print('interrupted', flush=True)\n")
    # Shells have their background jobs ignore Ctrl-C, and these tests with them.
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True,
                          preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) as process:
        assert process.stdout.readline() == "asking\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        begin = time.monotonic()
        assert process.stdout.readline() == "interrupted\n"
        assert process.wait(timeout=60) == 0
        assert time.monotonic() - begin < 10  # the search takes thirteen, alone on its core


def test_control_c_that_nobody_catches_leaves_a_traceback_and_nothing_else():
    script = ("import trainwright; print('asking', flush=True); "
              "trainwright.plan('deepseek-v3', on='16384xH100', batch=15360, seq=4096, top=100)")
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) as process:
        assert process.stdout.readline() == "asking\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1]
    assert said.endswith("KeyboardInterrupt\n") and "leaked" not in said


ASKED = {"on": "8xH100", "layout": {"tp": 2, "gbs": 64, "seq": 4096}}


def parameters_of(model):
    return trainwright.ask("show", "model", model)["parameters"]["total"]


def fault_of(model="nope"):
    with pytest.raises(trainwright.Error) as caught:
        parameters_of(model)
    return caught.value


def test_an_error_survives_pickle_and_copies():
    error = fault_of()
    error.where = "added later"
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(other) is trainwright.Error
        assert str(other) == str(error) and other.diagnostics == error.diagnostics and other.where == "added later"


def test_one_unknown_model_leaves_a_process_pool_at_work():
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        good, bad, other = [pool.submit(parameters_of, model) for model in ("qwen3-8b", "nope", "qwen3-4b")]
        assert good.result(timeout=120) > other.result(timeout=120)
        with pytest.raises(trainwright.Error) as caught:
            bad.result(timeout=120)
    assert caught.value.diagnostics == fault_of().diagnostics
    with multiprocessing.Pool(2) as pool:
        results = pool.map_async(parameters_of, ["qwen3-8b", "nope"])
        with pytest.raises(trainwright.Error):
            results.get(timeout=120)  # its thread of results died, and this waited for ever
        assert pool.apply_async(parameters_of, ("qwen3-8b",)).get(timeout=120) == parameters_of("qwen3-8b")


@pytest.mark.parametrize("word", ["-h", "--help", "--version", "--json", "--", "-"])
def test_a_model_or_a_layout_is_never_an_option(word):
    for ask in (lambda: trainwright.estimate(word, **ASKED), lambda: trainwright.plan(word, on="8xH100", batch=64, seq=4096),
                lambda: trainwright.plan(word, on="8xH100", batch=64, seq=4096, fix=["pp=1"]),
                lambda: trainwright.export(word, model="llama-2-7b", on="8xH100"),
                lambda: trainwright.replay(word), lambda: trainwright.schedule(word, ranks=2, microbatches=2),
                lambda: trainwright.estimate("llama-2-7b", on=word, layout="tp=2"),
                lambda: trainwright.export("tp=2", model=word, on="8xH100")):
        with pytest.raises(trainwright.Error) as caught:
            ask()
        assert any(word in one.where + one.what for one in caught.value.diagnostics)


def test_a_sweep_goes_on_over_layouts_that_do_not_fill_the_cluster():
    found = {tp: trainwright.estimate("llama-2-7b", on="8xH100", layout={"tp": tp, "gbs": 64, "seq": 4096}) for tp in (1, 2, 3, 16)}
    assert [tp for tp, one in found.items() if one.legal] == [1, 2]
    assert {one.id for one in found[3].violations} >= {"world-splits"} and not found[3].memory
    assert found[16].violations[0].reason.endswith("16 ranks, the cluster has 8 accelerators")
