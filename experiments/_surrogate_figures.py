"""From the scores of the study of surrogate learning to its tables: gains, wins, harms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from experiments._surrogate_plain import PLAIN

# A difference counts from two standard errors on.
N_ERRORS = 2.0
CONTROLS = ("shuffled", "noise", "copy")


@dataclass(frozen=True)
class Difference:
    """Paired difference of two arms, in points (hundredths of the score).

    Attributes
    ----------
    mean, error : float
        Over the splits; `error` is the standard error of the mean.
    """

    mean: float
    error: float

    @property
    def above(self):
        """Whether the first arm is better by more than two standard errors."""
        return self.mean > N_ERRORS * self.error

    @property
    def below(self):
        """Whether the first arm is worse by more than two standard errors."""
        return self.mean < -N_ERRORS * self.error

    def __str__(self):
        return f"{self.mean:+.2f} ± {self.error:.2f}"


def difference(first, second):
    """Paired difference of scores on the same splits.

    Examples
    --------
    >>> str(difference([0.80, 0.82], [0.79, 0.80]))
    '+1.50 ± 0.50'
    """
    points = 100 * (np.asarray(first) - np.asarray(second))
    return Difference(float(points.mean()), float(points.std(ddof=1) / np.sqrt(len(points))))


def outcome(arms, name="surrogate", plain="plain", shuffled="shuffled"):
    """Whether privileged columns helped: above the plain counterpart and above the control, or below the counterpart.

    Parameters
    ----------
    arms : dict of str to list of float
        Scores of one task in one setting.
    name, plain, shuffled : str
        Arms.

    Returns
    -------
    {"win", "harm", ""}
    """
    gain = difference(arms[name], arms[plain])
    if gain.below:
        return "harm"
    return "win" if gain.above and difference(arms[name], arms[shuffled]).above else ""


def best_plain(arms):
    """The plain learner with the best mean on the test rows: chosen in hindsight, to its advantage."""
    return max(PLAIN, key=lambda name: np.mean(arms[name]))


def mean_score(scores):
    """Mean in points, for a table."""
    return f"{100 * np.mean(scores):.1f}"


def gains_table(scores, setting, *, student="", reference=None):
    """Markdown lines, one for each task: scores, and gains over the plain counterpart and over the best plain learner.

    Parameters
    ----------
    scores : dict
        Task -> setting -> arm -> scores.
    setting : str
    student : {"", "ridge-"}
        Prefix of the arms: the averaged default, or the closed form alone.
    reference : str, optional
        One more arm to show.

    Returns
    -------
    list of str
    """
    plain, with_privileged, shuffled = (f"{student}{arm}" for arm in ("plain", "surrogate", "shuffled"))
    head = ["task", "plain", "surrogate", "gain", "shuffled", "best plain learner", "gain over it", ""]
    if reference:
        head.insert(7, reference)
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for task, settings in scores.items():
        arms = settings[setting]
        best = best_plain(arms)
        cells = [
            task,
            mean_score(arms[plain]),
            mean_score(arms[with_privileged]),
            str(difference(arms[with_privileged], arms[plain])),
            str(difference(arms[shuffled], arms[plain])),
            f"{best} {mean_score(arms[best])}",
            str(difference(arms[with_privileged], arms[best])),
            outcome(arms, with_privileged, plain, shuffled),
        ]
        if reference:
            cells.insert(7, mean_score(arms[reference]))
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def tally(scores, setting, *, student=""):
    """Counts over the tasks: wins, harms, mean gains.

    Returns
    -------
    dict
        `tasks`, `splits`, `wins`, `harms`, `gain`, `shuffled`, and against the best plain learner `best_wins`, `best_losses`,
        `best_gain`.
    """
    plain, name, shuffled = (f"{student}{arm}" for arm in ("plain", "surrogate", "shuffled"))
    tables = [settings[setting] for settings in scores.values()]
    outcomes = [outcome(arms, name, plain, shuffled) for arms in tables]
    over_best = [difference(arms[name], arms[best_plain(arms)]) for arms in tables]
    return {
        "tasks": len(tables),
        "splits": min(len(arms[name]) for arms in tables),
        "wins": outcomes.count("win"),
        "harms": outcomes.count("harm"),
        "gain": float(np.mean([difference(arms[name], arms[plain]).mean for arms in tables])),
        "shuffled": float(np.mean([difference(arms[shuffled], arms[plain]).mean for arms in tables])),
        "best_wins": sum(d.above for d in over_best),
        "best_losses": sum(d.below for d in over_best),
        "best_gain": float(np.mean([d.mean for d in over_best])),
    }


def tally_line(scores, setting, *, student=""):
    """One sentence with the counts of :func:`tally`."""
    t = tally(scores, setting, student=student)
    return (
        f"{setting}, {t['splits']} splits: {t['wins']} wins, {t['harms']} harms of {t['tasks']}; mean gain {t['gain']:+.2f} "
        f"(shuffled {t['shuffled']:+.2f}); over the best plain learner {t['best_gain']:+.2f}, above on {t['best_wins']}, below "
        f"on {t['best_losses']}."
    )


def controls_table(scores):
    """Markdown lines: change that useless privileged columns make, mean and worst over the tasks of each setting.

    Parameters
    ----------
    scores : dict
        Task -> setting -> arm -> scores; with the arms "plain", "reshuffled" and the controls.

    Returns
    -------
    list of str
    """
    lines = [
        "| privileged columns | classes | rows | mean change | worst task | best task | above plain | wins |",
        "|---" * 8 + "|",
    ]
    for control in CONTROLS:
        for classes, setting in _groups(scores):
            changes = {
                task: difference(scores[task][setting][control], scores[task][setting]["plain"]) for task in classes[1]
            }
            low, high = min(changes, key=lambda k: changes[k].mean), max(changes, key=lambda k: changes[k].mean)
            # A shuffled arm needs another shuffling as its own control.
            wins = sum(outcome(scores[task][setting], control, "plain", "reshuffled") == "win" for task in changes)
            above = sum(change.above for change in changes.values())
            mean = np.mean([change.mean for change in changes.values()])
            cells = [
                control,
                classes[0],
                setting,
                f"{mean:+.2f}",
                f"{low} {changes[low]}",
                f"{high} {changes[high]}",
                f"{above}",
            ]
            lines.append("| " + " | ".join([*cells, f"{wins} of {len(changes)}"]) + " |")
    return lines


def _groups(scores):
    """((name of the group, tasks), setting) for tasks of two and of ten classes."""
    groups = {}
    for task, settings in scores.items():
        kind = "ten" if task.startswith("digits") else "two"
        for setting in settings:
            groups.setdefault((kind, setting), []).append(task)
    return [((kind, tasks), setting) for (kind, setting), tasks in groups.items()]
