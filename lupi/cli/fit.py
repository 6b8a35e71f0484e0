"""`lupi fit` and `lupi predict`."""

from pathlib import Path
from typing import Annotated

import typer

import lupi.cli.shared as cli

CHUNKS = f"Several Parquet files, or a folder of them, are read in chunks: {cli.CHUNKED_NAMES}."
NAMES = f"One of {cli.METHOD_NAMES}, {cli.PLAIN_NAMES} (default: surrogate; svm2+ for several files)."


def fit(
    tables: Annotated[list[Path], typer.Argument(metavar="TABLE...", help=f"{cli.TABLE_KINDS}. {CHUNKS}")],
    target: Annotated[str, cli.Target],
    privileged: Annotated[str, cli.Privileged],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="MODEL", help="File of the model.")],
    method: Annotated[str | None, typer.Option(metavar="NAME", help=NAMES)] = None,
    drop: cli.Drop = "",
    groups: cli.Groups = None,
    metric: cli.Metric = None,
    kernel: cli.Kernel = None,
    seed: cli.Seed = 0,
    scheduler: cli.Scheduler = None,
    keep_privileged: Annotated[bool, typer.Option("--keep-privileged", help="Save privileged values, too.")] = False,
) -> None:
    """Train one model; cross-validation selects its parameters."""
    chunked = scheduler is not None or len(tables) > 1 or tables[0].is_dir()
    if chunked:
        method, kernel, names = method or "svm2+", kernel or "linear", cli.CHUNKED_NAMES
        possible = {f"method {method}": method in names.split(", "), f"metric {metric}": metric != "r2"}
        for option, fits in (possible | {f"kernel {kernel}": kernel == "linear"}).items():
            if not fits:
                allowed = f"--kernel linear, a metric of classes, and --method {names}"
                raise ValueError(f"--{option} needs the rows in memory; several files are fitted with {allowed}.")
    from lupi.comparison.leakage import examine
    from lupi.comparison.methods import choose_methods
    from lupi.comparison.problem import make_problem
    from lupi.comparison.units import MAX_FIT, Plan, fit_final
    from lupi.persistence import save
    from lupi.run import cluster
    from lupi.tabular.model import refit_on_chunks
    from lupi.tabular.table import read_file, read_parquet, text_notes

    with cluster(scheduler):
        # Chunks: parameters from a sample of the rows, weights from all of them.
        frame = read_parquet(tables, target) if chunked else read_file(tables[0])
        n = len(frame)
        table = frame.sample(frac=MAX_FIT / n, random_state=seed) if chunked and n > MAX_FIT else frame
        table = table.compute().reset_index(drop=True) if chunked else table
        columns = {"target": target, "privileged": privileged, "drop": drop, "groups": groups}
        problem, metric = make_problem(table, **columns, metric=metric)
        notes = [] if chunked else examine(problem.X, problem.y, problem.privileged, target, grouped=True)[1]
        for text in [*text_notes(problem.X, problem.privileged), *notes]:
            cli.note(text)
        used = list(choose_methods([method or "surrogate"], [], metric, problem.n_classes).values())[-1]
        plan = Plan(metric=metric, kernel=kernel, seed=seed, train_sizes=(len(problem.labeled),))
        model = fit_final(used, problem, plan)
        if chunked:
            refit_on_chunks(model, frame, target, problem.privileged if used.privileged else None)
    model.info_ = {"method": used.name, "target": target, "privileged": problem.privileged.columns}
    save(model, output, keep_privileged=keep_privileged)
    rows = f"{n} rows in chunks" if chunked else f"{len(problem.labeled)} rows"
    if not chunked and used.unlabeled and len(problem.unlabeled):
        rows += f" and {len(problem.unlabeled)} unlabeled rows"
    params = model.estimator.get_params()
    chosen = ", ".join(f"{name} = {params[name]:g}" for name in sorted(used.grid))
    typer.echo(f"{used.title}{chosen and f' ({chosen})'} from {rows}: {output}")


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="File of `lupi fit` or `lupi compare`.")],
    table: Annotated[Path, typer.Argument(metavar="TABLE", help=f"{cli.TABLE_KINDS}.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="CSV file to write.")] = None,
    id_column: Annotated[str | None, typer.Option("--id", metavar="COL", help="Column before each prediction.")] = None,
) -> None:
    """Predict the rows of a table. Privileged columns are not required and are ignored.

    The columns are `prediction` and `p(CLASS)`, the probability of each class. For two classes without probabilities there is
    `score` (above 0: the second class). A ranker orders rows and has no threshold between classes: its only column is `score`.
    """
    import pandas as pd

    from lupi.run import progress
    from lupi.tabular.model import TabularModel
    from lupi.tabular.table import OddCells, expand, read_chunks

    fitted = cli.load_model(model, TabularModel, "`lupi fit` or `lupi compare`")

    def predicted(report):
        """Text of the predictions in chunks; with the last one everything that the user should know."""
        odd, done = OddCells(), 0
        for frame, total in read_chunks(table, cli.CHUNK_ROWS):
            rows, columns = fitted.parse(frame, odd), {}
            if id_column is not None:
                (name,) = expand([id_column], list(frame.columns), "id")
                columns[name] = safe_cells(frame[name].to_numpy())
            if not fitted.ranks:
                columns["prediction"] = safe_cells(fitted.predict(rows))
            if hasattr(fitted, "predict_proba"):
                columns |= {f"p({label})": p for label, p in zip(fitted.classes_, fitted.predict_proba(rows).T)}
            elif not fitted.regression_ and (scores := fitted.decision_function(rows)).ndim == 1:
                columns["score"] = scores
            yield pd.DataFrame(columns).to_csv(index=False, header=not done)
            done += len(frame)
            report(done, total)
        for text in odd.notes():
            cli.note(text)

    with progress("predicting") as report:
        cli.write(predicted(report), output)
    if fitted.ranks:
        meaning = f"the higher the score, the more a row looks like {str(fitted.classes_[1])!r}"
        advice = "for one, train a classifier (lupi fit --method svm2+)"
        cli.note(f"this model ranks: {meaning}. It has no threshold between classes; {advice}.")


def safe_cells(values):
    """Values for a spreadsheet: text that it would run as a formula gets an apostrophe in front.

    Examples
    --------
    >>> safe_cells(["=1+1", "-3", "yes"])
    ["'=1+1", '-3', 'yes']
    """
    import pandas as pd

    cells = pd.Series(values, dtype=object)
    formulas = cells.astype(str).str.match(r"[=+\-@\t\r]") & pd.to_numeric(cells, errors="coerce").isna()
    return cells.mask(formulas, "'" + cells.astype(str)).tolist()
