"""What a fitted surrogate model says about itself: numbers first, text from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lupi.surrogate import correlation, effective_rows
from lupi.surrogate.input import area_under_curve
from lupi.surrogate.ridge import squared_error
from lupi.surrogate.teachers import X_ALONE, probed_rows

if TYPE_CHECKING:
    from lupi.inputs.chunked_rows import AnyRows
    from lupi.surrogate.input import SurrogateInput
    from lupi.surrogate.teachers import Lesson

# Teachers and columns below these say nothing worth a line.
SMALL_WEIGHT, SHOWN_COLUMNS = 0.005, 10
# Weight of the teacher on X alone above which the text says so.
NOTHING_TAUGHT = 0.9


class Explanation(dict[str, Any]):
    """A dict that prints as text.

    Keys: ``teachers`` (name -> weight), ``teacher_quality`` (left-out measures of the averaged teacher), ``slope``,
    ``surrogate_r2`` and ``surrogate_correlation`` (how well the student predicts the surrogate of left-out rows),
    ``plain_share`` (of the plain student in the output), ``n_labeled``, ``n_unlabeled``, ``effective_rows`` (labeled rows
    with which the plain student would do as well; None if not known) and ``columns`` (name of a privileged column ->
    log-evidence that the teacher loses without it; None if not known).
    """

    def __repr__(self) -> str:
        if not self.get("teachers"):
            return "No privileged features were used: this is the plain student."
        lines = [f"Surrogate from {self['n_labeled']} labeled and {self['n_unlabeled']} unlabeled rows"]
        lines += ["", "Teachers (weight by left-out evidence)"]
        shown = {name: w for name, w in self["teachers"].items() if w >= SMALL_WEIGHT}
        lines += [f"  {weight:6.3f}  {name}" for name, weight in sorted(shown.items(), key=lambda item: -item[1])]
        if self["teachers"][X_ALONE] > NOTHING_TAUGHT:
            lines.append("  Nearly all weight is on X alone: the privileged features teach nothing here.")
        quality = ", ".join(f"{name} {value:.3f}" for name, value in self["teacher_quality"].items())
        lines += ["", f"The teacher on left-out rows: {quality}"]
        if self["slope"] == 0:
            return "\n".join(
                [*lines, "Its scores do not follow the targets (slope 0): the plain student is used alone."]
            )
        lines.append(
            f"X predicts the surrogate of left-out rows with correlation {self['surrogate_correlation']:.2f} "
            f"(R2 {self['surrogate_r2']:.2f})"
        )
        lines += self._gain_lines() + self._column_lines()
        return "\n".join(lines)

    def _gain_lines(self) -> list[str]:
        if self["effective_rows"] is None:
            return []
        gained = max(0, round(self["effective_rows"] - self["n_taught"]))
        how = (
            "estimated: noise sent through teacher and student, and through a plain ridge on X, shows how much of it each "
            "keeps; bias is not counted"
        )
        if gained == 0:
            return [f"Not worth more labeled rows by its variance alone ({how}: a comparison on test rows says more)"]
        return [f"Worth about {gained} more labeled rows ({how})"]

    def _column_lines(self) -> list[str]:
        if not self["columns"]:
            return []
        best = sorted(self["columns"].items(), key=lambda item: -item[1])
        lines = ["", "Privileged columns (log-evidence lost without each; below 0: better without)"]
        lines += [f"  {value:+8.2f}  {name}" for name, value in best[:SHOWN_COLUMNS]]
        if len(best) > SHOWN_COLUMNS:
            lines.append(f"  ... and {len(best) - SHOWN_COLUMNS} more")
        return lines


def teacher_quality(scores: np.ndarray, y: np.ndarray, weight: np.ndarray, n_classes: int | None) -> dict[str, float]:
    """Left-out measures of the averaged teacher, by task."""
    if n_classes is None:
        mean = weight @ y / weight.sum()
        return {
            "R2": 1.0 - squared_error(scores, y[:, None], weight) / max(weight @ (y - mean) ** 2 / weight.sum(), 1e-300)
        }
    if n_classes == 2:
        return {"AUC": area_under_curve(scores[:, 0], y == 1, weight)}
    areas = [area_under_curve(scores[:, k], y == k, weight) for k in range(n_classes) if 0 < (y == k).sum() < len(y)]
    return {"accuracy": float(weight @ (scores.argmax(axis=1) == y) / weight.sum()), "mean AUC": float(np.mean(areas))}


def teacher_facts(
    lesson: Lesson,
    slope: float,
    data: SurrogateInput,
    targets: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    n_classes: int | None,
) -> dict[str, Any]:
    """The part of the explanation that is known once the teachers are."""
    columns = lesson.column_evidence
    return {
        "teachers": {f"{c.name} (rbf)" if c.kernel == "rbf" else c.name: float(w)
                     for c, w in zip(lesson.candidates, lesson.weights)},
        "teacher_quality": {name: float(value) for name, value in teacher_quality(lesson.known, y, weight, n_classes).items()},
        "slope": slope,
        "n_labeled": len(data.labeled),
        "n_unlabeled": len(data.unlabeled),
        "n_taught": float(weight.sum()),
        "columns": None if columns is None else dict(zip(data.column_names, map(float, columns))),
        "label_noise": squared_error(lesson.known, targets, weight),
        "score_variance": _variance(lesson, data),
        "surrogate_r2": None, "surrogate_correlation": None, "effective_rows": None, "plain_share": 1.0,
    }  # fmt: skip


def _variance(lesson: Lesson, data: SurrogateInput) -> float:
    scores = np.vstack([lesson.known, lesson.unknown])
    weight = np.concatenate([data.weight[data.taught], data.weight[data.unlabeled]])
    return squared_error(scores, np.broadcast_to(weight @ scores / weight.sum(), scores.shape), weight)


def student_facts(
    facts: dict[str, Any], data: SurrogateInput, A: AnyRows, lesson: Lesson, left_out: np.ndarray, plain_share: float
) -> dict[str, Any]:
    """The rest of it, once the student is fitted (rows that were not left out are NaN)."""
    rows = data.with_surrogate
    weight = data.weight[rows]
    there = ~np.isnan(left_out[:, 0])
    r = correlation(left_out[there], np.asarray(lesson.surrogate)[there], weight[there])
    facts |= {"surrogate_correlation": r, "surrogate_r2": max(r, 0.0) ** 2, "plain_share": plain_share}
    if lesson.noise is not None and lesson.x_alpha is not None:
        gap = (1.0 - facts["surrogate_r2"]) * facts["score_variance"]
        gained = _effective_rows(facts["label_noise"], gap, data, A, lesson.noise, lesson.x_alpha) - facts["n_taught"]
        # The teacher on X alone brings nothing that the plain student does not have.
        facts["effective_rows"] = facts["n_taught"] + (1.0 - float(lesson.weights[-1])) * gained
    return facts


def _effective_rows(
    noise: float, gap: float, data: SurrogateInput, A: AnyRows, kept: tuple[np.ndarray, ...], x_alpha: float
) -> float:
    """On all labeled rows and the probed others, each of which stands for several."""
    chosen = probed_rows(len(data.unlabeled))
    rows = np.concatenate([data.taught, data.unlabeled[chosen]])
    labeled = np.arange(len(rows)) < len(data.taught)
    weight = data.weight[rows]
    if len(chosen):
        weight[~labeled] *= data.weight[data.unlabeled].sum() / weight[~labeled].sum()
    return effective_rows(noise, gap, A[rows], labeled, weight, np.vstack(kept), x_alpha)
