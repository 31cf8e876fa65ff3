"""What one decoder layer of `transformers` keeps alive for its backward pass, storage by storage.

The layer runs alone on real CPU tensors while `trainwright.record`'s recorder follows every storage. Then
everything but the autograd graph is let go, and what is still alive is kept. How things are counted:

* The layer's input is made inside the recording and let go like the rest, so it counts if and only if the
  graph (or a checkpoint) holds it. In a stack it is the output of the layer before, which counts it nowhere
  else: a layer's output is not counted unless the layer itself saves it.
* Parameters, buffers and what the model makes once for all layers (mask, cosine and sine, positions) were
  there before and are not the layer's; `shared` lists those that the layer's graph refers to.
* States of the random generator that checkpoints save are not tensors of the device and no op makes them.
"""
import contextlib
import dataclasses
import functools
import io
import json
import sys
import time

import torch
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from trainwright.engine.recorder import Recorder, _storages
from trainwright.engine.trace import TraceWriter

DTYPES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16", torch.int64: "int64",
          torch.int32: "int32", torch.bool: "bool", torch.uint8: "uint8", torch.int8: "int8"}


@dataclasses.dataclass(frozen=True)
class Kept:
    """One storage. `made_by`: the op, or "input"; `result`: which of the op's; `savers`: autograd nodes that
    hold it, with their field."""
    size: int
    dtype: str
    made_by: str
    result: int
    module: str
    savers: tuple[str, ...]

    @property
    def kind(self) -> tuple[int, str]:
        return self.size, self.dtype


@dataclasses.dataclass(frozen=True)
class Layer:
    """A layer to run: `config` is the content of a config.json, `index` its place in the model. `recompute`: none,
    full (the layer), selective (the attention core), op-selective (torchtitan's policy)."""
    config: dict
    index: int = 0
    batch: int = 1
    sequence: int = 16
    dtype: torch.dtype = torch.bfloat16
    attention: str = "sdpa"
    recompute: str = "none"
    autocast: bool = False  # weights of `dtype`, products in bf16


class DtypedRecorder(Recorder):
    """Remembers the dtype with which a storage was made."""

    def __init__(self, writer: TraceWriter):
        super().__init__(writer, fake=False)
        self.dtypes: dict[int, str] = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        results = super().__torch_dispatch__(function, types, args, kwargs)
        if results is not NotImplemented:
            self._note(results)
        return results

    def _note(self, results) -> None:
        for tensor in torch.utils._pytree.tree_leaves(results):
            if isinstance(tensor, torch.Tensor):
                number = self.number(tensor)
                if number is not None:
                    self.dtypes.setdefault(number, DTYPES[tensor.dtype])

    def number(self, tensor: torch.Tensor) -> int | None:
        return self._number_of.get(_storages(tensor)[0]._cdata)


class Watch:
    """Follows storages made while it is entered: `with Watch(module, *others) as watch: outputs = run(watch.input(x));
    kept = watch.kept(outputs.pop())`. `others` are there before and do not count."""

    def __init__(self, module: torch.nn.Module, *others):
        self._file = io.StringIO()
        self._writer = TraceWriter(self._file, "layer", "cpu")
        self._recorder = DtypedRecorder(self._writer)
        self._recorder.exist(module, others)
        self._before = self._writer.storages
        self._input: int | None = None
        self._input_size = 0
        self._leaf: int | None = None
        self.node = None  # Holds the graph.

    def __enter__(self):
        self._recorder.__enter__()
        return self

    def __exit__(self, *exception):
        self._recorder.__exit__(*exception)

    def input(self, x: torch.Tensor) -> torch.Tensor:
        """A copy of x that nothing but its users hold, as if an earlier layer had made it."""
        leaf = x.detach().clone().requires_grad_()
        made = leaf * 1
        self._input, self._input_size = self._recorder.number(made), made.untyped_storage().nbytes()
        self._leaf = self._recorder.number(leaf)
        return made

    def kept(self, output: torch.Tensor, checkpointed: bool = False) -> list[Kept]:
        """Call with the only reference that is left: `watch.kept(outputs.pop())`. To look at what a checkpoint
        saves is to run it again, so there nobody is asked for savers."""
        self.node = output.grad_fn
        savers = {} if checkpointed else _savers(self.node, self._recorder)
        del output
        return [self.describe(number, savers) for number in self._settled(savers)]

    def backward(self, gradient: torch.Tensor) -> None:
        """The whole backward pass, from the graph that is left."""
        torch.autograd.backward([torch.autograd.graph.GradientEdge(self.node, 0)], [gradient])

    def saved(self, node) -> list[int]:
        """Numbers of the storages that the graph holds, whoever else does."""
        return sorted(number for number in _savers(node, self._recorder) if number >= self._before)

    def mark(self, text: str) -> int:
        """What `reads` counts from here on is for this text. The number that the next storage will have."""
        self._writer.mark(text)
        return self._writer.storages

    def number(self, tensor: torch.Tensor) -> int | None:
        return self._recorder.number(tensor)

    def alive_numbers(self) -> list[int]:
        """Storages alive now that were not there before. FSDP frees by resizing to nothing."""
        return [number for number in range(self._before, self._writer.storages)
                if number != self._leaf and self._writer.is_alive(number) and self._writer.size_of(number) > 0]

    def _settled(self, savers, patience: float = 2.0) -> list[int]:
        """`alive_numbers`, once Gloo's threads have let go: they hold what they reduced for a moment after it was
        waited for. What only they hold has no saver; what is still there in the end is kept by something else."""
        end = time.monotonic() + patience
        makers = self._makers()
        while True:
            alive = self.alive_numbers()
            held = [number for number in alive if number not in savers and "c10d" in makers.get(number, ("",))[0]]
            if not held or time.monotonic() > end:
                return alive
            time.sleep(0.01)

    def describe(self, number: int, savers=None) -> Kept:
        """Also of one that has died since."""
        op, result, module, size = ("input", 0, "", self._input_size) if number == self._input else self._makers()[number]
        return Kept(size, self._recorder.dtypes[number], op, result, module, tuple(sorted((savers or {}).get(number, ()))))

    def reads(self) -> dict[str, set[int]]:
        """Storages that ops have read since each mark; views read nothing."""
        found: dict[str, set[int]] = {"": set()}
        since = ""
        for value, texts in self._events():
            if value[0] == 5:
                since = texts[value[1]]
                found.setdefault(since, set())
            elif value[0] == 0 and not _is_view(texts[value[1]]):
                found[since] |= set(value[5:5 + value[4]])
        return found

    def _makers(self) -> dict[int, tuple[str, int, str, int]]:
        """The op that made each storage, as which of its results, in which module, and how large."""
        made: dict[int, tuple[str, int, str, int]] = {}
        for value, texts in self._events():
            if value[0] == 0:
                module = texts[value[3]] if value[3] >= 0 else ""
                reads = 4 + 1 + value[4]
                writes = reads + 1 + value[reads]
                for place in range(value[writes]):
                    number, size = value[writes + 1 + 3 * place], value[writes + 2 + 3 * place]
                    made[number] = texts[value[1]], place, module, size
        return made

    def _events(self):
        texts: list[str] = []
        for line in self._file.getvalue().splitlines()[1:]:
            value = json.loads(line)
            if isinstance(value, str):
                texts.append(value)
            else:
                yield value, texts


def _is_view(op: str) -> bool:
    space, name, overload = op.split(".")
    return getattr(getattr(getattr(torch.ops, space), name), overload).is_view


def _savers(node, recorder: DtypedRecorder) -> dict[int, set[str]]:
    """Who saves what, by a walk over the graph."""
    found: dict[int, set[str]] = {}
    seen, stack = set(), [node]
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        stack += [following for following, _ in node.next_functions]
        for name in dir(node):
            if not name.startswith("_raw_saved_"):
                continue
            field = name.removeprefix("_raw_saved_")
            with contextlib.suppress(RuntimeError, AttributeError):
                values = getattr(node, "_saved_" + field)
                for value in values if isinstance(values, (tuple, list)) else (values,):
                    if isinstance(value, torch.Tensor):
                        number = recorder.number(value)
                        if number is not None:
                            found.setdefault(number, set()).add(f"{node.name()}.{field}")
    return found


def recomputed_core(module, query, key, value, mask, **options):
    """Attention of the family, checkpointed alone."""
    how = options.pop("core_of")
    if how == "eager":
        function = sys.modules[type(module).__module__].eager_attention_forward
    else:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward as function
    return checkpoint(function, module, query, key, value, mask, use_reentrant=False, **options)


class EverySecondProduct:
    """The policy of torchtitan 0.2 (distributed/activation_checkpoint.py): fused attention and every second matrix
    product are stored, the first of them."""
    STORED = (torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default,)

    def __init__(self):
        self._products = {False: 0, True: 0}  # in forward, in recompute

    def __call__(self, context, op, *args, **kwargs):
        if op == torch.ops.aten.mm.default:
            self._products[context.is_recompute] += 1
        stored = op in self.STORED or (op == torch.ops.aten.mm.default and self._products[context.is_recompute] % 2 == 1)
        return CheckpointPolicy.MUST_SAVE if stored else CheckpointPolicy.PREFER_RECOMPUTE


@contextlib.contextmanager
def dropout_as_on_a_gpu():
    """PyTorch's CPU keeps a dropout's noise as numbers of the input's dtype; CUDA runs `native_dropout`, which
    keeps a bool for each. The latter is what trainers meet, and it exists on CPU too."""
    before = torch.nn.functional.dropout

    def dropout(input, p=0.5, training=True, inplace=False):
        return torch.native_dropout(input, p, True)[0] if training and p > 0 else input

    torch.nn.functional.dropout = dropout
    try:
        yield
    finally:
        torch.nn.functional.dropout = before


def layers_of(model: torch.nn.Module) -> torch.nn.ModuleList:
    return model.h if hasattr(model, "h") else model.layers


def configuration(spec: Layer):
    from transformers import AutoConfig

    sizes = {key: value for key, value in spec.config.items() if key != "model_type"}
    config = AutoConfig.for_model(spec.config["model_type"], use_cache=False, **sizes)
    config._attn_implementation = spec.attention
    torch.manual_seed(1)
    return config


def build_layer(spec: Layer):
    """The layer, its input and the other arguments that the model calls it with."""
    from transformers import AutoModel

    config = configuration(spec)
    model = AutoModel.from_config(config).to(spec.dtype).train()
    ids = torch.randint(0, config.vocab_size, (spec.batch, spec.sequence))
    caught = []
    layer = layers_of(model)[spec.index]
    hook = layer.register_forward_pre_hook(lambda _, args, kwargs: caught.append((args, kwargs)), with_kwargs=True)
    model(ids)
    hook.remove()
    (x, *args), kwargs = caught[0]
    if spec.recompute in ("full", "op-selective"):
        options = {"use_reentrant": False}
        if spec.recompute == "op-selective":
            options["context_fn"] = lambda: create_selective_checkpoint_contexts(EverySecondProduct())
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=options)
    if spec.recompute == "selective":
        from transformers import AttentionInterface

        AttentionInterface.register("recomputed", functools.partial(recomputed_core, core_of=spec.attention))
        config._attn_implementation = "recomputed"
    return layer, x.detach(), args, kwargs


def cast_as(spec: Layer):
    return torch.autocast("cpu", torch.bfloat16, enabled=spec.autocast)


def kept_by_layer(spec: Layer) -> list[Kept]:
    layer, x, args, kwargs = build_layer(spec)
    with dropout_as_on_a_gpu(), Watch(layer, x, args, kwargs) as watch, cast_as(spec):
        def run():
            output = layer(watch.input(x), *args, **kwargs)
            return [output[0] if isinstance(output, tuple) else output]
        return watch.kept(run().pop(), spec.recompute != "none")


def kept_by_head(spec: Layer) -> list[Kept]:
    """The same of final norm, head and loss. The logits, which the model's output would hold, are let go."""
    from transformers import AutoModelForCausalLM

    config = configuration(spec)
    model = AutoModelForCausalLM.from_config(config).to(spec.dtype).train()
    ids = torch.randint(0, config.vocab_size, (spec.batch, spec.sequence))
    x = torch.randn(spec.batch, spec.sequence, config.hidden_size, dtype=spec.dtype)
    backbone = model.base_model
    norm = next(getattr(backbone, name) for name in ("norm", "ln_f", "final_layer_norm") if hasattr(backbone, name))
    with Watch(model, x, ids) as watch, cast_as(spec):
        def run():
            logits = model.get_output_embeddings()(norm(watch.input(x)))
            if getattr(config, "final_logit_softcapping", None):
                logits = torch.tanh(logits / config.final_logit_softcapping) * config.final_logit_softcapping
            return [model.loss_function(logits=logits, labels=ids, vocab_size=config.vocab_size)]
        return watch.kept(run().pop())


def kept_by_embedding(spec: Layer) -> list[Kept]:
    """The same of what comes before the first layer; the tokens count, the output is the first layer's input."""
    from transformers import AutoModel

    config = configuration(spec)
    model = AutoModel.from_config(config).to(spec.dtype).train()
    ids = torch.randint(0, config.vocab_size, (spec.batch, spec.sequence))
    first = layers_of(model)[0]

    class Reached(Exception):
        pass

    def stop(_, args, kwargs):
        caught.append((args or (kwargs["hidden_states"],))[0])
        raise Reached

    caught: list[torch.Tensor] = []
    first.register_forward_pre_hook(stop, with_kwargs=True)
    with dropout_as_on_a_gpu(), Watch(model, ids) as watch:
        with contextlib.suppress(Reached):
            model(ids.clone())
        return watch.kept(caught.pop())
