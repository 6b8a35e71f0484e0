"""What a fitted surrogate model reports: weights and quality of the teachers, and what they are worth."""

from __future__ import annotations

from typing import Any

import numpy as np

from lupi.inputs.types import Array
from lupi.surrogate.members import Student, SurrogateData
from lupi.surrogate.ridge import TINY, RidgePath, correlation, squared_error
from lupi.surrogate.targets import Target
from lupi.surrogate.teachers import X_ALONE, Teachers, label_noise, probed_rows

# Smallest weight of a teacher, and number of columns, in the printed text.
SMALL_WEIGHT, SHOWN_COLUMNS = 0.005, 10
# Above this weight of the teacher on X alone, the text says that the privileged features teach nothing.
NOTHING_TAUGHT = 0.9


class Explanation(dict[str, Any]):
    """Result of ``explain()``: a dict that prints as text; empty without privileged features.

    Keys: ``teachers`` (name -> weight), ``teacher_quality`` (measures of the averaged teacher on left-out rows), ``slope`` (of
    its calibration), ``surrogate_r2`` and ``surrogate_correlation`` (how well the student predicts the surrogate of left-out
    rows), ``plain_weight`` (of the baseline in the output), ``n_labeled``, ``n_unlabeled``, ``n_taught`` (labeled rows with
    privileged features), ``effective_rows`` (labeled rows with which the baseline would have the same variance; None if not
    known) and ``columns`` (privileged column -> log-evidence that the teacher loses without it; None if not known).
    """

    def __repr__(self) -> str:
        if not self:
            return "No privileged features were used: the model is the baseline."
        lines = [f"Surrogate from {self['n_labeled']} labeled and {self['n_unlabeled']} unlabeled rows"]
        lines += ["", "Teachers (weight by left-out evidence)"]
        shown = {name: w for name, w in self["teachers"].items() if w >= SMALL_WEIGHT}
        lines += [f"  {weight:6.3f}  {name}" for name, weight in sorted(shown.items(), key=lambda item: -item[1])]
        if self["teachers"][X_ALONE] > NOTHING_TAUGHT:
            lines.append("  Nearly all weight is on X alone: the privileged features teach nothing here.")
        quality = ", ".join(f"{name} {value:.3f}" for name, value in self["teacher_quality"].items())
        lines += ["", f"Teacher on left-out rows: {quality}"]
        if self["slope"] == 0:
            return "\n".join([*lines, "Its scores do not follow the targets (slope 0): the model is the baseline."])
        r, r2 = self["surrogate_correlation"], self["surrogate_r2"]
        lines.append(f"X predicts the surrogate of left-out rows with correlation {r:.2f} (R2 {r2:.2f})")
        if self["effective_rows"] is not None:
            gained = max(0, round(self["effective_rows"] - self["n_taught"]))
            gain = f"Worth about {gained} more labeled rows" if gained else "No gain in variance"
            lines.append(f"{gain} (estimated from the noise that teacher and student keep, compared with a ridge on X)")
        if self["columns"]:
            lines += ["", "Privileged columns (log-evidence lost without each; below 0: better without)"]
            best = sorted(self["columns"].items(), key=lambda item: -item[1])
            lines += [f"  {value:+8.2f}  {name}" for name, value in best[:SHOWN_COLUMNS]]
            lines += [f"  ... and {len(best) - SHOWN_COLUMNS} more"] if len(best) > SHOWN_COLUMNS else []
        return "\n".join(lines)


def explain_fit(
    data: SurrogateData, A: Any, target: Target, teachers: Teachers, students: list[Student]
) -> Explanation:
    """Explanation of a fit with privileged features."""
    y, weight = data.rows.target[data.taught], data.rows.weight[data.taught]
    report = Explanation(teachers=teachers.weights, teacher_quality=target.quality(teachers.taught, y, weight))
    report |= {"slope": teachers.calibration.slope, "plain_weight": students[0].weight, "n_taught": float(weight.sum())}
    report |= {"n_labeled": len(data.labeled), "n_unlabeled": len(data.unlabeled), "columns": None}
    report |= dict.fromkeys(("surrogate_correlation", "surrogate_r2", "effective_rows"))
    if teachers.column_evidence is not None:
        report["columns"] = dict(zip(_column_names(data), teachers.column_evidence.tolist()))
    if len(students) > 1:
        student = students[-1]
        left_out = student.outputs[student.rows]
        found = ~np.isnan(left_out[:, 0])
        r = correlation(left_out[found], student.targets[found], data.rows.weight[student.rows[found]])
        report |= {"surrogate_correlation": r, "surrogate_r2": max(r, 0.0) ** 2}
        report["effective_rows"] = _effective_rows(data, A, target, teachers, report["surrogate_r2"])
    return report


def _column_names(data: SurrogateData) -> list[str]:
    """Names of the privileged columns; "table/column" if there are several tables."""
    names = []
    for block in data.rows.privileged:
        columns = range(block.rows.shape[1]) if block.feature_names is None else block.feature_names
        names += [str(column) if block.name is None else f"{block.name}/{column}" for column in columns]
    return names


def _effective_rows(data: SurrogateData, A: Any, target: Target, teachers: Teachers, r2: float) -> float | None:
    """Effective rows of the fit, from the taught rows and a sample of the unlabeled rows; None if not known."""
    if teachers.noise is None or teachers.x_alpha is None:
        return None
    taught = data.rows.weight[data.taught]
    noise = squared_error(teachers.taught, target.columns(data.rows.target[data.taught]), taught)
    scores = np.vstack([teachers.taught, teachers.unlabeled])
    of_scores = np.concatenate([taught, data.rows.weight[data.unlabeled]])
    mean = np.broadcast_to(of_scores @ scores / of_scores.sum(), scores.shape)
    gap = (1.0 - r2) * squared_error(scores, mean, of_scores)
    chosen = data.unlabeled[probed_rows(len(data.unlabeled))]
    rows = np.concatenate([data.taught, chosen])
    labeled, weight = np.arange(len(rows)) < len(data.taught), data.rows.weight[rows]
    if len(chosen):  # each chosen row stands for several
        weight[~labeled] *= data.rows.weight[data.unlabeled].sum() / weight[~labeled].sum()
    found = effective_rows(noise, gap, A.values[rows], labeled, weight, teachers.noise, teachers.x_alpha)
    # The teacher on X alone adds nothing to the baseline.
    n = float(taught.sum())
    return n + (1.0 - teachers.weights[X_ALONE]) * (found - n)


def effective_rows(
    noise: float, gap: float, A: Any, labeled: Array, weight: Array, teacher_noise: Array, alpha: float
) -> float:
    r"""Labeled rows with which a ridge on X would have the variance of the student of the surrogate.

    With :math:`y = Z\theta + \varepsilon`, :math:`Z = XB + \eta`, `noise` :math:`\sigma^2 = \mathrm{Var}(\varepsilon)` and `gap`
    :math:`\tau^2 = \mathrm{Var}(\eta\theta)`, least squares of n labels on X has the risk :math:`(\tau^2 + \sigma^2) p / n`, of
    the score of m rows by a teacher on Z :math:`\tau^2 p / m + \sigma^2\,\mathrm{tr}(P_X P_Z) / n`. For ridges, noise of unit
    variance is sent through the plain regression, through teacher and student (`teacher_noise` are the teacher's scores), and
    through the student; mean squares replace p and the trace. The student's penalty has the size per row of `alpha`.
    """
    n, m = weight[labeled].sum(), weight.sum()
    rows = np.flatnonzero(labeled)
    coef, intercept = RidgePath(A[rows], weight[rows]).solve(label_noise(weight[rows]), alpha)
    student = RidgePath(A, weight)

    def risk(values: Array) -> float:
        return float(weight @ np.square(values).mean(axis=1) / m)

    plain = (noise + gap) * risk(np.asarray(A @ coef) + intercept)
    through_both = risk(student.fitted(teacher_noise, alpha * m / n))
    through_student = risk(student.fitted(label_noise(weight), alpha * m / n))
    return float(n * plain / max(noise * through_both + gap * through_student, TINY))
