"""SVG by hand: parts, axes and colours of the figures.

No library, because the page gives its figures the colours of its own style (light, dark, print) and larger letters on a
phone, and because a report has to be written where matplotlib is not installed.
"""

from __future__ import annotations

from html import escape

import numpy as np

from lupi.plot.colours import COLOURS, SERIES

WIDTH = 480
RIGHT = 14
DASHES = ("", "7 3", "2 3", "9 3 2 3")
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
    """The colours of a scheme, as variables of a style sheet.

    Examples
    --------
    >>> variables("light")[:17]
    '--paper: #ffffff;'
    """
    return " ".join(f"--{name}: {colour};" for name, colour in COLOURS[scheme].items())


def svg(height, title, description, body, name):
    """A figure with its title and a description for those who cannot see it."""
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-labelledby="{name}-t {name}-d" class="figure" id="{name}">'
        f'<title id="{name}-t">{escape(title)}</title><desc id="{name}-d">{escape(description)}</desc>{"".join(body)}</svg>'
    )


def standalone(figure):
    """A figure as a file of its own: with the name space, a white ground and the colours that a page would give it.

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
    """Horizontal lines at these values, labelled on the left; a stronger one at zero if there are differences."""
    body = []
    for tick, label in marks:
        body.append(line(left, scale(tick), WIDTH - RIGHT, scale(tick), "zero" if label == "0" else "grid"))
        body.append(text(left - 6, scale(tick) + 4, label, "end", "small"))
    return body
