"""Average ranks of methods over several data sets, and which of them differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.stats import friedmanchisquare, rankdata, studentized_range

from lupi.plot.colors import LIGHT
from lupi.plot.display import Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class CriticalDifferenceDisplay(Display):
    r"""Average ranks of methods over data sets; a bar joins methods that Nemenyi's test does not distinguish.

    With k methods and N data sets two average ranks differ, at level :math:`\alpha`, if their difference is more than

    .. math::

        \mathrm{CD} = q_\alpha \sqrt{k (k + 1) / (6 N)},

    where :math:`q_\alpha` is the quantile of the studentized range for k groups, divided by :math:`\sqrt 2` [1]_.

    Parameters
    ----------
    ranks : dict of str to float
        Name of a method -> its average rank; 1 is the best.
    critical_difference : float
    n_data_sets : int
    friedman_p : float
        p-value of Friedman's test that all methods are alike. Above the level, no difference is shown.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        After `plot`.

    References
    ----------
    .. [1] J. Demšar. Statistical comparisons of classifiers over multiple data sets. JMLR, 2006.

    Examples
    --------
    >>> from lupi.plot import CriticalDifferenceDisplay
    >>> scores = {"a": [0.9, 0.8, 0.7, 0.9], "b": [0.8, 0.7, 0.6, 0.7], "c": [0.7, 0.75, 0.5, 0.6]}
    >>> display = CriticalDifferenceDisplay.from_scores(scores)
    >>> display.ranks
    {'a': 1.0, 'b': 2.25, 'c': 2.75}
    >>> round(display.critical_difference, 3)
    1.657
    """

    def __init__(self, ranks: Any, critical_difference: Any, n_data_sets: Any, friedman_p: Any) -> None:
        self.ranks = ranks
        self.critical_difference = critical_difference
        self.n_data_sets = n_data_sets
        self.friedman_p = friedman_p

    @classmethod
    def from_scores(cls, scores: Any, *, level: float = 0.05, ax: Axes | None = None) -> Self:
        """Draw scores of methods on data sets.

        Parameters
        ----------
        scores : dict of str to sequence of float, or data frame
            Name of a method -> its scores, one per data set in the same order; larger is better.
        level : float, default=0.05
            Level of the test.
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; new ones by default.

        Returns
        -------
        CriticalDifferenceDisplay
        """
        names = [str(name) for name in scores]
        lengths = {len(scores[name]) for name in scores}
        if len(names) < 3 or len(lengths) != 1 or min(lengths) < 2:
            raise ValueError(
                "`scores` needs at least three methods, each with one score for each of two or more data sets; got "
                f"{len(names)} methods with {', '.join(map(str, sorted(lengths))) or 'no'} scores."
            )
        table = np.array([np.asarray(scores[name], dtype=float) for name in scores]).T
        if not np.isfinite(table).all():
            raise ValueError("`scores` has missing or infinite entries; leave out data sets that a method failed on.")
        n, k = table.shape
        ranks = rankdata(-table, axis=1).mean(axis=0)
        quantile = studentized_range.ppf(1 - level, k, np.inf) / np.sqrt(2)
        alike = (table == table[:, :1]).all()
        p = 1.0 if alike else float(friedmanchisquare(*table.T).pvalue)
        found = dict(sorted(zip(names, ranks.tolist()), key=lambda item: item[1]))
        return cls(found, float(quantile * np.sqrt(k * (k + 1) / (6 * n))), n, p).plot(ax)

    @classmethod
    def from_comparisons(
        cls, comparisons: Sequence[Any], *, size: int = -1, level: float = 0.05, ax: Axes | None = None
    ) -> Self:
        """Draw the mean scores of the methods that were fitted in each of several comparisons, one per data set.

        Parameters
        ----------
        comparisons : sequence of lupi.comparison.Comparison
        size : int, default=-1
            Position of the training size.
        level : float, default=0.05
            Level of the test.
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; new ones by default.

        Returns
        -------
        CriticalDifferenceDisplay
        """
        found = [
            {row["title"]: row["mean"] for row in comparison.summary["sizes"][size]["methods"] if not row["failed"]}
            for comparison in comparisons
        ]
        common = [title for title in (found[0] if found else ()) if all(title in means for means in found)]
        return cls.from_scores({title: [means[title] for means in found] for title in common}, level=level, ax=ax)

    def groups(self) -> list[tuple[int, int]]:
        """Largest sets of methods that the test does not distinguish, as (first, last) positions in the order of ranks.

        Returns
        -------
        list of tuple of int
        """
        ranks = list(self.ranks.values())
        found: list[tuple[int, int]] = []
        for i, rank in enumerate(ranks):
            last = max(j for j, other in enumerate(ranks) if other - rank <= self.critical_difference)
            if last > i and (not found or last > found[-1][1]):
                found.append((i, last))
        return found

    def _draw(self, ax: Axes, style: dict[str, Any]) -> None:
        names, ranks = list(self.ranks), list(self.ranks.values())
        k = len(ranks)
        ax.plot(ranks, range(k), "o", ms=5, color=LIGHT["real"])
        for row, rank in enumerate(ranks):
            ax.annotate(f"{rank:.2f}", (rank, row), (0, 5), textcoords="offset points", ha="center", fontsize="small")
        # Each bar has its own lane to the right of the methods that it joins.
        for lane, (first, last) in enumerate(self.groups()):
            ax.plot([k + 0.25 + 0.2 * lane] * 2, [first - 0.2, last + 0.2], lw=3, color=LIGHT["s2"])
        self._names(names)
        ax.set_xlim(0.7, k + 0.35 + 0.2 * len(self.groups()))
        ax.set_xticks(range(1, k + 1))
        ax.grid(axis="x", color=LIGHT["rule"], lw=0.6)
        ax.set_axisbelow(True)
        ax.set_xlabel(
            f"average rank over {self.n_data_sets} data sets (1 is best)\n"
            f"critical difference {self.critical_difference:.2f}, Friedman p {self.friedman_p:.3g}"
        )
