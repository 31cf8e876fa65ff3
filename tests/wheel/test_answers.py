"""What Python gives is what the program prints, field by field. Runs where a wheel is installed (tools/check/try_wheel.sh)."""
import copy
import dataclasses
import json
import pathlib
import pickle
import shlex
import shutil
import subprocess
import sys

import pytest
import trainwright
from trainwright import Layout, _core
from trainwright._ask import DATA
from trainwright._read import Record, name_of

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
PROGRAM = pathlib.Path(sys.executable).parent / "trainwright"
FOLDERS = sorted(path.parent for path in GOLDEN.glob("*/cmd"))
MODEL = {"model_type": "llama", "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008,
         "num_hidden_layers": 32, "num_attention_heads": 32, "max_position_embeddings": 4096}
LAYOUT = "tp=2,pp=2,sp,zero=1,mbs=1,gbs=64,seq=4096"


def printed(*words, cwd=None):
    return subprocess.run([PROGRAM, *words], cwd=cwd, capture_output=True, check=False)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_transcript_is_answered_in_python_as_by_the_program(folder, tmp_path, monkeypatch):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)  # the program writes files beside its input
    monkeypatch.chdir(tmp_path)
    for line in (folder / "cmd").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        words = [*shlex.split(line), "--width", "80"]
        program = printed(*words)
        exit_code, output, error, _ = _core.run(words, str(DATA))
        assert (exit_code, output, error) == (program.returncode, program.stdout, program.stderr), line


def same(value, document, place=""):
    """Every key of the JSON is a field of the same value, and no field says more."""
    if isinstance(value, Layout):
        assert (str(value) == document) if isinstance(document, str) else (value == Layout.parse(document)), place
    elif dataclasses.is_dataclass(value):
        fields = {one.name for one in dataclasses.fields(value)} - {"question", "document"}
        keys = {name_of(key): key for key in document if (place, key) != ("", "text")}  # of `show layout`: the layout again
        assert not set(keys) - fields, place
        for name in fields:
            if (place, name) == ("", "recommended"):
                assert not value.best or value.recommended is value.best[document[name]]
            elif name in keys:
                same(getattr(value, name), document[keys[name]], f"{place}.{name}")
            else:
                assert not getattr(value, name) or (place, name) == ("", "layout"), f"{place}.{name}"
    elif isinstance(value, Record):
        assert value.to_dict() == document, place
    elif isinstance(value, tuple):
        assert len(value) == len(document), place
        for at, (one, other) in enumerate(zip(value, document)):
            same(one, other, f"{place}[{at}]")
    else:
        assert value == document, place


LOGGED = dict(model="llama-3.1-8b", on="8xH100-96GB", trainer="torchtitan", layout="fsdp,mbs=1,gbs=8,seq=8192")
ANSWERS = [
    (lambda: trainwright.plan("llama-2-7b", on="8xH100", batch=64, seq=4096, top=2),
     "plan llama-2-7b --on 8xH100 --batch 64 --seq 4096 --top 2"),
    (lambda: trainwright.plan("llama-2-7b", on="8xH100", batch=64, seq=4096, fix={"tp": 2, "mbs": "..2"}, no="pp",
                              tokens="1T", price=2.5, attention="sdpa", why_not={"tp": 8, "sp": True}),
     "plan llama-2-7b --on 8xH100 --batch 64 --seq 4096 --fix tp=2 --fix mbs=..2 --no pp --tokens 1T --price 2.5 "
     "--attention sdpa --why-not tp=8,sp"),
    (lambda: trainwright.plan("llama-2-13b", on="1xA100-40GB", batch=8, seq=4096),
     "plan llama-2-13b --on 1xA100-40GB --batch 8 --seq 4096"),
    (lambda: trainwright.plan("nemotron-h-8b", on="8xH100", batch=8, seq=4096, trainer="nanotron"),
     "plan nemotron-h-8b --on 8xH100 --batch 8 --seq 4096 --trainer nanotron"),
    (lambda: trainwright.plan("llama-2-7b", on="16xH100", batch=64, seq=4096, top=2, from_={"tp": 2, "mbs": 1, "zero": 1},
                              tokens="300B", within=30, pareto=True),
     "plan llama-2-7b --on 16xH100 --batch 64 --seq 4096 --top 2 --from tp=2,mbs=1,zero=1 --tokens 300B --within 30 "
     "--pareto"),
    (lambda: trainwright.estimate("llama-2-7b", on="8xH100", layout=LAYOUT),
     f"estimate llama-2-7b --on 8xH100 --layout {LAYOUT}"),
    (lambda: trainwright.estimate("llama-3.1-70b", on="8xH100", layout="tp=8,gbs=64,seq=8192"),
     "estimate llama-3.1-70b --on 8xH100 --layout tp=8,gbs=64,seq=8192"),
    (lambda: trainwright.estimate("llama-3.1-8b", on="8xH100", layout="zero=3,offload=optimizer,gbs=64,seq=8192",
                                  trainer="deepspeed"),
     "estimate llama-3.1-8b --on 8xH100 --layout zero=3,offload=optimizer,gbs=64,seq=8192 --trainer deepspeed"),
    (lambda: trainwright.estimate("llama-3.1-70b", on="64xH100", layout="tp=8,pp=4,zero=3,mbs=1,gbs=64,seq=8192",
                                  trainer="deepspeed"),
     "estimate llama-3.1-70b --on 64xH100 --layout tp=8,pp=4,zero=3,mbs=1,gbs=64,seq=8192 --trainer deepspeed"),
    (lambda: trainwright.estimate("llama-2-7b", on="8xH100", layout=LAYOUT, measured="tp=2,zero=1,mbs=1:step=6.2s"),
     f"estimate llama-2-7b --on 8xH100 --layout {LAYOUT} --measured tp=2,zero=1,mbs=1:step=6.2s"),
    (lambda: trainwright.export(LAYOUT, model="llama-2-7b", on="8xH100", to="megatron-lm"),
     f"export {LAYOUT} --model llama-2-7b --on 8xH100 --to megatron-lm"),
    (lambda: trainwright.export("pp=2,vpp=2,gbs=64,seq=4096", model="llama-2-7b", on="8xH100", trainer="deepspeed"),
     "export pp=2,vpp=2,gbs=64,seq=4096 --model llama-2-7b --on 8xH100 --trainer deepspeed"),
    (lambda: trainwright.schedule("zb-v", ranks=4, microbatches=8),
     "schedule draw zb-v --ranks 4 --microbatches 8"),
    (lambda: trainwright.schedule(ranks=4, microbatches=8, chunks=2, memory_cap=8, budget=100_000),
     "schedule make auto --ranks 4 --microbatches 8 --chunks 2 --memory-cap 8 --budget 100000"),
    (lambda: trainwright.schedule(ranks=4, microbatches=8, chunks=2, memory_cap=1),
     "schedule make auto --ranks 4 --microbatches 8 --chunks 2 --memory-cap 1"),
    (lambda: trainwright.calibrate(GOLDEN / "calibrate" / "titan.log", model="llama-3.1-8b", on="8xH100",
                                   trainer="torchtitan", layout="fsdp,mbs=1,gbs=8,seq=8192"),
     f"calibrate {GOLDEN / 'calibrate' / 'titan.log'} --model llama-3.1-8b --on 8xH100 --trainer torchtitan "
     "--layout fsdp,mbs=1,gbs=8,seq=8192"),
    (lambda: trainwright.explain("llama-3.2-1b", on="8xH100", layout="dp=8,zero=1,mbs=1,gbs=64,seq=4096"),
     "explain llama-3.2-1b --on 8xH100 --layout dp=8,zero=1,mbs=1,gbs=64,seq=4096"),
    (lambda: trainwright.explain("llama-3.2-1b", on="8xH100", layout={"zero": 1, "gbs": 64, "seq": 4096}, against=Layout(tp=3)),
     "explain llama-3.2-1b --on 8xH100 --layout zero=1,gbs=64,seq=4096 --against tp=3,pp=1,mbs=1"),
    (lambda: trainwright.reconcile(GOLDEN / "calibrate" / "titan.log", **LOGGED),
     f"reconcile {GOLDEN / 'calibrate' / 'titan.log'} " + " ".join(f"--{key} {value}" for key, value in LOGGED.items())),
    (lambda: trainwright.show("layout", LAYOUT, model="llama-2-7b", on="8xH100"),
     f"show layout {LAYOUT} --model llama-2-7b --on 8xH100"),
    (lambda: trainwright.replay(GOLDEN / "replay" / "two_layers.jsonl", top=2),
     f"replay {GOLDEN / 'replay' / 'two_layers.jsonl'} --top 2"),
    (lambda: trainwright.replay(GOLDEN / "replay" / "llama_layer.jsonl", capacity="2GiB"),
     f"replay {GOLDEN / 'replay' / 'llama_layer.jsonl'} --capacity 2GiB"),
]


@pytest.mark.parametrize("asked, words", ANSWERS, ids=lambda one: one.split()[0] if isinstance(one, str) else "")
def test_an_answer_has_the_fields_and_values_of_json(asked, words):
    answer, document = asked(), json.loads(printed(*shlex.split(words), "--json").stdout)
    assert answer.to_dict() == document
    same(answer, document)
    assert answer.text() == printed(*shlex.split(words), "--width", "80").stdout.decode()
    assert all(isinstance(row, dict) for row in answer.rows())
    assert answer._repr_html_().startswith(("<table", "<svg", "<?xml"))
    assert len(repr(answer)) < 600
    assert answer == pickle.loads(pickle.dumps(answer)) == copy.deepcopy(answer) and len({answer, asked()}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        answer.schema = 4


@pytest.mark.parametrize("what", ["model llama-2-7b", "cluster 16xH100", "trainer torchtitan"])
def test_what_is_shown_is_its_json(what):
    document = json.loads(printed("show", *what.split(), "--json").stdout)
    found = trainwright.show(*what.split())
    assert found.to_dict() == document and found._repr_html_().startswith("<table") and len(repr(found)) < 600
    for key, value in found.rows()[0].items():
        assert found[key] == (Record({"": value})[""])


@pytest.mark.parametrize("what", ["models", "families", "accelerators", "clusters", "trainers", "schedules"])
def test_a_list_has_what_the_program_lists(what):
    document = json.loads(printed("list", what, "--json").stdout)
    found = trainwright.list(what)
    assert found.to_dict() == document and len(found) == len(document[what])
    assert [row if what != "families" else row["name"] for row in found.rows()] == document[what]
    assert found._repr_html_().startswith("<table")


def test_a_history_of_trials_is_run_told_and_exported(tmp_path):
    """Eight steps of 0.4 s, of which five are warm-up."""
    plan = trainwright.plan("llama-3.2-1b", on="8xH100", batch=64, seq=4096)
    found = plan.tune("printf", "took 0.4 s\\n%.0s", *"12345678", history=tmp_path / "tuning", trials=1, steps=8,
                      step_pattern="took ([0-9.]+) s")
    assert len(found.trials) == 1 and found.best.step_seconds == pytest.approx(0.4)
    told = trainwright.tune(history=tmp_path / "tuning")
    assert told.best == found.best and told.rows()[0]["end"] == "ok" and told._repr_html_().startswith("<table")
    same(told, json.loads(printed("tune", "status", "--history", str(tmp_path / "tuning"), "--json").stdout))
    told.export(tmp_path / "run", calibration=tmp_path / "mine.json")
    assert (tmp_path / "run" / "settings.sh").exists()
    assert plan.estimate(calibration=tmp_path / "mine.json").valid


def test_a_model_is_a_name_a_path_a_dict_or_a_config(tmp_path):
    class Config:
        def to_dict(self):
            return MODEL
    path = tmp_path / "config.json"
    path.write_text(json.dumps(MODEL))
    found = [trainwright.estimate(model, on="8xH100", layout=LAYOUT) for model in ("llama-2-7b", path, MODEL, Config())]
    assert len({one.memory.fullest.driver for one in found}) == 1


def test_a_config_of_transformers_is_a_model():
    transformers = pytest.importorskip("transformers", reason="transformers is not installed here")
    config = transformers.AutoConfig.for_model(**MODEL)
    found = trainwright.plan(config, on="8xH100", batch=64, seq=4096, top=1, fix={"pp": 1})
    assert found.model == "llama of 6.738 B parameters"  # Llama-2-7B, of which the config has no name
    assert found.best[0].layout == trainwright.plan("llama-2-7b", on="8xH100", batch=64, seq=4096, top=1, fix={"pp": 1}).best[0].layout
    config._name_or_path = "mine/seven"
    assert trainwright.plan(config, on="8xH100", batch=64, seq=4096, top=1, fix={"pp": 1}).model == "mine/seven"


def test_lists_stand_under_their_names():
    assert trainwright.ask("list", "schedules")["schedules"][0]["name"] == "gpipe"


def test_layouts_and_clusters_may_be_dicts():
    cluster = trainwright.ask("show", "cluster", "8xH100")
    layout = {"tp": 2, "pp": 2, "sp": True, "zero": 1, "mbs": 1, "gbs": 64, "seq": 4096, "cp": None}
    found = trainwright.estimate("llama-2-7b", on=cluster, layout=layout)
    assert found.to_dict()["memory"] == trainwright.estimate("llama-2-7b", on="8xH100", layout=LAYOUT).to_dict()["memory"]


def test_every_fault_of_a_question_is_a_diagnostic():
    with pytest.raises(trainwright.Error) as caught:
        trainwright.plan("lama-2-7b", on="8xH1000", batch=64, seq=4096)
    assert len(caught.value.diagnostics) == 2
    assert all(one.where and one.what and one.hint for one in caught.value.diagnostics)
    assert all(one.what in str(caught.value) for one in caught.value.diagnostics)


def test_an_unknown_option_is_a_fault_with_a_hint():
    with pytest.raises(trainwright.Error, match="--pirce"):
        trainwright.plan("llama-2-7b", on="8xH100", batch=64, seq=4096, pirce=2)


def test_files_of_an_export_are_those_that_the_program_writes(tmp_path):
    words = f"export {LAYOUT} --model llama-2-7b --on 8xH100 --to megatron-lm --out {tmp_path / 'program'}"
    assert printed(*words.split()).returncode == 0
    trainwright.export(LAYOUT, model="llama-2-7b", on="8xH100", to="megatron-lm").write(tmp_path / "python")
    for path in (tmp_path / "program").glob("[!.]*"):  # .trainwright.json is the program's own note of what it wrote
        assert path.read_text() == (tmp_path / "python" / path.name).read_text()


def test_an_export_replaces_no_other_file_and_follows_no_link(tmp_path):
    found = trainwright.export(LAYOUT, model="llama-2-7b", on="8xH100", to="megatron-lm")
    mine, elsewhere = tmp_path / found.files[0].path, tmp_path / "elsewhere"
    mine.write_text("mine")
    with pytest.raises(FileExistsError, match=found.files[0].path):
        found.write(tmp_path)
    assert mine.read_text() == "mine" and len(list(tmp_path.iterdir())) == 1
    elsewhere.write_text("kept")
    mine.unlink()
    mine.symlink_to(elsewhere)
    with pytest.raises(FileExistsError):
        found.write(tmp_path)
    assert found.write(tmp_path, force=True)[0].read_text() == found.files[0].text
    assert elsewhere.read_text() == "kept" and not mine.is_symlink()
    assert len(found.write(tmp_path)) == len(found.files)  # the same once more


def test_a_schedule_is_written_as_pytorch_reads_it(tmp_path):
    found = trainwright.schedule("zb-v", ranks=4, microbatches=8)
    path = tmp_path / "zbv.csv"
    path.write_text(found.csv())
    assert trainwright.ask("schedule", "check", str(path))["sound"] is True
    assert "SEND_F" in found.csv(comms=True) and "SEND_F" not in found.csv()
    assert trainwright.schedule(path).makespan == found.makespan


def test_a_log_stands_beside_its_prediction():
    """5,866 tokens/s on each of 8 ranks are 8 x 8,192 / (8 x 5,866) = 1.40 s; the log says 49.66 GiB."""
    asked = dict(model="llama-3.1-8b", on="8xH100-96GB", trainer="torchtitan@0.2",
                 layout="fsdp,mbs=1,gbs=8,seq=8192,recompute=op-selective")
    predicted = trainwright.estimate(asked["model"], **{key: asked[key] for key in ("on", "trainer", "layout")})
    said = trainwright.compare(GOLDEN / "calibrate" / "titan.log", **asked)
    assert said == (f"predicted {predicted.time.step:.3g} s, measured 1.4 s; "
                    f"memory 49.66 of {predicted.memory.fullest.reserved / 2**30:.2f} GiB reserved")


def test_a_plan_writes_the_page_that_the_program_writes(tmp_path):
    plan = trainwright.plan("llama-2-7b", on="8xH100", batch=64, seq=4096, top=2)
    page = plan.report(tmp_path / "plan.html")
    subprocess.run([PROGRAM, "plan", "llama-2-7b", "--on", "8xH100", "--batch", "64", "--seq", "4096", "--top", "2", "--report",
                    str(tmp_path / "program.html")], check=True, capture_output=True)
    assert page.read_bytes() == (tmp_path / "program.html").read_bytes()
