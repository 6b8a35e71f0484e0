"""The base class of all displays, and their figures as SVG for a page with its own colors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any, Self

from lupi.plot.colors import COLORS, LIGHT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Width of a figure of the report in points. Text stays text.
WIDTH = 480
SVG_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "lupi",
    "font.family": ["DejaVu Sans"],
    "font.size": 13,
    "text.color": LIGHT["ink"],
    "axes.labelcolor": LIGHT["soft"],
    "axes.edgecolor": LIGHT["rule"],
    "xtick.color": LIGHT["soft"],
    "ytick.color": LIGHT["soft"],
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
}


class Display:
    """A figure with its data: `plot` draws it on the axes `ax_` of the figure `figure_`."""

    ax_: Axes
    figure_: Any

    def plot(self, ax: Axes | None = None, **style: Any) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; new ones by default.
        **style
            Passed to the function of matplotlib that draws the data.

        Returns
        -------
        Display
            This object.
        """
        if ax is None:
            try:
                from matplotlib import pyplot
            except ImportError:
                raise ImportError('plots require matplotlib: pip install "lupi[report]".') from None
            ax = pyplot.subplots(layout="constrained")[1]
        self.ax_, self.figure_ = ax, ax.figure
        self._draw(ax, style)
        return self

    def _draw(self, ax: Axes, style: dict[str, Any]) -> None:
        raise NotImplementedError

    def _names(self, names: Sequence[str]) -> None:
        """Names down the left side, the first on top; dollar signs start no formula."""
        self.ax_.set_yticks(range(len(names)), [shorten(name, 30) for name in names], parse_math=False)
        self.ax_.set_ylim(len(names) - 0.5, -0.5)

    def _legend(self, **style: Any) -> None:
        for text in self.ax_.legend(**{"fontsize": "small", "frameon": False} | style).get_texts():
            text.set_parse_math(False)


def shorten(text: str, most: int) -> str:
    """A long name without its middle.

    Examples
    --------
    >>> shorten("length_of_the_stay", 11)
    'lengt…_stay'
    """
    head = most // 2
    return text if len(text) <= most else f"{text[:head]}…{text[len(text) - (most - 1 - head) :]}"


def figure_svg(display: Display, name: str, title: str, description: str, height: float) -> str:
    """SVG element of a display for a page: colors as CSS variables, a title and a description for screen readers."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(SVG_STYLE):
        figure = Figure(figsize=(WIDTH / 72, height / 72), layout="constrained")
        display.plot(figure.subplots())
        body = _svg_body(figure, name)
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-labelledby="{name}-t {name}-d" class="figure" id="{name}">'
        f'<title id="{name}-t">{escape(title)}</title><desc id="{name}-d">{escape(description)}</desc>{body}</svg>'
    )


def _svg_body(figure: Figure, name: str) -> str:
    """Content of a figure's SVG without style sheets and comments; identifiers start with the name of the figure."""
    file = StringIO()
    figure.savefig(file, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    text = file.getvalue()
    text = re.sub(r"<!--.*?-->|<style.*?</style>|<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.search(r"<svg[^>]*>(.*)</svg>", text, flags=re.DOTALL)[1]  # type: ignore[index]
    used = set(re.findall(r"(?:href=\"|url\()#([^\")]+)", text))
    text = re.sub(r' id="([^"]+)"', lambda found: f' id="{name}-{found[1]}"' if found[1] in used else "", text)
    text = re.sub(r"(?:xlink:)?(href=\"|url\()#", rf"\1#{name}-", text)
    return re.sub(r'style="[^"]*"', lambda found: _with_variables(found[0]), text)


def _with_variables(style: str) -> str:
    style = style.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")  # fonts of the same widths
    return re.sub(r"#[0-9a-f]{6}", lambda found: _VARIABLES.get(found[0], found[0]), style)


_VARIABLES = {color: f"var(--{name})" for name, color in reversed(COLORS["light"].items())}
