"""Figures of the report as inline SVG: no library, colours from the page's style, a text for those who cannot see them."""

from __future__ import annotations

from html import escape

import numpy as np

WIDTH = 480
LEFT, RIGHT = 164, 14
SERIES = ("s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10")
DASHES = ("", "7 3", "2 3", "9 3 2 3")


def _svg(height, title, description, body, name):
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="{name}-t {name}-d" class="figure" id="{name}">'
        f'<title id="{name}-t">{escape(title)}</title><desc id="{name}-d">{escape(description)}</desc>{"".join(body)}</svg>'
    )


def _text(x, y, text, anchor="start", css=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{css}">{escape(str(text))}</text>'


def _line(x1, y1, x2, y2, css):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{css}"/>'


def _ticks(low, high, wanted=4):
    """Round numbers between two values."""
    if not high > low:
        return [low]
    raw = (high - low) / wanted
    power = 10.0 ** np.floor(np.log10(raw))
    step = min((m for m in (1, 2, 5, 10)), key=lambda m: abs(m * power - raw)) * power
    first = np.ceil(low / step - 1e-9) * step
    return [float(round(v, 10)) for v in np.arange(first, high + 1e-9 * step, step)]


def _axis(ticks, scale, top, bottom, signed):
    body = []
    for tick in ticks:
        body.append(_line(scale(tick), top, scale(tick), bottom, "zero" if tick == 0 and signed else "grid"))
        label = f"{tick:+g}" if signed and tick else f"{tick:g}"
        body.append(_text(scale(tick), bottom + 16, label, "middle", "small"))
    return body


def gains(rows, metric):
    """Gain of each method over its plain counterpart, sorted, beside that of its shuffled control.

    Parameters
    ----------
    rows : list of dict
        Rows of the summary that have a `gain`.
    metric : str
        Name of the metric.

    Returns
    -------
    str
        SVG.
    """
    rows = sorted(rows, key=lambda row: -row["gain"]["mean"])
    values = [
        100 * (row[part]["mean"] + side * 2 * row[part]["error"])
        for row in rows
        for part in ("gain", "shuffled_gain")
        for side in (-1, 1)
    ]
    low, high = min(0.0, *values), max(0.0, *values)
    margin = 0.05 * (high - low) or 1.0
    low, high = low - margin, high + margin

    def scale(value):
        return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    bottom = 8 + 46 * len(rows)
    body = _axis(_ticks(low, high), scale, 8, bottom, True)
    words = []
    for k, row in enumerate(rows):
        y = 8 + 46 * k
        body.append(_text(LEFT - 8, y + 20, row["title"], "end"))
        body.append(_text(LEFT - 8, y + 35, row["outcome"].split(",")[0], "end", "small"))
        for part, css, offset in (("gain", "real", 6), ("shuffled_gain", "shuffled", 24)):
            mean, error = 100 * row[part]["mean"], 100 * row[part]["error"]
            x0, x1 = sorted((scale(0), scale(mean)))
            body.append(
                f'<rect x="{x0:.1f}" y="{y + offset}" width="{max(x1 - x0, 0.5):.1f}" height="14" class="{css}"/>'
            )
            body.append(
                _line(scale(mean - 2 * error), y + offset + 7, scale(mean + 2 * error), y + offset + 7, "error")
            )
        words.append(
            f"{row['title']} {100 * row['gain']['mean']:+.2f}, shuffled {100 * row['shuffled_gain']['mean']:+.2f}"
        )
    body.append(_text(LEFT, bottom + 36, "gain over the plain counterpart, points", css="small"))
    return _svg(
        bottom + 46,
        f"Gain of each method over its plain counterpart, points of {metric}",
        "; ".join(words),
        body,
        "gains",
    )


def split_bars(row, plain, metric):
    """Sorted differences to the plain counterpart, one bar for each split (as in Figure 2 of Sharmanska et al.).

    Returns
    -------
    str
        SVG.
    """
    counts = f"{row['gain']['wins']} splits won, {row['gain']['losses']} lost, {row['gain']['ties']} equal; "
    return difference_bars(
        100 * (np.array(row["scores"]) - np.array(plain["scores"])),
        caption=f"{row['title']} minus {plain['title']}, points; one bar a split",
        title=f"{row['title']} against {plain['title']}, split by split, points of {metric}",
        counts=counts,
    )


def difference_bars(differences, *, caption, title, counts="", controls=None):
    """Differences as bars, the largest first.

    Parameters
    ----------
    differences : array-like
        In points.
    caption : str
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
    top, bottom, left = 10, 190, 52

    def scale(value):
        return bottom - (value - low) / (high - low) * (bottom - top)

    body = []
    for tick in _ticks(low, high):
        body.append(_line(left, scale(tick), WIDTH - RIGHT, scale(tick), "zero" if tick == 0 else "grid"))
        body.append(_text(left - 6, scale(tick) + 4, f"{tick:+g}" if tick else "0", "end", "small"))
    step = (WIDTH - RIGHT - left) / len(differences)
    for k, value in enumerate(differences):
        y0, y1 = sorted((scale(0), scale(value)))
        css = "real" if value >= 0 else "negative"
        body.append(
            f'<rect x="{left + k * step + 0.1 * step:.1f}" y="{y0:.1f}" width="{0.8 * step:.1f}" '
            f'height="{max(y1 - y0, 0.5):.1f}" class="{css}"/>'
        )
    for k, value in enumerate(dots):
        body.append(f'<circle cx="{left + (k + 0.5) * step:.1f}" cy="{scale(value):.1f}" r="2.4" class="shuffled"/>')
    body.append(_text(left, bottom + 22, caption, css="small"))
    description = f"{counts}from {differences[-1]:+.2f} to {differences[0]:+.2f} points."
    return _svg(bottom + 32, title, description, body, "splits")


# The colours that the report's page gives to its figures.
_STYLE = (
    "text { font: 14px sans-serif; fill: #1f2328; } text.small { font-size: 12.5px; fill: #57606a; } "
    ".grid { stroke: #d0d7de; } .zero { stroke: #1f2328; } .real { fill: #1b6ca8; } .negative { fill: #b3541e; } "
    ".shuffled { fill: #6e7781; } .curve { fill: none; stroke-width: 2; } "
) + " ".join(
    f".curve.{css} {{ stroke: {colour}; }} .dot.{css} {{ fill: {colour}; }}"
    for css, colour in zip(
        SERIES,
        ("#1b6ca8", "#b3541e", "#1a6e34", "#7b3fa0", "#8a6d00", "#00707a", "#a4161a", "#57606a", "#c2387e", "#3d4aa5"),
    )
)


def standalone(svg):
    """A figure as a file of its own: with the name space, a white ground and the colours that a page would give it.

    Examples
    --------
    >>> standalone('<svg viewBox="0 0 1 1"><title>t</title></svg>')[:38]
    '<svg xmlns="http://www.w3.org/2000/svg'
    """
    head, body = svg.split(">", 1)
    head = head.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg" style="background: #fff"', 1)
    return f"{head}><style>{_STYLE}</style>{body}"


def learning_curve(sizes, metric):
    """Mean score over the number of training rows, one line a method.

    Returns
    -------
    str
        SVG.
    """
    lines = _curves(sizes)
    x = np.array([size["train_size"] for size in sizes], dtype=float)
    low, high = min(map(min, lines.values())), max(map(max, lines.values()))
    low, high = (low, high) if high > low else (low - 1, high + 1)
    top, bottom, left = 10, 250, 52

    def place(size, value):
        return (
            left + (size - x[0]) / (x[-1] - x[0]) * (WIDTH - RIGHT - 16 - left) + 8,
            bottom - (value - low) / (high - low) * (bottom - top),
        )

    body = []
    for tick in _ticks(low, high, 5):
        y = place(x[0], tick)[1]
        body += [_line(left, y, WIDTH - RIGHT, y, "grid"), _text(left - 6, y + 4, f"{tick:g}", "end", "small")]
    for size in x:
        body.append(_text(place(size, low)[0], bottom + 18, f"{size:g}", "middle", "small"))
    body.append(_text(left, bottom + 36, f"training rows; {metric} x 100", css="small"))
    words = []
    for k, (name, values) in enumerate(lines.items()):
        points = [place(size, value) for size, value in zip(x, values)]
        css, dash = SERIES[k % len(SERIES)], DASHES[(k // 3) % len(DASHES)]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        body.append(f'<polyline points="{path}" class="curve {css}" stroke-dasharray="{dash}"/>')
        body += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" class="dot {css}"/>' for a, b in points]
        column, line = k % 2, k // 2
        lx, ly = left + column * 210, bottom + 60 + 20 * line
        body.append(
            f'<polyline points="{lx},{ly - 4} {lx + 26},{ly - 4}" class="curve {css}" stroke-dasharray="{dash}"/>'
        )
        body.append(_text(lx + 32, ly, name, css="small"))
        words.append(f"{name}: " + ", ".join(f"{v:.1f}" for v in values))
    height = bottom + 66 + 20 * ((len(lines) + 1) // 2)
    return _svg(
        height, f"Learning curves at {', '.join(f'{s:g}' for s in x)} training rows", "; ".join(words), body, "curve"
    )


def _curves(sizes):
    """Title -> means; with the shuffled control of the method that gains most, and the reference if it fits."""
    whole = [row for row in sizes[-1]["methods"] if not any(_find(size, row["name"])["failed"] for size in sizes)]
    lines = {
        row["title"]: [100 * _find(size, row["name"])["mean"] for size in sizes]
        for row in whole
        if row["role"] != "reference"
    }
    tested = [row for row in whole if row.get("gain") and all(_find(size, row["name"]).get("gain") for size in sizes)]
    if tested:
        top = max(tested, key=lambda row: row["gain"]["mean"])
        lines[f"{top['title']}, shuffled"] = [100 * _find(size, top["name"])["shuffled"]["mean"] for size in sizes]
    low, high = min(map(min, lines.values())), max(map(max, lines.values()))
    for row in whole:
        values = [100 * _find(size, row["name"])["mean"] for size in sizes]
        if row["role"] == "reference" and max(values) - high < high - low:
            lines[row["title"]] = values
    return lines


def _find(size, name):
    return next(row for row in size["methods"] if row["name"] == name)


def times(rows):
    """Processor seconds per unit of work (the median over the splits), one bar a method.

    Returns
    -------
    str
        SVG.
    """
    rows = sorted(rows, key=lambda row: row["median_seconds"])
    longest = max(row["median_seconds"] for row in rows) or 1.0
    bottom = 8 + 26 * len(rows)
    left = LEFT

    def width(seconds):
        return max(seconds / longest * (WIDTH - left - RIGHT - 60), 0.5)

    body, words = [], []
    for k, row in enumerate(rows):
        y, seconds, title = 8 + 26 * k, row["median_seconds"], row["title"].removesuffix(" (reference)")
        label = f"{seconds:.2g} s"
        body.append(_text(left - 8, y + 15, title, "end"))
        body.append(f'<rect x="{left}" y="{y + 3}" width="{width(seconds):.1f}" height="15" class="shuffled"/>')
        body.append(_text(left + width(seconds) + 6, y + 15, label, css="small"))
        words.append(f"{title} {label}")
    return _svg(
        bottom + 8, "Processor seconds of one split, choice of parameters included", "; ".join(words), body, "times"
    )
