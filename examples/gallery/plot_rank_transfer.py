"""
What Rank Transfer transfers
============================

Labels say only "good" or "bad", and are wrong now and then. Two clean measurements, known for the training examples
only, show how good an example is. A teacher ranks with them; its margins tell the student which pairs are easy, which
are a close call, and which it had better ignore. ``python examples/gallery/plot_rank_transfer.py [picture.png]``
"""

import sys
import warnings

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.lines import Line2D
from scipy.stats import kendalltau

from lupi import RankTransferCV
from lupi.ranking.ranking_metrics import average_precision

CS, CS_PRIVILEGED = [10.0**k for k in range(-5, 1)], [1e-3, 1e-1, 10.0]
GOOD, BAD, INK, QUIET, PALE = "#1b7f79", "#d1603d", "#222b33", "#7b858c", "#eceff0"


def make_data(n, rng, directions):
    quality = rng.normal(size=n)
    X = 0.3 * quality[:, None] * directions + rng.normal(size=(n, len(directions)))
    privileged = quality[:, None] + 0.2 * rng.normal(size=(n, 2))
    y = (quality + 1.5 * rng.normal(size=n) > 0).astype(int)
    return X, privileged, y


def fit_both(seed):
    """One draw: a ranking SVM and Rank Transfer on 60 examples, same grid for C, and 4000 new examples."""
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=40)
    X, Z, y = make_data(60, rng, directions)
    plain = RankTransferCV(CS, CS_PRIVILEGED).fit(X, y)
    with warnings.catch_warnings():  # 60 noisy labels leave some teachers in doubt; all draws count all the same
        warnings.filterwarnings("ignore", message="RankTransfer: the teacher ranks left-out examples")
        transfer = RankTransferCV(CS, CS_PRIVILEGED).fit(X, y, privileged=Z)
    return {"Ranking SVM": plain, "Rank Transfer": transfer}, y, make_data(4000, rng, directions)


def draw_margins(ax, y, scores, threshold):
    """Margin asked of each pair: row above column in both the grades and the teacher's scores, or nothing."""
    order = np.lexsort((scores, y))
    rho = scores[order][:, None] - scores[order][None, :]
    asked = (rho > threshold) & (y[order][:, None] >= y[order][None, :])
    cmap = LinearSegmentedColormap.from_list("margin", ["#d9ecea", GOOD, "#0b3b3a"])
    ax.set_facecolor(PALE)
    image = ax.imshow(np.where(asked, rho, np.nan), cmap=cmap, origin="lower", interpolation="nearest")
    edge = np.count_nonzero(y == 0) - 0.5
    ax.axhline(edge, color="white", lw=1.5)
    ax.axvline(edge, color="white", lw=1.5)
    n = len(y)
    ax.set_xticks([edge / 2, (edge + n) / 2], ["bad", "good"])
    ax.set_yticks([edge / 2, (edge + n) / 2], ["bad", "good"], rotation=90, va="center")
    ax.tick_params(length=0, colors=QUIET)
    ax.set_xlabel("example j", color=QUIET)
    ax.set_ylabel("example i", color=QUIET)
    ax.text(n * 0.74, edge * 0.5, "never asked:\nbad above good", ha="center", va="center", fontsize=8, color=QUIET)
    ax.set_title("The margins that the teacher asks for", loc="left", fontsize=11, color=INK)
    bar = ax.figure.colorbar(image, ax=ax, fraction=0.046, pad=0.03)
    bar.set_label("margin of i over j", color=QUIET, fontsize=9)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, colors=QUIET, labelsize=8)
    ax.spines[:].set_visible(False)


def draw_two_rankings(ax, teacher, student, y, title, caption):
    """Left: places in the teacher's ranking. Right: places in the student's. One line per example."""
    left, right = np.argsort(np.argsort(teacher)), np.argsort(np.argsort(student))
    t = np.linspace(0, 1, 60)
    ease = t**2 * (3 - 2 * t)
    for a, b, grade in zip(left, right, y):
        color = GOOD if grade else BAD
        ax.plot(t, a + (b - a) * ease, color=color, lw=1.3, alpha=0.75, solid_capstyle="round")
        ax.scatter([0, 1], [a, b], s=16, color=color, zorder=3, linewidths=0)
    ax.set_xlim(-0.12, 1.12)
    ax.set_ylim(-2, len(y) + 0.5)
    ax.set_xticks([0, 1], ["teacher's ranking", "student's"], fontsize=10, color=INK)
    ax.set_yticks([0, len(y) - 1], ["last", "first"], color=QUIET)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_title(title, loc="left", fontsize=11, color=INK)
    ax.text(0.5, -0.1, caption, transform=ax.transAxes, ha="center", va="top", fontsize=9, color=QUIET)


def main(path=None, n_draws=20):
    precision = []
    for seed in range(n_draws):
        students, _, (X, _, y) = fit_both(seed)
        precision.append([100 * average_precision(y, student.decision_function(X)) for student in students.values()])
    gain = np.diff(precision, axis=1).ravel()
    print(f"{n_draws} draws: average precision {np.mean(precision, axis=0).round(1)}, ", end="")
    print(f"gain {gain.mean():.1f}, standard error {gain.std(ddof=1) / np.sqrt(n_draws):.1f}")

    # The picture shows the draw whose gain is the median one.
    students, y, (X_test, Z_test, y_test) = fit_both(int(np.argsort(gain)[n_draws // 2]))
    teacher = students["Rank Transfer"].teacher_
    fig, axes = plt.subplots(1, 3, figsize=(13, 5), width_ratios=[1.25, 1, 1], layout="constrained")
    draw_margins(axes[0], y, students["Rank Transfer"].margins_, 0.1)
    shown = np.arange(40)
    for ax, (name, student) in zip(axes[1:], students.items()):
        scores, best = student.decision_function(X_test), teacher.decision_function(Z_test)
        caption = (
            f"agreement with the teacher (Kendall's tau) {kendalltau(best, scores).statistic:.2f}\n"
            f"average precision on 4000 new examples (40 shown) {100 * average_precision(y_test, scores):.1f}"
        )
        draw_two_rankings(ax, best[shown], scores[shown], y_test[shown], name, caption)
        print(f"{name}: {caption}".replace("\n", ", "))
    handles = [Line2D([], [], color=color, lw=3, label=label) for color, label in ((GOOD, "good"), (BAD, "bad"))]
    axes[2].legend(
        handles=handles,
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=2,
        frameon=False,
        fontsize=9,
        labelcolor=INK,
    )
    if path:
        fig.savefig(path, dpi=100)
    else:
        plt.show()


if __name__ == "__main__":
    main(*sys.argv[1:2])
