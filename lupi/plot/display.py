"""What all displays share: axes of the caller's or new ones, and text that is no formula."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lupi.plot.colors import COLORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LIGHT = COLORS["light"]


class Display:
    """A picture with its data: `plot` draws it, `ax_` and `figure_` are where."""

    def _on(self, ax: Axes | None) -> Axes:
        """Axes to draw on: those given, or new ones."""
        if ax is None:
            try:
                from matplotlib import pyplot
            except ImportError:
                raise ImportError('plots need matplotlib: pip install "lupi[report]".') from None
            ax = pyplot.subplots(layout="constrained")[1]
        self.ax_, self.figure_ = ax, ax.figure
        return ax

    def _names(self, names: Sequence[str], **style: Any) -> None:
        """Names down the left side, the first on top. One may hold dollar signs: it is no formula."""
        self.ax_.set_yticks(range(len(names)), list(names), parse_math=False, **style)
        self.ax_.set_ylim(len(names) - 0.5, -0.5)

    def _legend(self, **style: Any) -> None:
        for text in self.ax_.legend(**{"fontsize": "small", "frameon": False} | style).get_texts():
            text.set_parse_math(False)
