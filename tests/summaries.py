"""Summaries of real comparisons, stored, so that what people see can be tested without fitting anything.

Made by `compare` with `surrogate-ridge` and logistic regression on generated tables: mediators (yes), half of the rows
without a label (unclear), a column that is the target (no); and on the bundled wages of young men (men).
Their keys are compared with those of a fresh run.
"""

import json
from copy import deepcopy
from functools import cache
from pathlib import Path

ANSWERS = ("yes", "unclear", "no")
OUTCOMES = (
    "helps",
    "helps, but a baseline is as good",
    "gains, but not clearly more than with shuffled rows",
    "hurts",
    "no clear difference",
)


@cache
def _read(answer):
    return (Path(__file__).parent / "comparison" / "summaries" / f"{answer}.json").read_text()


def summary(answer):
    """A fresh copy."""
    return json.loads(_read(answer))


def with_every_outcome(title="{}"):
    """The yes summary with one more row for each outcome; `title` is filled with its number."""
    made = summary("yes")
    for size in made["sizes"]:
        pattern = next(row for row in size["methods"] if row["outcome"])
        for k, outcome in enumerate(OUTCOMES):
            row = deepcopy(pattern) | {
                "name": f"extra-{k}",
                "title": title.format(k),
                "outcome": outcome,
                "p": 0.0123 + k / 100,
            }
            for part in ("gain", "over_best_baseline", "shuffled_gain", "over_shuffled"):
                row[part] |= {key: row[part][key] + (k - 2) / 37 for key in ("mean", "low", "high")}
            size["methods"].append(row)
    return made
