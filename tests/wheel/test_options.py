"""Names and options that are typed are those of the program. Runs where a wheel is installed."""
import inspect
import re
import typing

import pytest
import trainwright
from trainwright import _core, options
from trainwright._ask import DATA
from trainwright.layout import KINDS

FILES = {"help", "json", "width", "data", "export", "force", "report", "verbose", "out", "csv", "svg", "comms", "trace",
         "diff", "ops", "beside", "perfetto", "auto-order"}  # what is written or printed, which Python has methods for


def told(*words):
    return trainwright.ask(*words)["help"].partition("\n\n")[2]  # without its examples


def help_of(*words):
    return _core.run([*words, "--help"], str(DATA))[1].decode()


def options_of(*words):
    part = help_of(*words).partition("Options:\n")[2].partition("\n\n")[0]
    return {name for name in re.findall(r"^  (?:-\w,)?--([a-z-]+)", part, re.M)} - FILES


def named(function, table):
    own = [one.name for one in inspect.signature(function).parameters.values() if one.kind is one.KEYWORD_ONLY]
    return {name.rstrip("_").replace("_", "-") for name in (*own, *table.__optional_keys__)}


@pytest.mark.parametrize("command, function, table, of_python", [
    ("plan", trainwright.plan, options.PlanOptions, {"launch"}),
    ("estimate", trainwright.estimate, options.EstimateOptions, set()),
    ("explain", trainwright.explain, options.OneLayout, set()),
    ("export", trainwright.export, options.ExportOptions, set()),
    ("calibrate", trainwright.calibrate, options.LogOptions, set()),
    ("reconcile", trainwright.reconcile, options.LogOptions, {"plan", "log"}),
    ("replay", trainwright.replay, options.ReplayOptions, set()),
    ("schedule make", trainwright.schedule, options.ScheduleOptions, set()),
    ("tune run", trainwright.tune, options.TuneOptions, {"resume", "yes"}),
])
def test_every_option_of_a_command_is_a_typed_argument(command, function, table, of_python):
    assert named(function, table) ^ options_of(*command.split()) == of_python


def test_the_keys_of_a_layout_are_its_fields():
    text = told("help", "layout")
    keys = set(re.findall(r"^  ([a-z_]+)(?:=| {2})", text, re.M)) - {"fsdp", "hsdp"}
    assert set(KINDS) == keys


def test_names_of_trainers_are_known_to_the_program():
    names = set(typing.get_args(options.TrainerName))
    assert set(trainwright.list("trainers").names()) <= names
    for name in names:
        assert trainwright.show("trainer", name)["name"]


@pytest.mark.parametrize("literal, topic, key", [
    (options.Precision, "layout", "precision"), (options.Optimizer, "job", "optimizer"), (options.Sharding, "layout", "sharding")])
def test_names_of_values_are_those_of_the_help(literal, topic, key):
    text = re.search(rf"^  {key}=.*?(?=^  [a-z_]+(?:=| {{2}}))", told("help", topic), re.M | re.S)[0]
    said = set(re.findall(r"[a-z0-9]+(?:-[a-z0-9]+)*", text.replace("\n", " ")))
    assert set(typing.get_args(literal)) <= said
