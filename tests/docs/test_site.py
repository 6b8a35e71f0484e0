"""The site's own pages: their code runs, and the reference has every public name."""

import importlib
import inspect
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import lupi
from lupi.ranking import ranker

DOCS = Path(__file__).resolve().parents[2] / "docs"
ROOMS = ("lupi", "lupi.datasets", "lupi.localize", "lupi.plot", "lupi.structured", "lupi.vision")


def run_code_of(page, last=None):
    """The names that are there after the page's blocks, run one after the other as a reader would type them."""
    names = {}
    for block in re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), flags=re.DOTALL)[:last]:
        exec(block, names)
    return names


METHODS = sorted(page.stem for page in (DOCS / "methods").glob("*.md") if page.stem != "README")
PARTS = ["Problem", "Dual", "Algorithm", "Cost", "When it collapses", "When to prefer another"]


@pytest.mark.parametrize("method", METHODS)
def test_page_of_a_method(method):
    text = (DOCS / "methods" / f"{method}.md").read_text()
    assert re.findall("^## (.*)$", text, flags=re.MULTILINE) == PARTS
    names = run_code_of(f"methods/{method}.md")
    fitted = names.get("model", names.get("ranker"))
    assert type(fitted).__name__ in text.splitlines()[0]
    if hasattr(fitted, "dual_gap_"):
        assert fitted.dual_gap_ < 0.011
    if hasattr(fitted, "score"):
        labeled = ~np.isnan(names["y"])
        assert fitted.score(names["X"][labeled], names["y"][labeled]) > 0.6
    pages = re.findall(r"^(\w+)$", (DOCS / "methods" / "README.md").read_text().split("{toctree}")[1], re.MULTILINE)
    assert method in pages


def test_every_method_has_a_page():
    titles = "".join((DOCS / "methods" / f"{method}.md").read_text().splitlines()[0] for method in METHODS)
    estimators = {
        name
        for name in lupi.__all__
        if inspect.isclass(found := getattr(lupi, name)) and issubclass(found, BaseEstimator)
    }
    # The first is a search over another method, the second a way to pass the privileged features to one.
    assert {name for name in estimators - {"RankTransferCV", "PrivilegedColumns"} if f"`{name}`" not in titles} == set()


def test_start(capsys):
    run_code_of("start.md")
    scores = dict(re.findall(r"^(with|without|shuffled) +(0\.\d{3})$", capsys.readouterr().out, flags=re.MULTILINE))
    controls = max(float(scores["without"]), float(scores["shuffled"]))
    assert float(scores["with"]) > controls + 0.03


def test_deploy():
    pytest.importorskip("onnx")
    found = run_code_of("deploy.md")["found"]
    assert [each.name for each in found.graph.input] == ["X"]


def test_ranking():
    names = run_code_of("ranking.md")
    assert names["ranker"].decision_function(names["X_new"]).shape == (20,)
    assert set(names["search"].best_params_) == {"C", "C_privileged"}


def test_pipelines():
    names = run_code_of("pipelines.md")
    assert names["search"].best_score_ > 0.9
    assert set(names["model"].explain()["columns"]) == {
        f"{space}/{column}" for space, table in names["spaces"].items() for column in table
    }


@pytest.mark.parametrize(("encoder", "last"), [("lupi.tabular_model", 2), ("scikit-learn", 3), ("skrub", None)])
def test_tables(encoder, last, capsys):
    pytest.importorskip(encoder.replace("scikit-learn", "sklearn").split(".")[0])
    names = run_code_of("tables.md", last)
    assert re.search(rf"^## {encoder}$", (DOCS / "tables.md").read_text(), flags=re.MULTILINE)
    scores = np.array(
        re.findall(r"^\[([\d. ]+)\]$", capsys.readouterr().out, flags=re.MULTILINE)[-1].split(), dtype=float
    )
    assert scores.mean() > 0.7
    copied = pickle.loads(pickle.dumps(names["model"]))
    new = names["patients"].drop(columns=names["later"])
    np.testing.assert_array_equal(copied.predict(new), names["model"].predict(new))


def test_own_parts():
    names = run_code_of("own_parts.md")
    assert "distilled" in str(names["result"])
    kernel = names["cauchy"](names["X"], names["X"])
    assert abs(kernel.diagonal() - 1).max() < 1e-12
    assert names["yours"].converged
    np.testing.assert_allclose(names["yours"].point, names["ours"].point, atol=1e-3)


@pytest.fixture(autouse=True)
def solvers_stay_as_they_are(monkeypatch):
    """A page may add a solver of its own; other tests do not see it."""
    monkeypatch.setattr(ranker, "SOLVERS", dict(ranker.SOLVERS))


@pytest.mark.parametrize(
    "page", ["about", "architecture", "benchmarks", "glossary", "guides", "index", "measured", "papers_errors"]
)
def test_other_pages_have_no_code_that_nobody_runs(page):
    assert "```python" not in (DOCS / f"{page}.md").read_text()


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_has_its_page(room):
    blocks = re.findall(
        r"currentmodule:: (\S+)\n.*?nosignatures:\n\n(.*?)```", (DOCS / "reference.md").read_text(), re.S
    )
    listed = [name for module, names in blocks if module == room for name in names.split()]
    public = set(importlib.import_module(room).__all__) - {"__version__"}
    assert sorted(listed) == sorted(public)


def test_every_page_can_be_reached():
    text = "\n".join(page.read_text() for page in DOCS.glob("*.md"))
    trees = "\n".join(re.findall(r"```\{toctree\}\n(.*?)```", text, re.S))
    entries = re.findall(r"^(?:.*<)?([\w/*.]+)>?$", trees, flags=re.MULTILINE)
    pages = {page.stem for page in DOCS.glob("*.md")} - {"index"}
    assert pages - set(entries) == set()


def test_table_of_the_readme_is_that_of_the_page():
    """Figures stand in two places for two kinds of readers; they are the same."""

    def figures(path):
        rows = [
            line
            for line in path.read_text().splitlines()
            if line.endswith((" **yes** |", " **no** |", " **hardly** |"))
        ]
        return [re.findall(r"[+-]\d+\.\d+|in \d+|\d+ wins", row) for row in rows if "|" in row]

    ours = figures(DOCS / "should_i_use_this.md")
    assert all(row in ours for row in figures(DOCS.parent / "README.md"))
