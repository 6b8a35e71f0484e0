"""`lupi localize`: train a localizer on images with boxes, find boxes in images, measure how good they are."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="localize",
    help="From image files to boxes: images, boxes and masks in; boxes and pictures out.",
    no_args_is_help=True,
)


class _Method(StrEnum):
    ssvm = "ssvm"
    ssvm_plus = "ssvm+"
    jkse = "jkse"
    jkse_plus = "jkse+"


class _Detector(StrEnum):
    surf = "surf"
    dense = "dense"
    both = "surf+dense"
    sift = "sift"


class _Inference(StrEnum):
    exact = "exact"
    alternating = "alternating"


class _Format(StrEnum):
    auto = "auto"
    csv = "csv"
    coco = "coco"
    voc = "voc"


_Data = Annotated[Path, typer.Argument(help="CSV or COCO JSON file, or a folder of Pascal VOC.")]
_Jobs = Annotated[int, typer.Option(help="Cores; -1 takes all.")]
_Cache = Annotated[Path, typer.Option(metavar="DIR", help="Where features and finished work are kept.")]
_Skip = Annotated[bool, typer.Option("--skip-errors", help="Leave unreadable images out instead of stopping.")]
_Layout = Annotated[_Format, typer.Option("--format", help="Layout of DATA.")]
_Links = Annotated[bool, typer.Option("--follow-links", help="Read files outside of the folder of DATA, too.")]
_CACHE = Path(".lupi-cache")


@app.command()
def fit(
    data: _Data,
    method: Annotated[_Method, typer.Option(help="Plus: uses masks and attributes of the data.")] = _Method.ssvm_plus,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="MODEL", help="Model file.")] = Path(
        "localizer.lupi"
    ),
    words: Annotated[int, typer.Option(help="Size of the vocabulary.")] = 1000,
    detector: Annotated[_Detector, typer.Option(help="Local features.")] = _Detector.surf,
    grid_step: Annotated[int, typer.Option(help="Edges of boxes are multiples of this many pixels.")] = 8,
    c: Annotated[float, typer.Option("--C", help="Weight of the loss (ssvm, ssvm+).")] = 1.0,
    lam: Annotated[float, typer.Option(help="Weight of the privileged norm (ssvm+, jkse+).")] = 1.0,
    rho: Annotated[float, typer.Option(help="Inverse price of the privileged loss (ssvm+).")] = 2.0,
    nu: Annotated[float, typer.Option(help="Share of outliers (jkse, jkse+).")] = 0.5,
    normalize: Annotated[bool, typer.Option("--normalize", help="Shares of words, not counts (jkse, jkse+).")] = False,
    inference: Annotated[_Inference, typer.Option(help="Joint search (ssvm+).")] = _Inference.exact,
    geometry: Annotated[
        bool, typer.Option("--geometry", help="Also learn where boxes lie and how large they are.")
    ] = False,
    geometry_scale: Annotated[
        float, typer.Option(min=0.0, help="Weight of that beside the words: about 20 for ssvm, 0.5 to 8 for jkse.")
    ] = 20.0,
    tol: Annotated[float, typer.Option(help="Relative duality gap at which training stops.")] = 1e-2,
    search: Annotated[
        int, typer.Option(metavar="N", help="Try N values of each parameter (the papers: 4); 0: none.")
    ] = 0,
    validation: Annotated[float, typer.Option(help="Share of the images on which parameters are compared.")] = 0.3,
    privileged: Annotated[str, typer.Option(help="masks, attributes, both (what there is) or none.")] = "both",
    seed: Annotated[int, typer.Option(help="Seed of vocabulary, split and solver.")] = 0,
    jobs: _Jobs = -1,
    cache: _Cache = _CACHE,
    layout: _Layout = _Format.auto,
    skip_errors: _Skip = False,
    follow_links: _Links = False,
    max_time: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", min=1e-9, help="With --search: try nothing new after so long; take the best so far."
        ),
    ] = None,
) -> None:
    """Train a localizer. Run again after an interruption, it goes on where it was."""
    if privileged not in ("masks", "attributes", "both", "none"):
        raise typer.BadParameter("must be masks, attributes, both or none", param_hint="--privileged")
    if not output.resolve().parent.is_dir():
        raise typer.BadParameter(f"the folder of {output} does not exist", param_hint="--output")
    from lupi.localize.commands import fit_command, guarded

    guarded(
        fit_command,
        data=data,
        layout=layout.value,
        follow_links=follow_links,
        output=output,
        privileged=privileged,
        search=search,
        validation=validation,
        max_time=max_time,
        parameters={
            "method": method.value,
            "n_words": words,
            "detector": detector.value,
            "grid_step": grid_step,
            "C": c,
            "lam": lam,
            "rho": rho,
            "nu": nu,
            "normalize": normalize,
            "inference": inference.value,
            "geometry": geometry,
            "geometry_scale": geometry_scale,
            "tol": tol,
            "random_state": seed,
            "n_jobs": jobs,
            "cache": str(cache),
            "on_error": "skip" if skip_errors else "raise",
        },
    )


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="A model of `lupi localize fit`.")],
    images: Annotated[list[Path], typer.Argument(help="Images, or folders of images.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Boxes as .json or .csv; else CSV on the terminal."),
    ] = None,
    overlays: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also write each image with its box as PNG.")
    ] = None,
    jobs: _Jobs = -1,
    cache: _Cache = _CACHE,
    skip_errors: _Skip = False,
) -> None:
    """Find the box of each image."""
    if output is not None and output.suffix.lower() not in (".json", ".csv"):
        raise typer.BadParameter("must end in .json or .csv", param_hint="--output")
    from lupi.localize.commands import guarded, predict_command

    guarded(
        predict_command,
        model=model,
        images=images,
        output=output,
        overlays=overlays,
        settings={"n_jobs": jobs, "cache": str(cache), "on_error": "skip" if skip_errors else "raise"},
    )


@app.command()
def evaluate(
    model: Annotated[Path, typer.Argument(help="A model of `lupi localize fit`.")],
    data: _Data,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Gallery page with predicted and true boxes.")
    ] = None,
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="All figures and boxes.")] = None,
    jobs: _Jobs = -1,
    cache: _Cache = _CACHE,
    layout: _Layout = _Format.auto,
    skip_errors: _Skip = False,
    follow_links: _Links = False,
) -> None:
    """Mean overlap and detection rate (overlap > 0.5), overall and for each class, beside one constant box for all."""
    from lupi.localize.commands import evaluate_command, guarded

    guarded(
        evaluate_command,
        model=model,
        data=data,
        layout=layout.value,
        follow_links=follow_links,
        html=html,
        json_file=json,
        settings={"n_jobs": jobs, "cache": str(cache), "on_error": "skip" if skip_errors else "raise"},
    )
