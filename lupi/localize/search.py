"""Parameter search of a localizer on validation images; finished combinations are stored, so an interrupted search resumes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import product
from numbers import Real
from os import PathLike
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from lupi.files import digest_of, strict_json
from lupi.localize.evaluation import evaluate_boxes
from lupi.localize.localizer import FEATURE_PARAMETERS, LEARNERS, Localizer, TrainingWords
from lupi.run import Store, identity, progress, run_units
from lupi.vision.images import WordImage

# Weights of the geometry to try; the Gaussian of a kernel needs smaller ones than a linear score.
SCALES = {"ssvm": [5.0, 20.0, 80.0], "jkse": [0.5, 2.0, 8.0]}


def paper_grid(method: str, n: int = 4, geometry: bool = False) -> dict[str, Any]:
    """Grid of the papers: `n` values per parameter, from 2^-8 to 2^5 for C, lam and rho; three scales with `geometry`.

    Examples
    --------
    >>> from lupi.localize import paper_grid
    >>> {name: len(values) for name, values in paper_grid("ssvm+").items()}
    {'C': 4, 'lam': 4, 'rho': 4}
    """
    grid = {name: np.geomspace(2.0**-8, 2.0**5, n).tolist() for name in ("C", "lam", "rho", "gamma")}
    grid["nu"] = np.linspace(0.1, 0.9, n).tolist()
    found = {name: grid[name] for name in LEARNERS[method][1] if name in grid}
    return found | ({"geometry_scale": SCALES[method.rstrip("+")]} if geometry else {})


def search_parameters(
    localizer: Any,
    images: Sequence[Any],
    boxes: Sequence[Any],
    privileged: Any = None,
    *,
    validation: Any,
    grid: dict[str, Any] | None = None,
    vocabulary_images: Any = None,
    store: str | PathLike[str] | None = None,
    n_jobs: int | None = None,
    verbose: bool = False,
    max_time: float | None = None,
) -> tuple[Any, list[dict[str, Any]]]:
    """Try every combination of a grid and fit a localizer with the best one.

    Words are computed once. The best combination has the largest mean overlap on the validation images; ties go to the first
    one in the order of the grid.

    Parameters
    ----------
    localizer : Localizer
        Its other parameters are used; it is not changed.
    images, boxes, privileged
        Training data, as in ``Localizer.fit``.
    validation : tuple (images, boxes)
        Data to compare the combinations on.
    grid : dict of name -> list, or None, default=None
        None uses :func:`paper_grid`.
    vocabulary_images : sequence or None, default=None
        Images to learn the vocabulary from; None: the training images.
    store : path or None, default=None
        Folder for finished combinations, keyed by data and parameters (needs an integer ``random_state``).
    n_jobs : int or None, default=None
        Processes.
    verbose : bool, default=False
        Show progress.
    max_time : float or None, default=None
        Seconds after which no new combination is tried: the best finished one is fitted, with a warning.

    Returns
    -------
    localizer : Localizer
        Fitted with the best parameters.
    table : list of dict
        params, mean_overlap, detection_rate and dual_gap of every combination.
    """
    grid = paper_grid(localizer.method) if grid is None else dict(grid)
    names = (*LEARNERS[localizer.method][1], *FEATURE_PARAMETERS)
    if set(grid) - set(names) or not grid or not all(len(values) for values in grid.values()):
        raise ValueError(
            f"`grid` must hold values for parameters of {localizer.method!r} ({', '.join(names)}), got {sorted(grid)}."
        )
    if max_time is not None and not (isinstance(max_time, Real) and max_time > 0):
        raise ValueError(f"`max_time` must be a positive number of seconds or None, got {max_time!r}.")
    deadline = None if max_time is None else monotonic() + float(max_time)
    chosen = clone(localizer)
    words = chosen.training_words(images, boxes, privileged, vocabulary_images)
    held_out = [pair for pair in zip(chosen.bag_.transform(validation[0]), validation[1]) if pair[0] is not None]
    return search_words(chosen, words, held_out, grid, store=store, n_jobs=n_jobs, verbose=verbose, deadline=deadline)


def search_words(
    localizer: Localizer,
    words: TrainingWords,
    held_out: list[tuple[WordImage, Any]],
    grid: dict[str, list[Any]],
    *,
    store: str | PathLike[str] | None = None,
    n_jobs: int | None = None,
    verbose: bool = False,
    deadline: float | None = None,
) -> tuple[Localizer, list[dict[str, Any]]]:
    """The search on word images, until the `deadline` of :func:`time.monotonic`; it fits `localizer`."""
    cells = [dict(zip(grid, values)) for values in product(*grid.values())]
    plain = clone(localizer)
    options = {name: getattr(plain, name) for name in (*LEARNERS[plain.method][1], *FEATURE_PARAMETERS)}
    keys = [strict_json({**options, **cell}, sort_keys=True, default=str) for cell in cells]
    work = {key: (_evaluate_cell, cell, plain, words, held_out) for key, cell in zip(keys, cells)}
    facts = identity(data=_digest(words, held_out), method=plain.method, grid_step=plain.grid_step)
    path = None
    if store is not None and isinstance(plain.random_state, (int, np.integer)):
        path = Path(store) / f"{facts[:16]}.sqlite"
    with Store(path, facts) as opened, progress("Trying parameters", verbose) as report:
        found = run_units(work, opened, n_jobs=n_jobs, on_progress=report, deadline=deadline)
    table = [{"params": cell, **found[key]} for key, cell in zip(keys, cells) if key in found]
    if len(table) < len(cells):
        message = f"the search reached max_time after {len(table)} of {len(cells)} combinations"
        if not table:
            raise TimeoutError(f"{message}; raise max_time.")
        warnings.warn(f"{message}; the best of these is used.", ConvergenceWarning, stacklevel=3)
    best = max(table, key=lambda row: row["mean_overlap"])
    return localizer.set_params(**best["params"]).fit_words(words), table


def _evaluate_cell(
    params: dict[str, Any], localizer: Localizer, words: TrainingWords, held_out: list[tuple[WordImage, Any]]
) -> dict[str, float]:
    candidate = clone(localizer).set_params(**params)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the table reports the gap
        candidate.fit_words(words)
    images, boxes = zip(*held_out)
    result = evaluate_boxes(boxes, candidate.model_.predict(list(images)))
    figures = {name: result[name] for name in ("mean_overlap", "detection_rate")}
    return {**figures, "dual_gap": float(candidate.model_.dual_gap_)}


def _digest(words: TrainingWords, held_out: list[tuple[WordImage, Any]]) -> str:
    pairs = [*zip(words.X, words.Y), *((z, None) for z in words.Z or []), *held_out]
    parts = [part for x, y in pairs for part in (np.array([x.rows, x.cols, x.words]), x.shape, y)]
    return digest_of(words.n_words, words.n_privileged_words, len(words.X), len(held_out), *parts)
