"""Every table of docs/results is rendered from the stored scores, line by line."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from experiments import celik, feyereisl, mnist_plus, sharmanska, sharmanska_tables, sun, surrogate, surrogate_studies
from lupi.comparison.methods import RECIPES

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def table1(found):
    return [*sharmanska.table_lines(found), sharmanska.overview(found)]


def boxes(found):
    return sharmanska_tables.tasks_page(found["comparisons"], sharmanska_tables.GROUPS)


def pictures(found):
    return sharmanska_tables.tasks_page(found["comparisons"])


def text(found):
    return sharmanska_tables.task_lines("pictures with text", found["comparison"]["sizes"][0])


def reviews(found):
    return sharmanska_tables.table4_lines(found["comparison"])


def unlabeled(found):
    return surrogate.gains_lines(found, reference="every label")


def digits(found):
    return surrogate.gains_lines(found, students=("",), reference="every label")


def against(*learners):
    return partial(surrogate.gains_lines, students=("",), learners=learners)


def program(found):
    return celik.table_lines(found["problems"], found["n_draws"])[1:]  # the first line names the solver


# Stored scores -> page, function of the scores.
PAGES = {
    "sharmanska-table1": ("sharmanska-table1", table1),
    "sharmanska-table1-hinge-across": ("sharmanska-table1", table1),
    "sharmanska-table1-hinge-all": ("sharmanska-table1", table1),
    "sharmanska-table1-hinge-across-n50": ("sharmanska-table1", table1),
    "sharmanska-table1-hinge-all-n50": ("sharmanska-table1", table1),
    "sharmanska-table2": ("sharmanska-table2", boxes),
    "sharmanska-table3": ("sharmanska-table3", pictures),
    "sharmanska-table4": ("sharmanska-table4", reviews),
    "xu-table2": ("xu-table2", text),
    "mnist-plus": ("mnist-plus", mnist_plus.page),
    "celik-qp": ("celik-qp", program),
    "feyereisl-table1": ("feyereisl-table1", feyereisl.table_lines),
    "sun-table2": ("sun-table2", sun.table_lines),
    "surrogate-tables": ("surrogate", surrogate.gains_lines),
    "surrogate-unlabeled": ("surrogate", unlabeled),
    "surrogate-digits": ("surrogate", digits),
    "surrogate-controls": ("surrogate", surrogate.controls_lines),
    "surrogate-numbers": ("surrogate-studies", against(*RECIPES)),
    "surrogate-prices": ("surrogate-studies", against(*surrogate_studies.PRICERS)),
    "surrogate-recipes": ("surrogate-studies", against(*RECIPES)),
    "surrogate-phecap": ("surrogate-studies", against("lasso", "forest")),
    "surrogate-pass": ("surrogate-studies", against("lasso", "LassoCV")),
    "surrogate-cities": ("surrogate-studies", against("OLS", "RidgeCV", "LuPTS")),
}


def stored(name):
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def words(line):
    """A line without its column widths."""
    return " ".join(line.split())


@pytest.mark.parametrize("name", PAGES)
def test_the_page_holds_the_table_of_the_scores(name):
    page, render = PAGES[name]
    printed = {words(line) for line in (RESULTS / f"{page}.md").read_text(encoding="utf-8").splitlines()}
    lines = [words(line) for line in render(stored(name)) if not line.startswith("data: ")]  # a folder, not a figure
    assert len(lines) > 4
    assert [line for line in lines if line not in printed] == []


def summaries(found):
    """Every mapping with single scores in a file."""
    if isinstance(found, dict):
        if isinstance(found.get("scores"), list) and "mean" in found:
            yield found
        for value in found.values():
            yield from summaries(value)
    elif isinstance(found, list):
        for value in found:
            yield from summaries(value)


def test_means_and_errors_are_those_of_the_scores():
    rows = [row for name in PAGES for row in summaries(stored(name))]
    assert len(rows) > 900
    for row in rows:
        scores = np.array([score for score in row["scores"] if score is not None])
        assert row["mean"] == pytest.approx(scores.mean(), abs=2e-6)
        assert row["error"] == pytest.approx(scores.std(ddof=1) / np.sqrt(len(scores)), abs=2e-6)
