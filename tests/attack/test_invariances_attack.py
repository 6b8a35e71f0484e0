"""A short attack on the invariances; `attack.harness` documents the long one."""

import os

import pytest
from attack.harness import run
from attack.invariances import TARGETS

CASES = int(os.environ.get("LUPI_ATTACK_CASES", "12"))


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_predictions_do_not_depend_on_the_form_of_the_data(target):
    assert run(target, CASES, count_lines=False).cases == CASES
