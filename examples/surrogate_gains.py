"""The picture of the README: what privileged columns gave on eleven tables, and what other rows' columns gave.

Drawn from the stored scores of ``python -m experiments surrogate-unlabeled``, without fitting anything::

    python examples/surrogate_gains.py --save docs/images/gains.png
"""

import argparse
import json
from pathlib import Path

import numpy as np

from lupi.plot import GainsDisplay
from lupi.plot.figures import Interval

SCORES = Path(__file__).parents[1] / "docs" / "results" / "surrogate-unlabeled.json"
NAMES = {
    "wagepan": "later wages",
    "card": "wages of young men",
    "star": "test scores",
    "econmath": "economics course",
    "rotterdam": "breast cancer",
    "storms": "storms",
    "opt": "pregnancies",
    "support2": "seriously ill patients",
    "student_performance": "pupils' marks",
    "bank_marketing": "calls of a bank",
    "awa": "rat or seal",
}


def interval(label, differences, color):
    """Mean in points, with two standard errors to each side."""
    points = 100 * np.asarray(differences)
    margin = 2 * points.std(ddof=1) / np.sqrt(len(points))
    return Interval(label, points.mean(), points.mean() - margin, points.mean() + margin, color)


def gains():
    """Title of a table -> its gain over the plain student, with the real and with shuffled rows."""
    found = {}
    for table, sizes in json.loads(SCORES.read_text()).items():
        ((_, arms),) = sizes.items()
        plain = np.array(arms["plain"])
        found[NAMES[table]] = [
            interval("plain student", np.array(arms["surrogate"]) - plain, "real"),
            interval("plain student, with other rows' columns", np.array(arms["shuffled"]) - plain, "shuffled"),
        ]
    return dict(sorted(found.items(), key=lambda item: -item[1][0].mean))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", help="file to write; shown on the screen without it")
    path = parser.parse_args().save
    from matplotlib import pyplot

    _, ax = pyplot.subplots(figsize=(8, 4.2), layout="constrained")
    label = "gain in area under the ROC curve, points ± two standard errors"
    GainsDisplay(gains(), label=label).plot(ax)
    if path:
        ax.figure.savefig(path, dpi=110)
    else:
        pyplot.show()


if __name__ == "__main__":
    main()
