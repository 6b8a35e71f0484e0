"""Sharmanska et al. (2013), Tables 2 to 4 on data of the same kind: boxes, pictures with text, rationales."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize
from sklearn.utils import Bunch

from experiments.common import balanced_splits, entry, paper_table, subfolder, write_result
from experiments.data import data_folder, load_movie_rationales, load_tiny_imagenet_boxes, load_wiki_image_text
from experiments.data_images import load_cub
from experiments.sharmanska import LOSSES, METHODS, PAPER_PROTOCOL, PRIVILEGED_RANGE
from lupi import compare
from lupi.files import ArrayFolder, digest_of
from lupi.vision import Box, FisherVectors, read_image
from lupi.vision.images import source_digest

MEANING = (
    "Mean ± standard error. gain: over the plain counterpart (SVM+ over SVM, Rank Transfer over rank SVM); shuffled gain: the same "
    "with another example's privileged row. p: Wilcoxon, the larger of the tests against both, Holm-adjusted in each task."
)


def paper_compare(X, y, privileged, *, loss="squared_hinge", **options):
    """`compare` with the paper's methods and ranges, for unit-length rows in both spaces."""
    grids = {name: {"C": PRIVILEGED_RANGE} for name in METHODS}
    grids["svm+"] = {"C": PRIVILEGED_RANGE, "lam": PRIVILEGED_RANGE, "kappa": [np.inf]}
    grids["ranktransfer"] = {"C": PRIVILEGED_RANGE, "C_privileged": PRIVILEGED_RANGE}
    for name in ("ranksvm", "ranktransfer", "rankreference"):
        grids[name] = grids[name] | LOSSES[loss]
    return compare(X, y, privileged, methods=list(METHODS), metric="ap", grids=grids, **PAPER_PROTOCOL, **options)


def head(measured="AP x 100"):
    """Heading of :func:`task_lines`."""
    return f"{'task':26} {'method':38} {measured:>14} {'gain':>14} {'shuffled gain':>14} {'p':>7}"


def task_lines(title, size):
    """One line per method: score, gain over the plain counterpart, gain with shuffled privileged rows."""

    def value(part, sign=""):
        return f"{100 * part['mean']:{sign}.2f} ± {100 * part['error']:.2f}"

    lines = []
    for row in size["methods"]:
        if row["failed"]:
            lines.append(f"{title:26} {row['title']:38} {row['failed']} fits failed: {'; '.join(row['errors'])}")
            continue
        line = f"{title:26} {row['title']:38} {value(row):>14}"
        if row.get("gain"):
            line += f" {value(row['gain'], '+'):>14} {value(row['shuffled_gain'], '+'):>14} {row['p']:7.3f}  {row['outcome']}"
        lines.append(line)
    return lines


def wins(sizes):
    """How often, and by how much on average, each method with privileged features is above its counterpart."""
    parts = []
    for name in ("svm+", "ranktransfer"):
        rows = [row for size in sizes for row in size["methods"] if row["name"] == name and row.get("gain")]
        gains, shuffled = ([100 * row[key]["mean"] for row in rows] for key in ("gain", "shuffled_gain"))
        if rows:
            parts.append(
                f"{rows[0]['title']} above its plain counterpart in {sum(gain > 0 for gain in gains)} of {len(rows)} (mean "
                f"{np.mean(gains):+.2f}; shuffled: {sum(gain > 0 for gain in shuffled)}, {np.mean(shuffled):+.2f})"
            )
    return "; ".join(parts)


def run_tasks(tasks, out, on_progress, *, n_splits, train_size, **options):
    """Summaries of comparisons on balanced splits, ``name -> (X, y, privileged)``, one after the other."""
    summaries = {}
    for k, (name, table) in enumerate(tasks.items()):
        report = on_progress and (lambda done, total, k=k: on_progress(k * total + done, len(tasks) * total))
        store = out / f"{name.replace(' / ', '-')}.sqlite"
        options |= {"cv": balanced_splits(table[1], n_splits, train_size), "train_size": train_size}
        summaries[name] = paper_compare(*table, store=store, on_progress=report, **options).summary
    return summaries


def tasks_page(summaries, groups=None):
    """Lines of all tasks, and the counts per group."""
    lines = [line for name, found in summaries.items() for line in task_lines(name, found["sizes"][0])]
    for group, members in (groups or {"": list(summaries)}).items():
        chosen = [summaries[name]["sizes"][0] for name in members if name in summaries]
        if chosen:
            lines.append(f"{group}: {wins(chosen)}" if group else wins(chosen))
    return lines


def _printed_gains(title, row):
    gains = {a: float(row[a]) - float(row[b]) for a, b in (("svm+", "svm"), ("ranktransfer", "ranksvm"))}
    return (
        f"  {title:20} SVM {row['svm']}, SVM+ {gains['svm+']:+.2f}; rank SVM {row['ranksvm']}, Rank Transfer "
        f"{gains['ranktransfer']:+.2f}; reference {row['reference']}"
    )


# ---------------------------------------------------------------- Table 2: boxes

GROUPS = {
    "balls": ("basketball", "rugby ball", "volleyball"),
    "reptiles and amphibians": (
        "boa constrictor", "European fire salamander", "bullfrog", "tailed frog", "American alligator"
    ),
}  # fmt: skip
# Smaller boxes hold next to nothing; the paper leaves "too small" ones out, too.
SMALLEST_BOX = 6
# 64 Gaussians on 32 principal components: 4096 gradients, as in the paper, and 64 of the weights.
FISHER = {"n_words": 64, "n_components": 32, "detector": "dense", "spacing": 4, "random_state": 0}


@dataclass(frozen=True, eq=False)
class Inside:
    """Image source: the inside of a box, enlarged to the size of the picture, so that it has as many descriptors."""

    image: str
    box: Box

    def read(self):
        from PIL import Image

        pixels = read_image(self.image)
        # Cut before enlarging: Pillow's resize(box=...) also reads pixels beside the box.
        part = pixels[self.box.top : self.box.bottom, self.box.left : self.box.right]
        return np.array(Image.fromarray(part).resize(pixels.shape[1::-1], Image.Resampling.BICUBIC))

    def digest(self):
        return digest_of("inside", source_digest(self.image), [float(edge) for edge in self.box])


def box_features(pictures, folder, *, n_mixture, fisher, n_jobs=1):
    """Fisher vectors of whole pictures and of the insides of their boxes; pictures of the mixture are left out."""
    sides = np.array([min(box.bottom - box.top, box.right - box.left) for box in pictures.boxes])
    order = np.random.default_rng(0).permutation(np.flatnonzero(sides >= SMALLEST_BOX))
    by_class = [order[pictures.labels[order] == k] for k in range(len(pictures.label_names))]
    mixture = np.sort(np.concatenate([rows[:n_mixture] for rows in by_class]))
    rows = np.sort(np.concatenate([rows[n_mixture:] for rows in by_class]))
    whole = list(pictures.images)
    inside = [Inside(image, box) for image, box in zip(pictures.images, pictures.boxes)]
    store = ArrayFolder(folder)
    key = digest_of("box features", [part.digest() for part in inside], mixture, rows, fisher)
    found = store.get(key)
    if found is None:
        vectors = FisherVectors(**fisher, cache=folder, n_jobs=n_jobs)
        vectors.fit([source[i] for source in (whole, inside) for i in mixture])
        found = {name: vectors.transform([source[i] for i in rows]) for name, source in (("X", whole), ("Z", inside))}
        store.add(key, found)
    return found["X"], pictures.labels[rows], found["Z"]


def _boxes(pictures, groups, out, *, per_class, n_mixture, fisher, loss, n_splits, tasks, n_jobs, on_progress):
    """Every class against the others of its group, as many pictures of both, the inside of boxes privileged."""
    X, labels, Z = box_features(pictures, out / "features", n_mixture=n_mixture, fisher=fisher, n_jobs=n_jobs)
    names, tables = list(pictures.label_names), {}
    for members in groups.values():
        rows = np.flatnonzero(np.isin(labels, [names.index(member) for member in members]))
        for name in members:
            tables[name] = X[rows], (labels[rows] == names.index(name)).astype(int), Z[rows]
    options = {"loss": loss, "n_splits": n_splits, "n_jobs": n_jobs, "train_size": 2 * per_class}
    summaries = run_tasks(dict(list(tables.items())[:tasks]), out, on_progress, **options)
    write_result(out, out.name, substitute=True, comparisons=summaries)
    printed = paper_table("sharmanska_2013_table2")

    def above(name, plain):
        gains = [float(row[name]) - float(row[plain]) for row in printed]
        return f"{sum(gain > 0 for gain in gains)} of {len(gains)} (mean {np.mean(gains):+.2f})"

    return [
        f"X: Fisher vectors of the picture, privileged: of the inside of its box ({X.shape[1]} values); {per_class} + {per_class} "
        f"for training, the others for the test, {n_splits} splits (paper: 10); boxes under {SMALLEST_BOX} pixels left out.",
        MEANING,
        head(),
        *tasks_page(summaries, groups),
        f"Paper, {len(printed)} snakes (other pictures, so only the kind of outcome can be compared): SVM+ above SVM in "
        f"{above('svm+', 'svm')}, Rank Transfer above rank SVM in {above('ranktransfer', 'ranksvm')}.",
    ]


@entry(
    "sharmanska-table2",
    "Sharmanska et al. 2013, Table 2 (snakes, boxes), on a substitute",
    "tiny_imagenet_boxes (a substitute); pip install 'lupi[vision]'",
)
def table2(data, out, *, n_splits=10, **options):
    pictures = load_tiny_imagenet_boxes(subfolder(data, "tiny_imagenet_boxes"))
    fixed = {"per_class": 100, "n_mixture": 40, "fisher": FISHER, "loss": "squared_hinge", "n_splits": n_splits}
    return [
        "SUBSTITUTE: 64 x 64 pixel pictures of Tiny ImageNet, three balls, and five reptiles and amphibians, of which one snake; "
        "not the paper's 17 snakes, whose pictures are not at hand.",
        *_boxes(pictures, GROUPS, out, **fixed, **options),
        "Paper, 6 balls: both in 4 of 6 (its text; the figures are in a supplement).",
    ]


@entry(
    "sharmanska-table2-birds",
    "Sharmanska et al. 2013, Table 2 (snakes, boxes), on families of birds",
    "cub_300px (a substitute); pip install 'lupi[vision]'",
)
def table2_birds(data, out, *, n_splits=10, **options):
    birds = load_cub(data_folder(subfolder(data, "cub_300px"), "cub_300px"))
    groups = {
        f"{word.lower()}s": [n for n in birds.label_names if n.endswith(word)] for word in ("Vireo", "Woodpecker")
    }
    names = [name for members in groups.values() for name in members]
    place = {list(birds.label_names).index(name): k for k, name in enumerate(names)}
    rows = [i for i, label in enumerate(birds.labels) if label in place]
    chosen = Bunch(
        images=[birds.images[i] for i in rows],
        boxes=[birds.boxes[i] for i in rows],
        labels=np.array([place[birds.labels[i]] for i in rows]),
        label_names=names,
    )
    fixed = {"per_class": 25, "n_mixture": 8, "fisher": FISHER | {"spacing": 8}, "loss": "hinge", "n_splits": n_splits}
    return [
        f"SUBSTITUTE: {len(rows)} birds of CUB-200-2011 (300 pixels), {len(names)} species of two families, each against the "
        "others of its family; not the paper's 17 snakes, whose pictures are not at hand. Rankers with the paper's hinge.",
        *_boxes(chosen, groups, out, **fixed, **options),
    ]


# ---------------------------------------------------------------- Table 3: pictures with text


class Pictures(NamedTuple):
    """Unit-length rows in both spaces, labels 0, 1, ..., and their names."""

    X: np.ndarray
    privileged: np.ndarray
    y: np.ndarray
    names: list[str]
    substitute: bool

    @property
    def description(self):
        if self.substitute:
            return (
                f"SUBSTITUTE: {len(self.y)} pictures of Wikipedia articles ({self.X.shape[1]} SIFT words) with topics of their "
                f"text ({self.privileged.shape[1]}), {len(self.names)} categories; not the paper's pictures and features, which "
                "are not at hand. Rows of length 1 in both spaces."
            )
        return (
            f"Features from a file: {len(self.y)} rows, {self.X.shape[1]} features, {self.privileged.shape[1]} privileged, "
            f"{len(self.names)} classes. Rows of length 1 in both spaces."
        )

    @property
    def caveat(self):
        return " (other data: only the kind of outcome can be compared)" if self.substitute else ""


def read_features(path):
    """The user's features: a file of ``numpy.savez(file, X=X, privileged=Z, y=y)``."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            found = {name: stored[name] for name in ("X", "privileged", "y")}
    except FileNotFoundError:
        raise
    except (OSError, zipfile.BadZipFile, AttributeError, TypeError, ValueError, KeyError) as problem:
        raise ValueError(
            f"{path} must be a file of numpy.savez with plain arrays X, privileged and y: {problem}"
        ) from None
    y = found.pop("y")
    for name, table in found.items():
        if y.ndim != 1 or table.ndim != 2 or len(table) != len(y) or not np.isfinite(table).all():
            raise ValueError(
                f"{name} in {path} has shape {table.shape}; it must be a table of finite numbers with one row per label of y "
                f"(shape {y.shape})."
            )
    names, labels = np.unique(y, return_inverse=True)
    X, Z = (normalize(table.astype(float)) for table in found.values())
    return Pictures(X, Z, labels, [str(name) for name in names], False)


def load_pictures(data, features):
    """The user's features, or Wikipedia's pictures with text."""
    if features is not None:
        return read_features(features)
    wiki = load_wiki_image_text(subfolder(data, "wiki_image_text"))
    return Pictures(normalize(wiki.data), normalize(wiki.privileged), wiki.target, list(wiki.target_names), True)


PICTURES = "wiki_image_text (a substitute), or --features FILE.npz with X, privileged and y"
PER_GROUP = 100


@entry(
    "sharmanska-table3",
    "Sharmanska et al. 2013, Table 3 (pictures with text), on a substitute or on your features",
    PICTURES,
    features=True,
)
def table3(data, out, *, n_splits=10, tasks=None, features=None, n_jobs=1, on_progress=None):
    pictures = load_pictures(data, features)
    counts = np.bincount(pictures.y)
    large = [k for k in np.argsort(-counts, kind="stable") if counts[k] > PER_GROUP]
    if len(large) < 2:
        raise ValueError(
            f"A pair needs two classes with more than {PER_GROUP} rows; the largest have {np.sort(counts)[-2:]}."
        )
    # Pairs whose smaller class is largest come first; by default those of the four largest classes.
    pairs = sorted(combinations(large, 2), key=lambda pair: -counts[list(pair)].min())[: tasks or 6]
    tables = {}
    for first, second in pairs:
        rows = np.flatnonzero(np.isin(pictures.y, [first, second]))
        name = f"{pictures.names[first]} / {pictures.names[second]}"
        tables[name] = pictures.X[rows], (pictures.y[rows] == first).astype(int), pictures.privileged[rows]
    options = {"loss": "hinge", "train_size": 2 * PER_GROUP, "max_test": len(pictures.y)}
    summaries = run_tasks(tables, out, on_progress, n_splits=n_splits, n_jobs=n_jobs, **options)
    write_result(out, "sharmanska-table3", substitute=pictures.substitute, comparisons=summaries)
    return [
        pictures.description,
        f"{PER_GROUP} + {PER_GROUP} pictures for training, the others for the test, {n_splits} splits (paper: 20); rankers with "
        "the paper's hinge, Rank Transfer over pairs across classes.",
        MEANING,
        head(),
        *tasks_page(summaries),
        f"The paper's own table{pictures.caveat}:",
        *(_printed_gains(row["pair"], row) for row in paper_table("sharmanska_2013_table3")),
    ]


# ---------------------------------------------------------------- Table 4: rationales


def review_features(reviews, n_vocabulary=600, n_words=2000):
    """TF-IDF rows of reviews and of their rationales; vocabulary and weights from reviews that are in no split.

    These are ERASER's test part, whose rationales are of another kind, the reviews without a rationale, and random others.
    """
    usable = np.array([p == "train" and bool(r.strip()) for p, r in zip(reviews.part, reviews.privileged)])
    pool = np.random.default_rng(0).permutation(np.flatnonzero(usable))
    n_drawn = max(0, n_vocabulary - int((~usable).sum()))
    words = TfidfVectorizer(min_df=3, max_features=n_words, sublinear_tf=True, token_pattern=r"(?u)\b[a-z']{2,}\b")
    words.fit([reviews.data[i] for i in [*np.flatnonzero(~usable), *pool[:n_drawn]]])
    rows = np.sort(pool[n_drawn:])
    X, Z = (words.transform([texts[i] for i in rows]).toarray() for texts in (reviews.data, reviews.privileged))
    known = np.linalg.norm(Z, axis=1) > 0  # a rationale of unknown words is empty
    return X[known], reviews.target[rows][known], Z[known]


@entry(
    "sharmanska-table4",
    "Sharmanska et al. 2013, Table 4 (HotOrNot, rationales), on a substitute",
    "movie_rationales (a substitute)",
)
def table4(data, out, *, n_splits=100, tasks=None, n_jobs=1, on_progress=None):
    X, y, Z = review_features(load_movie_rationales(subfolder(data, "movie_rationales")))
    options = {"train_size": [50, 100][:tasks], "n_splits": n_splits, "n_jobs": n_jobs, "on_progress": on_progress}
    result = paper_compare(X, y, Z, store=out / "rationales.sqlite", **options)
    write_result(out, "sharmanska-table4", substitute=True, comparison=result.summary)
    return [
        "SUBSTITUTE: film reviews with an annotator's rationales, not the paper's HotOrNot pictures, whose data were not found.",
        f"X: TF-IDF of the review, privileged: TF-IDF of its rationales ({X.shape[1]} words); {len(X)} reviews, "
        f"{n_splits} splits (paper: 100), test on the others.",
        MEANING,
        head(),
        *table4_lines(result.summary),
        "The paper's own table (other data, so only the kind of outcome can be compared), N = 100:",
        *(_printed_gains(row["task"], row) for row in paper_table("sharmanska_2013_table4")),
        str(result.verdict),
    ]


def table4_lines(summary):
    """Lines of both training sizes."""
    return [line for size in summary["sizes"] for line in task_lines(f"reviews, N = {size['train_size']}", size)]
