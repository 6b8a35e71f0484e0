"""`lupi predict`."""

from pathlib import Path
from typing import Annotated

import typer

from lupi.cli.shared import Table, note


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="File of `lupi fit` or `lupi compare`.")],
    table: Table,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="CSV; the terminal if not given.")
    ] = None,
    id_column: Annotated[
        str | None, typer.Option("--id", metavar="COL", help="Column of TABLE to put before each prediction.")
    ] = None,
) -> None:
    """Predict the rows of a table. Privileged columns are not needed; if they are there, they are ignored.

    The columns are `prediction` and, for two classes, `score` (above 0: the second class). A ranker was trained to order
    rows and draws no line between classes: its only column is `score`.
    """
    import numpy as np

    from lupi.files import write_atomically
    from lupi.persistence import load
    from lupi.tabular.model import TabularModel
    from lupi.tabular.read import expand, read_table

    fitted = load(model)
    if not isinstance(fitted, TabularModel):
        raise ValueError(f"{model} holds a {type(fitted).__name__}, not a model of `lupi fit` or `lupi compare`.")
    rows = read_table(table)
    columns = {}
    if id_column is not None:
        (name,) = expand([id_column], list(rows.columns), "id")
        columns[name] = safe_cells(rows[name].to_numpy())
    if not fitted.ranks:
        columns["prediction"] = safe_cells(fitted.predict(rows))
    if not fitted.regression_:
        scores = np.asarray(fitted.decision_function(rows))
        if scores.ndim == 1:
            columns["score"] = scores
    if fitted.ranks:
        note(
            "this model ranks: the higher the score, the more a row looks like "
            f"{str(fitted.classes_[1])!r}. It draws no line between classes; for one, train a classifier (lupi fit "
            "--method svm2+)."
        )
    text = rows[[]].assign(**columns).to_csv(index=False)
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_atomically(output, text.encode())


def safe_cells(values):
    """Words that a spreadsheet would run as a formula get an apostrophe in front, as spreadsheets do it themselves.

    Examples
    --------
    >>> safe_cells(["=1+1", "-3", "yes"])
    ["'=1+1", '-3', 'yes']
    """
    return [f"'{value}" if isinstance(value, str) and _runs(value) else value for value in values]


def _runs(word):
    if not word.startswith(("=", "+", "-", "@", "\t", "\r")):
        return False
    try:
        float(word)
    except ValueError:
        return True
    return False
