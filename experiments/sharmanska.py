"""Sharmanska et al. (2013), Table 1: ranking and classification of animals with attributes as privileged features."""

from __future__ import annotations

import numpy as np

from experiments.common import balanced_splits, beside, entry, paper_table, subfolder, write_result
from experiments.data import load_awa
from experiments.figures import difference_bars
from lupi import compare
from lupi.comparison.results import LEVEL, holm, mean_and_error
from lupi.files import write_atomically

# Section 4: the ranges of C, for L1-normalized data and for the privileged space.
L1_RANGE = [10.0**k for k in range(6)]
PRIVILEGED_RANGE = [10.0**k for k in range(-3, 4)]
# Method -> title, column of the paper's table.
METHODS = {
    "ranksvm": ("SVM rank", "ranksvm"),
    "ranktransfer": ("Rank Transfer", "ranktransfer"),
    "svm": ("SVM", "svm"),
    "svm+": ("SVM+", "svm+"),
    "rankreference": ("reference", "reference"),
}
RANKERS = ("ranksvm", "ranktransfer", "rankreference")
BASELINE = {"ranktransfer": "ranksvm", "svm+": "svm"}
# Section 4.1: pairs in which the method is above its baseline.
PAPER_WINS = {"ranktransfer": 34, "svm+": 39}
# Eq. 6 to 9 have the hinge over all pairs; SVM rank and most released code rank across classes alone.
LOSSES = {"squared_hinge": {"loss": ["squared_hinge"]}, "hinge": {"loss": ["hinge"], "tol": [1e-3]}}


def awa_pair(
    first, second, *, root=None, per_class=100, methods=tuple(METHODS), loss="squared_hinge", pairs="all", **options
):
    """One of the 45 pairs: `per_class` pictures of each class for training, 200 of each for the test.

    Joint 5-fold cross-validation over the paper's ranges, linear kernels, SURF words that sum to 1, attribute probabilities
    as they are.
    """
    awa = load_awa(root, classes=(second, first))  # average precision of the class named first
    ranker = LOSSES[loss]
    grids = {
        "svm": {"C": L1_RANGE},
        # kappa = inf is the paper's problem: all slack has to come from the privileged features.
        "svm+": {"C": L1_RANGE, "lam": PRIVILEGED_RANGE, "kappa": [np.inf]},
        "ranksvm": {"C": L1_RANGE} | ranker,
        "ranktransfer": {"C": L1_RANGE, "C_privileged": PRIVILEGED_RANGE, "pairs": [pairs]} | ranker,
        "rankreference": {"C": PRIVILEGED_RANGE} | ranker,
    }
    return compare(
        awa.data,
        awa.target,
        awa.privileged,
        methods=list(methods),
        metric="ap",
        train_size=2 * per_class,
        grids={name: grids[name] for name in methods},
        cv=balanced_splits(awa.target, options["n_splits"], 2 * per_class),
        max_test=400,
        **PAPER_PROTOCOL,
        **options,
    )


# Settings of `compare` that all experiments of the papers share.
PAPER_PROTOCOL = {
    "baselines": [], "permutations": 0, "columns": False, "kernel": "linear", "standardize": False, "leaks": False
}  # fmt: skip


def pair_results(comparison, paper):
    """Scores, gains and controls of every method on one pair, and the paper's row."""
    size = comparison.summary["sizes"][0]
    rows = {row["name"]: row for row in size["methods"]}
    kept = ("mean", "error", "scores", "params", "warnings", "seconds", "failed")
    methods = {name: {key: row[key] for key in kept} for name, row in rows.items()}
    for name in set(BASELINE) & set(methods):
        methods[name] |= {key: rows[name][key] for key in ("gain", "shuffled_gain", "over_shuffled")}
        methods[name]["shuffled_mean"] = rows[name]["shuffled"]["mean"]
    return {"n_train": size["n_train"], "n_test": size["n_test"], "methods": methods, "paper": paper}


def over_all_pairs(results):
    """Counts and tests over many pairs for each method that uses the attributes.

    Significance is by the paired Wilcoxon test at 95% for each pair alone, as the paper marks it, and after Holm's correction.
    """
    summary = {}
    for name in [name for name in BASELINE if name in results[0]["methods"]]:
        gains = [result["methods"][name]["gain"] for result in results]
        control = [result["methods"][name]["shuffled_gain"]["mean"] for result in results]
        up = np.array([gain["mean"] for gain in gains]) > 0
        p = np.array([gain["wilcoxon_p"] for gain in gains])
        small, adjusted = p < LEVEL, np.array(holm(list(p))) < LEVEL
        summary[name] = {
            "pairs": len(results),
            "wins": int(up.sum()),
            "wins_shuffled": sum(value > 0 for value in control),
            "wins_over_shuffled": sum(result["methods"][name]["over_shuffled"]["mean"] > 0 for result in results),
            "significant_wins": int((small & up).sum()),
            "significant_losses": int((small & ~up).sum()),
            "holm_wins": int((adjusted & up).sum()),
            "holm_losses": int((adjusted & ~up).sum()),
            "mean_gain": mean_and_error([gain["mean"] for gain in gains]),
            "mean_gain_shuffled": mean_and_error(control),
        }
    return summary


def table_lines(found):
    """Lines of Table 1 from a stored result."""
    results = found["pairs"]
    printed = results[0]["paper"] is not None
    methods = [name for name in METHODS if name in results[0]["methods"]]
    n_splits = len(results[0]["methods"]["ranksvm"]["scores"])
    lines = [
        f"N = {found['per_class']} pictures of each class for training, {n_splits} splits; average precision",
        f"{'pair':31}" + "".join(f"{METHODS[name][0]:>24}" for name in methods),
    ]
    for result in results:
        cells = [_cell(result, name) for name in methods]
        lines.append(f"{result['first'] + ' / ' + result['second']:31}" + "".join(f"{cell:>24}" for cell in cells))
    means = []
    for name in methods:
        ours = 100 * np.mean([result["methods"][name]["mean"] for result in results])
        theirs = np.mean([float(result["paper"][METHODS[name][1]]) for result in results]) if printed else None
        means.append(f"{ours:.2f}" + (f" / {theirs:.2f} " if printed else ""))
    lines.append(f"{'mean':31}" + "".join(f"{cell:>24}" for cell in means))
    if printed:
        lines.append("ours ± standard error / paper; * within two standard errors of each other")
    for name, s in over_all_pairs(results).items():
        claim = f" (paper: {PAPER_WINS[name]} of 45)" if printed and s["pairs"] == 45 else ""
        lines += [
            f"{METHODS[name][0]} above {METHODS[BASELINE[name]][0]} in {s['wins']} of {s['pairs']}{claim}, with shuffled "
            f"attributes in {s['wins_shuffled']}; above its shuffled control in {s['wins_over_shuffled']}.",
            f"    mean gain {_points(s['mean_gain'])} points (standard error over pairs), shuffled "
            f"{_points(s['mean_gain_shuffled'])}; significantly better in {s['significant_wins']} and worse in "
            f"{s['significant_losses']} (Wilcoxon, 95%), after Holm's correction over all pairs {s['holm_wins']} and "
            f"{s['holm_losses']}.",
        ]
    rows = [row for result in results for row in result["methods"].values()]
    warned = sum(sum(row["warnings"].values()) for row in rows)
    seconds = sum(row["seconds"] * len(row["scores"]) for row in rows)
    lines.append(
        f"{warned} warnings of solvers; {seconds / 60:.0f} minutes of processor time without the shuffled controls."
    )
    return lines


def _points(mean_error):
    return f"{100 * mean_error[0]:+.2f} ± {100 * mean_error[1]:.2f}"


def _cell(result, name):
    row = result["methods"][name]
    if result["paper"] is None:
        return f"{100 * row['mean']:.2f} ± {100 * row['error']:.2f} "
    return beside(row, result["paper"], METHODS[name][1])


def overview(found):
    """A run as one Markdown row: loss and pairs, N, splits, wins, gains, means over all pairs, cells that agree."""
    results = found["pairs"]
    counts = over_all_pairs(results)["ranktransfer"]
    means = [f"{100 * np.mean([result['methods'][name]['mean'] for result in results]):.2f}" for name in RANKERS]
    agree = "not printed"
    if results[0]["paper"] is not None:
        cells = [sum(_cell(result, name).endswith("*") for result in results) for name in RANKERS[:2]]
        agree = f"SVM rank {cells[0]}, Rank Transfer {cells[1]}"
    loss = f"{found.get('loss', 'squared_hinge').replace('_', ' ')}, {found.get('transfer_pairs', 'all')}"
    splits = str(len(results[0]["methods"]["ranksvm"]["scores"]))
    wins = f"{counts['wins']} of {counts['pairs']} (shuffled: {counts['wins_shuffled']})"
    gains = [_points(counts["mean_gain"]), _points(counts["mean_gain_shuffled"])]
    return f"| {' | '.join([loss, str(found['per_class']), splits, wins, *gains, *means, agree])} |"


def _figure2(name, results):
    """Figure 2 for one method: a bar per pair, a dot for its shuffled control."""
    gains = [100 * result["methods"][name]["gain"]["mean"] for result in results]
    controls = [100 * result["methods"][name]["shuffled_gain"]["mean"] for result in results]
    wins, lucky = (sum(value > 0 for value in values) for values in (gains, controls))
    words = f"{METHODS[name][0]} above {METHODS[BASELINE[name]][0]}"
    return difference_bars(
        gains, controls, f"{words}: {wins} of {len(gains)} pairs; shuffled attributes (dots): {lucky}"
    )


NAME = "Sharmanska et al. 2013, Table 1"


@entry("sharmanska-table1", f"{NAME} and Figure 2 (AwA, N = 100); rankers with the squared hinge", "awa_surf")
@entry("sharmanska-table1-n50", f"{NAME}, N = 50; rankers with the squared hinge", "awa_surf", per_class=50)
@entry(
    "sharmanska-table1-squared-across",
    f"{NAME}, rankers with the squared hinge, pairs across",
    "awa_surf",
    methods=RANKERS,
    pairs="across",
)
@entry(
    "sharmanska-table1-hinge-across",
    f"{NAME}, rankers with the hinge, pairs across (AwA, N = 100)",
    "awa_surf",
    methods=RANKERS,
    loss="hinge",
    pairs="across",
)
@entry(
    "sharmanska-table1-hinge-across-n50",
    f"{NAME}, rankers with the hinge, pairs across (AwA, N = 50)",
    "awa_surf",
    methods=RANKERS,
    loss="hinge",
    pairs="across",
    per_class=50,
)
@entry(
    "sharmanska-table1-hinge-all",
    f"{NAME}, rankers with the hinge, pairs all (AwA, N = 100)",
    "awa_surf",
    methods=RANKERS,
    loss="hinge",
)
@entry(
    "sharmanska-table1-hinge-all-n50",
    f"{NAME}, rankers with the hinge, pairs all (AwA, N = 50)",
    "awa_surf",
    methods=RANKERS,
    loss="hinge",
    per_class=50,
)
def table1(data, out, *, per_class=100, methods=tuple(METHODS), loss="squared_hinge", pairs="all", n_splits=20, tasks=None,
           n_jobs=1, on_progress=None):  # fmt: skip
    """All pairs, their table and Figure 2."""
    printed, results = paper_table("sharmanska_2013_table1")[:tasks], []
    options = {"per_class": per_class, "loss": loss, "pairs": pairs, "n_splits": n_splits, "n_jobs": n_jobs}
    for k, row in enumerate(printed):
        first, second = row["first"], row["second"]
        comparison = awa_pair(
            first,
            second,
            root=subfolder(data, "awa_surf"),
            methods=methods,
            store=out / f"{first}-{second}-{per_class}.sqlite",
            on_progress=on_progress and (lambda d, t, k=k: on_progress(k * t + d, len(printed) * t)),
            **options,
        )
        paper = row if per_class == 100 else None
        results.append({"first": first, "second": second, **pair_results(comparison, paper)})
    found = {"per_class": per_class, "loss": loss, "transfer_pairs": pairs, "pairs": results}
    write_result(out, out.name, **found, summary=over_all_pairs(results))
    for name in over_all_pairs(results):
        write_atomically(out / f"figure2-{name.replace('+', '-plus')}-N{per_class}.svg", _figure2(name, results))
    return [
        *table_lines(found),
        "Attributes: a reconstruction of the DAP probabilities, not the paper's file. Pictures and SURF words: the paper's.",
    ]
