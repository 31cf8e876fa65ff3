"""Families whose class of transformers has no fused attention by default are those that a trainer's file names."""
import re
import pathlib

import pytest
import transformers
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CLASSES

from model_configs import FAMILIES

TRAINER = pathlib.Path(__file__).parents[2] / "data/trainers/pytorch-2.json"
NAMED = set(re.findall(r'"(\w+)"', re.search(r'"not_by_default_for": \[(.*?)\]', TRAINER.read_text()).group(1)))


@pytest.mark.parametrize("family", sorted(set(FAMILIES) | NAMED))
def test_a_family_is_named_where_its_class_does_not_support_sdpa(family):
    if family not in CLASSES:
        pytest.skip(f"this version of transformers has no {family}")
    assert (family in NAMED) == (not getattr(transformers, CLASSES[family])._supports_sdpa)
