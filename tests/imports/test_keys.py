"""Every key that a program's package knows has a class in data/imports, and every class a key.

Packages lie unpacked in build/imports (tools/make/make_venv.sh); skipped where they do not.
"""
import json
import pathlib
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import packages  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ROOT / "build/imports"
PROGRAMS = {"axolotl": packages.axolotl, "llama-factory": packages.llamafactory, "trl": packages.trl,
            "trainer": packages.transformers, "accelerate": packages.accelerate}
# Where other tests have them already: the folder that holds the package, and what has to be in it.
ELSEWHERE = {"deepspeed": ("deepspeed/lib/python3.*/site-packages", packages.deepspeed), "megatron-lm": ("megatron-0.19.2", packages.megatron)}


def table(name):
    text = (ROOT / f"data/imports/{name}.json").read_text()
    return json.loads(re.sub(r"(?m)^\s*//.*$", "", text))


@pytest.fixture
def unpacked():
    if not PACKAGES.exists():
        pytest.skip(f"no {PACKAGES}: tools/make/make_venv.sh brings it")


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_key_of_the_package_has_a_class(program, unpacked):
    theirs, ours = set(PROGRAMS[program](PACKAGES)), set(table(program)["keys"])
    assert theirs - ours == set(), "keys without a class"
    assert ours - theirs == set(), "keys that the package does not know"


@pytest.mark.parametrize("program", ELSEWHERE)
def test_every_key_of_an_environment_s_package_has_a_class(program):
    pattern, draw = ELSEWHERE[program]
    folders = list((ROOT / "build").glob(pattern))
    if not folders:
        pytest.skip(f"no build/{pattern}: tools/make/make_venv.sh brings it")
    theirs = {key.removeprefix("--").replace("-", "_") for key in draw(folders[0])}
    assert theirs ^ set(table(program)["keys"]) == set()


@pytest.mark.parametrize("program", [*PROGRAMS, *ELSEWHERE])
def test_what_is_left_out_or_refused_has_a_reason(program):
    rules = table(program)
    for key, rule in {**rules["keys"], **rules.get("older_keys", {})}.items():
        for text in rule.values() if isinstance(rule, dict) else [rule]:
            kind, _, reason = text.partition(": ")
            assert kind in ("counted", "no-effect", "not-counted", "refused", "refused unless --job"), key
            assert reason or kind in ("counted", "no-effect"), key


def test_the_version_is_the_package_s(unpacked):
    for program, package in (("axolotl", "axolotl"), ("llama-factory", "llamafactory"), ("trl", "trl"), ("trainer", "transformers"), ("accelerate", "accelerate")):
        version = table(program)["version"]
        assert list((PACKAGES / package).glob(f"{package}-{version}.dist-info")), program


def test_every_optimizer_of_the_packages_is_named(unpacked):
    known = set(table("optimizers")["optimizers"])
    assert packages.optimizers(PACKAGES) - known == set()
