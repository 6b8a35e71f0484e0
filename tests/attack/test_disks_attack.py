"""A short attack by full disks; `attack.harness` tells how to run the long one."""

import errno

import pytest

pytest.importorskip("resource")  # only where the system can limit the size of files
from attack.disks import TARGETS, Prepared, attack
from attack.harness import run


def test_nothing_is_lost_on_a_full_disk():
    counts = run(TARGETS[0], cases=20, count_lines=False)
    assert counts.ends["answered"] > 0
    assert counts.ends["OSError"] > 0


@pytest.mark.parametrize("what", ["model", "arrays"])
@pytest.mark.parametrize(
    ("number", "cause"), [(errno.ENOSPC, "No space left"), (errno.EROFS, "Read-only"), (errno.EACCES, "Permission")]
)
def test_the_cause_and_the_file_are_named(what, number, cause, tmp_path):
    with pytest.raises(OSError, match=f"{cause}.*{tmp_path}"):
        attack((what, "open", number, 0), Prepared(tmp_path))


def test_a_full_store_is_not_called_damaged(tmp_path):
    with pytest.raises(OSError, match=r"run\.sqlite: disk I/O error.*Finished results are kept"):
        attack(("results", "small", 0, 20_000), Prepared(tmp_path))
