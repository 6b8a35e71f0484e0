"""What the commands of `lupi localize` do once their options are read."""

from __future__ import annotations

import csv
import io
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from sklearn.utils.validation import check_is_fitted

from lupi.datasets.localization import load_localization
from lupi.files import write_atomically
from lupi.inputs.types import PrivilegedLike
from lupi.localize.learners import LEARNERS
from lupi.localize.localizer import Localizer
from lupi.localize.search import paper_grid, search_parameters
from lupi.persistence import load, save

if TYPE_CHECKING:
    from lupi.vision.geometry import Box

ENDINGS = {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp"}


def guarded(command: Callable[..., None], **options: Any) -> None:
    """Run a command; warnings about the user's data are one line each."""
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = lambda message, *rest, **more: typer.echo(f"lupi: {message}", err=True)
        command(**options)


def fit_command(
    data: Path,
    layout: str,
    follow_links: bool,
    output: Path,
    privileged: PrivilegedLike,
    search: int,
    validation: float,
    parameters: dict[str, Any],
    max_time: float | None = None,
) -> None:
    """Train and save."""
    found = load_localization(data, layout, follow_links=follow_links)
    localizer = Localizer(verbose=True, **parameters)
    known = found.privileged if LEARNERS[parameters["method"]].uses_privileged and privileged != "none" else None
    if known is not None and privileged != "both":
        known = {name: value for name, value in known.items() if name == privileged} or None
    if LEARNERS[parameters["method"]].uses_privileged and known is None:
        typer.echo(f"No privileged information is used: {parameters['method']} is the plain method here.", err=True)
    table = None
    if search:
        order = np.random.RandomState(parameters["random_state"]).permutation(len(found.images))
        cut = round(len(order) * (1.0 - validation))
        if not 0 < cut < len(order):
            raise ValueError(f"validation={validation:g} leaves no images for training or for validation.")
        train, held_out = order[:cut], order[cut:]
        localizer, table = search_parameters(
            localizer,
            _pick(found.images, train),
            _pick(found.boxes, train),
            None if known is None else {name: _pick(value, train) for name, value in known.items()},
            validation=(_pick(found.images, held_out), _pick(found.boxes, held_out)),
            grid=paper_grid(parameters["method"], search, parameters["geometry"]),
            store=Path(parameters["cache"]) / "search",
            n_jobs=parameters["n_jobs"],
            verbose=True,
            max_time=max_time,
        )
        best = max(table, key=lambda row: row["mean_overlap"])
        chosen = ", ".join(f"{name}={value:.4g}" for name, value in best["params"].items())
        typer.echo(f"Best of {len(table)}: {chosen}; mean overlap {100 * best['mean_overlap']:.1f}% on validation.")
    else:
        localizer.fit(found.images, found.boxes, privileged=known)
    # The combinations that were tried stay with the model, so that anybody can see how it was chosen.
    localizer.search_ = table
    save(localizer, output)
    typer.echo(f"{output}: {parameters['method']}, relative duality gap {localizer.model_.dual_gap_:.2g}.")


def _pick(values: Any, rows: np.ndarray) -> Any:
    return [values[i] for i in rows] if isinstance(values, list) else values[rows]


def _load(path: Path, settings: dict[str, Any]) -> Localizer:
    try:
        localizer = load(path)
    except FileNotFoundError:
        raise ValueError(f"{path}: no such model file; `lupi localize fit` writes one.") from None
    if not isinstance(localizer, Localizer):
        raise ValueError(f"{path} holds a {type(localizer).__name__}, not a model of `lupi localize fit`.")
    check_is_fitted(localizer, "model_")
    localizer.bag_.set_params(**settings, verbose=True)
    return localizer


def predict_command(
    model: Path, images: list[Path], output: Path | None, overlays: Path | None, settings: dict[str, Any]
) -> None:
    """Predict and write boxes."""
    localizer = _load(model, settings)
    files = []
    for path in images:
        inside = sorted(p for p in path.iterdir() if p.suffix.lower() in ENDINGS) if path.is_dir() else [path]
        files += [str(p) for p in inside]
    if not files:
        raise ValueError("there are no images to predict.")
    boxes = localizer.predict(files)
    text = _as_json(files, boxes) if output is not None and output.suffix.lower() == ".json" else _as_csv(files, boxes)
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_atomically(output, text.encode())
    if overlays is not None:
        from lupi.localize.pictures import save_overlay

        for k, (file, box) in enumerate(zip(files, boxes)):
            if box is not None:
                save_overlay(overlays / f"{k:05}_{Path(file).stem}.png", file, predicted=box)


def _as_json(files: list[str], boxes: list[Box | None]) -> str:
    names = ("top", "left", "bottom", "right")
    rows = [
        {"image": file, "box": None if box is None else dict(zip(names, map(int, box)))}
        for file, box in zip(files, boxes)
    ]
    return json.dumps(rows, indent=2) + "\n"


def _as_csv(files: list[str], boxes: list[Any]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["image", "top", "left", "bottom", "right"])
    writer.writerows([file, *(("",) * 4 if box is None else map(int, box))] for file, box in zip(files, boxes))
    return buffer.getvalue()


def evaluate_command(
    model: Path,
    data: Path,
    layout: str,
    follow_links: bool,
    html: Path | None,
    json_file: Path | None,
    settings: dict[str, Any],
) -> None:
    """Evaluate and report."""
    localizer = _load(model, settings)
    found = load_localization(data, layout, follow_links=follow_links)
    result = localizer.evaluate(found.images, found.boxes, labels=found.labels, label_names=found.label_names)
    if json_file is not None:
        write_atomically(json_file, f"{json.dumps(result, indent=2)}\n".encode())
    if html is not None:
        from lupi.localize.gallery import write_gallery

        write_gallery(html, result, images=found.images, title=f"{localizer.method} on {Path(data).name}")
    table = Table("class", "images", "mean overlap", "detected")
    for row in [*(result["per_class"] if len(result["per_class"]) > 1 else []), {"label": "all", **result}]:
        figures = f"{100 * row['mean_overlap']:.1f}%", f"{100 * row['detection_rate']:.1f}%"
        table.add_row(str(row["label"]), str(row["n_images"]), *figures)
    constant = result["constant_box"]
    if constant is not None:
        figures = f"{100 * constant['mean_overlap']:.1f}%", f"{100 * constant['detection_rate']:.1f}%"
        table.add_row("one box for all", str(constant["n_images"]), *figures)
    Console().print(table)
    typer.echo(_against_constant(constant))


def _against_constant(constant: dict[str, Any]) -> str:
    """What the learner is worth: how far it is from a guess that looks at no image."""
    if constant is None:
        return "No constant box to compare with: the model's file was written before it kept the mean training box."
    difference, error = 100 * constant["difference"], 100 * (constant["standard_error"] or float("inf"))
    verdict = (
        "ahead of" if difference > 2 * error else "Behind" if difference < -2 * error else "No better or worse than"
    )
    return (
        f"{verdict} the mean of the training boxes, one box for all: {difference:+.1f} ± {error:.1f} points of overlap."
    )
