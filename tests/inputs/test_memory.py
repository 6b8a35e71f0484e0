"""Memory is asked for before it is taken."""

import numpy as np
import pytest

from lupi import SVM2K, OneClassSVMPlus, SVMPlus
from lupi.inputs.memory import available_memory, require_memory
from lupi.kernels import fits

GIB = 2**30


def system(root, free_kb=8 * 2**20, group="0::/jobs/one", files=()):
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(f"MemTotal: 99999999 kB\nMemAvailable: {free_kb} kB\n")
    (root / "proc/self/cgroup").write_text(group + "\n")
    for name, content in files:
        (root / "sys/fs/cgroup" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "sys/fs/cgroup" / name).write_text(str(content))
    return root


def test_free_memory_of_the_machine(tmp_path):
    assert available_memory(system(tmp_path)) == 8 * GIB


def test_a_group_without_a_limit_changes_nothing(tmp_path):
    assert available_memory(system(tmp_path, files=[("jobs/one/memory.max", "max")])) == 8 * GIB


@pytest.mark.parametrize("folder", ["jobs/one", "jobs"])
def test_the_limit_of_a_group_or_of_one_around_it_counts(tmp_path, folder):
    files = [(f"{folder}/memory.max", 3 * GIB), (f"{folder}/memory.current", GIB)]
    assert available_memory(system(tmp_path, files=files)) == 2 * GIB


def test_limits_of_the_first_version_count(tmp_path):
    files = [("memory/box/memory.limit_in_bytes", 3 * GIB), ("memory/box/memory.usage_in_bytes", 2 * GIB)]
    assert available_memory(system(tmp_path, group="4:cpu,memory:/box", files=files)) == GIB


def test_a_system_that_does_not_say(tmp_path):
    assert available_memory(tmp_path) == np.inf


def test_the_error_says_how_much_why_and_what_to_do():
    with pytest.raises(
        MemoryError, match=r"a thing needs 1048576.0 GiB of memory, but only .* available; do without it"
    ):
        require_memory(2.0**50, "a thing", "do without it")


@pytest.fixture
def little(monkeypatch):
    """A machine on which a matrix of 100 x 100 is too much."""
    monkeypatch.setattr("lupi.kernels.space.ALWAYS_FREE", 0)
    for module in ("inputs.memory", "kernels.space"):
        monkeypatch.setattr(f"lupi.{module}.available_memory", lambda: 8.0 * 100 * 100)


def test_machines_that_need_the_matrix_explain(little):
    X = np.random.default_rng(0).normal(size=(120, 2))
    with pytest.raises(MemoryError, match=r"kernel matrix of `X` \(120 x 120\) needs .* use SVMPlus or SVM2Plus"):
        OneClassSVMPlus().fit(X, privileged=X)
    with pytest.raises(MemoryError, match="interior point's matrix"):
        SVM2K(solver="interior_point").fit(X, np.arange(120) % 2, privileged=X)


def test_a_solver_that_needs_the_matrix_names_the_one_that_does_not(little):
    X = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.raises(MemoryError, match=r"reference solver's matrix .* SVM2Plus with solver='auto'"):
        SVMPlus(solver="reference").fit(X, X[:, 0] > 0, privileged=X)


def test_a_matrix_beyond_memory_is_replaced_by_rows_on_demand(little):
    assert not fits(120, 200.0)
    X = np.random.default_rng(0).normal(size=(120, 2))
    y = (X[:, 0] > 0).astype(int)
    model = SVMPlus().fit(X, y, privileged=X)
    assert model.score(X, y) > 0.9
