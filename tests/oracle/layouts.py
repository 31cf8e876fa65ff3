"""Random layouts, plausible or not, and what the program makes of them."""
import concurrent.futures
import dataclasses
import json
import math

from program import answered

MODELS = {  # name: layers, whether some of them have experts
    "llama-3.1-8b": (32, False), "llama-3.2-1b": (16, False), "qwen2.5-7b": (28, False), "mixtral-8x7b": (32, True),
    "qwen3-30b-a3b": (48, True), "deepseek-v2-lite": (27, True), "deepseek-v3": (61, True)}
MODEL_KEYS = {"ep", "etp"}  # of models with experts
BATCH = {"seq": [4096, 4096, 8192, 4100, 4098], "mbs": [1, 1, 2, 3], "gbs": [64, 128, 256, 512, 384, 100]}
DEGREES = {"tp": [1, 1, 2, 2, 4, 4, 8, 16, 3, 6], "pp": [1, 1, 2, 2, 4, 4, 8, 3, 7], "cp": [1, 1, 1, 2, 4, 3],
           "vpp": [1, 1, 1, 2, 2, 4, 3, 7], "ep": [1, 2, 4, 8, 8, 16, 3], "etp": [1, 1, 2, 4], "sp": [True, True, None]}


@dataclasses.dataclass
class Space:
    """What layouts of one trainer are drawn from. A value of None leaves the key out."""
    trainer: str  # with its version
    values: dict  # key: what it may be, each as likely as it is often
    chances: dict  # key: how often it is there at all
    models: tuple = tuple(MODELS)
    accelerators: tuple = ("H100",) * 4 + ("B200", "A100")
    settle: callable = lambda layout: layout  # what goes together whatever is drawn


def drawn_value(space, key, pick, layers, pp):
    usual = layers // max(pp, 1)
    if key == "layers":  # of as many stages, one too many or too few now and then
        counts = [layers // pp] * pp
        counts[-1] += layers - sum(counts) + pick.choice([0, 0, 0, 1, -1])
        return counts
    return pick.choice({"first_layers": [None, usual, usual - 1, 3], "last_layers": [None, usual, usual - 1, 2],
                        "micro_batch_group": [None, pp, pp + 1, 2 * pp]}.get(key) or space.values[key])


def settled(space, layout):
    layout = space.settle({key: value for key, value in layout.items() if value is not None})
    return {key: value for key, value in layout.items() if value is not None}


def random_case(space, pick):
    """One whose degrees fill the cluster: no other can even be read."""
    while True:
        model = pick.choice(sorted(space.models))
        layers, experts = MODELS[model]
        layout = {}
        for key, chance in space.chances.items():
            if pick.random() < chance and (experts or key not in MODEL_KEYS):
                layout[key] = drawn_value(space, key, pick, layers, layout.get("pp", 1))
        case = {"model": model, "gpu": pick.choice(space.accelerators), "nodes": pick.choice([1, 2, 4, 6, 8]),
                "layout": settled(space, layout)}
        if replicas(case):
            return case


def replicas(case):
    """How many ranks see data of their own, or None if the degrees do not fill the cluster."""
    whole, rest = divmod(case["nodes"] * 8, math.prod(case["layout"].get(key, 1) for key in ("tp", "pp", "cp")))
    return None if rest else whole


def batch_splits(case):
    """What no trainer goes without, so that layouts without it need not be asked about."""
    ranks, layout = replicas(case), case["layout"]
    return ranks is not None and layout["gbs"] % (layout["mbs"] * ranks) == 0


def changed_case(space, pick, case):
    """One key drawn anew."""
    layers, experts = MODELS[case["model"]]
    key = pick.choice([key for key in space.chances if experts or key not in MODEL_KEYS])
    value = drawn_value(space, key, pick, layers, case["layout"].get("pp", 1))
    return case | {"layout": settled(space, case["layout"] | {key: value})}


def layout_text(layout):
    """As the program reads it; the optimizer is the job's."""
    parts = []
    for key, value in layout.items():
        if key == "optimizer":
            continue
        if isinstance(value, list):
            value = ("/" if key == "layers" else "+").join(map(str, value))
        parts.append(key if value is True else f"{key}={value}")
    return ",".join(parts)


def case_text(case):
    return (f"{case['model']} on {case['nodes'] * 8}x{case['gpu']} {layout_text(case['layout'])} "
            f"optimizer={case['layout'].get('optimizer', 'adamw')}")


def export_words(space, case, *options):
    return ["export", layout_text(case["layout"]), "--model", case["model"], "--on", f"{case['nodes'] * 8}x{case['gpu']}",
            "--trainer", space.trainer, "--job", f"optimizer={case['layout'].get('optimizer', 'adamw')}", "--json", *options]


def all_exported(space, cases, *options):
    """What `export` answers, without cases that cannot even be read, and without those that the trainer has no words for:
    it cannot be asked about them. One process answers half of them, and one the other."""
    questions = [export_words(space, case, *options) for case in cases]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        even, odd = pool.map(answered, (questions[::2], questions[1::2]))
    answers = [(odd if place % 2 else even)[place // 2] for place in range(len(cases))]
    read = [(case, json.loads(output)) for case, (exit_code, output, _) in zip(cases, answers) if exit_code < 2]
    return [(case, answer) for case, answer in read if not answer.get("cannot_be_said")]


def half_near_legal(space, pick, count):
    """So many cases with our verdict and the settings: random ones, then some that are one change from a legal one."""
    asked = all_exported(space, [random_case(space, pick) for _ in range(count // 2)], "--only-settings")
    legal = [case for case, answer in asked if answer["legal"]]
    assert legal, "no random layout is legal"
    changed = [changed_case(space, pick, pick.choice(legal)) for _ in range(count - len(asked))]
    return asked + all_exported(space, changed, "--only-settings")


def legal_exports(space, pick, count):
    """So many legal cases with the files of their export: a third random, the others one change from one before."""
    found = {}  # by their text: none twice
    for _ in range(100):
        near = [case for case, _ in found.values()] if len(found) > count // 3 else []
        drawn = [changed_case(space, pick, pick.choice(near)) if near else random_case(space, pick) for _ in range(count)]
        new = {case_text(case): case for case in drawn if batch_splits(case) and case_text(case) not in found}
        asked = all_exported(space, list(new.values()))
        found |= {case_text(case): (case, answer) for case, answer in asked if answer["legal"]}
        if len(found) >= count:
            break
    return list(found.values())[:count]
