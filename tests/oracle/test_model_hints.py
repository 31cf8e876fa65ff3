"""No causal model of transformers is counted as another, nor is anybody told to: a type is read as a family whose counts
are known to be exact, or refused without the name of one."""
import pytest

transformers = pytest.importorskip("transformers")
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from model_configs import FAMILIES, SMALL
from refused_types import REFUSED
from program import answered

transformers.logging.set_verbosity_error()


# Text models that carry another name than their class in the list.
KNOWN_AS = {"emu3", "gemma4_unified", "qwen3_5", "qwen3_5_moe", "fuyu", "got_ocr2", "gemma3", "llama4", "gemma4", "gpt-sw3", "moss_transcribe_diarize",
            "gemma3n"}


def config_of(model_type):
    """The class's own config; nothing where its defaults contradict each other."""
    try:
        return transformers.AutoConfig.for_model(model_type)
    except Exception:  # whatever a validator of that class raises
        return None


def test_types_are_exact_or_refused_without_a_name(tmp_path):
    paths = {}
    for model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        config = config_of(model_type)
        if config is not None:
            text = getattr(config, "text_config", None)
            paths[model_type] = tmp_path / f"{model_type}.json", getattr(text, "model_type", config.model_type)
            paths[model_type][0].write_text(config.to_json_string(use_diff=False))
    listed = answered([["list", "families"]])[0][1].split()
    answers = answered([["show", "model", str(path)] for path, _ in paths.values()])
    read, wrong, refused = 0, [], set()
    for (model_type, (_, read_as)), (exit_code, _, error) in zip(paths.items(), answers):
        read += exit_code == 0
        if exit_code != 0:
            refused.add(model_type)
        if exit_code == 0 and read_as not in FAMILIES + SMALL and model_type not in KNOWN_AS:
            wrong.append(f"{model_type} is read, but nothing shows that it is counted exactly")
        hint = error.partition("hint:")[2]
        wrong += [f"{model_type}: {error}" for family in listed if f"'{family}'" in hint]
    print(f"{len(paths)} types, {read} read, {len(wrong)} wrong")
    assert not wrong, "\n".join(wrong)
    assert read >= 135 and len(paths) >= 180
    assert refused == {name for name in REFUSED if name in paths}, refused ^ {name for name in REFUSED if name in paths}
