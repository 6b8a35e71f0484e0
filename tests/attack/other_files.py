"""Targets: rows of a training table in another file, with other columns, formats of numbers and dates, and a few odd cells.

`lupi predict` gives every row the prediction that it had in the file of training, or refuses the file with the name of a column,
or notes the columns and numbers of the cells that it cannot use, which then are at least as many as the changed predictions.

Only forms are used that mean the same value to some reader: no 03/04/2020 for a date that was 04/03/2020 in training, no point
before thousands, and no comma before thousands where commas are decimal, since nothing in a file could tell that.
"""

import json
import re
import warnings
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from importlib.util import find_spec

import numpy as np
import pandas as pd
from attack.harness import Target
from attack.mutations import pick
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

import lupi
from lupi.cli import app
from lupi.tabular.table import read_file

SEPARATORS = {"comma.csv": ",", "semicolon.csv": ";", "tab.tsv": "\t"}
TYPED = ("t.parquet", "t.feather", "t.jsonl", *["t.xlsx"] * bool(find_spec("openpyxl")))
FORMATS = (*SEPARATORS, *TYPED)
DATES = ("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d.%m.%y")
CLEAR = ("%Y-%m-%d", "%d.%m.%Y", "%Y/%m/%d")
ODD = ("?", "inf", "1e999", "12:30", "n.a.", "31/31/2020", "-")
WORDS = ("Ulm", "Köln", "Bad Ems", "O'Hara", "x;y", 'say "x"', "1a", "nein")
FIRST_DAY = datetime(2019, 1, 1)
# Of probabilities.
LARGEST_DIFFERENCE = 1e-9


@dataclass(frozen=True)
class Column:
    """True values of a column (None for a gap), of one kind; `style` is how the file of training writes them."""

    kind: str
    values: list
    style: str = ""


def column(rng, n):
    kind = pick(
        rng, ("float", "whole", "percent", "date", "time", "instant", "boolean", "code", "grade", "word", "many")
    )
    style = ""
    if kind in ("float", "percent"):
        values = [round(float(v), int(rng.integers(0, 6))) for v in rng.normal(size=n) * pick(rng, (1, 10, 5000))]
    elif kind == "whole":
        values = [int(v) for v in rng.integers(-9, pick(rng, (10, 100_000)), n)]
    elif kind in ("date", "time", "instant"):
        days = rng.integers(0, 700, n)
        values = [FIRST_DAY + timedelta(days=int(day)) for day in days]
        if kind == "date" and rng.random() < 0.4:
            values = [day.replace(day=1 + day.day % 12) for day in values]
        elif kind != "date":
            values = [day + timedelta(minutes=int(rng.integers(1, 1440))) for day in values]
        style = pick(rng, DATES)
    elif kind == "boolean":
        values = [bool(v) for v in rng.integers(0, 2, n)]
    else:
        codes = {
            "code": ["001", "002", "010", "0100", "A01"],
            "grade": ["1", "2", "3", "X"],
            "word": list(WORDS),
            "many": [f"w{k:02}" for k in range(40)],
        }[kind]
        values = [*codes, *(pick(rng, codes) for _ in range(n))][:n] if n >= len(codes) else codes[:n]
        values = [values[k] for k in rng.permutation(n)]
    if rng.random() < 0.5:
        values = [None if rng.random() < 0.1 else value for value in values]
    return Column(kind, values, style)


def written(rng, column, value, style, typed, comma):
    """A cell: a value in some form, native in formats with types; `style` is the same for all cells of a column."""
    if value is None:
        return pick(rng, ("", "NA")) if not typed else None
    if column.kind in ("float", "whole"):
        if typed and style == "native":
            return value
        if typed and style == "decimal":
            return Decimal(repr(value))
        exact = Decimal(repr(value))
        texts = {"point": f"{exact:f}", "power": f"{exact:e}", "comma": repr(value) if comma else f"{value:,}"}
        text = texts.get(style, repr(value))
        return text.replace(".", ",") if comma else text
    if column.kind == "percent":
        text = repr(value).replace(".", ",") if comma else repr(value)
        return {"native": value / 100, "bare": text, "space": f" {text} %"}.get(style, f"{text}%")
    if column.kind in ("date", "time", "instant"):
        return written_date(rng, column.kind, value, style, typed)
    if column.kind == "boolean":
        return (
            value
            if style == "native" and typed
            else {"upper": str(value).upper(), "whole": int(value)}.get(style, str(value))
        )
    if column.kind == "grade" and value.isdigit() and style in ("whole", "float"):
        return (int if style == "whole" else float)(value)
    return f" {value} " if style == "space" else value


def written_date(rng, kind, value, style, typed):
    if kind == "instant":
        value = value.replace(tzinfo=UTC).astimezone(
            pick(rng, (UTC, timezone(timedelta(hours=2)), timezone(timedelta(hours=-4.5))))
        )
        if style == "native" and typed:
            return pd.Timestamp(value).tz_convert("UTC")
        return value.strftime("%Y-%m-%dT%H:%M:%S%z").replace("+0000", "Z")
    if style == "native" and typed:
        return pd.Timestamp(value)
    text = value.strftime(style if style != "native" else "%Y-%m-%d")
    return text if kind == "date" else f"{text} {value:%H:%M}"


def later_style(rng, column):
    """Another form of the values of a column."""
    if column.kind in ("date", "time"):
        days = [day for day in column.values if day is not None]
        swapped = column.style in DATES[2:4] and all(day.day < 13 for day in days)  # training has told so
        return column.style if swapped or rng.random() < 0.4 else pick(rng, (*CLEAR, "native"))
    styles = {
        "float": ("native", "decimal", "point", "power", "plain", "plain", "comma"),
        "whole": ("native", "decimal", "power", "plain", "plain", "comma"),
        "percent": ("sign", "sign", "sign", "space", "bare", "native"),
        "instant": ("native", "text"),
        "boolean": ("native", "upper", "whole", "text"),
        "grade": ("text", "whole", "float", "space"),
    }
    return pick(rng, styles.get(column.kind, ("text", "text", "space")))


def cells_of(rng, columns, styles, rows, typed, comma):
    return {
        name: [written(rng, column, column.values[row], styles[name], typed, comma) for row in rows]
        for name, column in columns.items()
    }


def write(rng, path, cells):
    """A file of the cells; columns of Parquet and Excel take their own types."""
    names = [str(name) for name in rng.permutation(list(cells))]
    if path.name in SEPARATORS:
        frame = pd.DataFrame({name: pd.Series(cells[name], dtype=object) for name in names})
        frame.to_csv(path, sep=SEPARATORS[path.name], index=False)
        return
    if path.suffix == ".jsonl":
        rows = zip(*(cells[name] for name in names))
        lines = (json.dumps(dict(zip(names, row)), default=str, ensure_ascii=rng.random() < 0.5) for row in rows)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return
    frame = pd.DataFrame({name: typed_column(rng, cells[name], path.suffix == ".xlsx") for name in names})
    {".parquet": frame.to_parquet, ".feather": frame.to_feather}.get(path.suffix, frame.to_excel)(
        path, **({"index": False} if path.suffix == ".xlsx" else {})
    )


def typed_column(rng, cells, excel):
    """Numbers, dates and text in a type of their own; mixed cells become text, but in Excel."""
    kinds = {type(cell) for cell in cells if cell is not None}
    if excel:
        cells = [cell.tz_localize(None) if isinstance(cell, pd.Timestamp) else cell for cell in cells]
        return pd.Series([float(cell) if isinstance(cell, Decimal) else cell for cell in cells], dtype=object)
    if kinds > {str}:
        cells = [cell if cell is None else str(cell) for cell in cells]
    if kinds == {str} and rng.random() < 0.3:
        return pd.Series(pd.Categorical(cells))
    if kinds == {bool} and None in cells:
        return pd.array(cells, dtype="boolean")
    return pd.Series(cells, dtype=object if kinds & {str, Decimal} else None)


def make_from(formats):
    def make(rng, _):
        rng = np.random.default_rng(0) if rng is None else rng
        n = int(rng.integers(45, 90))
        columns = {f"c{k}": column(rng, n) for k in range(int(rng.integers(2, 7)))}
        return columns, pick(rng, FORMATS), pick(rng, formats), int(rng.integers(2**31))

    return make


def attack(case, folder):
    """Equal predictions, or a refusal, or notes with numbers."""
    columns, first, second, seed = case
    rng = np.random.default_rng(seed)
    n = len(next(iter(columns.values())).values)
    training, later, model = folder / "training" / first, folder / "later" / second, folder / "model.lupi"
    training.parent.mkdir(exist_ok=True)
    later.parent.mkdir(exist_ok=True)

    plain = {"float": "native", "whole": "native", "instant": "native", "boolean": "native"}
    styles = {name: column.style or plain.get(column.kind, "text") for name, column in columns.items()}
    comma = SEPARATORS.get(first, ",") != "," and rng.random() < 0.4
    write(rng, training, cells_of(rng, columns, styles, range(n), first in TYPED, comma))

    styles = {name: later_style(rng, column) for name, column in columns.items()}
    rows = rng.permutation(n)[: int(rng.integers(1, n + 1))] if rng.random() < 0.8 else np.arange(n)
    comma = SEPARATORS.get(second, ",") != "," and rng.random() < 0.4
    cells = cells_of(rng, columns, styles, rows, second in TYPED, comma)
    cells |= {"more": [pick(rng, WORDS) for _ in rows], "row": [f"r{row}" for row in rows]}
    spoiled = pick(rng, list(columns)) if rng.random() < 0.3 else None
    for row in rng.integers(0, len(rows), int(rng.integers(1, 4)) * (spoiled is not None)):
        cells[spoiled][row] = pick(rng, ODD)
    write(rng, later, cells)

    target = np.where(rng.random(n) < 0.5, "yes", "no")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of dates that can be read in two ways
        fitted = lupi.tabular_model(LogisticRegression()).fit(read_file(training), target)
        expected = fitted.predict_proba(read_file(training))[:, 1]
    lupi.save(fitted, model)
    result = CliRunner().invoke(app, ["predict", str(model), str(later), "--id", "row", "-o", str(folder / "p.csv")])
    if result.exit_code:
        assert re.match(r"lupi: the column 'c\d' must hold .* but \d+ of \d+ cells do not, such as ", result.stderr), (
            result.stderr
        )
        return "refused"
    found = pd.read_csv(folder / "p.csv")
    assert found["row"].tolist() == cells["row"]
    difference = np.abs(found["p(yes)"] - expected[rows])
    changed = int((difference > LARGEST_DIFFERENCE).sum())
    noted = re.findall(
        r"^note: the column '(c\d)' should hold .* but (\d+) of \d+ cells do not, such as ", result.stderr, re.M
    )
    # Rare words were gaps in training, too.
    allowed = sum(int(number) for name, number in noted if columns[name].kind != "many" or name == spoiled)
    assert changed <= allowed, f"{changed} predictions changed; notes: {result.stderr or 'none'}"
    assert len(noted) == result.stderr.count("\n"), result.stderr
    return "noted" if noted else "same"


TARGETS = [
    Target(name, lambda folder: folder, make_from(formats), attack, (), lambda case: 10**6)
    for name, formats in {"text files": tuple(SEPARATORS), "typed files": TYPED}.items()
]
