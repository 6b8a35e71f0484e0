"""A short attack on the certificates; `attack.harness` documents the long one."""

import os

import pytest
from attack.certificates import TARGETS
from attack.harness import run

CASES = int(os.environ.get("LUPI_ATTACK_CASES", "20"))


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_no_gap_is_smaller_than_the_true_one_or_above_the_tolerance_without_a_warning(target):
    assert run(target, CASES, count_lines=False).cases == CASES
