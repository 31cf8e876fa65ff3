"""The ten spaces of Hagemann et al. (arXiv:2311.05610), what they measured at best in each, and how the program is asked about them."""
import concurrent.futures
import dataclasses
import itertools
import json
import subprocess
import sys

WORDS = [word for word in sys.argv[1:] if not word.startswith("--")]
SVG = WORDS.pop() if "--svg" in sys.argv else None
PROGRAM = WORDS[0] if WORDS else "trainwright"
TOKENS = 4 * 1024 * 1024  # of a step, everywhere
PEAK = 312e12  # FLOP/s of an A100 in bf16, dense
MODELS = {"13B": (40, 5120, 13824, 40), "30B": (60, 6656, 17920, 52), "65B": (80, 8192, 22016, 64)}  # layers, hidden, feed-forward, heads


@dataclasses.dataclass(frozen=True, eq=False)
class Space:
    model: str
    gpus: int
    seq: int
    tp: list
    pp: list
    mbs: list
    sp: bool        # searched with sequence parallelism and without, or with recompute and without
    layout: str     # the best measured
    step: float     # seconds of it, and its MFU as they count, in percent
    mfu: float
    # How much longer the best layout against a piece of advice takes than the best with it, in percent.
    mbs_measured: float = None
    recompute_measured: float = None
    stages_measured: tuple = None  # in so many of so many pairs stages are faster, by so much on average
    sp_measured: float = None

    def __str__(self):
        return f"{self.model}, {self.gpus} GPUs, {self.seq // 1024}k"


# Step times and MFU: the sheets published with the paper (FlashAttention 2, their RMSNorm kernel); ratios: of their rows with the same
# kernels. Recompute could not use that kernel, so both sides of its ratio are without.
SPACES = [
    Space("13B", 64, 2048, [1, 2], [1, 2], [1, 2, 4, 8], False, "tp=1,pp=1,mbs=1", 26.54, 70.6, 11.9, 8.8, (1, 2, -4.9)),
    Space("13B", 128, 8192, [1, 2, 4], [1, 2, 4], [1, 2, 4], False, "tp=2,pp=2,mbs=1", 18.41, 59.4, 29.2, 12.3, (2, 2, 14.8)),
    Space("30B", 256, 2048, [1, 2, 4], [1, 2, 4], [1, 2, 4], False, "tp=2,pp=4,mbs=1", 22.67, 49.2, 7.0, 17.7, (5, 5, 17.7)),
    Space("30B", 128, 8192, [2, 4], [2, 4, 8, 16], [1, 2, 4], False, "tp=4,pp=4,mbs=1", 49.43, 51.4),
    Space("65B", 128, 2048, [2, 4, 8], [2, 4, 8], [1, 2, 4], False, "tp=2,pp=4,mbs=1", 79.31, 55.3, 4.5, 21.8, (7, 7, 19.9)),
    Space("13B", 32, 2048, [1, 2], [1, 2], [1, 2, 4, 8], True, "tp=1,pp=1,mbs=1", 53.81, 69.7, 7.1, None, (3, 4, 2.2), -12.2),
    Space("13B", 64, 8192, [1, 2, 4, 8], [1, 2, 4], [1, 2, 4], True, "tp=2,pp=2,mbs=1,sp", 34.84, 62.8, 17.9, None, (11, 11, 19.3), 0.0),
    Space("30B", 64, 2048, [1, 2, 4], [1, 2, 4], [1, 2, 4], True, "tp=1,pp=4,mbs=1", 72.00, 62.0, 0.9, None, (10, 10, 15.4), -0.9),
    Space("30B", 64, 8192, [2, 4], [2, 4, 8, 16], [1, 2, 4], True, "tp=4,pp=2,mbs=1,sp", 84.37, 60.2, None, None, None, 11.2),
    Space("65B", 64, 2048, [2, 4, 8], [2, 4, 8], [1, 2, 4], True, "tp=2,pp=4,mbs=1,sp", 147.02, 59.6, 2.0, None, (13, 13, 19.2), 3.8),
]


def model(space):
    layers, hidden, feed_forward, heads = MODELS[space.model]
    return json.dumps({"model_type": "llama", "vocab_size": 128000, "hidden_size": hidden, "intermediate_size": feed_forward,
                       "num_hidden_layers": layers, "num_attention_heads": heads})


def trainer(fused_norm=True):
    return json.dumps({"based_on": "aa-scaling@2023", "kernels": {"flash-attention": True, "fused-norm": fused_norm}})


def ask(command, space, *more, fused_norm=True):
    words = [PROGRAM, command, model(space), "--on", f"{space.gpus}xaleph-alpha", "--trainer", trainer(fused_norm), *more, "--json"]
    answer = subprocess.run(words, stdout=subprocess.PIPE, text=True)  # 1: it does not fit, which is an answer
    return json.loads(answer.stdout)


def flops(space):
    """Of one token, forward and backward, by several counts; and the number of parameters."""
    words = [PROGRAM, "show", "model", model(space), "--seq", str(space.seq), "--json"]
    answer = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return answer["flops_per_token"], answer["parameters"]["total"]


def mfu(space, count, step):
    return 100 * count * TOKENS / step / space.gpus / PEAK


def estimate(space, layout, fused_norm=True):
    """Seconds of a step and whether it fits; nothing where the trainer rejects the layout."""
    answer = ask("estimate", space, "--layout", f"{layout},zero=1,gbs={TOKENS // space.seq},seq={space.seq}", fused_norm=fused_norm)
    if not answer["legal"]:
        return None
    return answer["time"]["step"], answer["verdict"] == "fits"


@dataclasses.dataclass(frozen=True)
class Run:
    tp: int
    pp: int
    mbs: int
    sp: bool = False
    recompute: bool = False
    fused_norm: bool = True

    def layout(self):
        return f"tp={self.tp},pp={self.pp},mbs={self.mbs}{',sp' if self.sp else ''}{',recompute=full' if self.recompute else ''}"


def families(space):
    """Lists of layouts that differ in the micro-batch alone, the smallest first."""
    for tp, pp in itertools.product(space.tp, space.pp):
        kinds = [{}]
        if space.sp and tp > 1:
            kinds.append({"sp": True})
        if not space.sp:
            kinds += [{"fused_norm": False}, {"fused_norm": False, "recompute": True}]
        for kind in kinds:
            yield [Run(tp, pp, mbs, **kind) for mbs in space.mbs]


def predicted(space):
    """Seconds of all layouts of the space that fit."""
    def fitting(family):
        times = {}
        for run in family:
            answer = estimate(space, run.layout(), run.fused_norm)
            if answer and not answer[1]:
                break  # nor do larger micro-batches
            if answer:
                times[run] = answer[0]
        return times

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return {run: time for times in pool.map(fitting, families(space)) for run, time in times.items()}
