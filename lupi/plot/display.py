"""Colors, the base class of all displays, and figures as SVG for a page with its own colors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLORS = {  # light, dark, print
    "paper": ("#ffffff", "#12161c", "#ffffff"),
    "ink": ("#1c2128", "#e6edf3", "#000000"),
    "soft": ("#57606a", "#a5b0bb", "#444444"),
    "rule": ("#d0d7de", "#39424e", "#bbbbbb"),
    "panel": ("#f4f6f8", "#1c232c", "#f4f4f4"),
    "real": ("#1b6ca8", "#6cb6ff", "#1b6ca8"),
    "counterpart": ("#7b3fa0", "#d2a8ff", "#7b3fa0"),
    "shuffled": ("#6e7781", "#8b949e", "#6e7781"),
    "negative": ("#b3541e", "#f0a06a", "#b3541e"),
    "good": ("#1a6e34", "#6fdd8b", "#1a6e34"),
    "bad": ("#a4161a", "#ff8f8f", "#a4161a"),
    "doubt": ("#7d5700", "#e3c55b", "#7d5700"),
}
COLORS = {
    scheme: {name: found[k] for name, found in _COLORS.items()} for k, scheme in enumerate(("light", "dark", "print"))
}
LIGHT = COLORS["light"]
_VARIABLES = {color: f"var(--{name})" for name, color in LIGHT.items()}

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


def name_rows(ax: Axes, names: Iterable[str]) -> None:
    """Names down the left side, the first on top; dollar signs start no formula."""
    labels = [shorten(name, 30) for name in names]
    ax.set_yticks(range(len(labels)), labels, parse_math=False)
    ax.set_ylim(len(labels) - 0.5, -0.5)


def legend(ax: Axes, **style: Any) -> None:
    """Legend in which dollar signs start no formula."""
    for text in ax.legend(**{"fontsize": "small", "frameon": False} | style).get_texts():
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


def css_variables(scheme: str) -> str:
    """Colors of a scheme as variables of a style sheet.

    Examples
    --------
    >>> css_variables("light")[:17]
    '--paper: #ffffff;'
    """
    return " ".join(f"--{name}: {color};" for name, color in COLORS[scheme].items())


def figure_svg(draw: Callable[[Axes], Any], name: str, title: str, description: str, height: float) -> str:
    """SVG element of a figure for a page: colors as CSS variables, a title and a description for screen readers."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    file = StringIO()
    with rc_context(SVG_STYLE):
        figure = Figure(figsize=(WIDTH / 72, height / 72), layout="constrained")
        draw(figure.subplots())
        figure.savefig(file, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-labelledby="{name}-t {name}-d" class="figure" id="{name}">'
        f'<title id="{name}-t">{escape(title)}</title><desc id="{name}-d">{escape(description)}</desc>'
        f"{_svg_body(file.getvalue(), name)}</svg>"
    )


def _svg_body(text: str, name: str) -> str:
    """Content of an SVG without style sheets and comments; identifiers start with the name of the figure."""
    text = re.sub(r"<!--.*?-->|<style.*?</style>|<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.search(r"<svg[^>]*>(.*)</svg>", text, flags=re.DOTALL)[1]  # type: ignore[index]
    used = set(re.findall(r"(?:href=\"|url\()#([^\")]+)", text))
    text = re.sub(r' id="([^"]+)"', lambda found: f' id="{name}-{found[1]}"' if found[1] in used else "", text)
    text = re.sub(r"(?:xlink:)?(href=\"|url\()#", rf"\1#{name}-", text)
    return re.sub(r'style="[^"]*"', lambda found: _with_variables(found[0]), text)


def _with_variables(style: str) -> str:
    style = style.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")  # fonts of the same widths
    return re.sub(r"#[0-9a-f]{6}", lambda found: _VARIABLES.get(found[0], found[0]), style)
