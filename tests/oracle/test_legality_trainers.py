"""What a trainer's own code refuses, our rules refuse.

One-sided: what only we refuse (at run time it fails later, or the hardware or a library cannot) is counted by rule. Half of
the layouts are random, half are one change away from one that we call legal. `TRAINWRIGHT_LAYOUTS=500` asks about as many of each.
"""
import collections
import os
import random

import pytest
from layouts import case_text, half_near_legal
from trainer_oracles import ORACLES

LAYOUTS = int(os.environ.get("TRAINWRIGHT_LAYOUTS", "0"))


@pytest.mark.parametrize("oracle", ORACLES, indirect=True, scope="session")
def test_what_a_trainer_refuses_is_refused(oracle, request):
    name = request.node.callspec.id
    asked = half_near_legal(oracle.space, random.Random(name), LAYOUTS or oracle.layouts)
    ours = [[one["id"] for one in answer["violations"] if one["forbidden"]] for _, answer in asked]
    theirs = oracle.answers([oracle.of_settings(*one) for one in asked])
    missed = [f"{case_text(case)}: {reason}" for (case, _), refused, reason in zip(asked, ours, theirs) if reason and not refused]
    only_ours = collections.Counter(rule for refused, reason in zip(ours, theirs) if refused and not reason for rule in refused)
    refusals = sum(1 for reason in theirs if reason)
    print(f"\n{name}: {len(asked)} layouts, {refusals} refused by the trainer, {sum(1 for one in ours if one)} by us, "
          f"{len(missed)} missed; only ours: {dict(only_ours.most_common())}")
    assert not missed, "\n".join(missed[:20])
    assert refusals > len(asked) // 30, "the trainer refuses hardly anything: it is not asked"
    assert len(asked) - refusals > len(asked) // 10, f"the trainer refuses nearly everything: {theirs[:5]}"
