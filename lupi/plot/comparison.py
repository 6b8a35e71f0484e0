"""Displays of comparisons: gains with their controls, and learning curves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from lupi.plot.figures import Display, draw_curves, draw_gains, gain_groups, main_lines, reading

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class GainsDisplay(Display):
    """Gains of each method that uses the privileged columns, over the best baseline and over both controls.

    The controls are the counterpart (the same method without the privileged columns) and the shuffled control (the same
    method with the privileged values of other rows). Only a gain over all of them is a reason to use the columns.

    Parameters
    ----------
    gains : dict of str to list of Interval
        Title of a method -> its gains in points, with 95% intervals.
    label : str, default=""
        Label of the horizontal axis.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        After `plot`.

    See Also
    --------
    LearningCurveDisplay : Scores for several training sizes.

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

    draw = staticmethod(draw_gains)
    gains: Any
    label: str = field(default="", kw_only=True)

    @classmethod
    def from_comparison(cls, comparison: Any, *, size: int = -1, ax: Axes | None = None, **style: Any) -> Self:
        """Draw the gains of a comparison.

        Parameters
        ----------
        comparison : lupi.comparison.Comparison
        size : int, default=-1
            Position of the training size; the last one is the largest.
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; new ones by default.
        **style
            Passed to ``Axes.errorbar``.

        Returns
        -------
        GainsDisplay
        """
        found = comparison.summary["sizes"][size]
        groups = gain_groups(found)
        if not groups:
            raise ValueError("there are no gains to plot: no method that uses the columns was fitted on every split.")
        metric = comparison.summary["protocol"]["metric_title"]
        return cls(groups, label=f"gain in {metric}, points, {found['train_size']} labeled rows").plot(ax, **style)


@dataclass(eq=False, repr=False)
class LearningCurveDisplay(Display):
    """Learning curves with bands of two standard errors; a dotted line marks how many rows the columns are worth.

    Parameters
    ----------
    lines : list of Line
        The curves, in points.
    worth : dict, optional
        Entry of ``summary["worth"]``: with `train_size` rows the columns give `score`, for which the baseline needs
        `baseline_rows`.
    label : str, default=""
        Label of the vertical axis.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        After `plot`.

    Examples
    --------
    >>> import lupi
    >>> from lupi.plot import LearningCurveDisplay
    >>> from lupi.datasets import make_privileged
    >>> X, y, privileged = make_privileged(150, random_state=0, return_X_y_privileged=True)
    >>> result = lupi.compare(X, y, privileged, methods=["surrogate-ridge"], baselines=["linear"], n_splits=4,
    ...                       train_size=[20, 40], permutations=0)
    >>> display = LearningCurveDisplay.from_comparison(result)
    >>> [line.label for line in display.lines][0]
    'best baseline'
    """

    draw = staticmethod(draw_curves)
    lines: Any
    worth: Any = field(default=None, kw_only=True)
    label: str = field(default="", kw_only=True)

    @classmethod
    def from_comparison(cls, comparison: Any, *, ax: Axes | None = None, **style: Any) -> Self:
        """Draw the curves of a comparison with several training sizes.

        Parameters
        ----------
        comparison : lupi.comparison.Comparison
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; new ones by default.
        **style
            Passed to ``Axes.plot``.

        Returns
        -------
        LearningCurveDisplay
        """
        summary = comparison.summary
        sizes = [size["train_size"] for size in summary["sizes"]]
        if len(sizes) < 2:
            raise ValueError(
                f"a curve requires several training sizes, such as train_size=[{sizes[0] // 2}, {sizes[0]}]."
            )
        label = f"{summary['protocol']['metric_title']} x 100"
        return cls(main_lines(summary), worth=reading(summary), label=label).plot(ax, **style)
