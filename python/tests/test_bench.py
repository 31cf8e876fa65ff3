"""Kernel timings of a model's own shapes, on this machine's CPU: the tables that fits of kernels read."""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import pytest

from trainwright.engine import bench
from trainwright.engine.__main__ import main

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/fit"))
import kernel_tables  # noqa: E402

BINARY = os.environ.get("TRAINWRIGHT_BINARY", str(ROOT / "build/release/trainwright"))
# One layer of 64 channels, 4 heads of 16 and 128 channels in the gated branch.
MODEL = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4,
         "intermediate_size": 128, "vocab_size": 256, "max_position_embeddings": 128, "rms_norm_eps": 1e-6,
         "hidden_act": "silu", "tie_word_embeddings": False}


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("work")
    (folder / "model.json").write_text(json.dumps(MODEL))
    done = subprocess.run([BINARY, "show", "work", str(folder / "model.json"), "--on", "2xH100", "--layout",
                           "tp=2,sp,mbs=1,gbs=1,seq=128", "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (folder / "work.json").write_text(done.stdout)
    return folder / "work.json"


def test_the_shapes_are_those_of_the_operator_list(work):
    documents = [json.loads(work.read_text())]
    products = bench.products_of(documents)
    # Queries, keys and values of half the heads: 128 rows, 64 in, 3 x 32 out; the gradient of its input and weights.
    assert {(128, 96, 64, 1), (128, 64, 96, 1), (64, 96, 128, 1)} <= set(products)
    assert (16, 96, 64, 1) in products and (8, 96, 64, 1) not in products  # halves, down to 16 rows
    assert (2, 128, 16) in bench.attentions_of(documents)
    # Half of 128 x 64 numbers in 2 bytes on each of two ranks, gathered: 16 KiB.
    assert ("all-gather", 16384) in bench.collectives_of(documents)


def test_the_tables_are_read_as_calls_of_the_cost_functions(work, tmp_path):
    folder = tmp_path / "kernels"
    assert main(["bench", str(work), "--accelerator", "H100-SXM", "--out", str(folder), "--ranks", "2",
                 "--warmup", "1", "--repeats", "3"]) == 0
    products = list(kernel_tables.products(folder, training=False, thin=False))
    assert len(products) == len(bench.products_of([json.loads(work.read_text())]))
    assert all(timing.seconds > 0 and timing.stack == kernel_tables.OWN for timing in products)
    with kernel_tables.gzip.open(folder / "attention.csv.gz", "rt") as file:
        assert len(file.readlines()) > 2  # short sequences: not among those that fits look at
    with kernel_tables.gzip.open(folder / "collectives.csv.gz", "rt") as file:
        rows = list(kernel_tables.csv.DictReader(file))
    assert {row["kind"] for row in rows} >= {"all_gather", "reduce_scatter"}
    assert all(float(row["seconds"]) > 0 and row["gpus"] == "2" for row in rows)
    program = pathlib.Path(os.environ.get("TRAINWRIGHT_BUILD", ROOT / "build/release")) / "kernel_times"
    if program.exists():
        seconds = kernel_tables.predicted(program, ROOT, products, ROOT / "data/calibrations/kernels.json")
        assert len(seconds) == len(products) and min(seconds) > 0


@pytest.mark.skipif(importlib.util.find_spec("scipy") is None, reason="the fit needs scipy")
def test_products_of_a_table_determine_the_constants_of_a_fit(tmp_path):
    import fit_kernels
    # 200 GFLOP/s of a peak of 400, 10 us to start a call: what is put in comes out.
    rows = [(bench.SOURCE, "mine", "bf16", m, n, k, 1, 10e-6 + 2 * m * n * k / 200e9, 0.0, "")
            for m in (64, 128, 256, 512, 1024) for n in (256, 512, 1024, 2048) for k in (256, 512, 1024, 2048)]
    bench.write_table(tmp_path, "gemm", bench.GEMM, rows)
    timings = list(kernel_tables.products(tmp_path, training=False, thin=False))
    hardware = {"peak": {"bf16": "0.4TFLOP/s"}, "memory_bandwidth": "100GB/s"}
    stacks = {kernel_tables.OWN: {"products": 1, "fp8": 1, "attention": 1, "rounding": 0.75}}
    fitted = fit_kernels.fit_products(timings, hardware, stacks)
    assert fitted["reached"] == pytest.approx(0.5, rel=0.02)
    assert fitted["start"] == pytest.approx(10, rel=0.1)


def test_other_documents_are_refused(tmp_path, capsys):
    (tmp_path / "no.json").write_text('{"layout": {}}')
    assert main(["bench", str(tmp_path / "no.json"), "--accelerator", "H100-SXM", "--out", str(tmp_path)]) == 2
    assert "trainwright show work" in capsys.readouterr().err
    assert main(["bench", str(tmp_path / "none.json"), "--accelerator", "H100-SXM", "--out", str(tmp_path)]) == 2
