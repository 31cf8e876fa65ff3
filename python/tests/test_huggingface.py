"""The callback in a real Hugging Face Trainer on CPU."""
import json
import os
import subprocess
import types

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from trainwright._read import read  # noqa: E402
from trainwright.answers import Estimate  # noqa: E402
from trainwright.layout import Layout  # noqa: E402
from trainwright.huggingface import BesidePlan  # noqa: E402

SEQ = 16


def predicted(gbs):
    answer = subprocess.run([os.environ["TRAINWRIGHT_BINARY"], "estimate", "smollm2-135m", "--on", "1xH100", "--trainer", "accelerate",
                             "--layout", f"mbs=2,gbs={gbs},seq={SEQ}", "--json"], capture_output=True, text=True, check=True).stdout
    return read(Estimate, json.loads(answer))


@pytest.mark.parametrize("layout, accumulated, said", [
    # Of 8 processes, tp 2 leaves 4 replicas, tp 2 and cp 2 leave 2: 2 sequences x micro-batches x replicas.
    ("tp=2,mbs=2,gbs=16,seq=16", 2, []), ("tp=2,cp=2,mbs=2,gbs=16,seq=16", 4, []),
    ("tp=2,mbs=2,gbs=32,seq=16", 2, ["the prediction is for 32 sequences a step, this run has 16: they do not compare"])])
def test_ranks_of_tensor_and_context_parallelism_share_their_sequences(layout, accumulated, said):
    heard = []
    callback = BesidePlan(predicted(gbs=4), say=heard.append)
    callback.predicted = types.SimpleNamespace(layout=Layout.parse(layout))
    callback.on_train_begin(types.SimpleNamespace(train_batch_size=2, gradient_accumulation_steps=accumulated, world_size=8),
                            types.SimpleNamespace(is_world_process_zero=True), None)
    assert heard == said


def trained(tmp_path, callback, steps):
    config = transformers.LlamaConfig(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2)
    rows = [{"input_ids": torch.arange(SEQ) % 64, "labels": torch.arange(SEQ) % 64} for _ in range(4 * steps)]
    arguments = transformers.TrainingArguments(output_dir=str(tmp_path), per_device_train_batch_size=2, gradient_accumulation_steps=2,
                                               max_steps=steps, report_to=[], save_strategy="no", disable_tqdm=True, use_cpu=True)
    transformers.Trainer(model=transformers.LlamaForCausalLM(config), args=arguments, train_dataset=rows, callbacks=[callback]).train()


def ticking(lengths):
    """A clock that says when each of these steps ends."""
    ends = [sum(lengths[:i + 1]) for i in range(len(lengths))]
    return iter(ends).__next__


def test_the_median_step_after_the_warm_up_is_put_beside_the_prediction(tmp_path):
    said = []
    # Two slow steps while everything warms up, one with a checkpoint; of 2, 2, 9, 2 seconds the median is 2.
    callback = BesidePlan(predicted(gbs=4), warm_up=2, say=said.append, clock=ticking([30, 20, 2, 2, 9, 2]), early=2)
    trained(tmp_path, callback, steps=6)
    assert callback.steps == [2, 2, 9, 2]
    assert callback.step == 2
    # Once when two steps are counted, the third and the fourth, and once at the end.
    assert len(said) == 2 and said[0].startswith("after 4 steps: predicted ") and said[1].startswith("predicted ")
    assert all("measured 2" in one for one in said)


def test_a_run_of_another_batch_is_told_apart(tmp_path):
    said = []
    trained(tmp_path, BesidePlan(predicted(gbs=8), say=said.append), steps=1)
    # 2 sequences x 2 micro-batches x 1 process; one step is all warm-up, so nothing is compared.
    assert said == ["the prediction is for 8 sequences a step, this run has 4: they do not compare"]
