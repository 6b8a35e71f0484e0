"""Numbers and headings as text, and the methods as lines: the same in the terminal, on the page and in notebooks."""

from __future__ import annotations

PARTS = ("gain", "over_shuffled", "over_best_plain")


def percent(share, digits=1):
    """A score in points.

    Examples
    --------
    >>> percent(0.8923)
    '89.2'
    """
    return f"{100 * share:.{digits}f}"


def signed(share, digits=1):
    """A gain in points, with its sign; no "-0.0".

    Examples
    --------
    >>> signed(0.0123), signed(-0.0001)
    ('+1.2', '+0.0')
    """
    return f"{round(100 * share, digits) + 0.0:+.{digits}f}"


def p_value(p):
    """A p-value, short.

    Examples
    --------
    >>> p_value(0.0004), p_value(0.04)
    ('<.001', '.040')
    """
    return "<.001" if p < 0.001 else f"{p:.3f}".removeprefix("0")


def heading(summary, size):
    """What a table of one training size shows."""
    protocol = summary["protocol"]
    more = f" and {size['n_unlabelled']} unlabelled" if size["n_unlabelled"] else ""
    return (
        f"With {size['train_size']} labelled{more} training rows, tested on {size['n_test']}: {protocol['metric_title']} x 100, "
        f"mean ± standard error over {protocol['n_splits']} splits"
    )


def worth_sentence(found):
    """One point of the learning curve, in labelled rows.

    Examples
    --------
    >>> worth_sentence({"train_size": 50, "plain_rows": 81.3, "at_least": 200})
    '50 labelled rows with the columns are worth about 81 without them.'
    """
    rows = f"about {found['plain_rows']:.0f}" if found["plain_rows"] else f"more than {found['at_least']}"
    return f"{found['train_size']} labelled rows with the columns are worth {rows} without them."


def method_lines(summary):
    """One flat dictionary for each method and training size: scores, gains with their intervals, p-values.

    Returns
    -------
    list of dict
    """
    lines = []
    for size in summary["sizes"]:
        for row in size["methods"]:
            line = {"train_size": size["train_size"], **{k: row[k] for k in ("name", "title", "role", "mean", "error")}}
            for part in PARTS:
                found = row.get(part) or {}
                line |= {part: found.get("mean"), f"{part}_low": found.get("low"), f"{part}_high": found.get("high")}
            lines.append(line | {"p": row.get("p"), "outcome": row.get("outcome"), "seconds": row["seconds"]})
    return lines
