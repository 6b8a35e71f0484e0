"""What the commands `compare`, `fit` and `predict` do, behind the thin functions of the command line."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
from rich.console import Console

from lupi.comparison.checks import check_data
from lupi.comparison.comparison import compare
from lupi.comparison.final import fit_final
from lupi.comparison.methods import METHODS, choose_methods
from lupi.comparison.protocol import Protocol
from lupi.comparison.tables import read_table, split_table
from lupi.comparison.tabular import TabularModel
from lupi.engine.files import write_atomically
from lupi.engine.progress import progress
from lupi.persistence import load, save

# Pictures of 4 pixels, and of 64 in training: with 16 pixels the plain SVM reached 99.6 points of AUC, nothing to gain.
DIGITS = {"classes": (3, 8), "resolution": 2}


def run_compare(
    table, *, target, privileged, drop, groups, methods, metric, splits, train_size, kernel, jobs, out, seed, command
):
    """Compare, print the table and the verdict, write report.html, results.json and model.lupi.

    Returns
    -------
    Comparison
    """
    console, errors = Console(), Console(stderr=True)
    out = Path(out)
    if table is None:
        given = {"--target": target, "--privileged": privileged, "--drop": drop, "--groups": groups}
        named = [option for option, value in given.items() if value is not None]
        if named:
            raise ValueError(
                f"{' and '.join(named)}: columns of which TABLE? Without one the bundled digits are compared."
            )
        from lupi.datasets import load_digits_lowres

        digits = load_digits_lowres(**DIGITS)
        X, y, Z, group = digits.data, digits.target, digits.privileged, None
        console.print(
            "No TABLE: the bundled digits, 3 or 8 from 2 x 2 pixels; privileged: the 8 x 8 pixels.", highlight=False
        )
        train_size = train_size or (30, 60)  # two sizes: the report has a learning curve
    else:
        if target is None or privileged is None:
            raise ValueError(
                "with a TABLE, say which column to predict (--target) and which are privileged (--privileged)."
            )
        split = split_table(read_table(table), target, privileged, drop or "", groups, regression=metric == "r2")
        X, y, Z, group = split.X, split.y, split.privileged, split.groups
        for note in split.notes:
            errors.print(f"[yellow]note:[/yellow] {note}", highlight=False)
    (out / "units").mkdir(parents=True, exist_ok=True)
    with progress("fitting") as report:
        result = compare(
            X,
            y,
            Z,
            methods=methods,
            metric=metric,
            n_splits=splits,
            train_size=list(train_size) if train_size else None,
            kernel=kernel,
            groups=group,
            seed=seed,
            n_jobs=jobs,
            store=out / "units",
            on_progress=report,
            command=command,
        )
    result.summary["notes"] = [] if table is None else split.notes
    if table is not None and result.summary["hard_examples"]:
        for row in result.summary["hard_examples"]["rows"]:
            row["row"] = int(split.rows[row["row"]])  # positions in the file, rows without a target included
    result.summary["source"] = "bundled digits" if table is None else Path(table).name
    console.print(result.table())
    console.print(result.verdict, style="bold green" if result.summary["verdict"]["helps"] else "bold", highlight=False)
    for note in result.summary["verdict"]["notes"]:
        console.print(f"- {note}", highlight=False)
    model = result.fit_model()
    model.info_ = {
        "method": result.summary["verdict"]["method"],
        "target": target or "digit",
        "privileged": [] if table is None else [str(c) for c in Z.columns],
    }
    result.to_html(out / "report.html")
    result.to_json(out / "results.json")
    save(model, out / "model.lupi")
    console.print(
        f"\nreport  {out / 'report.html'}\nresults {out / 'results.json'}\nmodel   {out / 'model.lupi'}",
        highlight=False,
    )
    return result


def run_fit(table, *, target, privileged, drop, method, metric, kernel, seed, output):
    """Train one model on a table and save it; parameters are chosen by cross-validation."""
    split = split_table(read_table(table), target, privileged, drop or "", regression=metric == "r2")
    errors = Console(stderr=True)
    for note in split.notes:
        errors.print(f"[yellow]note:[/yellow] {note}", highlight=False)
    data, classes, metric = check_data(split.X, split.y, split.privileged, None, metric)
    choose_methods([method], metric, 0 if classes is None else len(classes))
    protocol = Protocol(metric=metric, kernel=kernel, seed=seed, train_sizes=(len(data.y),))
    model = fit_final(METHODS[method], protocol, data, classes)
    model.info_ = {"method": method, "target": target, "privileged": [str(c) for c in split.privileged.columns]}
    save(model, output)
    params = {key: value for key, value in model.estimator.get_params().items() if key in METHODS[method].grid}
    chosen = ", ".join(f"{key} = {value:g}" for key, value in params.items())
    Console().print(f"{METHODS[method].title} ({chosen}) from {len(data.y)} rows: {output}", highlight=False)


def run_predict(model, table, output=None):
    """Predict the rows of a table, as CSV.

    The columns are `prediction` and, for two classes, `score` (above 0: the second class). A ranker was trained to order
    rows and draws no line between classes: its only column is `score`, and a note on the error stream says so.
    """
    fitted = load(model)
    if not isinstance(fitted, TabularModel):
        raise ValueError(f"{model} holds a {type(fitted).__name__}, not a model of `lupi fit` or `lupi compare`.")
    rows = read_table(table)
    columns = {} if fitted.ranks else {"prediction": fitted.predict(rows)}
    if not fitted.regression:
        scores = np.asarray(fitted.decision_function(rows))
        if scores.ndim == 1:
            columns["score"] = scores
    if fitted.ranks:
        Console(stderr=True).print(
            f"[yellow]note:[/yellow] this model ranks: the higher the score, the more a row looks like "
            f"{str(fitted.classes_[1])!r}. It draws no line between classes; for one, train a classifier (lupi fit --method "
            "svm2+).",
            highlight=False,
        )
    text = rows[[]].assign(**columns).to_csv(index=False)
    if output is None:
        print(text, end="")
    else:
        write_atomically(output, text.encode())


def command_line(arguments):
    """The command as one would type it.

    Examples
    --------
    >>> command_line(["compare", "my table.csv"])
    "lupi compare 'my table.csv'"
    """
    return shlex.join(["lupi", *arguments])
