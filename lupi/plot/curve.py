"""Learning curves, and what the columns are worth in labeled rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from lupi.plot.display import LIGHT, Display
from lupi.plot.series import main_lines, reading

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class LearningCurveDisplay(Display):
    """Learning curves with bands of two standard errors; a dotted line says how many labeled rows the columns are worth.

    Parameters
    ----------
    lines : list of Line
        The curves, in points.
    worth : dict, optional
        One entry of ``summary["worth"]``: with `train_size` rows the columns give `score`, for which the plain curve needs
        `baseline_rows`.
    label : str, default=""
        Of the vertical axis.

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

    def __init__(self, lines: Any, *, worth: Any = None, label: str = "") -> None:
        self.lines = lines
        self.worth = worth
        self.label = label

    @classmethod
    def from_comparison(cls, comparison: Any, *, ax: Axes | None = None, **style: Any) -> Self:
        """Draw the curves of a comparison with several training sizes.

        Parameters
        ----------
        comparison : lupi.comparison.Comparison
        ax : matplotlib.axes.Axes, optional
            A new one if not given.
        **style
            For ``Axes.plot``.

        Returns
        -------
        LearningCurveDisplay
        """
        summary = comparison.summary
        sizes = [size["train_size"] for size in summary["sizes"]]
        if len(sizes) < 2:
            raise ValueError(f"a curve needs several training sizes, such as train_size=[{sizes[0] // 2}, {sizes[0]}].")
        label = f"{summary['protocol']['metric_title']} x 100"
        return cls(main_lines(summary), worth=reading(summary), label=label).plot(ax, **style)

    def plot(self, ax: Axes | None = None, **style: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
        **style
            For ``Axes.plot``.

        Returns
        -------
        LearningCurveDisplay
        """
        ax = self._on(ax)
        for line in self.lines:
            color = LIGHT[line.color]
            ax.plot(line.sizes, line.means, **{"marker": "o", "ms": 4, "color": color, "label": line.label} | style)
            ax.fill_between(line.sizes, line.low, line.high, color=color, alpha=0.13, lw=0)
        if self.worth:
            self._plot_worth()
        sizes = self.lines[0].sizes
        ax.set_xscale("log")
        ax.set_xticks(sizes, [str(size) for size in sizes])
        ax.minorticks_off()
        ax.set_xlabel("labeled training rows")
        ax.set_ylabel(self.label)
        self._legend()
        return self

    def _plot_worth(self) -> None:
        rows, score = self.worth["baseline_rows"], 100 * self.worth["score"]
        self.ax_.plot([self.worth["train_size"], rows], [score, score], ":", color=LIGHT["ink"])
        self.ax_.axvline(rows, color=LIGHT["ink"], ls=":", lw=0.8)
        text = f"{self.worth['train_size']} rows with the columns\nare worth {rows:.0f} without"
        self.ax_.annotate(
            text, (rows, score), (-4, 6), textcoords="offset points", ha="right", va="bottom", fontsize="small"
        )
