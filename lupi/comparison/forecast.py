"""How long a comparison will take: from the units that are finished, and at first from what the methods usually cost."""

from __future__ import annotations

from collections import Counter

# About how many times as long as logistic regression a method takes, with 100 rows and 15 columns; others, and estimators of a
# user's, count 1. Only the first guess needs it: a method that was run once speaks for itself.
COSTS = {
    "forest": 4, "boosting": 4, "svm": 5, "ridge-plain": 0.2, "surrogate-ridge": 0.3, "boosted-plain": 3,
    "surrogate-boosted": 4, "l2svm": 3, "svm2+": 10, "distillation": 15, "transfer": 15, "ranktransfer": 10,
    "svm+": 10, "svm2k": 30, "reference": 5, "joint": 5,
}  # fmt: skip
# Kinds of units that have to be measured for a first guess: the very first ones of a process also load what they need.
FIRST_GUESS = 4
# Of the time of one unit, which prepares and tunes too, that a permutation takes.
PER_PERMUTATION = 0.3


class Forecast:
    """Seconds that the units of a comparison still need.

    Parameters
    ----------
    units : sequence of lupi.comparison.units.Unit
        All that is planned.
    workers : int
        How many run at a time.

    Examples
    --------
    >>> from lupi.comparison.units import Unit
    >>> forecast = Forecast([Unit(100, split, name) for split in range(10) for name in ("linear", "forest")], 2)
    >>> forecast.add(Unit(100, 0, "linear"), 2.0)
    >>> forecast.add(Unit(100, 0, "forest"), 3.0)
    >>> forecast.left()
    (22.5, True)
    """

    def __init__(self, units, workers):
        self.workers = workers
        self.pending = Counter(map(_kind, units))
        self.seconds = {}

    def plan(self, units):
        """Units of a later round, which was not planned at first, or not as it came."""
        self.pending = Counter(map(_kind, units))

    def add(self, unit, seconds):
        """A unit is finished."""
        kind = _kind(unit)
        self.pending[kind] -= 1
        # The least: the first unit of a kind may have compiled something, and others waited for their turn.
        self.seconds[kind] = min(seconds, self.seconds.get(kind, seconds))

    def left(self):
        """Seconds until the end (None: not known yet), and whether every method that is still to be run has been run once."""
        pending = {kind: n for kind, n in self.pending.items() if n > 0}
        sure = all(kind in self.seconds or (kind[-1] and self.seconds) for kind in pending)
        if not sure and len(self.seconds) < FIRST_GUESS:
            return None, False
        total = sum(n * self._seconds(kind) for kind, n in pending.items())
        return total / max(1, min(self.workers, sum(pending.values()))), sure

    def _seconds(self, kind):
        if kind in self.seconds:
            return self.seconds[kind]
        size, method, rows, permutations = kind
        if permutations:
            return PER_PERMUTATION * permutations * self._seconds((size, method, rows, 0))
        same = [
            seconds * size / other[0] for other, seconds in self.seconds.items() if other[1] == method and not other[3]
        ]
        if same:
            return max(same)
        pace = sorted(s / (COSTS.get(k[1], 1) * k[0]) for k, s in self.seconds.items() if not k[3])
        return pace[len(pace) // 2] * COSTS.get(method, 1) * size if pace else 0.0


def _kind(unit):
    """Units of one kind take about as long: shuffled rows or a column less make no difference."""
    name, _, number = unit.control.partition(" ")
    return unit.size, unit.method, unit.rows, int(number) if name == "permuted" else 0
