"""A short attack on the rows of a table in other files; `attack.harness` documents the long one."""

import pytest
from attack.harness import Finding, run

pytest.importorskip("pandas")
from attack.other_files import TARGETS

from lupi.tabular.table import Schema


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_the_same_rows_in_another_file_have_the_same_predictions(target):
    assert run(target, cases=15, count_lines=False).ends["same"] > 2


def test_the_attack_sees_a_table_that_is_read_by_its_own_schema(monkeypatch):
    parse = Schema.parse
    monkeypatch.setattr(
        Schema, "parse", lambda self, table, odd=None: parse(Schema.learn(table[list(self.columns)]), table, odd)
    )
    with pytest.raises(Finding):
        run(TARGETS[0], cases=200, count_lines=False)
