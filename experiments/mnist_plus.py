"""MNIST+ (Vapnik & Vashist's benchmark): learning curves with a poet's descriptions as privileged features."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from experiments._entry import Entry, write_result
from experiments.data import load_mnist_plus
from lupi.comparison.comparison import compare
from lupi.comparison.render.svg import learning_curve, standalone
from lupi.files import write_atomically

SIZES = (40, 50, 60, 70, 80, 90)
GAMMAS = (0.03, 0.1, 0.3)
# 72 candidates for each method: what SVM+ and SVM2+ have in lam and kappa, the plain ones have in values of C.
PLAIN = {"C": np.geomspace(0.1, 1000.0, 24).tolist(), "gamma": GAMMAS}
PLUS = {"C": (1.0, 10.0, 100.0, 1000.0), "gamma": GAMMAS, "lam": (0.1, 1.0, 10.0), "kappa": (3.0, np.inf)}
GRIDS = {"svm": PLAIN, "l2svm": PLAIN, "svm+": PLUS, "svm2+": PLUS}


def mnist_plus(root=None, *, sizes=SIZES, n_splits=20, store=None, n_jobs=1, on_progress=None):
    """Learning curves on MNIST+ with the poetic descriptions.

    Training digits are drawn from the 100 that have descriptions; parameters are chosen on the 4002 validation digits,
    as in the papers; the test is on the 1866 test digits.

    Returns
    -------
    Comparison
    """
    digits = load_mnist_plus(root)
    missing = np.full((len(digits.test_target), digits.privileged.shape[1]), np.nan)
    return compare(
        # Pixels between 0 and 1, not standardized: that would blow up pixels at the border, which are hardly ever set.
        np.vstack([digits.data, digits.test_data]) / 255.0,
        np.concatenate([digits.target, digits.test_target]),
        np.vstack([digits.privileged, missing]),
        test_only=np.arange(100 + len(missing)) >= 100,
        validation=(digits.validation_data / 255.0, digits.validation_target),
        standardize=False,
        methods=["svm+", "svm2+"],
        baselines=[],
        permutations=0,
        columns=False,
        kernel="rbf",
        grids=GRIDS,
        metric="accuracy",
        n_splits=n_splits,
        train_size=list(sizes),
        n_jobs=n_jobs,
        store=store,
        on_progress=on_progress,
    )


def reference(root=None, *, sizes=SIZES, n_splits=20, store=None, n_jobs=1):
    """An SVM on the descriptions, which only the 100 training digits have: tested on those that the largest size leaves.

    An SVM on the pixels of the same digits stands beside it, since so small a test is not that of the learning curves.

    Returns
    -------
    Comparison
    """
    digits = load_mnist_plus(root)
    return compare(
        digits.data / 255.0,
        digits.target,
        digits.privileged,
        standardize=False,
        methods=["reference"],
        baselines=["svm"],
        permutations=0,
        kernel="rbf",
        metric="accuracy",
        n_splits=n_splits,
        train_size=list(sizes),
        hard_examples=False,
        n_jobs=n_jobs,
        store=store,
    )


def _curves(result, names, suffix=""):
    """Lines of a table, one for each method and control, and a column for each training size."""
    lines = []
    for k, row in enumerate(result.summary["sizes"][0]["methods"]):
        if row["name"] not in names:
            continue
        parts = {"": lambda r: r} | ({", shuffled": lambda r: r["shuffled"]} if row["role"] == "privileged" else {})
        for control, part in parts.items():
            cells = [part(size["methods"][k]) for size in result.summary["sizes"]]
            values = "".join(f"{100 * cell['mean']:8.2f} ± {100 * cell['error']:.2f}" for cell in cells)
            lines.append(f"{row['title'] + control + suffix:44}{values}")
    return lines


def _gains(result):
    """One line for each method and training size: what it gains from the descriptions, and from shuffled ones."""
    lines = []
    for size in result.summary["sizes"]:
        for row in size["methods"]:
            if "gain" in row:
                gain, control, over = (row[part] for part in ("gain", "shuffled_gain", "over_shuffled"))
                lines.append(
                    f"n = {size['train_size']}: {row['title']} {100 * gain['mean']:+.2f} ± {100 * gain['error']:.2f} "
                    f"(p = {gain['wilcoxon_p']:.2g}), shuffled {100 * control['mean']:+.2f}, difference "
                    f"{100 * over['mean']:+.2f} (p = {over['wilcoxon_p']:.2g}): {row['outcome']}"
                )
    return lines


def _mnist_plus(data, out, *, n_splits=20, tasks=None, n_jobs=1, on_progress=None):
    root = None if data is None else Path(data) / "mnist_plus"
    sizes = SIZES[:tasks]
    options = {"sizes": sizes, "n_splits": n_splits, "n_jobs": n_jobs}
    result = mnist_plus(root, store=out / "mnist_plus.sqlite", on_progress=on_progress, **options)
    known = reference(root, store=out / "reference.sqlite", **options)
    result.to_html(out / "mnist_plus.html")
    if len(sizes) > 1:
        write_atomically(out / "curves.svg", standalone(learning_curve(result.summary["sizes"], "accuracy")).encode())
    write_result(out, "mnist-plus", curves=result.summary, reference=known.summary)
    lines = [
        f"accuracy x 100, {n_splits} draws, mean ± standard error (of the draws: all are tested on the same digits)",
        f"{'tuned on 4002, tested on 1866 digits':44}" + "".join(f"{f'n = {size}':>15}" for size in sizes),
        *_curves(result, GRIDS),
        f"tuned by cross-validation, tested on {100 - sizes[-1]} of the 100 digits with descriptions",
        *_curves(known, ("svm", "reference")),
        "",
        "Gains over the plain counterpart, points of accuracy:",
        *_gains(result),
        "",
        result.verdict,
        f"page: {out / 'mnist_plus.html'}",
    ]
    return lines


ENTRIES = (Entry("mnist-plus", "MNIST+ learning curves (Vapnik & Vashist's benchmark)", "mnist_plus", _mnist_plus),)
