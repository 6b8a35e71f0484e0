"""Gains against both controls and the best baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from lupi.plot.display import LIGHT, Display
from lupi.plot.series import gain_groups

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class GainsDisplay(Display):
    """Each method that uses the privileged columns: its lead over the best baseline and over both of its controls.

    The controls are the method's counterpart (privileged features off) and the method with another row's privileged
    features (shuffled). Only a lead over all of them is a reason to use the columns.

    Parameters
    ----------
    gains : dict of str to list of Interval
        Title of a method -> its leads in points, with 95% intervals.
    label : str, default=""
        Of the horizontal axis.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        After `plot`.

    See Also
    --------
    LearningCurveDisplay : the same for several training sizes.

    Examples
    --------
    >>> import lupi
    >>> from lupi.plot import GainsDisplay
    >>> from lupi.datasets import make_privileged
    >>> X, y, privileged = make_privileged(150, random_state=0, return_X_y_privileged=True)
    >>> result = lupi.compare(X, y, privileged, methods=["surrogate-ridge"], baselines=["linear"], n_splits=4,
    ...                       train_size=40, permutations=0)
    >>> display = GainsDisplay.from_comparison(result)
    >>> list(display.gains)
    ['surrogate, ridge']
    """

    def __init__(self, gains: Any, *, label: str = "") -> None:
        self.gains = gains
        self.label = label

    @classmethod
    def from_comparison(cls, comparison: Any, *, size: int = -1, ax: Axes | None = None, **style: Any) -> Self:
        """Draw the gains of a comparison.

        Parameters
        ----------
        comparison : lupi.comparison.Comparison
        size : int, default=-1
            Which of its training sizes, by position: the largest is the last.
        ax : matplotlib.axes.Axes, optional
            A new one if not given.
        **style
            For ``Axes.errorbar``.

        Returns
        -------
        GainsDisplay
        """
        found = comparison.summary["sizes"][size]
        groups = gain_groups(found)
        if not groups:
            raise ValueError("there are no gains to plot: no method that uses the columns was fitted on every split.")
        metric = comparison.summary["protocol"]["metric_title"]
        label = f"lead in {metric}, points, {found['train_size']} labeled rows"
        return cls(groups, label=label).plot(ax, **style)

    def plot(self, ax: Axes | None = None, **style: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
        **style
            For ``Axes.errorbar``.

        Returns
        -------
        GainsDisplay
        """
        ax = self._on(ax)
        seen = set()
        for k, intervals in enumerate(self.gains.values()):
            for j, part in enumerate(intervals):
                y = k + 0.2 * (j - (len(intervals) - 1) / 2)
                margins = [[part.mean - part.low], [part.high - part.mean]]
                label = None if part.label in seen else f"over the {part.label}"
                drawn: dict[str, Any] = {
                    "marker": "o",
                    "ls": "none",
                    "ms": 4,
                    "color": LIGHT[part.color],
                    "label": label,
                } | style
                ax.errorbar(part.mean, y, xerr=margins, **drawn)
                seen.add(part.label)
        ax.axvline(0, color=LIGHT["ink"], lw=0.8)
        self._names(self.gains)
        ax.set_xlabel(self.label)
        self._legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)  # above: points may be anywhere
        return self
