"""Structured outputs beside brute force, dlib and dense windows.

``python -m benchmarks.structured [case ...]`` prints all figures of a case as JSON.
"""

from __future__ import annotations

import json
import sys

from benchmarks._registry import NOT_INSTALLED, Row, case


@case("structured-exact", "Subwindow searches and joint inference against brute force")
def exactness(quick):
    """Mismatches among random and adversarial cases, and how often the alternation misses the maximum."""
    from benchmarks import _structured_cases as cases

    n = 300 if quick else 10_000
    searches = cases.searches_against_brute_force(n)
    joint = cases.joint_inference_against_brute_force(n)
    wrong = searches["branch_and_bound_mismatches"] + searches["row_pairs_mismatches"]
    share = joint["alternating_miss_rate_at_training_weights"]
    return [
        Row(f"best box, {n} small grids", None, peer="brute force", target="0 mismatches", note=f"{wrong} mismatches"),
        Row(
            f"joint inference of SSVM+, {n} cases",
            None,
            peer="brute force",
            target="0 mismatches",
            note=f"{joint['mismatches']} mismatches; alternating misses {share:.0%} at training weights",
        ),
    ]


@case("structured-search", "Time of a search in a 375x500 image with 3000 words and 2000 points")
def search(quick):
    """Prediction over three kinds of weights, and loss-augmented search along a fit."""
    from benchmarks import _structured_cases as cases

    predict = cases.prediction_speed(4 if quick else 40)
    train = cases.training_search_speed(6 if quick else 60, 3 if quick else 8)
    rows = [
        ("prediction, median", predict["median_ms"], "<= 5 ms"),
        ("prediction, worst", predict["worst_ms"], "<= 50 ms"),
    ]
    rows += [("at training weights, median", train["median_ms"], "<= 10 ms")]
    return [Row(what, ms / 1e3, target=target) for what, ms, target in rows]


@case("structured-training", "SSVM+ to a certified gap, 18x24 cells, 300 words")
def training(quick):
    """Raw counts, and counts of order 1."""
    from benchmarks import _structured_cases as cases

    figures = cases.plus_training(20 if quick else 280, 1.0 if quick else 100.0)
    targets = {"scale=1,tol=0.01": "<= 1 s", "scale=1,tol=0.001": "<= 10 s"}
    return [
        Row(
            f"SSVM+ {name}",
            f["plus_s"],
            gap=f["plus_gap"],
            target=targets.get(name, ""),
            note=f"SSVM {f['plain_s']:.2f} s",
        )
        for name, f in figures.items()
    ]


@case("structured-dlib", "Localization with 3025 explicit boxes, time to dlib's objective, the same NumPy oracle")
def explicit_boxes(quick):
    """Frank-Wolfe with the oracle as it is; n-slack with its batch version."""
    from benchmarks import _structured_cases as cases

    figures = cases.explicit_boxes_against_dlib(*(((1.0,), (1e-1,)) if quick else ()))
    if "dlib" in figures:
        return [Row("explicit boxes", None, peer="dlib", note=NOT_INSTALLED)]
    return [
        Row(
            f"{name}, {way}",
            f[f"{way}_s"],
            peer="dlib",
            peer_seconds=f["dlib_s"],
            objective_difference=f[f"{way}_objective"] / f["dlib_objective"] - 1.0,
            target=">= 3x",
        )
        for name, f in figures.items()
        for way in ("bcfw", "n_slack_batch")
    ]


@case("structured-passes", "Frank-Wolfe passes on digits and on chains")
def passes(quick):
    """Beside a textbook Frank-Wolfe in NumPy with the same number of passes."""
    from benchmarks import _structured_cases as cases

    f = cases.multiclass_and_chain(30 if quick else 300)
    return [
        Row(
            f"{name}, {n} passes",
            f[f"{name}_{n}_passes_s"],
            peer="NumPy Frank-Wolfe",
            peer_seconds=f[f"{name}_numpy_frank_wolfe_s"],
            objective_difference=f[f"{name}_objective"] / f[f"{name}_numpy_frank_wolfe_objective"] - 1.0,
        )
        for name, n in (("digits", 50), ("chain", 10))
    ]


@case("structured-jkse", "JKSE inference, 47x63 cells, 200 bins, 50 support vectors")
def jkse(quick):
    """Branch and bound beside all windows, raw and L1-normalized counts."""
    from benchmarks import _structured_cases as cases

    f = cases.kernel_search(1 if quick else 5)
    return [
        Row(
            f"{kind} counts",
            f[f"{kind}_search_median_s"],
            peer="dense windows",
            peer_seconds=f[f"{kind}_dense_median_s"],
            target=">= 10x" if kind == "raw" else "",
            note=f"{f[f'{kind}_mismatches']} mismatches",
        )
        for kind in ("raw", "normalized")
    ]


def print_figures(names):
    """Print the figures of the named cases (all by default) as JSON."""
    from benchmarks._structured_cases import CASES

    for name in names or CASES:
        if name not in CASES:
            raise SystemExit(f"unknown case {name!r}; choose from {', '.join(CASES)}")
        print(json.dumps({name: CASES[name]()}, indent=2, default=float), flush=True)


if __name__ == "__main__":
    print_figures(sys.argv[1:])
