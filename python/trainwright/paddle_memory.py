"""The memory estimator that PaddlePaddle's auto tuner has a slot for.

In the tuner's configuration:

    "memory_estimation_tool": "<this file>", "max_mem_usage": 80

The tuner runs `python FILE --dp_degree 2 --mp_degree 4 ...` for every candidate and reads MB from
standard output. This file asks the program `trainwright` (found by $TRAINWRIGHT, else on PATH) and
imports nothing that is slow to start.

    TRAINWRIGHT             the program
    TRAINWRIGHT_ON          the accelerator, "A100-80GB" unless set: its context and libraries count
    TRAINWRIGHT_TRAINER     "paddlenlp" unless set
    TRAINWRIGHT_ATTENTION   "flash" unless set, as PaddleNLP's configurations switch it on

What the tuner does not say is assumed: a Llama model (gated feed-forward, as many key as query
heads), and as many micro-batches as the pipeline can hold. Recompute of `full_attn` is counted as
that of the attention's core, which keeps more. A candidate that the trainer refuses is answered
with a million GB, so that the tuner drops it, and the reason on standard error.
"""

import json
import os
import sys

USAGE = "usage: python paddle_memory.py --dp_degree N --mp_degree N --pp_degree N ..."

# The tuner's name -> what is taken when it is silent.
DEFAULTS = {
    "dp_degree": "1", "mp_degree": "1", "pp_degree": "1", "vpp_degree": "1",
    "sharding_degree": "1", "sharding_stage": "1", "use_recompute": "False",
    "micro_batch_size": "1", "recompute_granularity": "None",
    "hidden_size": "4096", "num_attention_heads": "32", "num_layers": "32",
    "max_sequence_length": "2048", "vocab_size": "32000", "intermediate_size": "11008",
}
REFUSED_MB = 10**9
RECOMPUTE = {"core_attn": "selective", "full_attn": "modules:core-attention", "full": "full",
             "None": "full"}


def read_arguments(words):
    settings = dict(DEFAULTS)
    faults = []
    for name, value in zip(words[::2], words[1::2]):
        key = name[2:]
        if not name.startswith("--") or key not in settings:
            faults.append(f"{name}: not an argument of the auto tuner; known: {', '.join(DEFAULTS)}")
        settings[key] = "1" if value == "None" and key != "recompute_granularity" else value
    if len(words) % 2:
        faults.append(f"{words[-1]}: has no value")
    for key, value in settings.items():
        if key not in ("use_recompute", "recompute_granularity") and not value.isdigit():
            faults.append(f"--{key}: {value!r} is not a whole number")
    if settings["recompute_granularity"] not in RECOMPUTE:
        faults.append(f"--recompute_granularity: {settings['recompute_granularity']!r} is none of "
                      f"{', '.join(RECOMPUTE)}")
    return settings, faults


def config_text(s):
    """A Llama config.json of these sizes."""
    fields = {"hidden_size": "hidden_size", "num_attention_heads": "num_attention_heads",
              "num_hidden_layers": "num_layers", "vocab_size": "vocab_size",
              "intermediate_size": "intermediate_size",
              "max_position_embeddings": "max_sequence_length"}
    numbers = "".join(f', "{name}": {int(s[key])}' for name, key in fields.items())
    return '{"model_type": "llama"' + numbers + "}"


def layout_text(s):
    number = {key: int(value) for key, value in s.items() if value.isdigit()}
    shards, replicas = number["sharding_degree"], number["dp_degree"]
    dp = shards * replicas
    micro_batches = 2 * number["pp_degree"] * number["vpp_degree"]
    layout = [f"tp={number['mp_degree']}", f"pp={number['pp_degree']}", f"dp={dp}",
              f"vpp={number['vpp_degree']}", f"mbs={number['micro_batch_size']}",
              f"gbs={number['micro_batch_size'] * dp * micro_batches}",
              f"seq={number['max_sequence_length']}"]
    if shards > 1:
        layout += [f"zero={number['sharding_stage']}", f"dp_replicate={replicas}"]
    if s["use_recompute"] == "True":
        layout.append("recompute=" + RECOMPUTE[s["recompute_granularity"]])
    return ",".join(layout), number["mp_degree"] * number["pp_degree"] * dp


def ask(program, arguments, text):
    """Runs the program with `text` on standard input; (exit code, what it printed)."""
    read_in, write_in = os.pipe()
    read_out, write_out = os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, read_in, 0), (os.POSIX_SPAWN_DUP2, write_out, 1),
               (os.POSIX_SPAWN_CLOSE, write_in), (os.POSIX_SPAWN_CLOSE, read_out)]
    child = os.posix_spawnp(program, [program, *arguments], os.environ, file_actions=actions)
    os.close(read_in)
    os.close(write_out)
    os.write(write_in, text.encode())
    os.close(write_in)
    with os.fdopen(read_out) as stream:
        answer = stream.read()
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), answer


def main(words):
    if words in ([], ["-h"], ["--help"]):
        print(__doc__)
        return 0
    settings, faults = read_arguments(words)
    if faults:
        print(USAGE, *faults, sep="\n", file=sys.stderr)
        return 2
    layout, ranks = layout_text(settings)
    accelerator = os.environ.get("TRAINWRIGHT_ON", "A100-80GB")
    arguments = ["estimate", "/dev/stdin", "--on", f"{ranks}x{accelerator}", "--trainer",
                 os.environ.get("TRAINWRIGHT_TRAINER", "paddlenlp"), "--layout", layout,
                 "--attention", os.environ.get("TRAINWRIGHT_ATTENTION", "flash"), "--json"]
    program = os.environ.get("TRAINWRIGHT", "trainwright")
    try:
        code, answer = ask(program, arguments, config_text(settings))
    except FileNotFoundError:
        print(f"{program}: no such program; set TRAINWRIGHT to it", file=sys.stderr)
        return 2
    if code not in (0, 1):  # 1: it does not fit that accelerator, or is refused
        return code
    answer = json.loads(answer)
    if not answer["legal"]:
        for violation in answer["violations"]:
            print(f"refused: {violation['reason']}", file=sys.stderr)
        print(REFUSED_MB)
        return 0
    print(f"{max(rank['driver'] for rank in answer['memory']['classes']) / 2**20:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
