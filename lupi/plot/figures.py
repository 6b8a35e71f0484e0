"""Figures of comparisons, displays that keep their data, and SVG for a page with its own colors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any, Self

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAMES = "paper ink soft rule panel real counterpart shuffled negative good bad doubt"
COLORS = {
    scheme: dict(zip(_NAMES.split(), colors.split()))
    for scheme, colors in {
        "light": "#ffffff #1c2128 #57606a #d0d7de #f4f6f8 #1b6ca8 #7b3fa0 #6e7781 #b3541e #1a6e34 #a4161a #7d5700",
        "dark": "#12161c #e6edf3 #a5b0bb #39424e #1c232c #6cb6ff #d2a8ff #8b949e #f0a06a #6fdd8b #ff8f8f #e3c55b",
        "print": "#ffffff #000000 #444444 #bbbbbb #f4f4f4 #1b6ca8 #7b3fa0 #6e7781 #b3541e #1a6e34 #a4161a #7d5700",
    }.items()
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
    "axes.edgecolor": LIGHT["rule"],
    **dict.fromkeys(("axes.labelcolor", "xtick.color", "ytick.color"), LIGHT["soft"]),
    **dict.fromkeys(("axes.facecolor", "figure.facecolor"), "none"),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right"), False),
}


class Display:
    """A figure with its data: `plot` draws it on the axes `ax_` of the figure `figure_`."""

    draw: Callable[..., None]  # draws the data on axes

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
        self.draw(ax, **style)
        return self


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


def figure_svg(name: str, title: str, description: str, height: float, draw: Callable[[Axes], None]) -> str:
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


# Color, name and part of the row for each comparison of a method.
AGAINST = (
    ("real", "best baseline", "over_best_baseline"),
    ("counterpart", "counterpart", "gain"),
    ("shuffled", "shuffled control", "over_shuffled"),
)


@dataclass(frozen=True)
class Interval:
    """A gain in points with its 95% interval."""

    label: str
    mean: float
    low: float
    high: float
    color: str

    @classmethod
    def of(cls, label: str, paired: dict[str, Any], color: str) -> Interval:
        """Interval of paired differences of a summary."""
        mean, low, high = (100 * paired[key] for key in ("mean", "low", "high"))
        return cls(label, mean, low, high, color)

    def __str__(self) -> str:
        return f"{self.label} {self.mean:+.2f} ({self.low:+.2f} to {self.high:+.2f})"


def find_row(size: dict[str, Any], name: str | None) -> Any:
    """The row of that name, or None."""
    return next((row for row in size["methods"] if row["name"] == name), None)


def gain_intervals(row: dict[str, Any], size: dict[str, Any]) -> list[Interval]:
    """A privileged method against the best baseline and both controls; once where two of these are the same."""
    same = row["counterpart"] == size["best_baseline"]
    parts = [each for each in AGAINST if row.get(each[2]) and not (same and each[2] == "gain")]
    return [Interval.of(label, row[part], color) for color, label, part in parts]


def gain_groups(size: dict[str, Any]) -> dict[str, list[Interval]]:
    """Intervals of each method by title; the best method first."""
    tested = [row for row in size["methods"] if row["outcome"]]
    ranked = sorted(tested, key=lambda row: -row["over_best_baseline"]["mean"])
    return {row["title"]: gain_intervals(row, size) for row in ranked}


@dataclass(frozen=True)
class Line:
    """A learning curve in points, with a band of two standard errors."""

    label: str
    sizes: list[int]
    means: np.ndarray
    errors: np.ndarray
    color: str


def main_lines(summary: dict[str, Any]) -> list[Line]:
    """Curves of the best baseline, the best privileged method, its counterpart and its shuffled control, if none failed."""
    sizes, name = summary["sizes"], summary["verdict"]["candidate"]
    wanted = [("best baseline", "real", [find_row(size, size["best_baseline"]) for size in sizes])]
    if row := find_row(sizes[-1], name):
        rows = [find_row(size, name) for size in sizes]
        wanted.append((row["title"], "negative", rows))
        plain = [find_row(size, row["counterpart"]) for size in sizes]
        if plain[-1] and plain[-1]["name"] != sizes[-1]["best_baseline"]:
            wanted.append((f"{plain[-1]['title']} (counterpart)", "counterpart", plain))
        wanted.append((f"{row['title']}, shuffled", "soft", [found["shuffled"] for found in rows]))
    lines = []
    for label, color, rows in wanted:
        if all(row and not row["failed"] for row in rows):
            means, errors = (100 * np.array([row[key] for row in rows]) for key in ("mean", "error"))
            lines.append(Line(label, [size["train_size"] for size in sizes], means, errors, color))
    return lines


def reading(summary: dict[str, Any]) -> dict[str, Any] | None:
    """The last saving of labeled rows that the baseline's curve reaches, or None."""
    name = summary["verdict"]["candidate"]
    found = [part for part in summary["worth"] if part["shown"] and part["method"] == name and part["baseline_rows"]]
    return found[-1] if found else None


def draw_differences(ax: Axes, differences: np.ndarray, label: str) -> None:
    """Differences in points as bars, the largest first."""
    ranked = np.sort(differences)[::-1]
    ax.bar(range(len(ranked)), ranked, color=[LIGHT["real" if value >= 0 else "negative"] for value in ranked])
    ax.axhline(0, color=LIGHT["ink"], lw=1)
    ax.grid(axis="y", color=LIGHT["rule"], lw=0.8)
    ax.set_axisbelow(True)
    ax.set_xticks([])
    ax.set_xlabel(label, parse_math=False)


def draw_permutations(ax: Axes, permuted: np.ndarray, score: float, label: str) -> None:
    """Histogram of the scores with permuted privileged rows, and the score of the real rows."""
    # Bars stay wide enough to be seen where the real score is far away.
    spread = np.ptp([*permuted, score]) or 1.0
    ax.hist(permuted, int(np.clip(50 * np.ptp(permuted) / spread, 3, 20)), color=LIGHT["shuffled"], rwidth=0.9)
    ax.axvline(score, color=LIGHT["negative"], lw=2)
    right = score > (permuted.min() + permuted.max()) / 2
    ax.set_title(f"real rows: {score:.2f}", loc="right" if right else "left", color=LIGHT["negative"], fontsize=12)
    ax.locator_params(axis="y", integer=True)
    ax.set_xlabel(label)


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

    gains: Any
    label: str = field(default="", kw_only=True)

    def draw(self, ax: Axes, **style: Any) -> None:
        """Gains of each method with their 95% intervals, one method per line; a single gain is also written beside its line."""
        labels = set()
        for row, intervals in enumerate(self.gains.values()):
            for part, y in zip(intervals, row + 0.2 * (np.arange(len(intervals)) - (len(intervals) - 1) / 2)):
                name = "" if part.label in labels else f"over the {part.label}"
                drawn: dict[str, Any] = {
                    "marker": "o",
                    "ls": "none",
                    "ms": 4,
                    "color": LIGHT[part.color],
                    "label": name,
                }
                ax.errorbar(part.mean, y, xerr=[[part.mean - part.low], [part.high - part.mean]], **drawn | style)
                labels.add(part.label)
            if len(intervals) == 1:
                ax.text(1.02, row, f"{part.mean:+.1f}", transform=ax.get_yaxis_transform(), va="center")
        ax.axvline(0, color=LIGHT["ink"], lw=0.8)
        ax.grid(axis="x", color=LIGHT["rule"], lw=0.8)
        name_rows(ax, self.gains)
        ax.set_xlabel(self.label)
        if any(len(intervals) > 1 for intervals in self.gains.values()):
            legend(ax, loc="lower right", bbox_to_anchor=(1, 1), ncols=2)  # above: points may be anywhere

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

    lines: Any
    worth: Any = field(default=None, kw_only=True)
    label: str = field(default="", kw_only=True)

    def draw(self, ax: Axes, **style: Any) -> None:
        """Learning curves with their bands, and the rows that the columns are worth."""
        for line in self.lines:
            color = LIGHT[line.color]
            drawn: dict[str, Any] = {"marker": "o", "ms": 4, "color": color, "label": line.label} | style
            ax.plot(line.sizes, line.means, **drawn)
            low, high = line.means - 2 * line.errors, line.means + 2 * line.errors
            ax.fill_between(line.sizes, low, high, color=color, alpha=0.13, lw=0)
        if worth := self.worth:
            rows, score = worth["baseline_rows"], 100 * worth["score"]
            ax.plot([worth["train_size"], rows], [score, score], ":", color=LIGHT["ink"])
            ax.axvline(rows, color=LIGHT["ink"], ls=":", lw=0.8)
            text = f"{worth['train_size']} rows with the columns\nare worth {rows:.0f} without"
            place: dict[str, Any] = {"textcoords": "offset points", "ha": "right", "va": "bottom", "fontsize": "small"}
            ax.annotate(text, (rows, score), (-4, 6), **place)
        sizes = self.lines[0].sizes
        ax.set(xscale="log", xlabel="labeled training rows", ylabel=self.label)
        ax.set_xticks(sizes, [str(size) for size in sizes])
        ax.minorticks_off()
        legend(ax)

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
            wanted = [sizes[0] // 2, sizes[0]]
            raise ValueError(f"a curve requires several training sizes, such as train_size={wanted}.")
        label = f"{summary['protocol']['metric_title']} x 100"
        return cls(main_lines(summary), worth=reading(summary), label=label).plot(ax, **style)


def report_figures(summary: dict[str, Any]) -> dict[str, str]:
    """SVG of each figure that the summary of a comparison allows."""
    return {figure[0]: figure_svg(*figure) for figure in _report_figures(summary)}


def _report_figures(summary: dict[str, Any]) -> Iterator[tuple[str, str, str, float, Callable[[Axes], None]]]:
    """Name, title, description, height and drawing function of each figure."""
    metric, size = summary["protocol"]["metric_title"], summary["sizes"][-1]
    if row := find_row(size, summary["verdict"]["candidate"]):
        title, best = row["title"], find_row(size, size["best_baseline"])
        controls = "against the best baseline and its controls"
        parts, label = gain_intervals(row, size), "gain over these in points, 95% interval"
        yield "answer", f"{title} {controls}, points of {metric}", *_one_per_line(parts, label)
        found = 100 * (np.array(row["scores"]) - np.array(best["scores"]))
        counts = f"{(found > 0).sum()} splits won, {(found < 0).sum()} lost, {(found == 0).sum()} equal"
        described = f"{counts}; from {found.min():+.2f} to {found.max():+.2f} points."
        name = f"{title} against {best['title']}, split by split, points of {metric}"
        label = shorten(f"{title} minus {best['title']}, points", 54)
        yield "splits", name, described, 230, partial(draw_differences, differences=found, label=label)
        groups = gain_groups(size)
        described = "; ".join(f"{name}: {', '.join(map(str, parts))}" for name, parts in groups.items())
        display = GainsDisplay(groups, label="gain in points, 95% interval")
        yield "gains", f"Every method {controls}, points of {metric}", described, 110 + 44 * len(groups), display.draw
    if len(summary["sizes"]) > 1 and (lines := main_lines(summary)):
        name = f"Learning curves at {', '.join(map(str, lines[0].sizes))} labeled training rows"
        described = "; ".join(f"{line.label}: {', '.join(f'{mean:.1f}' for mean in line.means)}" for line in lines)
        curves = LearningCurveDisplay(lines, worth=reading(summary), label=f"{metric} x 100")
        yield "curve", name, described, 330, curves.draw
    if test := summary["permutation"]:
        permuted, score = 100 * np.asarray(test["permuted"]), 100 * test["score"]
        name, label = f"Exact test: {test['title']} with permuted privileged rows", f"permutations by {metric} x 100"
        described = f"Real rows {score:.2f}; {test['n']} permutations from {permuted.min():.2f} to {permuted.max():.2f}"
        draw = partial(draw_permutations, permuted=permuted, score=score, label=label)
        yield "permutation", name, f"{described}; p = {test['p']:.3f}.", 240, draw
    if summary["columns"]:
        parts = [Interval.of(effect["name"], effect["loss"], "real") for effect in summary["columns"]]
        name = f"Loss without each privileged column, points of {metric}"
        yield "columns", name, *_one_per_line(parts, "loss in points, 95% interval")


def _one_per_line(parts: Sequence[Interval], label: str) -> tuple[str, float, Callable[[Axes], None]]:
    """Description, height and drawing function of intervals with a line each."""
    display = GainsDisplay({part.label: [part] for part in parts}, label=label)
    return ", ".join(map(str, parts)), 60 + 26 * len(parts), partial(display.draw, ms=8, lw=2)
