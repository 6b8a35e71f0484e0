"""Structured outputs: exactness and speed, one plain function a case, each returning a dict of figures.

Times are CPU seconds after a warm-up. ``benchmarks.structured`` runs them and makes the tables.
"""

from __future__ import annotations

import warnings
from time import process_time

import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from benchmarks import _structured_peers as peers
from lupi.datasets.planted_boxes import make_planted_boxes
from lupi.structured import BoxLocalization, Chain, Multiclass
from lupi.structured.joint import TaskData, alternating_inference, exact_inference, joint_value
from lupi.structured.joint_features import joint_features, joint_kernel
from lupi.structured.structural_svm import StructuralSVM
from lupi.structured.structural_svm_plus import StructuralSVMPlus
from lupi.vision import Box, best_box
from lupi.vision.kernel_search import CHI2, box_value, dense_windows, integral_histograms, kernel_branch_and_bound


def searches_against_brute_force(n_cases=10_000):
    """Both searches on small random and adversarial grids, all loss weights."""
    return {"cases": n_cases, **peers.count_search_mismatches(n_cases)}


def joint_inference_against_brute_force(n_cases=10_000):
    """Four searches against every pair (y, y*), and how often the alternation misses the maximum."""
    rng = np.random.default_rng(0)
    mismatches = missed = done = 0
    grid = (5, 6)
    outputs = [
        Box(t, l, b, r)
        for t in range(grid[0])
        for b in range(t + 1, grid[0] + 1)
        for l in range(grid[1])
        for r in range(l + 1, grid[1] + 1)
    ]
    task, star = BoxLocalization(6), BoxLocalization(8)
    while done < n_cases:
        X, Y, Z = make_planted_boxes(
            20, shape=grid, n_words=6, n_object_words=2, n_points=20, n_privileged_words=2, random_state=done
        )
        space, privileged = TaskData(task, X, Y), TaskData(star, Z, Y)
        for i in range(min(20, n_cases - done)):
            rho = float(rng.choice([0.5, 1.0, 2.0, 8.0]))
            scale = 10.0 ** rng.uniform(-2, 0)
            w, w_star = scale * rng.normal(size=6), scale * rng.normal(size=8)
            if i % 2:
                w, w_star = scale * (np.array([3, 2, -1, -1, -1, -1]) + 0.3 * rng.normal(size=6)), 0.1 * w_star
            best = peers.brute_force_joint(space, privileged, outputs, w, w_star, i, rho)
            value = joint_value(*exact_inference(space, privileged, w, w_star, i, rho), rho)
            local = joint_value(*alternating_inference(space, privileged, w, w_star, i, rho), rho)
            mismatches += abs(value - best) > 1e-9
            missed += local < best - 1e-9
        done += 20
    return {
        "cases": n_cases,
        "mismatches": int(mismatches),
        "alternating_miss_rate": missed / n_cases,
        **_miss_rate_in_training(),
    }


def _miss_rate_in_training():
    X, Y, Z = make_planted_boxes(100, shape=(18, 24), n_words=100, n_points=300, object_rate=0.6, random_state=0)
    model = StructuralSVMPlus(BoxLocalization(100), BoxLocalization(120), C=10.0, tol=0.05, random_state=0)
    model.fit(X, Y, privileged=Z)
    space, privileged = TaskData(model.task, X, Y), TaskData(model.privileged_task, Z, Y)
    args = [(space, privileged, model.coef_, model.privileged_coef_, i, model.rho) for i in range(len(X))]
    pairs = [(joint_value(*exact_inference(*a), 2.0), joint_value(*alternating_inference(*a), 2.0)) for a in args]
    return {"alternating_miss_rate_at_training_weights": float(np.mean([b < a - 1e-9 for a, b in pairs]))}


def prediction_speed(n_images=40):
    """Prediction at 375x500 with 3000 words and 2000 points: informative, noisy and zero-mean weights."""
    X, _, _ = make_planted_boxes(n_images, shape=(375, 500), n_words=3000, n_points=2000, random_state=1)
    rng = np.random.default_rng(0)
    informative = np.where(np.arange(3000) < 375, 1.0, -0.12)
    kinds = {
        "informative": informative,
        "noisy": informative + 0.5 * rng.normal(size=3000),
        "zero_mean": rng.normal(size=3000),
        "zero_mean_signs": rng.choice([-1.0, 1.0], 3000),
        "slightly_negative_mean": rng.normal(size=3000) - 0.05,
    }
    best_box(X[0], informative)
    out, times = {}, []
    for name, weights in kinds.items():
        seconds = [_seconds(best_box, x, weights) for x in X]
        times += seconds
        out[f"{name}_median_ms"] = 1e3 * float(np.median(seconds))
        out[f"{name}_worst_ms"] = 1e3 * max(seconds)
    return {**out, "median_ms": 1e3 * float(np.median(times)), "worst_ms": 1e3 * max(times)}


def training_search_speed(n_images=60, passes=8):
    """Loss-augmented search at 375x500 with the weights that a fit passes through."""
    X, Y, _ = make_planted_boxes(n_images, shape=(375, 500), n_words=3000, n_points=2000, random_state=0)
    task = _TimedBoxes(BoxLocalization(3000))
    task.argmax(np.zeros(3000), X[0], Y[0], 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        StructuralSVM(task, C=1000.0, tol=1e-3, max_iter=passes, random_state=0).fit(X, Y)
    late = task.seconds[2 * n_images :]
    return {
        "searches": len(late),
        "median_ms": 1e3 * float(np.median(late)),
        "p95_ms": 1e3 * float(np.percentile(late, 95)),
        "worst_ms": 1e3 * max(late),
    }


class _TimedBoxes:
    def __init__(self, task):
        self.task, self.n_features, self.seconds = task, task.n_features, []
        self.joint_feature, self.loss = task.joint_feature, task.loss

    def argmax(self, w, x, y_true=None, loss_weight=0.0):
        start = process_time()
        y = self.task.argmax(w, x, y_true, loss_weight)
        self.seconds.append(process_time() - start)
        return y


def plus_training(n=280, C=100.0):
    """SSVM+ on an 18x24 grid with 300 words, to certified gaps of 1% and 0.1%; the plain SSVM beside it.

    Raw counts, and counts of order 1 (times 0.1), which make the same C a milder problem.
    """
    X, Y, Z = make_planted_boxes(n, shape=(18, 24), n_words=300, n_points=300, random_state=0)
    out = {}
    for scale in (1.0, 0.1):
        task, star = BoxLocalization(300, scale=scale), BoxLocalization(320, scale=scale)
        StructuralSVMPlus(task, star, C=1.0, tol=0.05, random_state=0).fit(X[:8], Y[:8], privileged=Z[:8])
        for tol in (1e-2, 1e-3):
            plus = StructuralSVMPlus(task, star, C=C, tol=tol, random_state=0)
            plain = StructuralSVM(task, C=C, tol=tol, random_state=0)
            out[f"scale={scale:g},tol={tol:g}"] = {
                "plus_s": _seconds(plus.fit, X, Y, privileged=Z),
                "plus_gap": plus.dual_gap_,
                "plus_oracle_calls": plus.n_oracle_calls_,
                "plain_s": _seconds(plain.fit, X, Y),
            }
    return out


def explicit_boxes_against_dlib(Cs=(1.0, 100.0), epsilons=(1e-1, 1e-2, 1e-3)):
    """N = 200, 3025 explicit boxes, 200 words: our time to the objective that dlib returns, the same NumPy oracle."""
    task, X, Y = peers.explicit_boxes(200)
    batched, _, _ = peers.explicit_boxes(200, batched=True)
    ways = {"bcfw": (task, "bcfw"), "bcfw_batch": (batched, "bcfw"), "n_slack_batch": (batched, "n_slack")}
    for t, solver in ways.values():
        _time_to_objective(t, X[:5], Y[:5], 1.0, 0.9, solver)
    out = {}
    for C in Cs:
        for epsilon in epsilons:
            found = peers.solve_with_dlib(task, X, Y, C, epsilon)
            if found is None:
                return {"dlib": "not installed"}
            w, seconds = found
            goal = peers.objective(task, X, Y, w, C)
            row = {"dlib_s": seconds, "dlib_objective": goal}
            for name, (t, solver) in ways.items():
                ours, objective = _time_to_objective(t, X, Y, C, goal, solver)
                row |= {f"{name}_s": ours, f"{name}_ratio": seconds / ours, f"{name}_objective": objective}
            out[f"C={C:g},eps={epsilon:g}"] = row
    return out


def _time_to_objective(task, X, Y, C, goal, solver):
    model = StructuralSVM(
        task, C=C, tol=1e-9, max_iter=200, solver=solver, random_state=0, callback=lambda info: info["primal"] <= goal
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return _seconds(model.fit, X, Y), model.objective_


def multiclass_and_chain(n_chains=300):
    """50 passes on the digits, 10 passes on generated chains; objectives beside a certified optimum."""
    X, y = load_digits(return_X_y=True)
    digits = (X / 16.0, y)
    chains = peers.make_chains(n_chains)
    out = {}
    for name, task, data, passes in (
        ("digits", Multiclass(10, 64), digits, 50),
        ("chain", Chain(10, 40), chains, 10),
    ):
        StructuralSVM(task, tol=0.9).fit(data[0][:20], data[1][:20])
        model = StructuralSVM(task, C=1.0, tol=1e-12, max_iter=passes, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            out[f"{name}_{passes}_passes_s"] = _seconds(model.fit, *data)
            reference, seconds = peers.plain_frank_wolfe(task, *data, C=1.0, passes=passes)
        best = StructuralSVM(task, C=1.0, tol=1e-3, max_iter=10_000, random_state=0)
        out[f"{name}_to_gap_1e-3_s"] = _seconds(best.fit, *data)
        out |= {
            f"{name}_n": len(data[0]),
            f"{name}_objective": model.objective_,
            f"{name}_numpy_frank_wolfe_objective": reference,
            f"{name}_numpy_frank_wolfe_s": seconds,
            f"{name}_optimum": best.objective_,
        }
    return out


def kernel_search(n_images=5):
    """JKSE inference at 47x63 with 200 bins and 50 support vectors, raw and L1-normalized, against dense windows."""
    X, Y, _ = make_planted_boxes(
        50 + n_images, shape=(47, 63), n_words=200, n_points=800, object_rate=0.6, random_state=0
    )
    out = {}
    for normalize in (False, True):
        features = joint_features(BoxLocalization(200), X[:50], Y[:50], normalize)
        gamma = joint_kernel("chi2", "scale", features, "X").gamma
        coef = np.random.default_rng(0).uniform(0.1, 1.0, 50)
        edges, nowhere = (np.arange(48.0), np.arange(64.0)), (np.empty((50, 0)), 1.0)
        times, dense_times, mismatches = [], [], 0
        for x in X[50:]:
            images = integral_histograms(x.rows, x.cols, x.words, *x.shape, 1, 200)
            if not times:
                kernel_branch_and_bound(images, *edges, *nowhere, features, coef, gamma, CHI2, normalize, 10)
                dense_windows(images[:3, :3], features, coef, gamma, CHI2, normalize)
            start = process_time()
            _, value, _, _ = kernel_branch_and_bound(
                images, *edges, *nowhere, features, coef, gamma, CHI2, normalize, 10**9
            )
            times.append(process_time() - start)
            start = process_time()
            box, _ = dense_windows(images, features, coef, gamma, CHI2, normalize)
            dense_times.append(process_time() - start)
            mismatches += value < box_value(images, *box, np.zeros(50), features, coef, gamma, CHI2, normalize) - 1e-12
        name = "normalized" if normalize else "raw"
        out |= {
            f"{name}_search_median_s": float(np.median(times)),
            f"{name}_dense_median_s": float(np.median(dense_times)),
            f"{name}_ratio": sum(dense_times) / sum(times),
            f"{name}_worst_ratio": min(d / t for d, t in zip(dense_times, times)),
            f"{name}_mismatches": int(mismatches),
        }
    return out


def _seconds(call, *args, **kwargs):
    start = process_time()
    call(*args, **kwargs)
    return process_time() - start


CASES = {
    "searches": searches_against_brute_force,
    "joint": joint_inference_against_brute_force,
    "prediction": prediction_speed,
    "training_search": training_search_speed,
    "plus": plus_training,
    "dlib": explicit_boxes_against_dlib,
    "sequences": multiclass_and_chain,
    "kernel_search": kernel_search,
}
