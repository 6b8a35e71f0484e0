"""MNIST+ (Vapnik & Vashist's benchmark): learning curves with a poet's descriptions as privileged features."""

from __future__ import annotations

import numpy as np

from experiments.common import entry, subfolder, write_result
from experiments.data import load_mnist_plus
from lupi import compare

SIZES = (40, 50, 60, 70, 80, 90)
GAMMAS = (0.03, 0.1, 0.3)
# 72 candidates for each method: what SVM+ and SVM2+ have in lam and kappa, the plain ones have in values of C.
PLAIN = {"C": np.geomspace(0.1, 1000.0, 24).tolist(), "gamma": GAMMAS}
PLUS = {"C": (1.0, 10.0, 100.0, 1000.0), "gamma": GAMMAS, "lam": (0.1, 1.0, 10.0), "kappa": (3.0, np.inf)}
GRIDS = {"svm": PLAIN, "l2svm": PLAIN, "svm+": PLUS, "svm2+": PLUS}
# Pixels between 0 and 1 are not standardized: pixels at the border are hardly ever set.
COMMON = {"standardize": False, "permutations": 0, "kernel": "rbf", "metric": "accuracy"}


def learning_curves(digits, **options):
    """Training digits drawn from the 100 with descriptions, parameters by 4002 validation digits, 1866 test digits."""
    parts = [digits.target, digits.validation_target, digits.test_target]
    train, validation, test = np.split(np.arange(sum(map(len, parts))), np.cumsum([len(part) for part in parts])[:2])
    return compare(
        np.vstack([digits.data, digits.validation_data, digits.test_data]) / 255.0,
        np.concatenate(parts),
        np.pad(digits.privileged.astype(float), ((0, len(validation) + len(test)), (0, 0)), constant_values=np.nan),
        cv=[(train, test, validation)] * options["n_splits"],
        methods=["svm+", "svm2+"],
        baselines=[],
        columns=False,
        grids=GRIDS,
        **COMMON,
        **options,
    )


def curve_lines(summary, names):
    """One line per method and control, one column per training size."""
    lines = []
    for k, row in enumerate(summary["sizes"][0]["methods"]):
        if row["name"] not in names:
            continue
        parts = {"": lambda r: r} | ({", shuffled": lambda r: r["shuffled"]} if row["role"] == "privileged" else {})
        for control, part in parts.items():
            cells = [part(size["methods"][k]) for size in summary["sizes"]]
            values = "".join(f"{100 * cell['mean']:8.2f} ± {100 * cell['error']:.2f}" for cell in cells)
            lines.append(f"{row['title'] + control:44}{values}")
    return lines


def gain_lines(summary):
    """One line per method and training size: gains from the descriptions and from shuffled ones."""
    lines = []
    for size in summary["sizes"]:
        for row in size["methods"]:
            if row.get("gain"):
                gain, control, over = (row[part] for part in ("gain", "shuffled_gain", "over_shuffled"))
                lines.append(
                    f"n = {size['train_size']}: {row['title']} {100 * gain['mean']:+.2f} ± {100 * gain['error']:.2f} "
                    f"(p = {gain['wilcoxon_p']:.2g}), shuffled {100 * control['mean']:+.2f}, difference "
                    f"{100 * over['mean']:+.2f} (p = {over['wilcoxon_p']:.2g}): {row['outcome']}"
                )
    return lines


def page(found):
    """All lines of the page from a stored result."""
    curves, reference = found["curves"], found["reference"]
    return [*curve_lines(curves, GRIDS), *curve_lines(reference, ("svm", "reference")), *gain_lines(curves)]


@entry("mnist-plus", "MNIST+ learning curves (Vapnik & Vashist's benchmark)", "mnist_plus")
def mnist_plus(data, out, *, n_splits=20, tasks=None, n_jobs=1, on_progress=None):
    digits, sizes = load_mnist_plus(subfolder(data, "mnist_plus")), list(SIZES[:tasks])
    options = {"n_splits": n_splits, "train_size": sizes, "n_jobs": n_jobs}
    curves = learning_curves(digits, store=out / "mnist_plus.sqlite", on_progress=on_progress, **options)
    # Only the 100 training digits have descriptions: an SVM on them is tested on those that the largest size leaves.
    reference = compare(
        digits.data / 255.0,
        digits.target,
        digits.privileged,
        methods=["reference"],
        baselines=["svm"],
        store=out / "reference.sqlite",
        **COMMON,
        **options,
    )
    curves.to_html(out / "mnist_plus.html")
    found = {"curves": curves.summary, "reference": reference.summary}
    write_result(out, "mnist-plus", **found)
    return [
        f"accuracy x 100, {n_splits} draws, mean ± standard error (of the draws: all are tested on the same digits)",
        f"{'tuned on 4002, tested on 1866 digits':44}" + "".join(f"{f'n = {size}':>15}" for size in sizes),
        *page(found),
        str(curves.verdict),
        f"page: {out / 'mnist_plus.html'}",
    ]
