"""Choose parameters on a validation set, on all cores; every finished cell is kept, so an interrupted search resumes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from itertools import product
from numbers import Real
from os import PathLike
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from lupi.files import digest_of, strict_json
from lupi.localize.evaluation import evaluate_boxes
from lupi.localize.learners import FEATURE_PARAMETERS, LEARNERS
from lupi.run import Store, identity, progress, run_units

if TYPE_CHECKING:
    from lupi.localize.localizer import Localizer, TrainingWords
    from lupi.vision.geometry import Box, WordImage

# Weights of the geometry to try: a kernel's Gaussian is narrow at a scale where a linear score only begins to see it.
SCALES = {"ssvm": [5.0, 20.0, 80.0], "jkse": [0.5, 2.0, 8.0]}


def paper_grid(method: str, n: int = 4, geometry: bool = False) -> dict[str, Any]:
    """The papers' grid: n values of each parameter, C, lam and rho from 2^-8 to 2^5; with geometry also three of its scale.

    Examples
    --------
    >>> from lupi.localize import paper_grid
    >>> {name: len(values) for name, values in paper_grid("ssvm+").items()}
    {'C': 4, 'lam': 4, 'rho': 4}
    """
    wide = [float(v) for v in np.geomspace(2.0**-8, 2.0**5, n)]
    values = {"C": wide, "lam": wide, "rho": wide, "gamma": wide, "nu": [float(v) for v in np.linspace(0.1, 0.9, n)]}
    found = {name: values[name] for name in LEARNERS[method].parameters if name in values}
    return found | ({"geometry_scale": SCALES["jkse" if "nu" in found else "ssvm"]} if geometry else {})


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

    Words are computed once. The best combination has the largest mean overlap on the validation images; among equals the first
    one in the grid's order.

    Parameters
    ----------
    localizer : Localizer
        Gives all other parameters; it is not changed.
    images, boxes, privileged
        Training data, as in ``Localizer.fit``.
    validation : tuple (images, boxes)
        Where combinations are compared.
    grid : dict of name -> list, or None, default=None
        None takes :func:`paper_grid`.
    vocabulary_images : sequence or None, default=None
        Images that the vocabulary is made from; None: the training images.
    store : path or None, default=None
        Folder in which finished combinations are kept, keyed by data and parameters (needs an integer ``random_state``).
    n_jobs : int or None, default=None
        Processes.
    verbose : bool, default=False
        Progress bar.
    max_time : float or None, default=None
        Seconds after which no new combination is tried: the best of those that are finished is fitted, with a warning.

    Returns
    -------
    localizer : Localizer
        Fitted with the best parameters.
    table : list of dict
        params, mean_overlap, detection_rate and dual_gap of every combination.
    """
    grid = paper_grid(localizer.method) if grid is None else dict(grid)
    check_grid(localizer, grid)
    if max_time is not None and not (isinstance(max_time, Real) and max_time > 0):
        raise ValueError(f"`max_time` must be a positive number of seconds or None, got {max_time!r}.")
    until = None if max_time is None else monotonic() + max_time
    chosen = clone(localizer)
    words = chosen.training_words(images, boxes, privileged, vocabulary_images)
    held_out = list(zip(chosen.bag_.transform(validation[0]), validation[1]))
    held_out = [(x, y) for x, y in held_out if x is not None]
    return search_words(chosen, words, held_out, grid, store=store, n_jobs=n_jobs, verbose=verbose, until=until)


def check_grid(localizer: Localizer, grid: dict[str, list[float]]) -> None:
    """Raise for a grid that holds no values, or names what the method does not have."""
    parameters = tunable(localizer)
    if set(grid) - set(parameters) or not grid or not all(len(v) for v in grid.values()):
        known = ", ".join(parameters)
        raise ValueError(f"grid must hold values for parameters of {localizer.method!r} ({known}), got {sorted(grid)}.")


def tunable(localizer: Localizer) -> tuple[str, ...]:
    """Names of the parameters that a search may try."""
    return (*LEARNERS[localizer.method].parameters, *FEATURE_PARAMETERS)


def search_words(
    localizer: Localizer,
    words: TrainingWords,
    held_out: list[tuple[WordImage, Box]],
    grid: dict[str, list[float]],
    *,
    store: str | os.PathLike[str] | None = None,
    n_jobs: int | None = None,
    verbose: bool = False,
    until: float | None = None,
) -> tuple[Localizer, list[dict[str, Any]]]:
    """The search on words that are there already.

    Parameters
    ----------
    localizer : Localizer
        With a vocabulary, if it is to predict images later; it is fitted with the best combination.
    words : TrainingWords
    held_out : list of (WordImage, Box)
    grid, store, n_jobs, verbose
        As in :func:`search_parameters`.
    until : float or None, default=None
        Moment of :func:`time.monotonic` after which no new combination is tried.

    Returns
    -------
    localizer, table
        As in :func:`search_parameters`.
    """
    cells = [dict(zip(grid, values)) for values in product(*grid.values())]
    plain = clone(localizer)
    options = {name: plain.get_params(deep=False)[name] for name in tunable(plain)}
    keys = [strict_json({**options, **cell}, sort_keys=True, default=str) for cell in cells]
    work = {key: (_try_cell, cell, plain, words, held_out) for key, cell in zip(keys, cells)}
    # Without a fixed seed two runs differ, and a stored cell of one would not belong to the other.
    kept = store is not None and isinstance(localizer.random_state, (int, np.integer))
    name = identity(data=_data_digest(words, held_out), method=plain.method, grid_step=plain.grid_step)
    with (
        Store(Path(store) / f"{name[:16]}.sqlite" if store is not None and kept else None, name) as opened,
        progress("Trying parameters", verbose) as report,
    ):
        found = run_units(work, opened, n_jobs=n_jobs, on_progress=report, deadline=until)
    table = [{"params": cell, **found[key]} for key, cell in zip(keys, cells) if key in found]
    if len(table) < len(cells):
        said = f"the time of the search (max_time) was over after {len(table)} of {len(cells)} combinations"
        if not table:
            raise TimeoutError(f"{said}: there is none to choose. Allow more time.")
        warnings.warn(f"{said}: the best of these is taken.", ConvergenceWarning, stacklevel=3)
    best = max(table, key=lambda row: row["mean_overlap"])
    return localizer.set_params(**best["params"]).fit_words(words), table


def _try_cell(
    params: dict[str, float], localizer: Localizer, words: TrainingWords, held_out: list[tuple[WordImage, Box]]
) -> dict[str, float]:
    candidate = clone(localizer).set_params(**params)
    with warnings.catch_warnings():
        # The gap in the table tells the same.
        warnings.simplefilter("ignore", ConvergenceWarning)
        candidate.fit_words(words)
    found = candidate.model_.predict([x for x, _ in held_out])
    result = evaluate_boxes([y for _, y in held_out], found)
    return {
        "mean_overlap": result["mean_overlap"],
        "detection_rate": result["detection_rate"],
        "dual_gap": float(candidate.model_.dual_gap_),
    }


def _data_digest(words: TrainingWords, held_out: list[tuple[WordImage, Box]]) -> str:
    def of(image: WordImage) -> str:
        return digest_of(np.array([image.rows, image.cols, image.words]), list(image.shape))

    def plain(box: Box) -> list[float]:
        return None if box is None else [float(v) for v in box]

    return digest_of(
        [words.n_words, words.n_privileged_words],
        [[of(x), plain(y)] for x, y in zip(words.X, words.Y)],
        None if words.Z is None else [of(z) for z in words.Z],
        [[of(x), plain(y)] for x, y in held_out],
    )
