"""Every table of docs/results that other files do not check: rendered anew from the stored scores, line by line.

(The pages about birds, surrogates and verdicts have such tests of their own, beside this file.)
"""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from experiments import celik, mnist_plus, pictures_with_text, sharmanska, sharmanska_substitutes, xu

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def stored(name):
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def table1(name):
    found = stored(name)
    classes = [(pair["first"], pair["second"]) for pair in found["pairs"]]
    return [*sharmanska.table_lines(classes, found["pairs"], found["per_class"]), sharmanska.overview(found)]


def tasks(name):
    comparisons = stored(name)["comparisons"]
    lines = [line for task, found in comparisons.items() for line in table(task, found["sizes"][0])]
    if name == "sharmanska-table3":
        lines.append(sharmanska_substitutes.wins([found["sizes"][0] for found in comparisons.values()]))
    else:
        for group, members in sharmanska_substitutes.GROUPS.items():
            sizes = [comparisons[member]["sizes"][0] for member in members]
            lines.append(f"{group}: {sharmanska_substitutes.wins(sizes)}")
    return lines


def table(task, size):
    return sharmanska_substitutes.table_lines(task, size)


def digits(name):
    found = stored(name)
    curves, known = (SimpleNamespace(summary=found[part]) for part in ("curves", "reference"))
    lines = mnist_plus._curves(curves, mnist_plus.GRIDS) + mnist_plus._curves(known, ("svm", "reference"))
    return lines + mnist_plus._gains(curves)


def program(name):
    found = stored(name)
    # Which solver the program was given to is no figure.
    return celik.table_lines(found["problems"], found["n_draws"])[1:]


# Page -> files of scores -> lines that must stand on the page.
PAGES = {
    "sharmanska-table1": {
        name: table1
        for name in (
            "sharmanska-table1",
            "sharmanska-table1-hinge-across",
            "sharmanska-table1-hinge-all",
            "sharmanska-table1-hinge-across-n50",
            "sharmanska-table1-hinge-all-n50",
        )
        if (RESULTS / f"{name}.json").exists()
    },
    "sharmanska-table2": {"sharmanska-table2": tasks},
    "sharmanska-table3": {"sharmanska-table3": tasks},
    "sharmanska-table4": {
        "sharmanska-table4": lambda name: [
            line
            for size in stored(name)["comparison"]["sizes"]
            for line in table(f"reviews, N = {size['train_size']}", size)
        ]
    },
    "mnist-plus": {"mnist-plus": digits},
    "celik-qp": {"celik-qp": program},
    "xu-table2": {"xu-table2": lambda name: table("pictures with text", stored(name)["comparison"]["sizes"][0])},
    "xu-table3": {
        "xu-table3": lambda name: xu.table3_lines(stored(name)["times"], stored(name)["differences"]),
        "xu-table4": lambda name: xu.table4_lines(stored(name)["times"]),
    },
}


@pytest.mark.parametrize(("page", "name"), [(page, name) for page, files in PAGES.items() for name in files])
def test_the_table_is_that_of_the_scores(page, name):
    printed = [line.rstrip() for line in (RESULTS / f"{page}.md").read_text(encoding="utf-8").splitlines()]
    lines = [line.rstrip() for line in PAGES[page][name](name)]
    assert len(lines) > 4
    assert [line for line in lines if line not in printed] == []


def summaries(found):
    """Every mapping with single scores in a file, with its place."""
    if isinstance(found, dict):
        if isinstance(found.get("scores"), list) and "mean" in found:
            yield found
        for value in found.values():
            yield from summaries(value)
    elif isinstance(found, list):
        for value in found:
            yield from summaries(value)


@pytest.mark.parametrize(
    "name",
    [name for files in PAGES.values() for name in files if not name.startswith(("xu-table3", "xu-table4", "celik"))],
)
def test_means_errors_and_gains_are_those_of_the_scores(name):
    found = stored(name)
    rows = list(summaries(found))
    assert len(rows) > 4
    for row in rows:
        scores = np.array([score for score in row["scores"] if score is not None])
        assert row["mean"] == pytest.approx(scores.mean(), abs=2e-6)
        assert row["error"] == pytest.approx(scores.std(ddof=1) / np.sqrt(len(scores)), abs=2e-6)
    for methods in method_tables(found):
        for method, plain in (*sharmanska.BASELINE.items(), ("svm2+", "l2svm"), ("svm2k", "svm")):
            if "gain" in methods.get(method, {}):
                gain = np.array(methods[method]["scores"]) - methods[plain]["scores"]
                assert methods[method]["gain"]["mean"] == pytest.approx(gain.mean(), abs=2e-6)
                if "scores" in methods[method].get("shuffled", {}):
                    lucky = np.array(methods[method]["shuffled"]["scores"]) - methods[plain]["scores"]
                    assert methods[method]["shuffled_gain"]["mean"] == pytest.approx(lucky.mean(), abs=2e-6)


def method_tables(found):
    """The methods of every task of a file, by name."""
    if isinstance(found, dict):
        methods = found.get("methods")
        if isinstance(methods, dict) and "ranksvm" in methods:
            yield methods
        elif isinstance(methods, list) and methods and isinstance(methods[0], dict) and "scores" in methods[0]:
            yield {row["name"]: row for row in methods}
        for value in found.values():
            yield from method_tables(value)
    elif isinstance(found, list):
        for value in found:
            yield from method_tables(value)


def test_every_file_of_scores_is_checked_somewhere():
    """A new result without such a test is noticed."""
    here = Path(__file__).parent
    elsewhere = "".join(
        path.read_text(encoding="utf-8") for path in here.glob("test_*.py") if path.name != Path(__file__).name
    )
    known = {name for files in PAGES.values() for name in files}
    for path in RESULTS.glob("*.json"):
        stem = path.stem
        told = (
            stem in known
            or f'"{stem}"' in elsewhere
            or (stem.split("-")[0] in ("surrogate", "compare") and f'"{stem.split("-", 1)[1]}"' in elsewhere)
        )
        assert told, stem
    pages = {path.stem for path in RESULTS.glob("*.md")} - {"README"}
    assert set(PAGES) <= pages
    assert pictures_with_text.PRINTED["svm2+"] == "SVM2+"
