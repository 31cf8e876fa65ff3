"""The server of the Model Context Protocol, asked over stdio by the package's own client. Runs where a wheel and its extra are installed."""
import asyncio
import os
import subprocess
import sys

import pytest
import trainwright

mcp = pytest.importorskip("mcp")
jsonschema = pytest.importorskip("jsonschema")
ASKED = {"model": "llama-2-7b", "on": "8xH100"}
LAYOUT = "tp=2,sp,gbs=64,seq=4096"


def asked(*calls):
    """The tools, and what each call is answered with."""
    async def ask():
        async with mcp.Client(mcp.StdioServerParameters(command=sys.executable, args=["-m", "trainwright.mcp"], env=dict(os.environ))) as client:
            tools = (await client.list_tools()).tools
            return {tool.name: tool for tool in tools}, [await client.call_tool(name, arguments) for name, arguments in calls]
    return asyncio.run(ask())


@pytest.fixture(scope="module")
def session():
    return asked(("plan", {**ASKED, "batch": 64, "seq": "4k", "top": 3}),
                 ("estimate", {**ASKED, "layout": LAYOUT}),
                 ("estimate", {**ASKED, "layout": "tp=3,gbs=64,seq=4096"}),
                 ("explain", {**ASKED, "layout": LAYOUT, "against": "tp=8"}),
                 ("export", {**ASKED, "layout": LAYOUT, "to": "megatron-lm"}),
                 ("list", {"what": "models", "containing": "llama-2"}),
                 ("plan", {"model": "llama-2-13b", "on": "1xA100-40GB", "batch": 8, "seq": 4096}),
                 ("estimate", {"model": "lama-2-7b", "on": "8xH1000", "layout": LAYOUT}),
                 ("estimate", {**ASKED, "layout": LAYOUT, "precision": "bf17"}))


def test_five_tools_say_what_they_take_and_give(session):
    tools = session[0]
    assert set(tools) == {"plan", "estimate", "explain", "export", "list"}
    for tool in tools.values():
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        jsonschema.Draft202012Validator.check_schema(tool.output_schema)
        assert tool.description and tool.annotations.read_only_hint
        assert all("description" in one or name == "what" for name, one in tool.input_schema["properties"].items())
    assert set(tools["plan"].input_schema["required"]) == {"model", "on", "batch", "seq"}
    assert "bf16" in str(tools["plan"].input_schema["properties"]["precision"])


def test_answers_are_structured_and_as_their_schemas_say(session):
    tools, answers = session
    for name, answer in zip(("plan", "estimate", "estimate", "explain", "export", "list", "plan"), answers):
        assert not answer.is_error
        jsonschema.validate(answer.structured_content, tools[name].output_schema)


def test_answers_are_those_of_the_package(session):
    plan, estimate, invalid, explain, export, models, nothing = (one.structured_content for one in session[1][:7])
    found = trainwright.plan("llama-2-7b", on="8xH100", batch=64, seq=4096, top=3)
    assert plan["recommended"]["layout"] == str(found.layout) and plan["recommended"]["step_s"] == found.recommended.time.step
    assert [one["layout"] for one in plan["layouts"]] == [str(one.layout) for one in found.best] and plan["proven_fastest"]
    one = trainwright.estimate("llama-2-7b", on="8xH100", layout=LAYOUT)
    assert (estimate["valid"], estimate["summary"]["verdict"]) == (True, one.verdict)
    assert estimate["summary"]["peak_gib"] == one.memory.peak / 2**30 and estimate["time_s"]["products"] == one.time.parts.products
    assert not invalid["valid"] and "heads" in str(invalid["violations"]) and invalid["summary"]["layout"].startswith("tp=3")
    assert explain["others"][0]["summary"]["layout"].startswith("tp=8")
    assert {file["path"] for file in export["files"]} >= {"settings.sh", "launch.sh"}
    assert "llama-2-7b" in models["names"] and all("llama-2" in name for name in models["names"])
    assert nothing["end"] == "nothing-fits" and nothing["recommended"] is None and nothing["needs_least"]["peak_gib"] > 40
    assert "lora=16" in str(nothing["what_would_fit"])


def test_faults_are_told_with_their_hints(session):
    unknown, wrong = session[1][7:]
    assert unknown.is_error and "did you mean 'llama-2-7b'" in unknown.content[0].text and "H1000" in unknown.content[0].text
    assert wrong.is_error and "bf16" in wrong.content[0].text


def test_without_the_extra_it_says_what_is_missing():
    script = "import sys; sys.modules['mcp'] = None; import runpy; runpy.run_module('trainwright.mcp', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "trainwright[mcp]" in done.stderr
