"""What people write who know pandas, transformers and type checkers, as it should work. Runs where a wheel is installed."""
import concurrent.futures
import copy
import json
import pathlib
import pickle
import subprocess
import sys

import pytest
import trainwright as tw

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
PACKAGE = pathlib.Path(tw.__file__).parent
ASKED = dict(on="8xH100", batch=64, seq=4096)
LINE = 600  # characters: a layout, its figures and a few words


@pytest.fixture(scope="module")
def plan():
    return tw.plan("llama-2-7b", **ASKED)


@pytest.fixture(scope="module")
def nothing_fits():
    return tw.plan("llama-2-13b", on="1xA100-40GB", batch=8, seq=4096)


def fault(**asked):
    with pytest.raises(tw.Error) as caught:
        tw.estimate(**asked)
    return caught.value


# Layouts as values.

def test_a_row_of_a_plan_is_a_layout(plan):
    one = plan.best[0]
    found = tw.estimate("llama-2-7b", on="8xH100", layout=one)
    assert (found.layout, found.time, found.memory) == (one.layout, one.time, one.memory)


def test_a_layout_has_fields_and_can_be_changed(plan):
    layout = plan.best[0].layout
    assert layout.tp * layout.pp * layout.cp * layout.dp == 8
    other = layout.replace(tp=8, pp=1)
    assert (other.tp, other.dp, other.gbs) == (8, None, 64)  # dp is worked out again: 8 accelerators / tp 8
    assert plan.estimate(other).layout.dp == 1


def test_a_layout_is_its_text_and_back(plan):
    layouts = [one.layout for one in plan.best] + [other.layout for one in plan.best for other in one.alike]
    assert all(tw.Layout.parse(str(one)) == one for one in layouts)
    assert len(set(layouts)) == len({str(one) for one in layouts})
    assert tw.Layout.parse("fsdp,seq=4k") == tw.Layout(sharding="fsdp", seq=4096)
    assert tw.Layout.parse({"recompute": ["full*2", "none*6"], "layers": [5, "6*7"]}).recompute == "full*2/none*6"


@pytest.mark.parametrize("text", ["tpp=2", "tp=2,tp=4", "tp=two", "tp=2,,pp=1", "sp=4"])
def test_a_text_that_is_no_layout_is_an_error(text):
    with pytest.raises(tw.Error) as caught:
        tw.Layout.parse(text)
    assert caught.value.diagnostics[0].where.startswith("layout '")


# One question leads to the next.

def test_a_plan_answers_further_questions_without_its_own_words(plan, tmp_path):
    assert plan.estimate().time == plan.recommended.time
    assert plan.estimate("tp=8,sp").layout.gbs == 64
    assert plan.explain({"tp": 8}).against.layout.tp == 8
    assert plan.export().arguments[:2] == ["--num-layers", "32"]
    found = plan.export(tmp_path / "run")
    assert (tmp_path / "run" / "settings.sh").read_text() == found.file("settings.sh")
    assert plan.report(tmp_path / "plan.html").read_text().startswith("<!doctype html>")
    assert plan.estimate(on="16xH100").layout.dp == 2 * plan.layout.dp if "dp" not in str(plan.layout) else True
    assert found.legal and found.target == "megatron-lm"


def test_what_was_asked_goes_along():
    plan = tw.plan("llama-3.1-8b", on="8xH100", batch=64, seq=8192, trainer="torchtitan", precision="fp8", risk=0.01,
                   job={"optimizer": "muon"}, top=1)
    found = plan.estimate()
    assert (found.time, found.memory) == (plan.recommended.time, plan.recommended.memory)
    assert found.explain().layout.time == found.time and plan.export().target == "torchtitan"
    log = GOLDEN / "calibrate" / "titan.log"
    assert plan.reconcile(log).step.predicted == pytest.approx(plan.recommended.time.step)


def test_an_estimate_of_a_trainers_own_file_is_asked_on(tmp_path):
    path = tmp_path / "ds.json"
    path.write_text(json.dumps({"train_micro_batch_size_per_gpu": 1, "train_batch_size": 64, "bf16": {"enabled": True},
                                "zero_optimization": {"stage": 3}}))
    found = tw.estimate("llama-3.1-8b", on="8xH100", config=path, seq=4096)
    assert found.layout.zero == 3 and found.layout.gbs == 64
    assert found.estimate(found.layout.replace(mbs=2)).layout.mbs == 2


# Sweeps.

def test_a_sweep_is_a_table_of_one_row_each():
    pandas = pytest.importorskip("pandas")
    found = [tw.estimate("llama-2-7b", on="8xH100", layout=tw.Layout(tp=tp, gbs=64, seq=4096)) for tp in (1, 2, 3, 8, 16)]
    assert [one.valid for one in found] == [True, True, False, True, False]
    table = tw.to_pandas(found)
    assert list(table.tp) == [1, 2, 3, 8, 16] and list(table.valid) == [one.valid for one in found]
    assert table.step_s[1] == found[1].time.step and table.peak_gib[1] == found[1].memory.peak / 2**30
    assert pandas.isna(table.step_s[2]) and "heads" in " ".join(one.reason for one in found[2].violations)
    assert table.reason[2] == found[2].violations[0].reason


def test_numbers_of_pandas_and_numpy_are_numbers():
    pandas = pytest.importorskip("pandas")
    asked = pandas.DataFrame({"batch": [16, None], "seq": [4096, 8192], "tp": [2, 4], "sp": [True, False]})
    row = asked.iloc[0]
    found = tw.estimate("llama-2-7b", on="8xH100", layout={"tp": row.tp, "sp": row.sp}, batch=row.batch, seq=asked.seq[0])
    assert found.layout == tw.Layout(tp=2, dp=4, sp=True, gbs=16, seq=4096)
    assert tw.plan("llama-2-7b", on="8xH100", batch=asked.batch[0], seq=4096.0, top=1).batch == 16
    assert tw.Layout(tp=asked.tp[1], seq=8192.0).seq == 8192


def test_models_are_a_table():
    pytest.importorskip("pandas")
    table = tw.to_pandas(tw.estimate(model, on="8xH100", layout="zero=1,gbs=64,seq=2048") for model in ("llama-2-7b", "qwen3-4b"))
    assert list(table.model) == ["llama-2-7b", "qwen3-4b"] and {"verdict", "oom", "step_s", "peak_gib"} <= set(table)


def test_a_plan_is_a_table(plan):
    pytest.importorskip("pandas")
    table = plan.to_pandas()
    assert len(table) == len(plan.best) and table.recommended.sum() == 1
    assert list(table.tp) == [one.layout.tp for one in plan.best] and table.peak_gib.max() < 80


def test_what_an_invalid_layout_has_not_says_why():
    found = tw.estimate("llama-2-7b", on="8xH100", layout="tp=3,gbs=64,seq=4096")
    with pytest.raises(tw.Error, match="32 heads do not split 3 ways"):
        found.time.step
    assert not found.time and not hasattr(found.memory, "peak") and getattr(found.time, "step", None) is None
    assert pickle.loads(pickle.dumps(found)) == found


def test_sixteen_plans_in_threads():
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda batch: tw.plan("llama-2-7b", on="8xH100", batch=batch, seq=2048, top=1).batch, range(8, 136, 8)))
    assert found == list(range(8, 136, 8))


# Answers in notebooks, terminals and logs.

def test_an_answer_prints_as_one_line(plan, nothing_fits):
    for one in (plan, nothing_fits, plan.recommended, plan.best[0].memory, plan.estimate(), plan.export(), tw.list("models"),
                tw.estimate("llama-2-7b", on="8xH100", layout="tp=3,gbs=64,seq=4096")):
        assert len(str(one)) < LINE and "\n" not in repr(one)


def test_a_notebook_shows_what_would_fit(nothing_fits):
    shown = nothing_fits._repr_html_()
    assert "nothing fits" in shown and str(nothing_fits.smallest.layout) in shown and "lora=16" in shown
    assert nothing_fits.fits_on.cluster in shown
    for ask in (lambda: nothing_fits.layout, nothing_fits.estimate,
                lambda: tw.estimate("llama-2-7b", on="8xH100", layout=nothing_fits.recommended)):
        with pytest.raises(tw.Error, match="nothing-fits"):
            ask()


def test_a_refusal_is_shown_with_its_rule():
    found = tw.plan("nemotron-h-8b", on="8xH100", batch=8, seq=4096, trainer="nanotron")
    assert found.end == "all-refused" and found.refusal.reason in found._repr_html_()


def test_notes_are_in_the_notebook():
    found = tw.estimate("llama-2-7b", on="8xH100", layout="tp=2,gbs=64,seq=4096")
    assert found.notes and all(note.split(".")[0] in found._repr_html_() for note in found.notes)


def test_answers_are_values(plan):
    assert copy.deepcopy(plan) == plan == pickle.loads(pickle.dumps(plan)) and {plan: 1}[copy.deepcopy(plan)] == 1
    with pytest.raises(AttributeError):
        plan.best[0].time.step = 0
    with pytest.raises((AttributeError, TypeError)):  # a name of its own, which Python's dataclasses refuse less plainly
        plan.recomended = 1


def test_what_is_asked_can_be_logged(caplog):
    with caplog.at_level("DEBUG", logger="trainwright"):
        tw.show("model", "llama-2-7b")
    assert "show model --json -- llama-2-7b" in caplog.text


# The other questions.

def test_models_trainers_and_clusters_are_listed_and_shown():
    assert "llama-2-7b" in tw.list("models").names() and len(tw.list("accelerators")) > 40
    model = tw.show("model", "llama-2-7b")
    assert (model.total, model.layers) == (6738415616, 32)
    assert tw.plan(model, on=tw.show("cluster", "8xH100"), batch=64, seq=4096, top=1).model == "llama-2-7b"
    assert tw.show("trainer", "torchtitan")["name"] == "torchtitan"
    with pytest.raises(tw.Error):
        tw.show("model", "nope")


def test_what_a_star_import_brings_leaves_pythons_list_alone():
    assert "list" not in tw.__all__ and all(hasattr(tw, name) for name in tw.__all__ if name != "record")
    assert "__version__" in dir(tw)


# Jobs and names as people write them.

@pytest.mark.parametrize("job", [{"qlora": 16, "base": None}, {"lora": 16, "targets": ["q_proj", "v_proj"]}, "lora=16:q_proj+v_proj"])
def test_jobs_are_dicts_or_texts(job):
    assert tw.estimate("qwen3-8b", on="1xRTX4090", trainer="trl", job=job, batch=1, seq=1024).valid


@pytest.mark.parametrize("name", ["unsloth/Meta-Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"])
def test_names_of_the_hub_are_models(name):
    assert tw.show("model", name).total == 8030261248


@pytest.mark.parametrize("asked, said", [
    (dict(model="lama-2-7b", on="8xH1000", layout="tpp=2"), ["did you mean", "did you mean", ""]),
    (dict(model="llama-2-7b", on="8xH100", layout="tpp=2,gbs=64,seq=4096"), ["'tp'"]),
    (dict(model="llama-2-7b", on="RTX4090x2", layout="tp=2,gbs=64,seq=4096"), ["2xRTX4090"]),
    (dict(model="nowhere/config.json", on="8xH100", layout="tp=2,gbs=64,seq=4096"), [""]),
    (dict(model="llama-2-7b", on="1xT4", layout="gbs=64,seq=4096", precision="bf16"), [""]),
])
def test_a_question_with_faults_names_each_with_a_hint(asked, said):
    found = fault(**asked) if asked["on"] != "1xT4" else None
    if found is None:  # a layout that the hardware has no numbers for is an answer
        assert not tw.estimate(**asked).valid
        return
    assert len(found.diagnostics) >= len(said)
    assert all(any(hint in one.hint for one in found.diagnostics) for hint in said)


def test_a_misspelt_argument_is_an_error_with_a_hint():
    with pytest.raises(tw.Error, match="--optimiser") as caught:
        tw.plan("llama-2-7b", **ASKED, optimiser="adamw")
    assert "optimizer" in caught.value.diagnostics[0].hint


def test_an_error_is_known_by_the_name_that_it_is_caught_by():
    script = "import trainwright; trainwright.show('model', 'nope')"
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False).stderr
    assert "\ntrainwright.Error: nope: " in said and "_ask.Error" not in said


def test_a_checkout_alone_says_what_it_lacks(tmp_path):
    package = tmp_path / "trainwright"
    package.mkdir()
    for path in PACKAGE.glob("*.py"):
        (package / path.name).write_text(path.read_text())
    said = subprocess.run([sys.executable, "-c", "import trainwright; trainwright.show('model', 'llama-2-7b')"], cwd=tmp_path,
                          capture_output=True, text=True, check=False).stderr
    assert "pip install ." in said


# Objects of the frameworks.

def test_deepspeeds_dict_is_an_argument_of_the_trainer():
    found = tw.export("zero=3,mbs=1,gbs=64,seq=4096", model="llama-2-7b", on="8xH100", to="deepspeed", trainer="deepspeed")
    assert found.config["zero_optimization"] == {"stage": 3} and found.config["train_batch_size"] == 64
    assert found.training_arguments["deepspeed"] == found.config and found.training_arguments["per_device_train_batch_size"] == 1


def test_accelerates_objects_are_made_of_keywords():
    found = tw.export("fsdp,mbs=1,gbs=64,seq=4096", model="llama-2-7b", on="8xH100", to="accelerate", trainer="accelerate")
    assert found.parallelism_config == {"dp_shard_size": 8}
    assert found.fsdp_plugin["fsdp_version"] == 2 and found.fsdp_plugin["reshard_after_forward"] is True
    assert found.training_arguments["gradient_accumulation_steps"] == 8


def test_command_lines_are_lists_of_words():
    titan = tw.export("fsdp,mbs=1,gbs=64,seq=4096", model="llama-2-7b", on="8xH100", to="torchtitan", trainer="torchtitan").arguments
    assert titan[titan.index("--training.seq_len") + 1] == "4096" and titan[-1] == "activation_checkpoint:none"
    megatron = tw.export("tp=2,sp,gbs=64,seq=4096", model="llama-2-7b", on="8xH100", to="megatron-lm").arguments
    assert megatron[megatron.index("--tensor-model-parallel-size") + 1] == "2" and "--sequence-parallel" in megatron


# Types.

WRITTEN = """
import trainwright as tw

plan = tw.plan("llama-2-7b", on="8xH100", batch=64, seq=4096, trainer="megatron", fix={"tp": 2}, no=["pp"])
step: float = plan.recommended.time.step + tw.estimate("llama-2-7b", on="8xH100", layout=plan.best[0]).time.step
tp: int = plan.best[0].layout.replace(tp=4).tp
found = plan.estimate(tw.Layout(tp=2), trainer=tw.Trainer("megatron", "0.12"))
if plan.today:
    knob: str = plan.today.changes[0][0].knob
total: int = tw.show("model", "llama-2-7b").total
rows = [row["layout"] for row in plan.rows()]
wrong = found.verdict == "fit"  # line 12: error
tw.plan("llama-2-7b", on="8xH100", batch=64, seq=4096, optimiser="adamw")  # error
tw.plan("llama-2-7b", on="8xH100", batch=64, seq=4096, traner="megatron")  # error
tw.plan("llama-2-7b", on="8xH100", batch=64, seq=4096, trainer="megatorn")  # error
tw.plan("llama-2-7b", on="8xH100", batch=64, seq=4096, precision="bf17")  # error
tw.estimate("llama-2-7b", on="8xH100", layout=plan.layout).time.setp  # error
plan.best = ()  # error
"""


def test_a_checker_of_types_finds_what_is_wrong_and_nothing_else(tmp_path):
    pytest.importorskip("mypy")
    path = tmp_path / "written.py"
    path.write_text(WRITTEN)
    said = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--cache-dir", str(tmp_path / "cache"), path],
                          capture_output=True, text=True, check=False, cwd=tmp_path).stdout
    errors = {int(line.split(":")[1]) for line in said.splitlines() if ": error: " in line}
    assert errors == {at for at, line in enumerate(WRITTEN.splitlines(), 1) if line.endswith("error")}, said


def test_the_package_is_typed():
    assert (PACKAGE / "py.typed").exists()
