"""`lupi localize`: train a localizer on images with boxes, find boxes in images, evaluate them."""

import json
import warnings
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from lupi.cli.shared import load_model, write

_ABOUT = "From image files to boxes: images, boxes and masks in; boxes and pictures out."
app = typer.Typer(name="localize", help=_ABOUT, no_args_is_help=True)

_Data = Annotated[Path, typer.Argument(help="CSV or COCO JSON file, or a folder of Pascal VOC.")]
_Model = Annotated[Path, typer.Argument(help="A model of `lupi localize fit`.")]
_Jobs = Annotated[int, typer.Option("--jobs", help="Processes; -1 uses all cores.")]
_Cache = Annotated[Path, typer.Option(metavar="DIR", help="Folder for features and finished work.")]
_Skip = Annotated[bool, typer.Option("--skip-errors", help="Skip unreadable images instead of stopping.")]
_Format = Annotated[Literal["auto", "csv", "coco", "voc"], typer.Option("--format", help="Format of DATA.")]
_Links = Annotated[bool, typer.Option("--follow-links", help="Also read files outside of the folder of DATA.")]
_Method = Literal["ssvm", "ssvm+", "jkse", "jkse+"]
_Detector = Literal["surf", "dense", "surf+dense", "sift"]
_Privileged = Literal["both", "masks", "attributes", "none"]
_CACHE, _MODEL = Path(".lupi-cache"), Path("localizer.lupi")
_ENDINGS = {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp"}


@app.callback()
def _one_line_per_warning(context: typer.Context) -> None:
    context.with_resource(warnings.catch_warnings())
    warnings.simplefilter("default")
    warnings.showwarning = lambda message, *_, **__: typer.echo(f"lupi: {message}", err=True)


@app.command()
def fit(
    context: typer.Context,
    data: _Data,
    method: Annotated[_Method, typer.Option(help="Plus: uses masks and attributes of DATA.")] = "ssvm+",
    output: Annotated[Path, typer.Option("--output", "-o", metavar="MODEL", help="Model file.")] = _MODEL,
    n_words: Annotated[int, typer.Option("--words", help="Size of the vocabulary.")] = 1000,
    detector: Annotated[_Detector, typer.Option(help="Local features.")] = "surf",
    grid_step: Annotated[int, typer.Option(help="Edges of boxes are multiples of this many pixels.")] = 8,
    C: Annotated[float, typer.Option("--C", help="Weight of the loss (ssvm, ssvm+).")] = 1.0,
    lam: Annotated[float, typer.Option(help="Weight of the privileged norm (ssvm+, jkse+).")] = 1.0,
    rho: Annotated[float, typer.Option(help="Inverse weight of the privileged loss (ssvm+).")] = 2.0,
    nu: Annotated[float, typer.Option(help="Share of outliers (jkse, jkse+).")] = 0.5,
    normalize: Annotated[bool, typer.Option("--normalize", help="Shares of words, not counts (jkse, jkse+).")] = False,
    inference: Annotated[Literal["exact", "alternating"], typer.Option(help="Joint search (ssvm+).")] = "exact",
    geometry: Annotated[bool, typer.Option("--geometry", help="Also learn the position and size of boxes.")] = False,
    geometry_scale: Annotated[float, typer.Option(min=0.0, help="Its weight: 20 for ssvm, 0.5 to 8 for jkse.")] = 20.0,
    tol: Annotated[float, typer.Option(help="Relative duality gap at which training stops.")] = 1e-2,
    search: Annotated[int, typer.Option(metavar="N", help="Values to try per parameter (papers: 4); 0: none.")] = 0,
    validation: Annotated[float, typer.Option(min=0.01, max=0.99, help="Share of images for --search.")] = 0.3,
    privileged: Annotated[_Privileged, typer.Option(help="Privileged information to use.")] = "both",
    random_state: Annotated[int, typer.Option("--seed", help="Seed of vocabulary, split and solver.")] = 0,
    jobs: _Jobs = -1,
    cache: _Cache = _CACHE,
    layout: _Format = "auto",
    skip_errors: _Skip = False,
    follow_links: _Links = False,
    max_time: Annotated[float | None, typer.Option(metavar="SECONDS", min=1e-9, help="Time limit of --search.")] = None,
) -> None:
    """Train a localizer. After an interruption, the same command resumes."""
    if not output.resolve().parent.is_dir():
        raise typer.BadParameter(f"the folder of {output} does not exist", param_hint="--output")
    from lupi.datasets import load_localization
    from lupi.localize import Localizer
    from lupi.persistence import save

    found = load_localization(data, layout, follow_links=follow_links)
    # Options with the name of a parameter are passed on as they are.
    params = {name: value for name, value in context.params.items() if name in Localizer().get_params()}
    localizer = Localizer(**params | _settings(jobs, cache, skip_errors), verbose=True)
    known = {name: value for name, value in (found.privileged or {}).items() if privileged in ("both", name)}
    if method.endswith("+") and not known:
        typer.echo(f"No privileged information is used: {method} equals {method[:-1]} here.", err=True)
    if search:
        localizer = _search(localizer, found, known, search, validation, cache, max_time)
    else:
        localizer.fit(found.images, found.boxes, privileged=known or None)
        localizer.search_ = None
    save(localizer, output)
    typer.echo(f"{output}: {method}, relative duality gap {localizer.model_.dual_gap_:.2g}.")


@app.command()
def predict(
    model: _Model,
    images: Annotated[list[Path], typer.Argument(help="Images, or folders of images.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="A .json or .csv file.")] = None,
    overlays: Annotated[Path | None, typer.Option(metavar="DIR", help="Also write images with boxes as PNG.")] = None,
    jobs: _Jobs = -1,
    cache: _Cache = _CACHE,
    skip_errors: _Skip = False,
) -> None:
    """Find the box of each image; without --output, print a CSV table."""
    ending = ".csv" if output is None else output.suffix.lower()
    if ending not in (".json", ".csv"):
        raise typer.BadParameter("must end in .json or .csv", param_hint="--output")
    from lupi.localize import save_overlay

    localizer = _load(model, _settings(jobs, cache, skip_errors))
    files = []
    for path in images:
        inside = sorted(p for p in path.iterdir() if p.suffix.lower() in _ENDINGS) if path.is_dir() else [path]
        files += [str(p) for p in inside]
    if not files:
        raise ValueError("there are no images to predict.")
    boxes = localizer.predict(files)
    write(_as_text(files, boxes, ending), output)
    for k, (file, box) in enumerate(zip(files, boxes)):
        if overlays is not None and box is not None:
            save_overlay(overlays / f"{k:05}_{Path(file).stem}.png", file, predicted=box)


@app.command()
def evaluate(
    model: _Model,
    data: _Data,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Gallery of predicted and true boxes.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="All figures and boxes.")] = None,
    jobs: _Jobs = -1,
    cache: _Cache = _CACHE,
    layout: _Format = "auto",
    skip_errors: _Skip = False,
    follow_links: _Links = False,
) -> None:
    """Mean overlap and detection rate (overlap > 0.5), overall, per class and of one constant box."""
    from rich.console import Console
    from rich.table import Table

    from lupi.datasets import load_localization
    from lupi.files import write_atomically
    from lupi.localize import write_gallery

    localizer = _load(model, _settings(jobs, cache, skip_errors))
    found = load_localization(data, layout, follow_links=follow_links)
    result = localizer.evaluate(found.images, found.boxes, labels=found.labels, label_names=found.label_names)
    if json_file is not None:
        write_atomically(json_file, f"{json.dumps(result, indent=2)}\n".encode())
    if html is not None:
        write_gallery(html, result, images=found.images, title=f"{localizer.method} on {Path(data).name}")
    table, constant = Table("class", "images", "mean overlap", "detected"), result["constant_box"]
    rows = [*(result["per_class"] if len(result["per_class"]) > 1 else []), {"label": "all", **result}]
    for row in [*rows, *([{"label": "constant box", **constant}] if constant else [])]:
        shares = f"{row['mean_overlap']:.1%}", f"{row['detection_rate']:.1%}"
        table.add_row(str(row["label"]), str(row["n_images"]), *shares)
    Console().print(table)
    if constant:
        gain, error = 100 * constant["difference"], 100 * (constant["standard_error"] or float("inf"))
        verdict = "Better than" if gain > 2 * error else "Worse than" if gain < -2 * error else "Not different from"
        typer.echo(f"{verdict} a constant box (mean training box): {gain:+.1f} ± {error:.1f} points of overlap.")


def _settings(jobs: int, cache: Path, skip_errors: bool) -> dict[str, Any]:
    return {"n_jobs": jobs, "cache": str(cache), "on_error": "skip" if skip_errors else "raise"}


def _search(localizer: Any, found: Any, known: Any, n: int, validation: float, cache: Path, max_time: Any) -> Any:
    """Best localizer of the papers' grid with `n` values per parameter, fitted; ``search_`` keeps the results of all."""
    from sklearn.model_selection import train_test_split

    from lupi.localize import paper_grid, search_parameters

    tables, seed = (found.images, found.boxes, *known.values()), localizer.random_state
    split = train_test_split(*tables, test_size=validation, random_state=seed)
    images, boxes, *privileged = split[::2]
    grid, held_out = paper_grid(localizer.method, n, localizer.geometry), (split[1], split[3])
    options = {"store": cache / "search", "n_jobs": localizer.n_jobs, "verbose": True, "max_time": max_time}
    Z = dict(zip(known, privileged)) or None
    best, table = search_parameters(localizer, images, boxes, Z, validation=held_out, grid=grid, **options)
    row = max(table, key=lambda row: row["mean_overlap"])
    chosen = ", ".join(f"{name}={value:.4g}" for name, value in row["params"].items())
    typer.echo(f"Best of {len(table)}: {chosen}; mean overlap {row['mean_overlap']:.1%} on validation.")
    best.search_ = table
    return best


def _load(path: Path, settings: dict[str, Any]) -> Any:
    from lupi.localize import Localizer

    localizer = load_model(path, Localizer, "`lupi localize fit`")
    localizer.bag_.set_params(**settings, verbose=True)
    return localizer


def _as_text(files: list[str], boxes: list[Any], ending: str) -> str:
    """Boxes as JSON or CSV; an image without a box has an empty one."""
    if ending == ".json":
        rows = [{"image": f, "box": b and {n: int(v) for n, v in b._asdict().items()}} for f, b in zip(files, boxes)]
        return json.dumps(rows, indent=2) + "\n"
    import pandas as pd

    lines = [[file, *([""] * 4 if box is None else map(int, box))] for file, box in zip(files, boxes)]
    return pd.DataFrame(lines, columns=["image", "top", "left", "bottom", "right"]).to_csv(index=False)
