"""Seconds of a model's own products, attention and collectives, as tables of kernel timings.

The shapes are those of operator lists (`trainwright show work ... --json`), at their own rows and at halves of them,
so that few layouts say how a kernel's speed grows. The tables have the columns that tools/fit/kernel_tables.py reads.
"""
import csv
import gzip
import pathlib
import statistics
import time

import torch
import torch.distributed as dist

SOURCE = "trainwright-bench"
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
HALVES = 5
LEAST_ROWS = 16
GEMM = ("source", "accelerator", "dtype", "m", "n", "k", "batch", "seconds", "tflops", "notes")
ATTENTION = ("source", "accelerator", "kernel", "version", "direction", "causal", "batch", "heads", "kv_heads", "seq",
             "head_dim", "dtype", "seconds", "tflops")
COLLECTIVES = ("source", "accelerator", "system", "library", "kind", "gpus", "nodes", "bytes", "seconds", "algbw",
               "busbw", "notes")


class BenchError(ValueError):
    """A document that holds no operator lists."""


def operators_of(document: dict) -> list[dict]:
    if not isinstance(document, dict) or not isinstance(document.get("stages"), list):
        raise BenchError("no operator lists; write them with `trainwright show work ... --json`")
    return [operator for stage in document["stages"] for piece in stage["pieces"]
            for operator in piece["list"]["operators"]]


def products_of(documents: list[dict]) -> list[tuple[int, int, int, int]]:
    """m, n, k and how many at once: forward, gradient of the input, gradient of the weights."""
    shapes = set()
    for operator in (one for document in documents for one in operators_of(document)):
        if "product" not in operator:
            continue
        of = operator["product"]
        for halving in range(HALVES):
            rows = of["rows"] >> halving
            if rows >= LEAST_ROWS:
                shapes |= {(rows, of["out"], of["in"], of["count"]), (rows, of["in"], of["out"], of["count"]),
                           (of["in"], of["out"], rows, of["count"])}
    return sorted(shapes)


def attentions_of(documents: list[dict]) -> list[tuple[int, int, int]]:
    """Heads of all sequences, keys and width of a head, causal."""
    shapes = set()
    for operator in (one for document in documents for one in operators_of(document)):
        if "attention" not in operator:
            continue
        keys, width = operator["attention"]["keys"], operator["attention"]["head_width"]
        pairs = keys * (keys + 1) / 2
        heads = round(operator["forward"]["matmul_flops"] / (4 * pairs * width))
        shapes |= {(heads, keys >> halving, width) for halving in range(HALVES) if keys >> halving >= LEAST_ROWS}
    return sorted(shape for shape in shapes if shape[0] > 0)


def collectives_of(documents: list[dict]) -> list[tuple[str, int]]:
    found = set()
    for operator in (one for document in documents for one in operators_of(document)):
        found |= {(call["kind"], call["bytes"] >> halving) for call in operator["collectives"]
                  for halving in range(HALVES) if call["kind"] in CALLS and call["bytes"] >> halving >= 4096}
    return sorted(found)


def seconds_of(call, device: torch.device, warmup: int, repeats: int) -> float:
    """The median of so many calls, each waited for."""
    wait = (lambda: torch.cuda.synchronize(device)) if device.type == "cuda" else (lambda: None)
    for _ in range(warmup):
        call()
    taken = []
    for _ in range(repeats):
        wait()
        begin = time.perf_counter()
        call()
        wait()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


def time_products(shapes, accelerator: str, dtype: str, device: torch.device, warmup: int, repeats: int):
    for m, n, k, count in shapes:
        a = torch.randn(count, m, k, device=device).to(DTYPES[dtype])
        b = torch.randn(count, k, n, device=device).to(DTYPES[dtype])
        seconds = seconds_of(lambda a=a, b=b: torch.bmm(a, b), device, warmup, repeats)
        yield (SOURCE, accelerator, dtype, m, n, k, count, seconds, 2e-12 * count * m * n * k / seconds, "torch.bmm")


def time_attention(shapes, accelerator: str, dtype: str, device: torch.device, warmup: int, repeats: int):
    attend = torch.nn.functional.scaled_dot_product_attention
    for heads, keys, width in shapes:
        query, key, value = (torch.randn(1, heads, keys, width, device=device).to(DTYPES[dtype]).requires_grad_()
                             for _ in range(3))
        with torch.no_grad():
            forward = seconds_of(lambda: attend(query, key, value, is_causal=True), device, warmup, repeats)
        result = attend(query, key, value, is_causal=True)
        gradient = torch.randn_like(result)
        backward = seconds_of(lambda: torch.autograd.grad(result, (query, key, value), gradient, retain_graph=True),
                              device, warmup, repeats)
        flops = 2.0 * heads * keys**2 * width  # 4 for a pair, half of them
        for direction, seconds, times in (("fwd", forward, 1), ("bwd", backward, 2.5)):
            yield (SOURCE, accelerator, "scaled_dot_product_attention", torch.__version__, direction, 1, 1, heads, heads,
                   keys, width, dtype, seconds, 1e-12 * times * flops / seconds)


def _all_to_all(part, whole):
    dist.all_to_all_single(torch.empty_like(whole), whole)


# By kind: the name in tables, the call on a rank's part and the whole, the share of bytes that travels.
CALLS = {
    "all-reduce": ("all_reduce", lambda part, whole: dist.all_reduce(whole), lambda n: 2 * (n - 1) / n),
    "all-gather": ("all_gather", lambda part, whole: dist.all_gather_into_tensor(whole, part), lambda n: (n - 1) / n),
    "reduce-scatter": ("reduce_scatter", lambda part, whole: dist.reduce_scatter_tensor(part, whole),
                       lambda n: (n - 1) / n),
    "all-to-all": ("alltoall", _all_to_all, lambda n: (n - 1) / n),
}


def time_collectives(shapes, accelerator: str, nodes: int, device: torch.device, warmup: int, repeats: int):
    """On every rank of the default group; the slowest rank's time counts."""
    ranks, backend = dist.get_world_size(), dist.get_backend()
    for kind, size in shapes:
        name, call, share = CALLS[kind]
        part = torch.zeros(max(1, size // 4 // ranks), device=device)
        whole = torch.zeros(part.numel() * ranks, device=device)
        own = torch.tensor([seconds_of(lambda: call(part, whole), device, warmup, repeats)], device=device)
        dist.all_reduce(own, dist.ReduceOp.MAX)
        seconds, moved = own.item(), whole.numel() * 4
        yield (SOURCE, accelerator, "", f"{backend}, torch {torch.__version__}", name, ranks, nodes, moved, seconds,
               1e-9 * moved / seconds, 1e-9 * moved * share(ranks) / seconds, "")


def write_table(folder: pathlib.Path, name: str, columns: tuple, rows: list[tuple]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with gzip.open(folder / f"{name}.csv.gz", "wt", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows([f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row] for row in rows)
