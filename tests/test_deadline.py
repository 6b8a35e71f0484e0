"""Solvers that end in time, and compiled loops that come back to Python."""

import numpy as np
import pytest
from ranking_reference import hinge

from lupi.kernels import Kernel, make_space
from lupi.ranking import ranker
from lupi.ranking.pairwise import RankingProblem, plain_pairs
from lupi.solution import deadline, out_of_time, slices, steps_left
from lupi.structured import Multiclass
from lupi.structured import solvers as structured
from lupi.structured.multiclass import ClassExamples
from lupi.structured.oracle import Oracle
from lupi.svm import smo
from lupi.svm.auto import SOLVERS, solve
from lupi.svm.duals import svm_dual, svm_plus_dual
from lupi.svm.smo_loop import smo_loop

N = 60


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(N, 4)), rng.normal(size=(N, 2))
    y = np.where(X[:, 0] + Z[:, 0] + rng.normal(size=N) > 0, 1.0, -1.0)
    return X, y, Z


def problem_of(data, name):
    X, y, Z = data
    space = make_space(Kernel("rbf", gamma=0.3), X, 100)
    if name == "one_space":
        return svm_dual(space, y, np.full(N, 10.0))
    privileged = make_space(Kernel("rbf", gamma=0.3), Z, 100)
    return svm_plus_dual(space, privileged, y, np.full(N, 10.0), np.inf, False, np.ones(N, dtype=bool))


@pytest.mark.parametrize("name", ["one_space", "two_space"])
def test_slices_take_the_steps_of_one_run(data, name, monkeypatch):
    problem = problem_of(data, name)
    whole = smo.solve_smo(problem, tol=1e-6)
    asked = []

    def recorded(K, weight, slots, tol, max_iter, *memory):
        asked.append(max_iter)
        return smo_loop(K, weight, slots, tol, max_iter, *memory)

    monkeypatch.setattr(smo, "smo_loop", recorded)
    monkeypatch.setattr("lupi.solution.SLICE", 5 * 4 * N)
    sliced = smo.solve_smo(problem, tol=1e-6)
    assert len(asked) > 5
    assert max(asked) <= 10
    assert sliced.n_iter == whole.n_iter
    np.testing.assert_array_equal(sliced.point, whole.point)


def test_slices_add_up_to_the_limit_or_end_with_the_time():
    assert list(slices(100, work=1)) == [100]
    assert list(slices(0, work=1)) == [0]
    assert list(slices(7, work=10**9)) == [1] * 7
    with deadline(0.0):
        assert list(slices(7, work=10**9)) == [1]


def test_the_earlier_deadline_counts():
    with deadline(1000.0):
        with deadline(None):
            assert not out_of_time()
        with deadline(0.0):
            assert out_of_time()
            with deadline(1000.0):
                assert out_of_time()
        assert not out_of_time()


def test_a_deadline_ends_with_an_error():
    with pytest.raises(KeyError), deadline(0.0):
        raise KeyError
    assert not out_of_time()


def test_stages_share_the_iterations():
    assert steps_left(10, 12) == 0
    assert steps_left(10, 2, 20) == 8


@pytest.mark.parametrize("solver", sorted(set(SOLVERS["kernel"]) - {"reference"}))
@pytest.mark.parametrize("name", ["one_space", "two_space"])
def test_kernel_solvers_give_a_certified_point_when_time_is_over(data, name, solver, monkeypatch):
    monkeypatch.setattr("lupi.solution.SLICE", 5 * 4 * N)
    problem = problem_of(data, name)
    with deadline(0.0):
        solution = solve(problem, solver, tol=1e-9, max_iter=-1)
    assert not solution.converged
    assert not solution.in_time
    proof = problem.certificate(solution.point)
    best = solve(problem, "auto", tol=1e-9, max_iter=-1)
    assert best.converged
    assert best.in_time
    assert solution.lower_bound <= best.objective * (1 + 1e-9)
    assert proof.primal >= best.lower_bound * (1 - 1e-9)


@pytest.mark.parametrize("solver", ["newton", "coordinate"])
def test_rankers_give_a_certified_point_when_time_is_over(data, solver):
    X, y, _ = data
    problem = RankingProblem(X, plain_pairs(y, None), 1.0, "hinge")
    with deadline(0.0):
        solution = ranker.solve_ranking(problem, solver, tol=1e-9, max_iter=500)
    assert not solution.converged
    assert not solution.in_time
    assert solution.objective == pytest.approx(hinge(problem, solution.point)[0])


@pytest.mark.parametrize("solver", ["bcfw", "cutting_plane", "n_slack"])
def test_structural_solvers_give_a_certified_point_when_time_is_over(data, solver):
    X, y, _ = data
    examples = ClassExamples([Multiclass(2, 4)], [X], [np.ones(N, dtype=bool)], (y > 0).astype(int), [1.0])
    problem = Oracle(examples, C=10.0)
    with deadline(0.0):
        solution = structured.solve_structured(problem, solver, tol=1e-9, max_iter=500)
    assert not solution.converged
    assert not solution.in_time
    assert solution.n_iter == 1
    assert solution.objective == pytest.approx(problem.primal(solution.point, problem.search(solution.point)))


@pytest.mark.parametrize("stopped", [KeyboardInterrupt, SystemExit])
def test_ctrl_c_while_compiled_code_returns_is_ctrl_c(stopped):
    """Numba makes a SystemError of it, an Exception, which `GridSearchCV` would take for a fit that failed."""
    inner = SystemError("returned a result with an exception set")
    inner.__cause__ = stopped()
    with pytest.raises(stopped), deadline(None):
        raise SystemError("returned a result with an exception set") from inner
    with pytest.raises(SystemError, match="another"), deadline(None):
        raise SystemError("another")
