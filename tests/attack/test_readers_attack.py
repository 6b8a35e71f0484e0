"""A short attack on the readers; `attack.harness` tells how to run the long one."""

import sys

import pytest
from attack.harness import Finding, Target, run
from attack.readers import TARGETS


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_readers_answer_or_refuse(target):
    counts = run(target)
    # Both ends are reached: an attack that is always refused, or never, tests nothing.
    assert counts.ends["answered"] > 0
    assert counts.ends.total() > counts.ends["answered"]


def test_the_same_seed_gives_the_same_ends():
    first, second = (run(TARGETS[0], cases=40, seed=3) for _ in range(2))
    assert first.ends == second.ends


def broken(attack):
    return Target("broken", lambda folder: None, lambda rng, _: b"", attack, (ValueError,))


def endless(case, _):
    # Stands for a loop of the library: the harness counts lines of its files only.
    code = compile("while True:\n    pass", f"{sys.modules['lupi'].__path__[0]}/endless.py", "exec")
    exec(code)


@pytest.mark.parametrize(
    ("attack", "message"),
    [
        (endless, "TooManySteps"),
        (lambda case, _: [][0], "case 0, seed 0: IndexError"),
        (lambda case, _: int("x"[:0] or "y"), "nothing"),
        (lambda case, _: (_ for _ in ()).throw(ValueError("bad")), "without a sentence"),
    ],
)
def test_the_harness_finds_what_it_looks_for(attack, message):
    if message == "nothing":
        assert run(broken(attack), cases=2).ends == {"ValueError": 2}
        return
    with pytest.raises(Finding, match=message):
        run(broken(attack), cases=2)
