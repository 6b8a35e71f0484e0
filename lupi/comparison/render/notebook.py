"""The summary as a card for notebooks: colours of their own for the badge alone, all others are the notebook's."""

from __future__ import annotations

from html import escape

from lupi.comparison.render.terminal import MARKS
from lupi.comparison.render.words import heading, p_value, percent, signed
from lupi.plot.colours import COLOURS
from lupi.plot.series import find_row

_BADGES = {"yes": "good", "no": "soft", "unclear": "doubt"}
_CELL = "padding: .15em .7em; text-align: right"
_COLUMNS = ("score", "over plain", "over best plain", "over shuffled", "p", "")


def card(summary):
    """HTML of the answer with the rows it rests on: the method that did best, its plain counterpart, the best plain method.

    Parameters
    ----------
    summary : lupi.comparison.schema.Summary

    Returns
    -------
    str
    """
    verdict, size = summary["verdict"], summary["sizes"][-1]
    colour = COLOURS["light"][_BADGES[verdict["answer"]]]
    candidate = find_row(size, verdict["candidate"])
    wanted = [verdict["candidate"], candidate and candidate["plain"], size["best_plain"], verdict["method"]]
    rows = [row for row in (find_row(size, name) for name in dict.fromkeys(wanted)) if row]
    heads = "".join(f'<th style="{_CELL}">{name}</th>' for name in _COLUMNS)
    return (
        f'<div style="border-left: 5px solid {colour}; padding: .3em 1em; max-width: 60em">'
        f'<p style="margin: .2em 0 .5em"><span style="background: {colour}; color: #fff; border-radius: 1em; '
        f'padding: .1em .7em; font-weight: bold">{verdict["answer"]}</span> {escape(verdict["text"])}</p>'
        f'<table><caption style="text-align: left">{escape(heading(summary, size))}</caption>'
        f'<thead><tr><th style="text-align: left">method</th>{heads}</tr></thead>'
        f"<tbody>{''.join(map(_line, rows))}</tbody></table></div>"
    )


def _line(row):
    cells = [f"{row['failed']} failed" if row["failed"] else f"{percent(row['mean'])} ± {percent(row['error'])}"]
    for part in ("gain", "over_best_plain", "over_shuffled"):
        found = row.get(part)
        cells.append(f"{signed(found['mean'])} ± {percent(found['error'])}" if found else "")
    cells += [p_value(row["p"]), MARKS[row["outcome"]][0]] if "outcome" in row else ["", ""]
    written = "".join(f'<td style="{_CELL}">{escape(cell)}</td>' for cell in cells)
    return f'<tr><th style="text-align: left">{escape(row["title"])}</th>{written}</tr>'
