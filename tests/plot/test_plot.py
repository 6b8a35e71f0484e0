"""Displays: the data that are drawn, and the figures of the report."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from summaries import summary, with_every_outcome

from lupi import SurrogateClassifier, SurrogateRegressor, SVM2Plus, SVMPlus, plot
from lupi.comparison import Comparison
from lupi.plot.figures import draw_differences, draw_permutations, report_figures

figures = pytest.importorskip("matplotlib.figure")


@pytest.fixture
def axes():
    return figures.Figure().subplots()


@pytest.fixture(scope="module")
def surrogate(arrays):
    X, y, Z = arrays
    labels = np.where(np.arange(len(y)) < 60, y, np.nan)
    return SurrogateClassifier("ridge").fit(X, labels, privileged=Z), labels


def ticks(ax):
    ax.figure.canvas.draw()
    return [label.get_text() for label in ax.get_yticklabels()]


def test_gains_of_another_size_and_style(axes):
    made = Comparison(with_every_outcome())
    display = plot.GainsDisplay.from_comparison(made, size=0, ax=axes, marker="s")
    assert display.ax_ is axes
    assert display.figure_ is axes.figure
    first = made.summary["sizes"][0]
    assert f"{first['train_size']} labeled rows" in axes.get_xlabel()
    drawn = {round(float(c[0].get_xdata()[0]), 9) for c in axes.containers}
    wanted = {row[part]["mean"] for row in first["methods"] if row["outcome"] for part in ("gain", "over_shuffled")}
    assert {round(100 * mean, 9) for mean in wanted} <= drawn
    assert axes.containers[0][0].get_marker() == "s"


def test_curve_marks_what_the_columns_are_worth(axes):
    made = summary("yes")
    name = made["verdict"]["candidate"]
    found = {"train_size": 20, "method": name, "score": 0.91, "baseline_rows": 33.0, "at_least": 40, "shown": True}
    made["worth"] = [found]
    display = plot.LearningCurveDisplay.from_comparison(Comparison(made), ax=axes)
    assert display.worth == found
    assert [text.get_text() for text in axes.texts] == ["20 rows with the columns\nare worth 33 without"]
    guide = axes.lines[len(display.lines)]
    np.testing.assert_allclose(guide.get_xydata(), [[20, 91], [33, 91]])
    found["shown"] = False
    assert plot.LearningCurveDisplay.from_comparison(Comparison(made), ax=axes).worth is None


def test_bars_are_sorted(axes):
    draw_differences(axes, np.array([1.0, -2.0, 3.0]), "points")
    assert [bar.get_height() for bar in axes.patches] == [3, 1, -2]
    assert axes.patches[2].get_facecolor() != axes.patches[0].get_facecolor()


def test_histogram_counts_the_permutations(axes):
    draw_permutations(axes, np.array([50.0] * 6 + [60.0] * 3 + [70.0]), 72.0, "by AUC")
    assert [bar.get_height() for bar in axes.patches if bar.get_height()] == [6, 3, 1]
    assert axes.lines[0].get_xdata() == [72, 72]
    assert axes.get_title(loc="right") == "real rows: 72.00"


def test_figures_of_the_report():
    """Colors are variables of the page, identifiers are unique, names cannot break out of the SVG."""
    evil = "<script>$1$ --> </svg>"
    made = with_every_outcome(evil + "{}")
    made["columns"][0]["name"] = evil
    figures_of_page = report_figures(made)
    assert set(figures_of_page) == {"answer", "splits", "gains", "curve", "permutation", "columns"}
    text = "".join(figures_of_page.values())
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', text)) <= set(ids)
    assert set(re.findall(r"#[0-9a-f]{6}\b", re.sub(r'="#[^"]*"|url\(#[^)]*', "", text))) == set()
    assert {"var(--real)", "var(--ink)", "var(--soft)", "var(--shuffled)"} <= set(re.findall(r"var\([^)]*\)", text))
    assert "<script" not in text
    assert text.count("</svg>") == 6
    assert "http" not in text
    for name, figure in figures_of_page.items():
        ElementTree.fromstring(figure)
        assert re.match(rf'<svg viewBox="0 0 480 [\d.]+" role="img" aria-labelledby="{name}-t {name}-d"', figure)
    loss = made["columns"][0]["loss"]
    assert f"{evil} {100 * loss['mean']:+.2f}".replace("<", "&lt;").replace(">", "&gt;") in figures_of_page["columns"]


def test_teachers_and_columns_are_those_of_explain(surrogate, axes):
    model, _ = surrogate
    facts = model.explain()
    plot.TeacherWeightsDisplay.from_estimator(model, ax=axes)
    ranked = sorted(facts["teachers"].items(), key=lambda item: -item[1])
    assert ticks(axes) == [name for name, _ in ranked]
    assert [bar.get_width() for bar in axes.patches] == [weight for _, weight in ranked]
    other = figures.Figure().subplots()
    display = plot.ColumnEvidenceDisplay.from_estimator(model, max_columns=1, ax=other)
    best = max(facts["columns"], key=facts["columns"].get)
    assert display.evidence == {best: facts["columns"][best]}
    assert ticks(other) == [best]


def test_displays_name_what_they_need(arrays, surrogate, axes):
    X, y, _ = arrays
    plain = SurrogateClassifier("ridge").fit(X, y)
    for display in (plot.TeacherWeightsDisplay, plot.ColumnEvidenceDisplay):
        with pytest.raises(ValueError, match="call fit with privileged=Z"):
            display.from_estimator(plain, ax=axes)
        with pytest.raises(TypeError, match="SVM2Plus has no teachers"):
            display.from_estimator(SVM2Plus(), ax=axes)
    with pytest.raises(ValueError, match="no `surrogate_`"):
        plot.SurrogateDisplay.from_estimator(plain, y, ax=axes)
    with pytest.raises(ValueError, match="fitted with 90 rows"):
        plot.SurrogateDisplay.from_estimator(surrogate[0], y[:5], ax=axes)


def test_surrogate_against_labels(surrogate, axes):
    model, labels = surrogate
    plot.SurrogateDisplay.from_estimator(model, labels, ax=axes)
    assert ticks(axes) == ["0", "1", "no label"]
    logits = model.surrogate_[labels == 1]
    drawn = axes.collections[1].get_offsets()[:, 0]
    np.testing.assert_allclose(np.sort(drawn), np.sort(1 / (1 + np.exp(-logits))))
    assert len(axes.collections[2].get_offsets()) == np.isnan(labels).sum()


def test_surrogate_of_several_classes_and_of_numbers(arrays, axes):
    X, _, Z = arrays
    y = np.digitize(Z[:, 0], np.quantile(Z[:, 0], [1 / 3, 2 / 3]))
    model = SurrogateClassifier("ridge").fit(X, y, privileged=Z)
    display = plot.SurrogateDisplay.from_estimator(model, y, ax=axes)
    np.testing.assert_array_equal(display.surrogate, model.surrogate_[np.arange(len(y)), y])
    numbers = SurrogateRegressor("ridge").fit(X, Z[:, 0], privileged=Z)
    other = figures.Figure().subplots()
    plot.SurrogateDisplay.from_estimator(numbers, Z[:, 0], ax=other)
    np.testing.assert_allclose(other.collections[0].get_offsets(), np.column_stack([Z[:, 0], numbers.surrogate_]))


@pytest.mark.parametrize("target", [None, 0, 1])
def test_correction_is_drawn_over_the_margin(arrays, axes, target):
    X, y, Z = arrays
    model = SVMPlus(C=1, correction="labeled").fit(X, y, privileged=Z)
    display = plot.CorrectionDisplay.from_estimator(model, X, y, Z, target=target, ax=axes)
    # Whichever class is asked for: margin and slack of an example do not change.
    signs = 2 * y - 1
    np.testing.assert_allclose(display.margins, signs * model.decision_function(X))
    np.testing.assert_allclose(display.correction, signs * model.correcting_function(Z))
    assert len(axes.collections[0].get_offsets()) == (y == (1 if target is None else target)).sum()


def test_correction_of_one_class_among_several(arrays, axes):
    X, _, Z = arrays
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    model = SVM2Plus().fit(X, y, privileged=Z)
    with pytest.raises(ValueError, match=r"one of the classes \['a', 'b', 'c'\]; got None"):
        plot.CorrectionDisplay.from_estimator(model, X, y, Z, ax=axes)
    display = plot.CorrectionDisplay.from_estimator(model, X, y, Z, target="b", ax=axes)
    np.testing.assert_allclose(display.correction, model.correcting_function(Z)[:, 1])
    np.testing.assert_allclose(display.margins, np.where(y == "b", 1, -1) * model.decision_function(X)[:, 1])
