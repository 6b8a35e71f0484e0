"""A fit reads like the architecture: few files, always downward, never back and forth between base class and subclass."""

import pytest
from house import walk

from lupi import SVM2K, OneClassSVMPlus, RankTransfer, StructuralSVMPlus, SVM2Plus, SVMPlus
from lupi.datasets import make_privileged
from lupi.structured import Multiclass

X, Y, Z = make_privileged(60, random_state=0, return_X_y_privileged=True)


@pytest.mark.parametrize("make", [SVM2Plus, SVMPlus])
def test_the_way_of_a_classifiers_fit(make):
    way = walk(lambda: make().fit(X, Y, privileged=Z), warm=True)
    assert f"estimators/{make.__module__.split('.')[-1]}.py" == way.files[0]
    assert len(way.files) <= 10, way.files
    assert way.upward == []
    assert way.bounces == []


@pytest.mark.parametrize(
    "fit", [lambda: SVM2K().fit(X, Y, privileged=Z), lambda: OneClassSVMPlus().fit(X, privileged=Z)]
)
def test_other_kernel_machines_go_one_way_too(fit):
    """Their problems need the interior point: two more files."""
    way = walk(fit, warm=True)
    assert len(way.files) <= 12, way.files
    assert way.upward == way.bounces == []


@pytest.mark.filterwarnings("ignore:RankTransfer. the teacher")
def test_the_way_of_a_rankers_fit():
    """Teacher and student take the same way."""
    way = walk(lambda: RankTransfer().fit(X, Y, privileged=Z), warm=True)
    assert way.files[0] == "estimators/rank_transfer.py"
    assert len(way.files) <= 8, way.files
    assert way.upward == way.bounces == []


@pytest.mark.parametrize("several", [False, True])
def test_the_way_of_a_structured_fit(several):
    """Tasks, searches and solvers of structured outputs lie side by side."""
    tasks = [Multiclass(2, Z.shape[1])] * 2 if several else Multiclass(2, Z.shape[1])
    model = StructuralSVMPlus(Multiclass(2, X.shape[1]), tasks)
    way = walk(lambda: model.fit(X, Y, privileged=[Z, Z] if several else Z), warm=True)
    assert way.files[0] == "structured/structural_svm.py"
    assert len(way.files) <= 12, way.files
    assert way.upward == way.bounces == []


def test_a_way_upward_and_a_bounce_are_seen():
    """By an estimator whose base class calls it, and a kernel function that is itself a fit."""
    from lupi.svm.kernel_machine import KernelMachine

    class Template(SVM2Plus):
        def _store_privileged(self, *args):
            return super()._store_privileged(*args)

    code = Template._store_privileged.__code__
    Template._store_privileged.__code__ = code.replace(
        co_filename=KernelMachine._store_privileged.__code__.co_filename, co_qualname="Template._store_privileged"
    )

    def upward(A, B):
        OneClassSVMPlus().fit(X[:5])
        return A @ B.T

    way = walk(lambda: Template(kernel=upward).fit(X, Y, privileged=Z))
    assert ("kernels/space.py", "estimators/one_class_svm_plus.py") in way.upward
    assert ("KernelMachine._store_functions", "Template._store_privileged") in way.bounces


def test_the_way_of_a_comparison(tmp_path, monkeypatch):
    """read -> problem -> plan -> units -> results -> verdict -> terminal and page, with one method, its fit included.

    `run.py` calls the functions that it is handed: the fit of a unit and the report of progress. These callbacks are the only
    steps upward; those inside a fit are counted by the walks of the estimators.
    """
    from typer.testing import CliRunner

    from lupi.cli import app

    pytest.importorskip("pandas")
    pytest.importorskip("jinja2")
    monkeypatch.chdir(tmp_path)
    make_privileged(60, random_state=0, as_frame=True).frame.to_csv("table.csv", index=False)
    named = {"target": "target", "privileged": "z*", "methods": "svm2+", "baselines": "none"}
    numbers = {"splits": 2, "permutations": 2, "jobs": 1}
    options = [word for name, value in (named | numbers).items() for word in (f"--{name}", str(value))]
    way = walk(lambda: CliRunner().invoke(app, ["compare", "table.csv", *options], catch_exceptions=False))
    assert (tmp_path / "lupi-report" / "report.html").exists()  # the whole way
    families = ("svm/", "kernels/", "inputs/", "solution.py")
    assert len([file for file in way.files if not file.startswith(families)]) <= 26, sorted(way.files)
    assert way.files[0] == "cli/shared.py"
    callbacks = {("run.py", "comparison/units.py"), ("run.py", "comparison/comparison.py")}
    assert {step for step in way.upward if not step[0].startswith(families)} <= callbacks
    assert way.bounces == []
