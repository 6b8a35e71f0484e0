"""Feyereisl et al. (2014): boxes around birds by SSVM and SSVM+, with masks and attributes as privileged information."""

from __future__ import annotations

import warnings
from functools import partial
from itertools import product

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from experiments._bird_words import MASKS_AND_ATTRIBUTES, Arm, Draw, of_classes, scored
from experiments._birds import (
    FOLDER,
    MEAN_BOX,
    arm_summary,
    beside_paper,
    birds_digest,
    class_differences,
    load_birds,
    rows_to_test,
    run_arms,
    training_pool,
    without_overlaps,
)
from experiments._entry import Entry, paper_table, write_result
from lupi.comparison.protocol import derived_seed
from lupi.comparison.render.svg import difference_bars, standalone
from lupi.files import write_atomically
from lupi.localize.localizer import Localizer
from lupi.localize.search import paper_grid, search_words
from lupi.run import identity

# The paper trains on 14 classes of two groups after Farrell et al. (2011), without naming them. Vireos and woodpeckers (with the
# flicker, a woodpecker) are 14 classes.
GROUPS = ("Vireo", "Woodpecker", "Flicker")
SIZES = (14, 70, 140, 280, 1000)
# At the largest size no more draws than this: they take as long as all others together, and differ little.
LARGE, DRAWS_OF_LARGE = 1000, 2
SETTINGS = {"n_words": 300, "detector": "surf", "grid_step": 12, "tol": 0.01}
MOST_VALIDATION = 500

PLAIN = paper_grid("ssvm", 4)
# The middle two of the paper's four values of lam and rho.
JOINT = {name: values if name == "C" else values[1:3] for name, values in paper_grid("ssvm+", 4).items()}


def _arms(suffix="", **settings):
    """Methods and controls; `settings` are those of all of them."""
    plus = {"privileged": MASKS_AND_ATTRIBUTES}
    arms = (
        Arm("SSVM", "ssvm", PLAIN, paper="ssvm"),
        # As many candidates as SSVM+ has: the better of many has a head start whatever the privileged information.
        Arm("SSVM, 16 values of C", "ssvm", paper_grid("ssvm", 16)),
        Arm("SSVM+", "ssvm+", JOINT, **plus, paper="ssvm+"),
        Arm("SSVM+, alternating", "ssvm+", JOINT, **plus, settings={"inference": "alternating"}),
        Arm("SSVM+, others' information", "ssvm+", JOINT, **plus, shuffled=True),
    )
    changed = ({"name": a.name + suffix, "settings": a.settings | settings} for a in arms)
    return tuple(a._replace(**c, paper="" if settings else a.paper) for a, c in zip(arms, changed))


ARMS = (
    Arm(MEAN_BOX),
    *_arms(),
    *_arms(" + geometry", geometry=True),
    # As many candidates again, a third of them for the weight of the geometry.
    Arm("SSVM, 5 C x 3 scales + geometry", "ssvm", paper_grid("ssvm", 5, geometry=True), settings={"geometry": True}),
)
# Without privileged information, which is quick: is the localizer better than a guess?
GEOMETRY_ARMS = tuple(arm for arm in ARMS if arm.name.startswith((MEAN_BOX, "SSVM, 16 values of C")))


def draw_birds(birds, n_train, seed, groups=GROUPS, n_validation=None):
    """Images of a run: section 4.3 of the paper as far as the folder carries it.

    The same number of training images of each of the groups' classes; where a class has fewer, images of other classes fill
    up. Validation images are of classes of which no image is learned from. The test has the official test images, or the rest
    if there are none. Training sets of one seed are nested, and have the same validation images.

    Parameters
    ----------
    birds : Bunch
        Of :func:`~lupi.datasets.load_cub`.
    n_train, seed : int
    groups : tuple of str
        Parts of the names of the classes to learn from.
    n_validation : int or None, default=None
        None: 500 as in the paper, but at most a sixth of the images.

    Returns
    -------
    Draw
    """
    rng = np.random.default_rng(derived_seed(seed, "birds"))
    n_validation = min(MOST_VALIDATION, len(birds.images) // 6) if n_validation is None else n_validation
    order = rng.permutation(training_pool(birds))
    classes = [k for k, name in enumerate(birds.label_names) if any(group in name for group in groups)]
    others = rng.permutation(np.setdiff1d(np.arange(len(birds.label_names)), classes))
    to_validate, to_fill = (order[of_classes(birds.labels[order], half)] for half in np.array_split(others, 2))
    per_class = -(-n_train // max(len(classes), 1))
    train = np.concatenate([order[birds.labels[order] == k][:per_class] for k in classes] or [order[:0]])[:n_train]
    train = np.concatenate([train, to_fill[: n_train - len(train)]])
    if len(train) < n_train or len(to_validate) < n_validation:
        raise ValueError(
            f"the folder has {len(order)} training images, too few for {n_train} to learn from and {n_validation} of other "
            "classes for the validation; give a fuller folder, or --tasks for fewer training sizes."
        )
    validation = to_validate[:n_validation]
    return Draw(train, validation, rows_to_test(birds, train, validation))


def run_arm(words, arm):
    """One arm on one draw: choose the parameters on the validation images, predict the test images."""
    localizer = clone(words.localizer).set_params(method=arm.method, **arm.settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the largest gap and the count below tell the same
        best, table = search_words(localizer, words.for_training(arm), list(zip(*words.of("validation"))), arm.grid)
    gaps = [cell["dual_gap"] for cell in table] + [float(best.model_.dual_gap_)]
    return scored(
        words,
        best.model_.predict(words.of("test")[0]),
        params={name: best.get_params()[name] for name in arm.grid},
        validation=max(cell["mean_overlap"] for cell in table),
        largest_gap=max(gaps),
        unconverged=sum(gap > localizer.tol for gap in gaps),
    )


def localization_table(
    data=None,
    out=None,
    *,
    sizes=SIZES[:4],
    n_splits=5,
    arms=ARMS,
    settings=None,
    draw=draw_birds,
    n_jobs=1,
    on_progress=None,
):
    """All arms on random draws of birds.

    Parameters
    ----------
    data : path or None
        Folder that contains `cub_300px` or `cub_200_2011`; None: the one that LUPI_DATA names.
    out : Path or None
        Folder of the run store; features are cached beside it. None keeps nothing.
    sizes : sequence of int
        Numbers of training images.
    n_splits : int
        Random draws; of the largest size at most two.
    arms : sequence of Arm
    settings : dict or None
        Parameters of the localizer; None: `SETTINGS`.
    draw : callable
        As :func:`draw_birds`.
    n_jobs, on_progress
        As in :func:`~experiments._units.finish`.

    Returns
    -------
    dict
        `sizes`: for each n the arms' `rows` and the `classes` of Figure 2; and what was run.
    """
    birds, root = load_birds(data)
    settings = SETTINGS if settings is None else settings
    draws = {(n, seed): draw(birds, n, seed) for n in sizes for seed in range(_n_draws(n, n_splits))}
    cache = None if out is None else str(out.parent / "features")
    results = run_arms(
        birds,
        draws,
        arms,
        partial(_localizer, settings, cache),
        run_arm,
        store=None if out is None else out / "units.sqlite",
        identity=identity(
            entry="feyereisl",
            settings=settings,
            groups=GROUPS,
            arms=[arm._asdict() for arm in arms],
            data=birds_digest(birds),
        ),
        n_jobs=n_jobs,
        on_progress=on_progress,
    )
    plain = next(arm.name for arm in arms if arm.method)
    plus = next((arm.name for arm in arms if arm.paper == "ssvm+"), None)
    found = []
    for n in sizes:
        size = {"n": n, "rows": arm_summary(results, n, arms, plain)}
        size["classes"] = class_differences(results, draws, birds.labels, n, plus, plain) if plus else []
        for row in size["classes"]:
            row["label"] = birds.label_names[row["label"]]
        first = draws[n, 0]
        known = np.flatnonzero([any(group in name for group in GROUPS) for name in birds.label_names])
        size["n_of_groups"] = int(of_classes(birds.labels[first.train], known).sum())
        size["n_validation"] = len(first.validation)
        found.append(size)
    return {
        "sizes": found,
        "data": str(root),
        "images": len(birds.images),
        "official_test": bool((~np.asarray(birds.train)).any()),
        "settings": settings,
        "units": {f"{n}/{seed}/{name}": unit for (n, seed, name), unit in results.items()},
    }


def _n_draws(n, n_splits):
    return n_splits if n < LARGE else min(n_splits, DRAWS_OF_LARGE)


def _localizer(settings, cache, seed):
    return Localizer("ssvm", cache=cache, random_state=seed, **settings)


def table_lines(result, arms=ARMS):
    """The table as text, ours beside the paper's.

    Returns
    -------
    list of str
    """
    printed = {int(row["n"]): row for row in paper_table("feyereisl_2014_table1")}
    paper_arm = {arm.name: arm.paper for arm in arms}
    lines = [f"data: {result['data']}, {result['images']} images"]
    lines.append(
        "percent, mean ± standard error over draws / paper (* within two of our standard errors; it prints none)"
    )
    for size in result["sizes"]:
        n, rows = size["n"], size["rows"]
        paper = printed.get(n, {})
        lines += ["", f"n = {n}, {rows[0]['n_test']} test images, {rows[0]['seeds']} draws"]
        lines.append(
            f"{'':39} {'overlap':>20} {'detected':>20} {'- mean box':>13} {'- plain':>13} {'tried':>6} {'worst gap':>10} "
            f"{'not conv.':>9}"
        )
        for row in rows:
            column = paper_arm[row["arm"]]
            cells = [
                beside_paper(row[key], float(paper[f"{column}_{key}"]) if column and paper else None)
                for key in ("overlap", "detection")
            ]
            gains = (f"{gain['mean']:>+7.1f} ± {gain['error']:.1f}" for gain in (row["ahead"], row["overlap_gain"]))
            lines.append(
                f"{row['arm']:39} {cells[0]:>20} {cells[1]:>20} {' '.join(gains)} {row['candidates']:>6} "
                f"{row['largest_gap']:>10.1g} {row['unconverged']:>9}"
            )
        lines += _reading(size, arms)
    return lines


def _reading(size, arms):
    """Whether the right privileged information beats that of other images: differences on the same draws."""
    rows = {row["arm"]: row for row in size["rows"]}
    lines = []
    for arm in arms:
        alike = (o.name for o in arms if o.shuffled and (o.privileged, o.settings) == (arm.privileged, arm.settings))
        wrong = next(alike, None)
        if wrong is None or arm.shuffled:
            continue
        difference = np.array(rows[arm.name]["overlap"]["values"]) - np.array(rows[wrong]["overlap"]["values"])
        error = difference.std(ddof=1) / np.sqrt(len(difference)) if len(difference) > 1 else np.nan
        lines.append(f"{arm.name} minus {wrong}: {difference.mean():+.1f} ± {error:.1f} points of overlap")
    if not size["classes"]:
        return lines
    ahead = [row["overlap"] > 0 for row in size["classes"]]
    per_class = np.mean([row["images"] for row in size["classes"]]) / size["rows"][0]["seeds"]
    lines.append(
        f"Figure 2: SSVM+ ahead of SSVM in {sum(ahead)} of {len(ahead)} classes, {per_class:.1f} test images each "
        "(paper: about 30)"
    )
    return lines


def _differs(result):
    settings = result["settings"]
    lines = ["", "What differs from the paper:"]
    for size in result["sizes"]:
        if size["n_of_groups"] < size["n"]:
            lines.append(
                f"- n = {size['n']}: {size['n_of_groups']} images of the 14 classes are there; other classes fill up the rest."
            )
    if not result["official_test"]:
        lines.append(
            "- test: the images that are left (all of the folder are official training images), not the official test set"
        )
    lines += [
        f"- {result['sizes'][0]['n_validation']} validation images, of classes that are not learned from (paper: 500)",
        f"- edges of boxes on a grid of {settings['grid_step']} pixels (paper: every pixel)",
        f"- {settings['n_words']} words (paper: 3000) from the validation images; the paper does not say from which images",
        "- vireos and woodpeckers are the two groups; the paper does not name its own",
        "- attributes: where not all images have their own, those that more than half of the images of the class have; the paper "
        "does not say where in the box they count: here evenly spread over it",
        "- SSVM+ tries 4 x 2 x 2 combinations, the middle two of the paper's four values of lam and rho",
        '- SSVM+ has exact joint inference; the paper\'s is the row "alternating". Gaps are certified by exact inference',
    ]
    return lines


def _feyereisl_table1(data, out, *, n_splits=5, tasks=None, n_jobs=1, on_progress=None):
    sizes = SIZES[: tasks or 4]
    result = localization_table(data, out, sizes=sizes, n_splits=n_splits, n_jobs=n_jobs, on_progress=on_progress)
    lines = table_lines(result) + _differs(result)
    for size, (part, words) in product(result["sizes"], {"overlap": "overlap", "detection": "detection rate"}.items()):
        page = out / f"figure2-n{size['n']}-{part}.svg"
        bars = difference_bars(
            [row[part] for row in size["classes"]],
            below=f"SSVM+ minus SSVM, points of {words}; one bar a class, n = {size['n']}",
            title=f"SSVM+ against SSVM, class by class, points of {words}, n = {size['n']}",
        )
        write_atomically(page, standalone(bars).encode())
        lines.append(f"figure: {page}")
    write_result(out, "feyereisl-table1", **without_overlaps(result))
    return lines


def _feyereisl_geometry(data, out, *, n_splits=5, tasks=None, n_jobs=1, on_progress=None):
    sizes = SIZES[: tasks or 4]
    options = {"sizes": sizes, "arms": GEOMETRY_ARMS, "n_splits": n_splits}
    result = localization_table(data, out, **options, n_jobs=n_jobs, on_progress=on_progress)
    write_result(out, "feyereisl-geometry", **without_overlaps(result))
    return table_lines(result, GEOMETRY_ARMS)


ENTRIES = (
    Entry("feyereisl-table1", "Feyereisl et al. 2014, Table 1 and Figure 2", FOLDER, _feyereisl_table1),
    Entry("feyereisl-geometry", "Its plain SSVM against one constant box, with geometry", FOLDER, _feyereisl_geometry),
)
