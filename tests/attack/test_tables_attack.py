"""A short attack on tables; `attack.harness` tells how to run the long one."""

import pytest
from attack.harness import run

pytest.importorskip("pandas")
from attack.tables import TARGETS, attack_text


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_tables_are_read_as_they_are_or_refused(target):
    counts = run(target, cases=30, count_lines=False)
    assert counts.ends["answered"] > 0


def test_the_attack_sees_a_value_under_another_name(tmp_path, monkeypatch):
    case = b"a,b\n1,2\n3,4\n", "t.csv"
    attack_text(case, tmp_path)
    import attack.tables

    right = attack.tables.read_file
    monkeypatch.setattr(attack.tables, "read_file", lambda path: right(path).set_axis(["b", "a"], axis=1))
    with pytest.raises(AssertionError, match="other names"):
        attack_text(case, tmp_path)
    monkeypatch.setattr(attack.tables, "read_file", lambda path: right(path).assign(a=[1, 4]))
    with pytest.raises(AssertionError):
        attack_text(case, tmp_path)
