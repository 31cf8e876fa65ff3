"""`python -m trainwright.engine bench work.json --accelerator H100-SXM --out mine`."""
import argparse
import json
import os
import pathlib
import sys
import tempfile

EXAMPLE = """\
example:
  trainwright show work llama-3.1-8b --on 8xH100 --layout tp=2,sp,mbs=1,gbs=64,seq=8192 --json > work.json
  python -m trainwright.engine bench work.json --accelerator H100-SXM --ranks 8 --out mine/kernels
  tools/fit/fit_kernels.py --shared mine --all-rows --out mine/kernels.json --write

Products, attention and (with two ranks or more) collectives of these operator lists are timed on this machine, by
PyTorch on its GPUs or CPUs. Inside a torchrun of your own the same command runs as one of its processes.

exit status: 0 written, 2 bad input
"""


def add_bench(commands) -> None:
    parser = commands.add_parser("bench", help="time the products, attention and collectives of a model's own shapes",
                                 formatter_class=argparse.RawDescriptionHelpFormatter, epilog=EXAMPLE)
    parser.add_argument("work", nargs="+", help="what `trainwright show work ... --json` printed")
    parser.add_argument("--accelerator", required=True, metavar="NAME", help="as in data/accelerators: H100-SXM")
    parser.add_argument("--out", required=True, metavar="DIR", help="gemm, attention and collectives.csv.gz go there")
    parser.add_argument("--dtype", choices=("bf16", "fp16", "fp32"), default="bf16")
    parser.add_argument("--ranks", type=int, default=1, help="processes for collectives (default: 1, none are timed)")
    parser.add_argument("--nodes", type=int, default=1, help="that these processes sit on")
    parser.add_argument("--warmup", type=int, default=5, help="calls before those that count")
    parser.add_argument("--repeats", type=int, default=20, help="calls of which the median counts")
    parser.set_defaults(run=run_bench)


def _device():
    import torch
    if not torch.cuda.is_available():
        return torch.device("cpu")
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    return torch.device("cuda", torch.cuda.current_device())


def collectives(options: argparse.Namespace, documents: list[dict]) -> list[tuple]:
    """As one process of a group that is told by the environment, or by `_one_of`."""
    import torch.distributed as dist

    from . import bench
    device = _device()
    if not dist.is_initialized():
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    rows = list(bench.time_collectives(bench.collectives_of(documents), options.accelerator, options.nodes, device,
                                       options.warmup, options.repeats))
    dist.destroy_process_group()
    return rows


def _one_of(rank: int, options: argparse.Namespace, documents: list[dict], meeting: str) -> None:
    import torch.distributed as dist
    os.environ["LOCAL_RANK"] = str(rank)
    backend = "nccl" if _device().type == "cuda" else "gloo"
    dist.init_process_group(backend, init_method=f"file://{meeting}/store", rank=rank, world_size=options.ranks)
    rows = collectives(options, documents)
    if rank == 0:
        pathlib.Path(meeting, "rows.json").write_text(json.dumps(rows))


def collectives_here(options: argparse.Namespace, documents: list[dict]) -> list[tuple]:
    """By processes of this host."""
    import torch.multiprocessing
    with tempfile.TemporaryDirectory() as meeting:
        torch.multiprocessing.spawn(_one_of, (options, documents, meeting), nprocs=options.ranks)
        return json.loads(pathlib.Path(meeting, "rows.json").read_text())


def run_bench(options: argparse.Namespace) -> int:
    from . import bench
    try:
        documents = [json.loads(pathlib.Path(path).read_text()) for path in options.work]
        products, attentions = bench.products_of(documents), bench.attentions_of(documents)
    except (OSError, ValueError, KeyError) as error:
        print(f"{', '.join(options.work)}: {error}", file=sys.stderr)
        return 2
    if min(options.ranks, options.nodes, options.repeats) < 1 or options.warmup < 0:
        print("--ranks, --nodes and --repeats are at least 1, --warmup 0", file=sys.stderr)
        return 2
    of_group = "RANK" in os.environ and "WORLD_SIZE" in os.environ
    traffic = (collectives(options, documents) if of_group else
               collectives_here(options, documents) if options.ranks > 1 else [])
    if of_group and os.environ["RANK"] != "0":
        return 0
    how = (options.accelerator, options.dtype, _device(), options.warmup, options.repeats)
    folder = pathlib.Path(options.out)
    tables = {"gemm": (bench.GEMM, list(bench.time_products(products, *how))),
              "attention": (bench.ATTENTION, list(bench.time_attention(attentions, *how))),
              "collectives": (bench.COLLECTIVES, traffic)}
    for name, (columns, rows) in tables.items():
        bench.write_table(folder, name, columns, rows)
    print(f"{len(tables['gemm'][1])} products, {len(tables['attention'][1])} calls of attention and "
          f"{len(traffic)} collectives timed; tables in {folder}")
    return 0
