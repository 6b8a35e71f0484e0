"""The cases of linear kernels run, at toy sizes, and certify what they time."""

import pytest

from benchmarks import linear, shapes


@pytest.mark.parametrize("case", [linear.linear_million, linear.linear_growth, linear.linear_sparse])
def test_quick_cases_certify_their_fits(case):
    rows = case(True)
    assert rows
    for row in rows:
        assert row.ours_seconds > 0
        assert row.peer_seconds > 0
        assert row.gap <= 1e-2


def test_components_say_what_they_miss():
    (row,) = linear.components_million(True)
    assert row.gap <= 1e-3
    assert "share of the trace missed: 0." in row.note


@pytest.mark.parametrize("case", [shapes.linear_shapes, shapes.rbf_shapes])
def test_shapes_name_the_best_solver_or_say_that_none_was_quicker(case):
    rows = case(True)
    assert [row.what.split()[0] for row in rows] == ["SVMPlus", "SVMPlus", "SVM2Plus", "SVM2Plus"]
    for row, plain in zip(rows[::2], rows[1::2]):
        assert plain.peer == "SVC one-vs-rest on X"
        assert plain.ours_seconds == row.ours_seconds
        assert plain.peer_seconds > 0
        assert row.gap <= 1e-2
        assert (row.peer_seconds is None) == row.note.startswith("no other solver")


def test_rows_like_those_of_documents():
    X, y, Z = linear.sparse_data(50, 30, 4, 6)
    assert X.shape == (50, 30)
    assert X.nnz <= 50 * 6
    assert X.multiply(X).sum(axis=1) == pytest.approx(1.0)
    assert set(y) == {-1, 1}
    assert Z.shape == (50, 4)
