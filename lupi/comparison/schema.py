"""The summary of a comparison, declared: what `Comparison.summary` and `results.json` hold.

Scores are shares (0.83, not 83 points); a gain is a difference of two scores. Infinite parameters are the words "inf" and
"-inf" in `results.json`. No cell of a privileged column is in it.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

FORMAT = 2


class Paired(TypedDict):
    """One method against another on the same splits."""

    mean: float  # of the differences
    error: float  # standard error of that mean
    low: float  # 95% interval of the mean, t distribution over the splits
    high: float
    wins: int
    losses: int
    ties: int
    wilcoxon_p: float  # two-sided, not adjusted
    splits_needed: int | None  # that would show a gain of this size (80% power); None for no gain


class Scores(TypedDict):
    """Scores of one method, or of its control, over the splits."""

    scores: list[float | None]
    mean: float | None  # None if a split failed
    error: float | None
    failed: int
    errors: list[str]
    seconds: float  # processor seconds of one split, mean
    median_seconds: float


class MethodRow(Scores):
    """A method with one training size. The parts after `warnings` are there for a privileged method that has its controls."""

    name: str  # unique: the method's, with "/labeled" for its run without the unlabeled rows
    method: str  # the name to ask for
    title: str
    role: Literal["plain", "privileged", "reference"]
    plain: str  # name of the row of its plain counterpart, or ""
    rows: Literal["labeled", "all"]  # whether rows without a label were in the training sets
    n_candidates: int
    params: list[dict | None]  # chosen on each split
    warnings: dict[str, int]
    shuffled: NotRequired[Scores]
    gain: NotRequired[Paired | None]  # over the plain counterpart; None if it has none
    shuffled_gain: NotRequired[Paired | None]  # of the shuffled control over the plain counterpart
    over_shuffled: NotRequired[Paired]
    over_best_plain: NotRequired[Paired]  # over the plain row with the best mean, `Size.best_plain`
    p: NotRequired[float]  # the p behind `outcome`, adjusted by Holm over the methods: the one to print beside a mark
    p_helps: NotRequired[float]  # against every plain row, the counterpart and the shuffled control: the largest, Holm
    p_plain: NotRequired[float]  # against the counterpart alone, Holm
    outcome: NotRequired[
        Literal[
            "helps",
            "helps, but a plain method is as good",
            "gains, but not clearly more than with shuffled rows",
            "hurts",
            "no clear difference",
        ]
    ]


class Size(TypedDict):
    """Everything with one training size."""

    train_size: int  # labeled rows asked for
    n_train: int  # labeled rows there were
    n_unlabeled: int  # rows without a label in the training sets of the methods that use them
    n_test: int
    best_plain: str | None  # name of the plain row with the best mean
    methods: list[MethodRow]


class Permutation(TypedDict):
    """The exact test: privileged rows of the whole table permuted, all splits run again with fixed parameters."""

    method: str  # which method computed the statistic
    title: str
    train_size: int
    rows: Literal["labeled", "all"]
    n: int  # permutations
    score: float  # mean over the splits, rows as they are
    permuted: list[float]  # the same for each permutation
    p: float  # (1 + permutations at least as good) / (1 + n)


class ColumnEffect(TypedDict):
    """What the winning method loses without a group of privileged columns."""

    name: str
    columns: list[str]
    loss: Paired  # score with all columns minus score without these, on the first ten splits


class Worth(TypedDict):
    """The learning curve, translated: how many labeled rows the best plain method needs for the same score."""

    train_size: int
    method: str
    score: float
    plain_rows: float | None  # interpolated; None if the plain curve ends below it
    at_least: int  # the largest size of the plain curve, where that is None


class SizeVerdict(TypedDict):
    """The answer for one training size."""

    train_size: int
    answer: Literal["yes", "no", "unclear"]
    method: str | None
    text: str


class Verdict(TypedDict):
    """The answer; about the largest training size, with one for each size beside it."""

    answer: Literal["yes", "no", "unclear"]
    helps: bool  # answer == "yes"
    method: str | None  # name of the row to use
    title: str | None
    candidate: str | None  # name of the privileged row that did best, whatever the answer
    train_size: int
    text: str  # the sentence
    notes: list[str]  # what a reader should know beside it
    actions: list[str]  # what to do now
    sizes: list[SizeVerdict]


class HardExample(TypedDict):
    """A row that the correcting function calls hard; no privileged cell of it."""

    row: int  # position in the table, counted from 0
    correction: float
    label: str
    predicted: str


class Leak(TypedDict):
    """A column, or two, that give the target away."""

    kind: Literal["privileged", "ordinary"]
    columns: list[str]
    text: str


class Summary(TypedDict):
    """Everything, as plain Python objects."""

    format: int
    source: str  # name of the file, "arrays" or "data frame"
    verdict: Verdict
    notes: list[str]  # about the data: unlabeled rows, leaks, copies, repeated subjects
    leaks: list[Leak]
    sizes: list[Size]
    permutation: Permutation | None
    permutation_skipped: str | None  # why there is none
    columns: list[ColumnEffect]  # empty if no method helps
    worth: list[Worth]  # empty with one training size
    hard_examples: dict | None  # `method`, `median`, `rows` (list of HardExample)
    protocol: dict
    data: dict  # rows, labeled, unlabeled, features, privileged, names, classes, class_counts, groups, sha256, target
    environment: dict
    seconds: float  # processor seconds of all units
    command: str | None
