"""SSVM+ with several privileged spaces: optima of problems with every plane listed, identities, searches, messages."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from structured_reference import all_sequences, reference_objective

import lupi
from lupi import StructuralSVM, StructuralSVMPlus
from lupi.structured import BoxLocalization, Chain, Multiclass, Task
from lupi.structured.task import Examples, searches_of
from lupi.vision import Box, WordImage

EXACT = {"tol": 1e-6, "max_iter": 20_000, "random_state": 0}


class Listed(Task):
    """A task of a user: three outputs that any of which is searched by listing them."""

    n_features = 4

    def outputs(self, x):
        return [(0, 0), (0, 1), (1, 1)]

    def joint_feature(self, x, y):
        return np.outer(y, x).ravel()

    def loss(self, y_true, y):
        return float(np.mean(np.array(y_true) != np.array(y)))

    def argmax(self, w, x, y_true=None, loss_weight=0.0):
        def score(y):
            return self.joint_feature(x, y) @ w + (0.0 if y_true is None else loss_weight * self.loss(y_true, y))

        return max(self.outputs(x), key=score)


def images(rng, Y, n_words, n_points):
    """Word 0 is mostly in the true box, the others mostly not."""
    found = []
    for y in Y:
        rows, cols = rng.integers(0, 2, n_points), rng.integers(0, 3, n_points)
        inside = (
            np.zeros(n_points, bool) if y is None else (rows >= y[0]) & (rows < y[2]) & (cols >= y[1]) & (cols < y[3])
        )
        words = np.where(inside ^ (rng.random(n_points) < 0.15), 0, rng.integers(1, n_words, n_points))
        found.append(WordImage(rows, cols, words, (2, 3)))
    return found


def boxes():
    return [
        Box(t, l, b, r) for t, b in itertools.combinations(range(3), 2) for l, r in itertools.combinations(range(4), 2)
    ]


def problem(kind, seed):
    """Tasks of the decision space and of two privileged ones; X, Y, the two inputs, and all outputs."""
    rng = np.random.default_rng(seed)
    if kind == "classes":
        n, y = 12, rng.integers(0, 3, 12)
        tasks = Multiclass(3, 2), Multiclass(3, 2), Multiclass(3, 4)
        X, first, second = (np.eye(3)[y] @ rng.normal(size=(3, d)) + rng.normal(size=(n, d)) for d in (2, 2, 4))
        return tasks, X, y, list(first), list(second), range(3)
    if kind == "chains":
        outputs = all_sequences(2, 3)
        Y = [outputs[k] for k in rng.integers(0, 8, 5)]
        X, first, second = ([y[:, None] + rng.normal(size=(3, d)) for y in Y] for d in (1, 2, 1))
        return (Chain(2, 1), Chain(2, 2), Chain(2, 1)), X, Y, first, second, outputs
    if kind == "boxes":
        tasks = BoxLocalization(3), BoxLocalization(2, scale=0.5), BoxLocalization(3, geometry=True, geometry_scale=2.0)
        Y = [boxes()[k] for k in rng.integers(0, 18, 3)]
        return tasks, images(rng, Y, 3, 12), Y, images(rng, Y, 2, 9), images(rng, Y, 3, 10), boxes()
    if kind == "absent":
        options = {"allow_absent": True}
        tasks = (
            BoxLocalization(2, **options),
            BoxLocalization(2, **options),
            BoxLocalization(2, offset=False, **options),
        )
        Y = [None, boxes()[4], boxes()[11]]
        return tasks, images(rng, Y, 2, 12), Y, images(rng, Y, 2, 9), images(rng, Y, 2, 9), [None, *boxes()]
    outputs = Listed().outputs(None)
    Y = [outputs[k] for k in rng.integers(0, 3, 10)]
    X, first, second = (list(np.array(Y) + rng.normal(size=(10, 2))) for _ in range(3))
    return (Listed(), Listed(), Listed()), X, Y, first, second, outputs


def with_gaps(first, second):
    """Some examples lack the first input, some the second, the last one both."""
    n = len(first)
    lacks = [(i % 3 == 0 or i == n - 1, i % 3 == 1 or i == n - 1) for i in range(n)]
    return [None if a else z for z, (a, _) in zip(first, lacks)], [None if b else z for z, (_, b) in zip(second, lacks)]


def listed_optimum(tasks, X, Y, spaces, outputs, C, lams, rho):
    """The optimum with all planes written down, from the definition."""
    task, *stars = tasks
    psi, losses, block = [], [], []
    for i, (x, y_true) in enumerate(zip(X, Y)):
        given = [(star, space[i], lam) for star, space, lam in zip(stars, spaces, lams)]
        available = any(z is not None for _, z, _ in given)

        def star_feature(y, given=given):
            return np.concatenate(
                [
                    np.zeros(star.n_features) if z is None else star.joint_feature(z, y) / np.sqrt(lam)
                    for star, z, lam in given
                ]
            )

        for a, b in itertools.product(outputs, outputs if available else [y_true]):
            own = task.joint_feature(x, y_true) - task.joint_feature(x, a)
            psi.append(np.concatenate([own, star_feature(y_true) - star_feature(b)]))
            loss, star_loss = task.loss(y_true, a), task.loss(y_true, b)
            losses.append(star_loss / rho + max(loss - star_loss, 0.0))
            block.append(i)
    return reference_objective(np.array(psi), np.array(losses), np.array(block), C)


def as_given(task, inputs):
    """Inputs as users give them: rows of a table, or a sequence with None."""
    if not getattr(task, "tabular", False):
        return inputs
    width = task.n_inputs
    return np.array([np.full(width, np.nan) if z is None else z for z in inputs])


KINDS = ["classes", "chains", "boxes", "absent", "listed"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("gaps", [False, True])
def test_the_optimum_with_all_planes_listed(kind, seed, gaps):
    tasks, X, Y, first, second, outputs = problem(kind, seed)
    if gaps:
        first, second = with_gaps(first, second)
    rng = np.random.default_rng(seed)
    C, rho = 10.0 ** rng.uniform(0.5, 1.5), [0.5, 2.0][seed]
    lams = {"first": float(10.0 ** rng.uniform(-1, 1)), "second": float(10.0 ** rng.uniform(-1, 1))}
    best = listed_optimum(tasks, X, Y, (first, second), outputs, C, list(lams.values()), rho)
    stars = {"second": tasks[2], "first": tasks[1]}
    model = StructuralSVMPlus(tasks[0], stars, C, lams, rho, **EXACT)
    model.fit(X, Y, privileged={"first": as_given(tasks[1], first), "second": as_given(tasks[2], second)})
    assert model.objective_ == pytest.approx(best, rel=1e-4)
    assert model.dual_gap_ <= 1e-5
    assert list(model.privileged_coef_) == ["first", "second"]
    if kind != "absent":  # with few examples "no object" everywhere can be the best
        assert all(np.abs(w).max() > 1e-3 for w in (model.coef_, *model.privileged_coef_.values()))
    norms = 0.5 * model.coef_ @ model.coef_ + sum(
        0.5 * lam * model.privileged_coef_[name] @ model.privileged_coef_[name] for name, lam in lams.items()
    )
    assert norms <= model.objective_
    # w*_m is what makes up the objective: the hinges at (w, w*) are the rest of it.
    hinges = []
    for i, (x, y_true) in enumerate(zip(X, Y)):
        given = [
            (task, z[i], model.privileged_coef_[name])
            for task, z, name in zip(tasks[1:], (first, second), lams)
            if z[i] is not None
        ]
        values = []
        for a, b in itertools.product(outputs, outputs if given else [y_true]):
            loss, star_loss = tasks[0].loss(y_true, a), tasks[0].loss(y_true, b)
            value = star_loss / rho + max(loss - star_loss, 0.0)
            value -= (tasks[0].joint_feature(x, y_true) - tasks[0].joint_feature(x, a)) @ model.coef_
            value -= sum((task.joint_feature(z, y_true) - task.joint_feature(z, b)) @ w for task, z, w in given)
            values.append(value)
        hinges.append(max(values))
    assert norms + C * np.mean(hinges) == pytest.approx(model.objective_, rel=1e-7)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("gaps", [False, True])
def test_one_space_twice_with_half_the_weight_is_once(kind, gaps):
    tasks, X, Y, first, _, _ = problem(kind, 2)
    first = as_given(tasks[1], with_gaps(first, first)[0] if gaps else first)
    options = {"C": 20.0, "rho": 0.5, **EXACT}
    once = StructuralSVMPlus(tasks[0], tasks[1], lam=0.7, **options).fit(X, Y, privileged=first)
    assert np.abs(once.privileged_coef_).max() > 1e-3  # otherwise nothing would be shown
    for lam in (1.4, [1.4, 1.4]):
        twice = StructuralSVMPlus(tasks[0], [tasks[1]] * 2, lam=lam, **options).fit(X, Y, privileged=[first, first])
        assert twice.objective_ == pytest.approx(once.objective_, rel=3e-6)
        assert_allclose(twice.coef_, once.coef_, atol=3e-3 * np.abs(once.coef_).max())
        assert len(twice.privileged_coef_) == 2
        assert_allclose(twice.privileged_coef_[0], twice.privileged_coef_[1], atol=1e-12)
        assert_allclose(
            sum(twice.privileged_coef_), once.privileged_coef_, atol=3e-3 * np.abs(once.privileged_coef_).max()
        )
    if gaps:
        full = StructuralSVMPlus(tasks[0], tasks[1], lam=0.7, **options)
        full.fit(X, Y, privileged=as_given(tasks[1], problem(kind, 2)[3]))
        assert full.objective_ != pytest.approx(once.objective_, rel=1e-4)  # the gaps matter


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_in_any_space_is_the_plain_machine(kind):
    tasks, X, Y, _, _, _ = problem(kind, 3)
    nothing = [as_given(task, [None] * len(X)) for task in tasks[1:]]
    plus = StructuralSVMPlus(tasks[0], list(tasks[1:]), 2.0, [0.1, 1.0], random_state=0).fit(X, Y, privileged=nothing)
    plain = StructuralSVM(tasks[0], 2.0, random_state=0).fit(X, Y)
    assert_array_equal(plus.coef_, plain.coef_)
    assert plus.privileged_coef_ is None
    without = clone(plus).fit(X, Y)
    assert_array_equal(without.coef_, plain.coef_)


@pytest.mark.parametrize("kind", ["classes", "boxes"])
def test_an_empty_space_beside_a_full_one_changes_nothing(kind):
    tasks, X, Y, first, _, _ = problem(kind, 4)
    first, empty = as_given(tasks[1], first), as_given(tasks[2], [None] * len(X))
    alone = StructuralSVMPlus(tasks[0], tasks[1], 2.0, 0.3, **EXACT).fit(X, Y, privileged=first)
    beside = StructuralSVMPlus(tasks[0], list(tasks[1:]), 2.0, [0.3, 5.0], **EXACT).fit(X, Y, privileged=[first, empty])
    assert beside.objective_ == pytest.approx(alone.objective_, rel=3e-6)
    assert not beside.privileged_coef_[1].any()


@pytest.mark.parametrize("kind", KINDS)
def test_the_search_of_a_sum_against_all_outputs(kind):
    rng = np.random.default_rng(5)
    for seed in range(6):
        tasks, _, Y, first, second, outputs = problem(kind, seed)
        inputs = [[first[0], None, first[2]], [second[0], second[1], None]]
        available = [np.array([x is not None for x in space]) for space in inputs]
        given = [
            [np.zeros(task.n_inputs) if x is None else x for x in space] if task.tabular else space
            for task, space in zip(tasks[1:], inputs)
        ]
        both = searches_of(tasks[1:])(list(tasks[1:]), given, available, Y[:3], [0.5, 2.0])
        assert (type(both) is Examples) == (kind == "listed")
        w = rng.normal(size=both.n_features)
        parts = [scale * part for scale, part in zip((0.5, 2.0), np.split(w, [tasks[1].n_features]))]
        weights = (1.0, 0.0, 0.5, -0.5)
        found, loss, score = both.search(np.arange(3), w, weights)
        for i, y_true in enumerate(Y[:3]):
            spaces = [(t, part, x[i]) for t, part, x in zip(tasks[1:], parts, inputs) if x[i] is not None]
            totals = [sum(t.joint_feature(x, y) @ part for t, part, x in spaces) for y in (*outputs, y_true)]
            scores = np.array(totals[:-1]) - totals[-1]
            losses = np.array([tasks[1].loss(y_true, y) for y in outputs])
            for k, c in enumerate(weights):
                assert score[i, k] + c * loss[i, k] == pytest.approx((scores + c * losses).max(), abs=1e-9)
                psi = both.differences(np.array([i]), found[i : i + 1, k])[0]
                assert -psi @ w == pytest.approx(score[i, k], abs=1e-9)


def test_the_paper_s_alternation_is_judged_by_the_exact_search():
    tasks, X, Y, first, second, _ = problem("boxes", 6)
    exact = StructuralSVMPlus(tasks[0], list(tasks[1:]), 30.0, 0.01, **EXACT).fit(X, Y, privileged=[first, second])
    local = clone(exact).set_params(inference="alternating", max_iter=50)
    with pytest.warns(ConvergenceWarning, match="relative duality gap"):
        local.fit(X, Y, privileged=[first, second])
    assert exact.objective_ <= local.objective_ * (1 + 1e-6)
    assert local.objective_ * (1 - local.dual_gap_) <= exact.objective_ * (1 + 1e-6)


def test_a_list_of_tables_is_several_spaces_and_models_keep_their_names(tmp_path):
    tasks, X, Y, first, second, _ = problem("classes", 7)
    model = StructuralSVMPlus(tasks[0], {"a": tasks[1], "b": tasks[2]}, 2.0, random_state=0)
    model.fit(X, Y, privileged={"a": np.array(first), "b": np.array(second)})
    lupi.save(model, tmp_path / "model.lupi", keep_privileged=True)
    loaded = lupi.load(tmp_path / "model.lupi")
    assert_array_equal(loaded.predict(X), model.predict(X))
    assert list(loaded.privileged_coef_) == ["a", "b"]
    both = StructuralSVMPlus(tasks[0], C=2.0, random_state=0).fit(X, Y, privileged=[np.array(first), np.array(first)])
    assert len(both.privileged_coef_) == 2


def test_messages():
    tasks, X, Y, first, second, _ = problem("classes", 8)
    first, second = np.array(first), np.array(second)

    def message(*args, privileged, task=tasks[0], X=X, Y=Y, **options):
        with pytest.raises(ValueError, match="StructuralSVMPlus") as caught:
            StructuralSVMPlus(task, *args, **options).fit(X, Y, privileged=privileged)
        return str(caught.value)

    both = list(tasks[1:])
    assert "must be a list or dict with the inputs of each space; got" in message(both, privileged=first)
    assert "`privileged` has 1 spaces; give 1 values, or one for all" in message(both, privileged=[first])
    assert "`lam` has one value per space, [1.0]" in message(both, lam=[1.0], privileged=[first, second])
    assert "got -1.0 for the space 1" in message(both, lam=[1.0, -1.0], privileged=[first, second])
    assert "but the spaces of `privileged` are ['a', 'b']" in message(
        {"a": tasks[1]}, privileged={"a": first, "b": second}
    )
    assert "`privileged[1]` has 11 rows, but `X` has 12" in message(both, privileged=[first, second[1:]])
    assert "`privileged[0]` does not fit the privileged task" in message(both, privileged=[second, second])
    assert "has None for the space 'b'" in message(privileged={"a": first, "b": None})
    assert "must have the same n_states: it is 2 for the space 0 and 3 for 1" in message(
        [Chain(2, 1), Chain(3, 1)],
        privileged=[[np.ones((2, 1))] * 2] * 2,
        task=Chain(2, 1),
        X=[np.ones((2, 1))] * 2,
        Y=[np.array([0, 1])] * 2,
    )

    class Unlisted(Listed):
        def outputs(self, x):
            return None

    inputs = [[np.ones(2)] * 12, [np.ones(2)] * 12]
    options = {"task": Listed(), "X": inputs[0], "Y": [(0, 1)] * 12, "privileged": inputs}
    assert "which the tasks (Unlisted) do not have" in message([Unlisted(), Unlisted()], **options)
    assert "which the tasks (Listed, Unlisted) do not have" in message([Listed(), Unlisted()], **options)
    small, large = (WordImage([0], [0], [0], shape) for shape in ((2, 3), (4, 6)))
    assert "privileged['b'][0] has the shape (4, 6) and privileged['a'][0] the shape (2, 3)" in message(
        privileged={"a": [small], "b": [large]}, task=BoxLocalization(2), X=[small], Y=[Box(0, 0, 1, 1)]
    )
