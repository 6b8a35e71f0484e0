"""The figures of the report as SVG: first their parts and axes, then the figures.

No library, because the page gives its figures the colors of its own style (light, dark, print) and larger letters on a
phone, and because a report has to be written where matplotlib is not installed.
"""

from __future__ import annotations

from html import escape

import numpy as np

from lupi.plot.colors import COLORS, SERIES
from lupi.plot.series import all_lines

WIDTH = 480
RIGHT = 14
DASHES = ("", "7 3", "2 3", "9 3 2 3")
ROW = 24
NARROWEST_BAR = 8
STYLE = """\
.figure { width: 100%; height: auto; display: block; }
.figure text { font: 14px system-ui, "DejaVu Sans", sans-serif; fill: var(--ink); }
.figure text.small { font-size: 12.5px; fill: var(--soft); }
.figure text.strong { font-weight: 600; paint-order: stroke; stroke: var(--paper); stroke-width: 5px; stroke-linejoin: round; }
.figure rect, .figure circle { fill: currentColor; }
.figure polyline { fill: none; stroke: currentColor; stroke-width: 2.2; }
.figure polygon { fill: currentColor; opacity: .13; }
.figure line { stroke: currentColor; stroke-width: 2; }
.figure line.grid { stroke: var(--rule); stroke-width: 1; }
.figure line.zero { stroke: var(--ink); stroke-width: 1.2; }
.figure line.guide { stroke: var(--ink); stroke-width: 1.2; stroke-dasharray: 3 3; }
""" + "\n".join(
    f".figure .{name} {{ color: var(--{name}); }}" for name in ("real", "shuffled", "negative", "good", *SERIES)
)


def variables(scheme):
    """The colors of a scheme, as variables of a style sheet.

    Examples
    --------
    >>> variables("light")[:17]
    '--paper: #ffffff;'
    """
    return " ".join(f"--{name}: {color};" for name, color in COLORS[scheme].items())


def svg(height, title, description, body, name):
    """A figure with its title and a description for those who cannot see it."""
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-labelledby="{name}-t {name}-d" class="figure" id="{name}">'
        f'<title id="{name}-t">{escape(title)}</title><desc id="{name}-d">{escape(description)}</desc>{"".join(body)}</svg>'
    )


def standalone(figure):
    """A figure as a file of its own: with the name space, a white ground and the colors that a page would give it.

    Examples
    --------
    >>> standalone('<svg viewBox="0 0 1 1"><title>t</title></svg>')[:38]
    '<svg xmlns="http://www.w3.org/2000/svg'
    """
    head, body = figure.split(">", 1)
    head = head.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg" style="background: #fff"', 1)
    return f"{head}><style>:root {{ {variables('light')} }}\n{STYLE}</style>{body}"


def text(x, y, words, anchor="start", css=""):
    """Words at a place."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{css}">{escape(str(words))}</text>'


def line(x1, y1, x2, y2, css):
    """A straight line."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{css}"/>'


def caption(y, words, left):
    """Words below an axis: from its beginning if they fit, else as far to the left as they need on a phone."""
    return text(max(0.0, min(left, WIDTH - 8.8 * len(words))), y, words, css="small")


def bar(x, y, width, height, css):
    """A filled rectangle, never too thin to be seen."""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" height="{max(height, 0.5):.1f}" class="{css}"/>'
    )


def dot(x, y, css, radius=3.0, tip=""):
    """A point, with words for who rests on it."""
    said = f"<title>{escape(tip)}</title>" if tip else ""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" class="{css}">{said}</circle>'


def points(places):
    """Places as SVG writes them."""
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def shorten(words, most):
    """A long name with its middle left out.

    Examples
    --------
    >>> shorten("length_of_the_stay", 11)
    'lengt…_stay'
    """
    head = most // 2
    return words if len(words) <= most else f"{words[:head]}…{words[len(words) - (most - 1 - head) :]}"


def ticks(low, high, wanted=4):
    """Round numbers between two values.

    Examples
    --------
    >>> ticks(-0.4, 2.1)
    [0.0, 0.5, 1.0, 1.5, 2.0]
    """
    if not high > low:
        return [low]
    raw = (high - low) / wanted
    power = 10.0 ** np.floor(np.log10(raw))
    step = min((m for m in (1, 2, 5, 10)), key=lambda m: abs(m * power - raw)) * power
    first = np.ceil(low / step - 1e-9) * step
    return [float(round(v, 10)) + 0.0 for v in np.arange(first, high + 1e-9 * step, step)]


def linear(low, high, start, end):
    """The line that takes `low` to `start` and `high` to `end`.

    Examples
    --------
    >>> linear(0, 10, 100, 200)(5)
    150.0
    """
    return lambda value: start + (value - low) / (high - low) * (end - start)


def signed_label(tick):
    """A tick of an axis of differences."""
    return f"{tick:+g}" if tick else "0"


def rows_axis(marks, scale, left):
    """Horizontal lines at these values, labeled on the left; a stronger one at zero if there are differences."""
    body = []
    for tick, label in marks:
        body.append(line(left, scale(tick), WIDTH - RIGHT, scale(tick), "zero" if label == "0" else "grid"))
        body.append(text(left - 6, scale(tick) + 4, label, "end", "small"))
    return body


def intervals(groups, *, below, title, name, left=150):
    """Gains with their 95% intervals, one line each, below the name of their group.

    Parameters
    ----------
    groups : dict of str to list of lupi.plot.series.Interval
        A group without a name has no line for it.
    below : str
        Text below the axis.
    title : str
        Title of the figure, for those who cannot see it.
    name : str
        Of the element.
    left : int, default=150
        Where the axis begins.

    Returns
    -------
    str
        SVG.
    """
    shown = [part for parts in groups.values() for part in parts]
    low, high = min(0.0, *(part.low for part in shown)), max(0.0, *(part.high for part in shown))
    margin = 0.04 * (high - low) or 1.0
    right = WIDTH - 58
    scale = linear(low - margin, high + margin, left, right)
    bottom = 6 + ROW * (len(shown) + sum(bool(group) for group in groups))
    body = []
    for tick in ticks(low - margin, high + margin):
        body.append(line(scale(tick), 4, scale(tick), bottom, "zero" if tick == 0 else "grid"))
        body.append(text(scale(tick), bottom + 17, signed_label(tick), "middle", "small"))
    y = 6
    for group, parts in groups.items():
        if group:
            body.append(text(0, y + 17, shorten(group, 42), css="strong"))
            y += ROW
        for part in parts:
            middle = y + ROW / 2
            body.append(text(left - 10, middle + 4, shorten(part.label, 17), "end", "small"))
            body.append(line(scale(part.low), middle, scale(part.high), middle, part.color))
            body.append(dot(scale(part.mean), middle, part.color, 5, str(part)))
            body.append(text(WIDTH - 2, middle + 5, f"{part.mean:+.1f}", "end"))
            y += ROW
    body.append(caption(bottom + 37, below, left))
    words = "; ".join(f"{group}: {_said(parts)}" if group else _said(parts) for group, parts in groups.items())
    return svg(bottom + 46, title, words, body, name)


def _said(parts):
    return ", ".join(map(str, parts))


def split_bars(row, plain, metric):
    """Sorted differences to a plain method, one bar for each split (as in Figure 2 of Sharmanska et al.).

    Returns
    -------
    str
        SVG.
    """
    found = 100 * (np.array(row["scores"]) - np.array(plain["scores"]))
    counts = f"{(found > 0).sum()} splits won, {(found < 0).sum()} lost, {(found == 0).sum()} equal; "
    return difference_bars(
        found,
        below=shorten(f"{row['title']} minus {plain['title']}, points", 54),
        title=f"{row['title']} against {plain['title']}, split by split, points of {metric}",
        counts=counts,
    )


def difference_bars(differences, *, below, title, counts="", controls=None):
    """Differences as bars, the largest first.

    Parameters
    ----------
    differences : array-like
        In points.
    below : str
        Text below the bars.
    title : str
        Title of the figure, for those who cannot see it.
    counts : str
        Begins the figure's description.
    controls : array-like, optional
        The difference of each one's shuffled control: a dot over its bar.

    Returns
    -------
    str
        SVG.
    """
    differences = np.asarray(differences, dtype=float)
    order = np.argsort(-differences, kind="stable")
    differences = differences[order]
    dots = differences[:0] if controls is None else np.asarray(controls, dtype=float)[order]
    low, high = min(0.0, differences.min(), *dots), max(0.0, differences.max(), *dots)
    low, high = (low, high) if high > low else (-1.0, 1.0)
    bottom, left = 190, 52
    scale = linear(low, high, bottom, 10)
    body = rows_axis([(tick, signed_label(tick)) for tick in ticks(low, high)], scale, left)
    step = (WIDTH - RIGHT - left) / len(differences)
    for k, value in enumerate(differences):
        y0, y1 = sorted((scale(0), scale(value)))
        body.append(bar(left + (k + 0.1) * step, y0, 0.8 * step, y1 - y0, "real" if value >= 0 else "negative"))
    body += [dot(left + (k + 0.5) * step, scale(value), "shuffled", 2.4) for k, value in enumerate(dots)]
    body.append(caption(bottom + 22, below, left))
    description = f"{counts}from {differences[-1]:+.2f} to {differences[0]:+.2f} points."
    return svg(bottom + 32, title, description, body, "splits")


def learning_curve(sizes, metric, lines=None, reading=None):
    """Mean score over the number of labeled training rows, with a band of two standard errors on either side.

    Parameters
    ----------
    sizes : list of dict
    metric : str
    lines : list of lupi.plot.series.Line, optional
        By default one for each method.
    reading : dict, optional
        A point to be read off: the rows that the plain curve needs for the same score.

    Returns
    -------
    str
        SVG.
    """
    x = [size["train_size"] for size in sizes]
    lines = all_lines(sizes, SERIES) if lines is None else lines
    low, high = min(min(part.low) for part in lines), max(max(part.high) for part in lines)
    low, high = (low, high) if high > low else (low - 1, high + 1)
    top, bottom, left = 10, 250, 52
    across = linear(np.log(x[0]), np.log(x[-1]), left + 8, WIDTH - RIGHT - 16)
    scale = linear(low, high, bottom, top)
    body = rows_axis([(tick, f"{tick:g}") for tick in ticks(low, high, 5)], scale, left)
    body += [text(across(np.log(size)), bottom + 18, f"{size:g}", "middle", "small") for size in x]
    body.append(caption(bottom + 38, f"labeled rows (log); {metric} x 100", left))
    for part in lines:
        edge = [*zip(part.sizes, part.high), *reversed([*zip(part.sizes, part.low)])]
        places = points((across(np.log(size)), scale(value)) for size, value in edge)
        body.append(f'<polygon points="{places}" class="{part.color}"/>')
    if reading:
        body += _reading(reading, across, scale, bottom)
    columns = 2 if max(len(part.label) for part in lines) <= 20 else 1
    for k, part in enumerate(lines):
        dash = DASHES[(k // 3) % len(DASHES)]
        places = [(across(np.log(size)), scale(value)) for size, value in zip(part.sizes, part.means)]
        body.append(_stroke(places, part.color, dash))
        for (a, b), size, mean in zip(places, part.sizes, part.means):
            body.append(dot(a, b, part.color, 3.5, f"{part.label}, {size} rows: {mean:.2f}"))
        a, b = left + (k % columns) * 214, bottom + 62 + 20 * (k // columns)
        body += [
            _stroke([(a, b - 4), (a + 26, b - 4)], part.color, dash),
            text(a + 32, b, shorten(part.label, 44), css="small"),
        ]
    height = bottom + 70 + 20 * ((len(lines) + columns - 1) // columns)
    words = "; ".join(f"{part.label}: {', '.join(f'{mean:.1f}' for mean in part.means)}" for part in lines)
    return svg(height, f"Learning curves at {', '.join(map(str, x))} labeled training rows", words, body, "curve")


def _stroke(places, css, dash):
    return f'<polyline points="{points(places)}" class="curve {css}" stroke-dasharray="{dash}"/>'


def _reading(found, across, scale, bottom):
    """From the method's point to the plain curve at the same height, and down to the rows that it needs."""
    start, end = across(np.log(found["train_size"])), across(np.log(found["baseline_rows"]))
    y = scale(100 * found["score"])
    return [
        line(start, y, end, y, "guide"),
        line(end, y, end, bottom, "guide"),
        text(end - 5, bottom - 6, f"≈ {found['baseline_rows']:.0f} rows", "end", "small strong"),
    ]


def permutation_histogram(found, metric):
    """Scores with the privileged rows permuted, and the one with the real rows.

    Returns
    -------
    str
        SVG.
    """
    permuted, score = 100 * np.array(found["permuted"]), 100 * found["score"]
    low, high = min(permuted.min(), score), max(permuted.max(), score)
    margin = 0.06 * (high - low) or 1.0
    bottom, left = 180, 40
    across = linear(low - margin, high + margin, left, WIDTH - RIGHT)
    room = across(permuted.max()) - across(permuted.min())
    counts, edges = np.histogram(permuted, bins=int(np.clip(room / NARROWEST_BAR, 3, 20)))
    scale = linear(0, counts.max(), bottom, 34)
    whole = sorted({round(tick) for tick in ticks(0, counts.max())})
    body = rows_axis([(tick, f"{tick}") for tick in whole], scale, left)
    for tick in ticks(low - margin, high + margin):
        body.append(text(across(tick), bottom + 18, f"{tick:g}", "middle", "small"))
    for count, start, end in zip(counts, edges, edges[1:]):
        if count:
            body.append(
                bar(
                    across(start) + 0.5,
                    scale(count),
                    across(end) - across(start) - 1,
                    bottom - scale(count),
                    "shuffled",
                )
            )
    x = across(score)
    body.append(line(x, 24, x, bottom, "s2"))
    anchor = "start" if x < WIDTH / 3 else "end" if x > WIDTH * 2 / 3 else "middle"
    body.append(text(x, 16, f"real rows: {score:.2f}", anchor, "strong"))
    body.append(caption(bottom + 38, f"permutations by {metric} x 100", left))
    description = (
        f"Real rows {score:.2f}; {found['n']} permutations from {permuted.min():.2f} to {permuted.max():.2f}; "
        f"p = {found['p']:.3f}."
    )
    return svg(
        bottom + 46, f"Exact test: {found['title']} with permuted privileged rows", description, body, "permutation"
    )
