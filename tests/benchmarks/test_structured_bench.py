"""The benchmark cases of structured outputs, in their quick form."""

import pytest

from benchmarks._registry import load_cases


@pytest.mark.parametrize("name", ["structured-exact", "structured-training", "structured-passes"])
def test_case_gives_its_rows(name):
    rows = load_cases()[name].function(True)
    assert len(rows) >= 2
    if name == "structured-exact":
        assert [row.note.split(";")[0] for row in rows] == ["0 mismatches", "0 mismatches"]
    if name == "structured-training":
        assert all(row.gap <= 0.01 for row in rows)
    if name == "structured-passes":
        assert abs(rows[0].objective_difference) < 1e-3  # digits: both are at the optimum after 50 passes
