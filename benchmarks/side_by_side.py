"""Two checkouts side by side: ``python -m benchmarks.side_by_side DIR`` times public fits of this tree and of the one in DIR.

Both run alternately, each in a process of its own; CPU seconds, the least of the repeats, after a warm-up.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from time import process_time

import numpy as np

LINEAR = {"kernel": "linear", "privileged_kernel": "linear"}
HERE = Path(__file__).resolve().parents[1]


def fits():
    """Name -> function that fits and returns the model; only names that both checkouts have."""
    import lupi
    from lupi.datasets import make_planted_boxes, make_privileged

    try:
        from lupi.structured import BoxLocalization, Chain, Multiclass
    except ImportError:
        from lupi.tasks import BoxLocalization, Chain, Multiclass

    def table(n, d=50, s=20):
        return make_privileged(n, d, s, random_state=0, return_X_y_privileged=True)

    cases = {}
    for n in (300, 2000):
        data = table(n)
        for C in (0.1, 10.0):
            for name in ("SVMPlus", "SVM2Plus", "SVRPlus", "SVM2K"):
                if name != "SVM2K" or n < 1000:
                    cases[f"{name} rbf n={n} C={C:g}"] = (getattr(lupi, name)(C=C), data)
            for name in ("SVMPlus", "SVM2Plus", "SVRPlus"):
                cases[f"{name} linear n={n} C={C:g}"] = (getattr(lupi, name)(C=C, **LINEAR), data)
            cases[f"SVMPlus kappa=inf n={n} C={C:g}"] = (lupi.SVMPlus(C=C, kappa=np.inf), data)
        X, y, Z = data
        cases[f"SVM2Plus two spaces n={n}"] = (lupi.SVM2Plus(), (X, y, [Z[:, :10], Z[:, 10:]]))
        cases[f"OneClassSVMPlus n={n}"] = (lupi.OneClassSVMPlus(), (X, None, Z))
        cases[f"RankTransfer n={n}"] = (lupi.RankTransfer(C=0.01, C_privileged=0.01), data)
        cases[f"RankTransfer hinge n={n}"] = (lupi.RankTransfer(C=0.01, C_privileged=0.01, loss="hinge"), data)
    for name in ("SVMPlus", "SVM2Plus"):
        cases[f"{name} linear n=100000"] = (getattr(lupi, name)(**LINEAR), table(100_000))
    X, y, Z = table(400)
    classes = np.arange(400) % 20
    cases["SVM2Plus 20 classes n=400"] = (lupi.SVM2Plus(), (X + classes[:, None] % 7, classes, Z))
    half = np.where(np.arange(400) < 100, y.astype(float), np.nan)
    for estimator in ("ridge", None):
        name = f"SurrogateClassifier {estimator or 'default'}"
        model = lupi.SurrogateClassifier(estimator, random_state=0)
        cases |= {f"{name} n=100": (model, (X[:100], y[:100], Z[:100])), f"{name} 100+300": (model, (X, half, Z))}
        numbers = lupi.SurrogateRegressor(estimator, random_state=0)
        cases[f"SurrogateRegressor {estimator or 'default'} n=100"] = (
            numbers,
            (X[:100], X[:100, 0] + Z[:100, 0], Z[:100]),
        )
    images, boxes, more = make_planted_boxes(60, shape=(18, 24), n_words=100, n_points=300, random_state=0)
    tasks = BoxLocalization(100), BoxLocalization(120)
    cases["StructuralSVMPlus boxes"] = (
        lupi.StructuralSVMPlus(*tasks, C=100.0, tol=0.01, random_state=0),
        (images, boxes, more),
    )
    plus = lupi.StructuralSVMPlus(Multiclass(20, 50), Multiclass(20, 20), random_state=0)
    cases["StructuralSVMPlus classes"] = (plus, (X, classes, Z))
    jkse = lupi.JKSEPlus(Multiclass(20, 50), kernel="rbf", privileged_kernel="rbf")
    cases["JKSEPlus classes"] = (jkse, (X, classes, Z))
    chains = [X[k : k + 8] for k in range(0, 400, 8)], [classes[k : k + 8] for k in range(0, 400, 8)]
    cases["StructuralSVM chains"] = (lupi.StructuralSVM(Chain(20, 50), random_state=0), (*chains, None))
    return cases


def serve():
    """Time the cases whose names arrive on standard input."""
    cases = fits()
    print(json.dumps(list(cases)), flush=True)
    for line in sys.stdin:
        model, (X, y, Z) = cases[line.strip()]
        arguments = (X,) if y is None else (X, y)
        options = {} if Z is None else {"privileged": Z}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            start = process_time()
            model.fit(*arguments, **options)
            seconds = process_time() - start
        print(json.dumps([seconds, float(getattr(model, "dual_gap_", 0.0))]), flush=True)


def main(other, *names):
    """Print times, ratios and certified gaps; names select cases by their beginning."""
    command = [sys.executable, __file__, "--serve"]
    sides = []
    for tree in (Path(other).resolve(), HERE):
        environment = {**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
        sides.append(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        )
    known = [json.loads(side.stdout.readline()) for side in sides]
    ratios = []
    print(f"{'case':42} {'before':>9} {'now':>9} {'ratio':>6} {'gap before':>11} {'gap now':>9}")
    for case in [case for case in known[1] if case in known[0] and (not names or case.startswith(names))]:
        found = [[], []]
        for repeat in range(6):
            for side, rows in zip(sides, found):
                side.stdin.write(case + "\n")
                side.stdin.flush()
                rows.append(json.loads(side.stdout.readline()))
            if repeat >= 2 and rows[-1][0] > 2.0:
                break
        (before, gap_before), (now, gap_now) = (min(rows[1:]) for rows in found)  # the first run compiles
        ratios.append(now / before)
        print(f"{case:42} {before:9.4f} {now:9.4f} {now / before:6.2f} {gap_before:11.1e} {gap_now:9.1e}", flush=True)
    print(f"geometric mean {np.exp(np.mean(np.log(ratios))):.3f}, worst {max(ratios):.2f}, {len(ratios)} cases")


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["--serve"] else main(*sys.argv[1:])
