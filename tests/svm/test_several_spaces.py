"""Several privileged spaces: optima of hand-written primal problems, identities, and what is said where they do not fit."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from primals import one_function_optimum, svr_plus_optimum
from scipy import sparse
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

import lupi
from lupi import (
    SVM2K,
    JKSEPlus,
    OneClassSVMPlus,
    PrivilegedColumns,
    RankTransfer,
    RankTransferCV,
    SVM2Plus,
    SVMPlus,
    SVRPlus,
)
from lupi.kernels import Kernel
from lupi.structured import Multiclass
from lupi.svm.paths import fit_path

N = 36
EXACT = {"tol": 1e-7}
WITH_LAM = [SVMPlus, SVM2Plus, SVRPlus, OneClassSVMPlus]
RANK = pytest.mark.filterwarnings("ignore:RankTransfer. the teacher")  # noise is no teacher, on purpose


def spaces(seed=0, missing=True, n=N):
    """X, y, and two tables; some rows lack the first, some the second, some both."""
    rng = np.random.default_rng(seed)
    X, first, second = rng.random((n, 3)), rng.random((n, 2)), rng.random((n, 4))
    margin = X[:, 0] - X[:, 1] + 0.3 * rng.normal(size=n)
    first[:, 0] += np.abs(margin)
    if missing:
        first[::4], second[::6] = np.nan, np.nan
    return X, np.where(margin > np.median(margin), 1, -1), first, second


def fitted(model, X, y, privileged):
    return (
        model.fit(X, privileged=privileged)
        if isinstance(model, OneClassSVMPlus)
        else model.fit(X, y, privileged=privileged)
    )


def values(model, X):
    return getattr(model, "decision_function", model.predict)(X)


def gram(name, gamma, Z):
    known = ~np.isnan(Z).any(axis=1)
    return Kernel(name, gamma)(np.nan_to_num(Z)) * np.outer(known, known)


@pytest.mark.parametrize("make", WITH_LAM)
@pytest.mark.parametrize("seed", range(6))
def test_the_optimum_of_the_primal(make, seed):
    X, y, first, second = spaces(seed, missing=seed % 2 == 1)
    rng = np.random.default_rng(seed)
    C, lams = 10.0 ** rng.uniform(-1, 1.5), [float(v) for v in 10.0 ** rng.uniform(-1.5, 1.5, 2)]
    names = [str(v) for v in rng.choice(["linear", "rbf", "laplacian"], 2)]
    gammas = [1.0, 0.5]
    prices = {"nu": 0.4} if make is OneClassSVMPlus else {"C": C}
    model = make(
        **prices, lam=lams, gamma=1.0, privileged_kernel=dict(zip("ab", names)), privileged_gamma=gammas, **EXACT
    )
    fitted(model, X, y, {"a": first, "b": second})
    stars = [gram(name, gamma, Z) for name, gamma, Z in zip(names, gammas, (first, second))]
    available = ~(np.isnan(first).any(axis=1) & np.isnan(second).any(axis=1))
    assert available.all() == (seed % 2 == 0)
    K = Kernel("rbf", 1.0)(X)
    if make is SVRPlus:
        best = svr_plus_optimum(K, stars, lams, y.astype(float), np.full(N, C), 0.1, 3.0, available)
    else:
        kind = {SVMPlus: "svm+", SVM2Plus: "svm2+", OneClassSVMPlus: "one class"}[make]
        best = one_function_optimum(
            kind, K, stars, lams, y, 0.4 if kind == "one class" else np.full(N, C), 3.0, available
        )
    assert model.objective_ == pytest.approx(best, rel=1e-4)
    assert model.dual_gap_ < 1e-4


def machines():
    for kernel in ("linear", "rbf"):
        for make in WITH_LAM:
            yield lambda lam, make=make, kernel=kernel: make(lam=lam, privileged_kernel=kernel, **EXACT)
        yield lambda lam, kernel=kernel: SVMPlus(lam=lam, correction="labeled", privileged_kernel=kernel, **EXACT)
        yield lambda lam, kernel=kernel: JKSEPlus(
            Multiclass(2, 3), lam=lam, kernel="rbf", privileged_kernel=kernel, **EXACT
        )
    yield lambda lam: SVMPlus(lam=lam, n_components=20, random_state=0)


MACHINES = list(machines())
LABELS = [type(make(1.0)).__name__ + "-" + make(1.0).privileged_kernel for make in MACHINES]


@pytest.mark.parametrize("make", MACHINES, ids=LABELS)
@pytest.mark.parametrize("missing", [False, True])
def test_one_space_twice_with_half_the_weight_is_once(make, missing):
    X, y, first, _ = spaces(1, missing)
    y = (y + 1) // 2
    once = fitted(make(0.7), X, y, first)
    for lam in (1.4, [1.4, 1.4]):
        twice = fitted(make(lam), X, y, [first, first])
        assert twice.objective_ == pytest.approx(once.objective_, rel=1e-6)
        assert_allclose(twice.correcting_function([first, first]), once.correcting_function(first), atol=1e-5)
    assert np.isnan(once.correcting_function(first)).any() == missing


@pytest.mark.parametrize("make", MACHINES, ids=LABELS)
def test_nothing_in_any_space_is_the_plain_machine(make):
    X, y, first, second = spaces(2)
    y = (y + 1) // 2
    nothing = fitted(make([1.0, 2.0]), X, y, [np.full_like(first, np.nan), np.full_like(second, np.nan)])
    assert nothing.objective_ == pytest.approx(fitted(make(1.0), X, y, None).objective_, rel=1e-9)


@pytest.mark.parametrize("make", MACHINES, ids=LABELS)
def test_the_order_of_a_dict_does_not_matter(make):
    X, y, first, second = spaces(3)
    y = (y + 1) // 2
    one = fitted(make({"a": 0.3, "b": 3.0}), X, y, {"a": first, "b": second})
    other = fitted(make({"b": 3.0, "a": 0.3}), X, y, {"b": second, "a": first})
    if one.get_params().get("n_components") is None:
        assert other.objective_ == pytest.approx(one.objective_, rel=1e-6)
    first[1], second[1] = np.nan, np.nan
    found = one.correcting_function({"b": second, "a": first})
    assert_allclose(found, one.correcting_function({"a": first, "b": second}))
    assert np.isnan(found[1]).all()
    assert np.isfinite(np.delete(found, np.r_[0:N:12, 1], axis=0)).all()  # a row of one space is enough


@pytest.mark.parametrize("make", [*WITH_LAM, SVM2K])
@pytest.mark.parametrize("n", [N, 300])
def test_linear_spaces_are_columns_side_by_side(make, n):
    """Also over the weights, which is how 300 rows are solved."""
    X, y, first, second = spaces(4, n=n)
    empty = np.isnan(first).any(axis=1) & np.isnan(second).any(axis=1)
    lams = (1.0, 1.0) if make is SVM2K else (0.2, 3.0)
    total = 1 / sum(1 / lam for lam in lams)  # also the weight of the constant, in SVM2+
    roots = [1.0, 1.0] if make is SVM2K else [np.sqrt(total / lam) for lam in lams]
    side = np.hstack([roots[0] * np.nan_to_num(first), roots[1] * np.nan_to_num(second)])
    side[empty] = np.nan
    options = {"kernel": "linear", "privileged_kernel": "linear", **EXACT}
    options |= {} if make is OneClassSVMPlus else {"C": 10.0}
    options |= {"kappa": 1.0} if make is SVMPlus else {}
    one = make(**options) if make is SVM2K else make(lam=total, **options)
    several = make(**options) if make is SVM2K else make(lam=list(lams), **options)
    fitted(one, X, y, side)
    fitted(several, X, y, [first, sparse.csr_matrix(second)] if n == N else [first, second])
    assert several.objective_ == pytest.approx(one.objective_, rel=1e-6)
    assert_allclose(values(several, X), values(one, X), atol=1e-4)
    raw = np.nan_to_num(np.hstack([first, second])) @ several.privileged_coef_.T + several.privileged_intercept_
    assert_allclose(raw[~empty].squeeze(), several.correcting_function([first, second])[~empty], atol=1e-8)


def test_kernel_matrices_are_added_up():
    X, y, first, second = spaces(5)
    known = [~np.isnan(Z).any(axis=1) for Z in (first, second)]
    matrices = [gram("rbf", 1.0, Z) for Z in (first, second)]
    for matrix, there in zip(matrices, known):
        matrix[~there] = np.nan
    options = {"lam": [0.5, 2.0], **EXACT}
    given = SVMPlus(privileged_kernel="precomputed", **options).fit(X, y, privileged=matrices)
    computed = SVMPlus(privileged_gamma=1.0, **options).fit(X, y, privileged=[first, second])
    assert given.objective_ == pytest.approx(computed.objective_, rel=1e-6)
    assert_allclose(given.correcting_function(matrices), computed.correcting_function([first, second]), atol=1e-5)


def test_kernels_on_demand_and_paths():
    X, y, first, second = spaces(6)
    whole = SVMPlus(tol=1e-5).fit(X, y, privileged=[first, second])
    parts = SVMPlus(tol=1e-5, cache_size=1e-3).fit(X, y, privileged=[first, second])
    assert parts.objective_ == pytest.approx(whole.objective_, rel=1e-4)
    candidates = [{"C": C, "lam": lam} for C in (0.3, 3.0) for lam in (0.1, 10.0, [0.1, 10.0], {0: 10.0, 1: 0.1})]
    for make in (SVMPlus, SVM2Plus, SVRPlus):
        for params, model in zip(candidates, fit_path(make(**EXACT), candidates, X, y, privileged=[first, second])):
            alone = make(**EXACT, **params).fit(X, y, privileged=[first, second])
            assert model.objective_ == pytest.approx(alone.objective_, rel=1e-5)


@RANK
@pytest.mark.parametrize("kernel", ["linear", "rbf", ["rbf", "linear"], "precomputed"])
def test_a_teacher_of_several_spaces(kernel):
    X, y, first, second = spaces(7, missing=False)
    both, given = [first, second], [first, second]
    if kernel == "linear":
        one = {"privileged_kernel": "linear"}, np.hstack(both)
    else:
        names = kernel if isinstance(kernel, list) else ["rbf", "rbf"]
        grams = [gram(name, 1.0, Z) for name, Z in zip(names, both)]
        one = {"privileged_kernel": "precomputed"}, sum(grams)
        given = grams if kernel == "precomputed" else both
    expected = RankTransfer(0.1, 0.3, **one[0]).fit(X, y, privileged=one[1])
    found = RankTransfer(0.1, 0.3, privileged_kernel=kernel, privileged_gamma=1.0).fit(X, y, privileged=given)
    assert_allclose(found.margins_, expected.margins_, atol=1e-4)
    assert_allclose(found.decision_function(X), expected.decision_function(X), atol=1e-4)


@RANK
def test_a_teacher_with_holes_in_one_space():
    X, y, first, second = spaces(8)
    model = RankTransfer(0.1, 0.3, privileged_kernel=["rbf", "linear"]).fit(X, y, privileged=[first, second])
    assert np.array_equal(np.isnan(model.margins_), np.isnan(first).any(axis=1) & np.isnan(second).any(axis=1))
    chosen = RankTransferCV([0.1], [0.1, 1.0], cv=2, privileged_kernel="rbf").fit(X, y, privileged=[first, second])
    assert np.isfinite(chosen.best_score_)


def test_joint_features_of_several_tasks():
    X, y, first, second = spaces(9, missing=False)
    y = (y + 1) // 2
    tasks, options = (
        {"a": Multiclass(2, 2), "b": Multiclass(2, 4)},
        {"kernel": "rbf", "privileged_kernel": "linear", **EXACT},
    )
    joint = [
        np.array([task.joint_feature(z, label) for z, label in zip(Z, y)])
        for task, Z in zip(tasks.values(), (first, second))
    ]
    several = JKSEPlus(Multiclass(2, 3), lam={"a": 0.2, "b": 2.0}, privileged_task=tasks, **options)
    several.fit(X, y, privileged={"a": first, "b": second})
    side = np.hstack([joint[0] / np.sqrt(0.2), joint[1] / np.sqrt(2.0)])
    one = JKSEPlus(Multiclass(2, 3), lam=1.0, **options).fit(X, y, privileged=side)
    assert several.objective_ == pytest.approx(one.objective_, rel=1e-6)
    assert_allclose(several.correcting_function({"a": first, "b": second}, y), one.correcting_function(side), atol=1e-5)
    with pytest.raises(ValueError, match=r"has one value per space, .*, but the spaces of `privileged` are \['a'\]"):
        several.fit(X, y, privileged={"a": first})


@pytest.mark.parametrize("make", [SVMPlus, SVM2Plus, SVRPlus, SVM2K])
def test_integer_weights_equal_repeated_rows(make):
    """Also in gamma="scale" of each space, which sees the rows that have the space."""
    X, y, first, second = spaces(12)
    weight = np.random.default_rng(0).integers(0, 4, size=N)
    X2, y2, first2, second2 = (np.repeat(table, weight, axis=0) for table in (X, y, first, second))
    weighted = make(**EXACT).fit(X, y, privileged=[first, second], sample_weight=weight)
    repeated = make(**EXACT).fit(X2, y2, privileged=[first2, second2])
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-6)
    assert_allclose(values(weighted, X), values(repeated, X), atol=1e-4)
    known = ~np.isnan(second2).any(axis=1)
    gamma = weighted._privileged_kernel.parts[1].gamma
    assert gamma == pytest.approx(1 / (second2.shape[1] * second2[known].var()))


def test_groups_of_columns_are_spaces():
    X, y, first, second = spaces(10, missing=False)
    table = np.hstack([X, first, second])
    groups = {"a": [3, 4], "b": slice(5, None)}
    direct = SVMPlus(lam={"a": 0.1, "b": 1.0}).fit(X, y, privileged={"a": first, "b": second})
    model = PrivilegedColumns(SVMPlus(lam={"a": 0.1, "b": 1.0}), groups).fit(table, y)
    assert_allclose(model.decision_function(X), direct.decision_function(X))
    search = GridSearchCV(
        PrivilegedColumns(SVMPlus(), groups, privileged_transformer=StandardScaler()),
        {"estimator__lam": [1.0, {"a": 0.1, "b": 10.0}], "estimator__privileged_kernel": ["rbf", ["linear", "rbf"]]},
        cv=2,
    )
    search.fit(table, y)
    assert set(search.best_estimator_.privileged_transformer_) == {"a", "b"}
    assert search.predict(X).shape == y.shape
    with pytest.raises(ValueError, match=r"names no column for the space 'b'"):
        PrivilegedColumns(SVMPlus(), {"a": [3], "b": []}).fit(table, y)


WRONG = {
    "too few": ({"lam": [1.0]}, r"`lam` has one value per space, \[1.0\], but `privileged` has 2 spaces"),
    "other names": ({"privileged_gamma": {"x": 1.0, "y": 2.0}}, r"`privileged_gamma` .* the spaces of `privileged` are \[0, 1\]"),
    "not positive": ({"lam": [1.0, -1.0]}, "The 'lam' parameter of SVMPlus must be .* for each space; got -1.0 for the space 1"),
    "no kernel": ({"privileged_kernel": ["rbf", "gauss"]}, "The 'privileged_kernel' parameter .* got 'gauss' for the space 1"),
    "matrix and table": ({"privileged_kernel": ["rbf", "precomputed"]}, r"`privileged\[1\]` has shape .* must be square"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_parameters_that_do_not_fit_the_spaces(case):
    X, y, first, second = spaces()
    options, words = WRONG[case]
    with pytest.raises(ValueError, match=words):
        SVMPlus(**options).fit(X, y, privileged=[first, second])


def test_other_errors_name_the_argument():
    X, y, first, second = spaces()
    with pytest.raises(ValueError, match=r"`lam` has one value per space, .* but `privileged` is one table"):
        SVMPlus(lam=[1.0, 2.0]).fit(X, y, privileged=first)
    with pytest.raises(ValueError, match=r"`privileged\['b'\]` has 30 rows, but `X` has 36 examples"):
        SVMPlus().fit(X, y, privileged={"a": first, "b": second[:30]})
    model = SVMPlus().fit(X, y, privileged={"a": first, "b": second})
    with pytest.raises(ValueError, match=r"spaces of `privileged` were \['a', 'b'\] in fit, and are \[0, 1\] here"):
        model.correcting_function([first, second])
    with pytest.raises(ValueError, match=r"`privileged\['b'\]` has 2 features, but SVMPlus was fitted with 4"):
        model.correcting_function({"a": first, "b": second[:, :2]})


def test_parameters_per_space_do_no_harm_without_privileged_features():
    X, y, _, _ = spaces()
    plain = SVMPlus(lam=[1.0, 2.0], privileged_kernel=["rbf", "linear"]).fit(X, y)
    assert_allclose(plain.decision_function(X), SVMPlus().fit(X, y).decision_function(X))


def test_files_hold_how_spaces_were_put_together(tmp_path):
    X, y, first, second = spaces(11)
    for kernel in ("linear", ["rbf", "poly"]):
        model = SVMPlus(privileged_kernel=kernel).fit(X, y, privileged={"a": first, "b": second})
        lupi.save(model, tmp_path / "m", keep_privileged=True)
        again = lupi.load(tmp_path / "m")
        assert_allclose(again.predict(X), model.predict(X))
        given = {"a": first, "b": second}
        assert_allclose(again.correcting_function(given), model.correcting_function(given))
