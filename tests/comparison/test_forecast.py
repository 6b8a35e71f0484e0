"""How long a comparison will take, from given durations: nothing here looks at a clock."""

import numpy as np
import pytest

from lupi import compare
from lupi.comparison import comparison as module
from lupi.comparison.methods import METHODS
from lupi.comparison.units import COSTS, FIRST_GUESS, PER_PERMUTATION, Unit, guess_seconds, unit_kind
from lupi.datasets import make_privileged
from lupi.engine.units import Forecast


def units(names, splits=20, sizes=(100,), controls=("",)):
    return [Unit(n, k, name, c) for k in range(splits) for n in sizes for name in names for c in controls]


def forecast_of(planned, workers):
    forecast = Forecast(unit_kind, guess_seconds, workers)
    forecast.plan(planned)
    return forecast


def test_first_guess_by_usual_costs_then_by_what_was_measured():
    names = ["linear", "forest", "boosting", "svm", "svm2+"]
    forecast = forecast_of(units(names), workers=2)
    # One tenth of a second is the unit of cost; the first one also loaded something.
    for name, seconds in zip(names[:3], (5.0, 0.4, 0.4)):
        assert forecast.left() == (None, False)
        forecast.add(Unit(100, 0, name), seconds)
    assert FIRST_GUESS == 4
    forecast.add(Unit(100, 0, "svm"), 0.5)
    expected = 19 * (5.0 + 0.4 + 0.4 + 0.5) + 20 * 0.1 * COSTS["svm2+"]
    seconds, sure = forecast.left()
    assert seconds == pytest.approx(expected / 2)
    assert not sure
    forecast.add(Unit(100, 0, "svm2+"), 3.0)
    forecast.add(Unit(100, 1, "linear"), 0.1)
    assert forecast.left() == (pytest.approx((18 * 0.1 + 19 * (0.4 + 0.4 + 0.5 + 3.0)) / 2), True)


def test_shuffled_rows_larger_sizes_and_the_exact_test_follow_from_the_method_itself():
    planned = units(["surrogate-ridge"], 10, (50, 100), ("", "shuffled")) + units(
        ["surrogate-ridge"], 10, controls=("permuted 99",)
    )
    forecast = forecast_of(planned, workers=1)
    assert forecast.left() == (None, False)
    forecast.add(Unit(50, 0, "surrogate-ridge"), 1.0)
    assert forecast.left() == (pytest.approx(19 * 1.0 + 20 * 2.0 + 10 * 99 * PER_PERMUTATION * 2.0), False)
    forecast.add(Unit(100, 0, "surrogate-ridge"), 2.5)
    assert forecast.left() == (pytest.approx(19 * 1.0 + 19 * 2.5 + 10 * 99 * PER_PERMUTATION * 2.5), True)
    forecast.add(Unit(100, 0, "surrogate-ridge", "permuted 99"), 7.0)
    assert forecast.left() == (pytest.approx(19 * 1.0 + 19 * 2.5 + 9 * 7.0), True)


def test_never_more_workers_than_units():
    forecast = forecast_of(units(["linear"], 2), workers=8)
    forecast.add(Unit(100, 0, "linear"), 3.0)
    assert forecast.left() == (3.0, True)


def test_costs_are_of_methods_that_there_are():
    assert set(COSTS) <= set(METHODS)


class Report:
    """Remembers what it was told."""

    def __init__(self):
        self.told = []

    def expect(self, seconds, sure):
        self.told.append((seconds, sure))

    def __call__(self, done, total):
        self.told.append((done, total))


def test_a_comparison_tells_how_long_it_will_take_after_one_fit_of_each_method(monkeypatch, tmp_path):
    seconds = {"linear": 1.0, "ridge-plain": 2.0, "surrogate-ridge": 3.0}

    def timed(function, unit, setup):
        return {
            **function(unit, setup),
            "warnings": {},
            "seconds": 9.0 if unit.control[:4] == "perm" else seconds[unit.method],
        }

    monkeypatch.setattr(module, "measured", timed)
    X, y, Z = make_privileged(150, random_state=0, return_X_y_privileged=True)
    given = {
        "methods": ["surrogate-ridge"],
        "baselines": ["linear"],
        "n_splits": 4,
        "train_size": 40,
        "permutations": 19,
    }
    report = Report()
    compare(X, y, Z, **given, columns=False, on_progress=report, store=tmp_path / "units.sqlite")
    first = next(k for k, (_, sure) in enumerate(report.told) if sure is True)
    assert report.told[first + 1] == (3, 20)
    exact = 4 * 19 * PER_PERMUTATION * 3.0
    assert report.told[first][0] == pytest.approx(3 * (1.0 + 2.0 + 3.0) + 4 * 3.0 + exact)
    assert report.told[-2:] == [(0.0, True), (20, 20)]
    # The second time everything is stored, and nothing is left.
    again = Report()
    compare(X, y, Z, **given, columns=False, on_progress=again, store=tmp_path / "units.sqlite")
    assert again.told[-1] == (20, 20)
    assert np.isclose(again.told[-2][0], 0.0)
