"""RankSVM and Rank Transfer beside explicit pairs.

``python -m benchmarks.ranking [case ...]`` prints all figures of a case as JSON.
"""

from __future__ import annotations

import json
import sys
import warnings

from benchmarks._registry import Row, case


def _figures(name, *args, **keywords):
    """Figures of one case, after a warm-up."""
    from sklearn.exceptions import ConvergenceWarning

    from benchmarks import _ranking_cases as cases

    cases.warm_up()
    with warnings.catch_warnings():
        # A peer that stops early is judged by its objective.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return getattr(cases, name)(*args, **keywords)


@case("ranking-exact", "Ranking objectives and weights against a QP over explicit pairs (PIQP), n <= 300")
def exact(quick):
    """Worst relative errors over losses, pair sets, ties and groups."""
    figures = _figures("exact")
    errors = [figures[f"worst relative error, {name}"] for name in ("objective", "weights")]
    note = f"weights differ by at most {errors[1]:.1e}"
    return [
        Row(
            f"{figures['settings']} settings",
            None,
            "PIQP",
            objective_difference=errors[0],
            target="1e-4, 1e-3",
            note=note,
        )
    ]


@case("ranking-liblinear", "Rank Transfer, n = 1200, d = 50, vs explicit pairs + LIBLINEAR at equal objective")
def liblinear(quick):
    """>= 20x, goal 100x."""
    rows = []
    for name, f in _figures("liblinear", n=150 if quick else 1200).items():
        peer = f.get("liblinear objective")
        difference = None if peer is None else (f["objective"] - peer) / peer
        rows.append(
            Row(name, f["seconds"], "pairs + LIBLINEAR", f.get("liblinear seconds"), difference, f["gap"], ">= 20x")
        )
    return rows


@case("ranking-million", "Rank Transfer, squared hinge, up to n = 1,000,000, d = 50")
def million(quick):
    """One core, < 3 GB beyond the data, time grows < 6x for 4x the data."""
    sizes = (2000, 8000) if quick else (250_000, 1_000_000)
    rows = []
    for pairs in ("across", "all"):
        figures = _figures("million", pairs=pairs, sizes=sizes)
        growth = next(value for name, value in figures.items() if name.startswith("growth"))
        for n in sizes:
            f = figures[f"n = {n}"]
            note = f"{f['pairs']:.3g} pairs, {f['peak memory beyond the data GB']:.2f} GB beyond the data; growth {growth:.2f}x"
            rows.append(Row(f"{pairs}, n={n}", f["seconds"], gap=f["gap"], target="< 3 GB, growth < 6x", note=note))
    return rows


@case("ranking-hinge", "Rank Transfer, hinge, n = 100,000, certified gap 1e-3")
def hinge(quick):
    """Both solvers, both pair sets."""
    return [
        Row(name, f["seconds"], gap=f["certified gap"], target="gap <= 1e-3")
        for name, f in _figures("hinge", n=2000 if quick else 100_000).items()
    ]


@case("ranking-grid", "Joint 7 x 7 grid, 5 folds, n = 200, d = 2000, vs 245 separate fits")
def grid(quick):
    """>= 5x."""
    f = _figures("grid")
    note = f"mean scores differ by at most {f['largest difference of a mean score']:.1e}"
    return [
        Row("RankTransferCV", f["seconds"], "245 fits", f["seconds, 245 separate fits"], gap=f["gap of the refit"],
            target=">= 5x", note=note)
    ]  # fmt: skip


NAMES = ("exact", "liblinear", "million", "million_all", "hinge", "grid", "estimator")

if __name__ == "__main__":
    unknown = [name for name in sys.argv[1:] if name not in NAMES]
    if unknown:
        sys.exit(f"unknown case {unknown[0]!r}; choose from {', '.join(NAMES)}")
    for name in sys.argv[1:] or NAMES:
        print(json.dumps({name: _figures(name)}, indent=2), flush=True)
