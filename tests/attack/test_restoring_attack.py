"""A short attack on what models and comparisons save; `attack.harness` documents the long one."""

import json
import os
import sqlite3

import numpy as np
import pytest
from attack.harness import run
from attack.restoring import (
    METHODS,
    TARGETS,
    Data,
    P,
    attack,
    cells_read,
    fitted,
    is_solved,
    left_out_errors,
    make,
    numbers_in_text,
    saved,
    with_products,
    with_rows,
)

import lupi

CASES = int(os.environ.get("LUPI_ATTACK_CASES", len(METHODS)))


def test_no_cell_is_restored_from_a_model():
    counts = run(TARGETS[0], CASES, count_lines=False)
    assert counts.ends["nothing"] > CASES / 2


@pytest.mark.parametrize(
    "name", ["svm+", "svm2+ labeled", "svm-2k", "svr+", "one class", "rank rbf", "jkse", "columns, rbf"]
)
def test_the_attack_reads_cells_that_were_kept_on_request(name):
    case = make(np.random.default_rng(1), None, list(METHODS).index(name))
    with lupi.keep_privileged(), pytest.raises(AssertionError, match=r"\d\d+ of \d+ cells can be read"):
        attack(case, None)


@pytest.mark.parametrize("name", ["svm2+ linear", "rank", "surrogate of ridge"])
def test_the_attack_predicts_cells_from_numbers_of_single_rows_that_were_kept_on_request(name):
    """Dual coefficients, the teacher's margins, the surrogate; some of several data sets are enough."""
    found = []
    for seed in range(8):
        case = make(np.random.default_rng(seed), None, list(METHODS).index(name))
        with lupi.keep_privileged():
            try:
                attack(case, None)
            except AssertionError as error:
                found.append("left-out errors" in str(error))
    assert any(found)


@pytest.mark.parametrize("keep", [True, False])
def test_the_attack_solves_for_cells_where_the_correcting_function_was_kept(keep):
    """Slacks of support vectors are a line in the only privileged column, and the line is not saved."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(50, 1)) + 1
    X = 0.7 * Z + rng.normal(size=(50, P))
    data = Data(X, (Z[:, 0] + 0.3 * rng.normal(size=50) > 1).astype(float), Z, False)
    with lupi.keep_privileged(keep):
        model, arrays = saved(fitted(METHODS["svm2+, linear correction"], data, Z), False)
    numbers = np.unique(np.concatenate([array.ravel() for array in arrays]))
    assert is_solved(numbers, model, data) == keep


def arrays_in_json(value):
    """All lists of numbers in a JSON value."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    found = [array for part in inner for array in arrays_in_json(part)]
    if isinstance(value, list) and value and all(isinstance(part, int | float) for part in value):
        found.append(np.array(value, dtype=float))
    return found


def test_no_cell_is_restored_from_a_comparison(tmp_path):
    pytest.importorskip("jinja2")
    _, data, _ = make(np.random.default_rng(2), None, list(METHODS).index("svm2+"))
    options = {
        "methods": ["svm2+"],
        "baselines": [],
        "n_splits": 2,
        "permutations": 2,
        "train_size": 24,
        "kernel": "linear",
    }
    result = lupi.compare(data.X, data.y.astype(int), data.Z, **options, store=tmp_path)
    result.to_json(tmp_path / "results.json")
    result.to_html(tmp_path / "report.html")
    texts = [(tmp_path / name).read_text() for name in ("results.json", "report.html")]
    arrays = arrays_in_json(json.loads(texts[0]))
    stores = [
        path for path in tmp_path.rglob("*") if path.is_file() and path.read_bytes().startswith(b"SQLite format 3")
    ]
    assert stores
    for path in stores:
        with sqlite3.connect(path) as database:
            for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                cells = [cell for row in database.execute(f'SELECT * FROM "{table}"') for cell in row]
                texts += [str(cell) for cell in cells]
                arrays += [
                    a for cell in cells if str(cell).startswith(("{", "[")) for a in arrays_in_json(json.loads(cell))
                ]
        database.close()
    numbers = np.unique(np.concatenate([array for text in texts for array in numbers_in_text(text)]))
    assert len(numbers) > 50
    assert cells_read(numbers, data) <= 1
    start = with_products(np.column_stack([data.X, data.y]), data.y)
    chance = left_out_errors(start, data.Z)
    assert (left_out_errors(with_rows(start, arrays, data), data.Z) > 0.5 * chance).all()
