"""The two main figures with matplotlib, on an `Axes` of the caller's."""

from __future__ import annotations

from lupi.comparison.render.series import gain_groups, main_lines, reading
from lupi.comparison.render.svg import COLOURS

_COLOURS = COLOURS["light"]


def plot_gains(summary, ax=None):
    """Each method against the best plain one and both of its controls, with 95% intervals.

    Parameters
    ----------
    summary : lupi.comparison.schema.Summary
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    size = summary["sizes"][-1]
    groups = gain_groups(size)
    if not groups:
        raise ValueError("there are no gains to plot: no method that uses the columns was fitted on every split.")
    ax = _axes(ax)
    seen = set()
    for k, intervals in enumerate(groups.values()):
        for j, part in enumerate(intervals):
            y = k + 0.2 * (j - (len(intervals) - 1) / 2)
            margins = [[part.mean - part.low], [part.high - part.mean]]
            label = None if part.label in seen else f"over the {part.label}"
            ax.errorbar(part.mean, y, xerr=margins, fmt="o", ms=4, color=_COLOURS[part.colour], label=label)
            seen.add(part.label)
    ax.axvline(0, color=_COLOURS["ink"], lw=0.8)
    # A name may hold dollar signs: it is no formula.
    ax.set_yticks(range(len(groups)), list(groups), parse_math=False)
    ax.set_ylim(len(groups) - 0.5, -0.5)
    ax.set_xlabel(f"lead in {summary['protocol']['metric_title']}, points, {size['train_size']} labelled rows")
    ax.legend(fontsize="small", frameon=False)
    return ax


def plot_curve(summary, ax=None):
    """Learning curves with bands of two standard errors, and what the columns are worth in labelled rows.

    Parameters
    ----------
    summary : lupi.comparison.schema.Summary
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    sizes = [size["train_size"] for size in summary["sizes"]]
    if len(sizes) < 2:
        raise ValueError(f"a curve needs several training sizes, such as train_size=[{sizes[0] // 2}, {sizes[0]}].")
    ax = _axes(ax)
    for line in main_lines(summary):
        colour = _COLOURS[line.colour]
        ax.plot(line.sizes, line.means, "o-", ms=4, color=colour, label=line.label)
        ax.fill_between(line.sizes, line.low, line.high, color=colour, alpha=0.13, lw=0)
    found = reading(summary)
    if found:
        score = 100 * found["score"]
        ax.plot([found["train_size"], found["plain_rows"]], [score, score], ":", color=_COLOURS["ink"])
        ax.axvline(found["plain_rows"], color=_COLOURS["ink"], ls=":", lw=0.8)
        ax.annotate(
            f"≈ {found['plain_rows']:.0f} rows", (found["plain_rows"], score), (4, -12), textcoords="offset points"
        )
    ax.set_xscale("log")
    ax.set_xticks(sizes, [str(size) for size in sizes])
    ax.minorticks_off()
    ax.set_xlabel("labelled training rows")
    ax.set_ylabel(f"{summary['protocol']['metric_title']} x 100")
    for text in ax.legend(fontsize="small", frameon=False).get_texts():
        text.set_parse_math(False)
    return ax


def _axes(ax):
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError('plots need matplotlib: pip install "lupi[report]".') from None
    return pyplot.subplots(layout="constrained")[1]
