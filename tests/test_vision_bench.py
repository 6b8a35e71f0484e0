"""Benchmarks of images: they run."""

from lupi.bench.vision import extraction, vocabulary


def test_quick_cases_run():
    first, second = extraction(quick=True)
    assert first.peer == "mahotas SURF alone"
    assert 0 < second.ours_seconds < first.ours_seconds
    assert vocabulary(quick=True)[0].ours_seconds > 0
