"""A short attack on the estimators; `attack.harness` tells how to run the long one."""

import os

import pytest
from attack.estimators import TARGETS
from attack.harness import run

CASES = int(os.environ.get("LUPI_ATTACK_CASES", "12"))


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_estimators_answer_or_refuse(target):
    counts = run(target, CASES, count_lines=False)
    assert counts.ends["answered"] > 0
