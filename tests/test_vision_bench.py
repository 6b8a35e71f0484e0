"""Benchmarks of images: they run, and their bookkeeping is right."""

import re
from time import process_time

import numpy as np
import pytest

from lupi.bench._cores import core_use
from lupi.bench.vision import cub, extraction, vocabulary
from lupi.bench.vision_cub import privileged_of, split, stretched, summary
from lupi.datasets._localization import localization_bunch
from lupi.vision.parallel import run_all


def test_quick_cases_run():
    cpu, clock, pair, cached = extraction(quick=True)
    assert cpu.peer == "mahotas SURF alone"
    assert 0 < cached.ours_seconds < cpu.ours_seconds
    assert clock.ours_seconds == pair.ours_seconds > 0
    assert re.search(r"[\d.]+ CPU s in [\d.]+ s: [\d.]+% of two cores busy", clock.note)
    assert vocabulary(quick=True)[0].ours_seconds > 0


def test_time_of_workers_counts():
    def spin(seconds):
        start = process_time()
        while process_time() - start < seconds:
            pass

    start = process_time()
    use = core_use(lambda: run_all(spin, [0.4, 0.4], n_jobs=2))
    # The system counts the time of ended processes in steps of 0.01 s.
    assert use.cpu_seconds >= 0.78
    # It was not this process that spun.
    assert process_time() - start < use.cpu_seconds - 0.7
    alone = core_use(lambda: spin(0.2))
    assert alone.cpu_seconds >= 0.2
    for run, most in ((use, 4), (alone, 1)):  # two workers, and two processes that clean up after them
        # Nobody waits longer than the run takes.
        assert run.waiting_seconds is None or 0 <= run.waiting_seconds <= most * run.wall_seconds + 0.1


def test_cub_without_data_says_what_to_set(monkeypatch):
    monkeypatch.delenv("LUPI_DATA", raising=False)
    (row,) = cub(quick=True)
    assert "LUPI_DATA" in row.what
    assert row.ours_seconds is None


@pytest.fixture
def data():
    names = ["1.Red_Vireo", "2.Gull", "3.Downy_Woodpecker", "4.Tern"]
    labels = np.repeat(np.arange(4), 10)
    masks = [np.eye(4, 6, k=i % 3, dtype=bool) for i in range(40)]
    return localization_bunch(
        list(range(40)), [None] * 40, masks=masks, attributes=np.eye(40, dtype=int), labels=labels, label_names=names
    )


def test_split(data):
    train, validation, test = split(data, per_class=3, seed=1, n_validation=12)
    assert sorted(data.labels[train]) == [0, 0, 0, 2, 2, 2]
    assert set(data.labels[validation]) <= {1, 3}
    assert sorted(np.concatenate([train, validation, test])) == list(range(40))


def test_shuffled_control_has_no_image_with_its_own_mask(data):
    train = np.arange(14)
    for seed in range(5):
        right = privileged_of(data, train, "ssvm+ masks and attributes", seed)["attributes"]
        wrong = privileged_of(data, train, "ssvm+ shuffled masks and attributes", seed)["attributes"]
        assert not (right == wrong).all(axis=1).any()
    assert privileged_of(data, train, "ssvm 16 values", 0) is None
    assert set(privileged_of(data, train, "ssvm+ shuffled", 0)) == {"masks"}


def test_stretching_and_summary():
    mask = np.array([[True, False], [False, True]])
    np.testing.assert_array_equal(stretched(mask, (4, 6)), np.kron(mask, np.ones((2, 3))).astype(bool))
    rows = [
        {"n": 14, "seed": seed, "arm": arm, "overlap": value, "detection": 0.5, "largest_gap": 0.01 * value}
        for arm, values in (("ssvm", (0.4, 0.5)), ("ssvm+ masks", (0.42, 0.54)))
        for seed, value in enumerate(values)
    ]
    plain, plus = summary(rows)
    assert plain["overlap"] == (45.0, 5.0)
    assert plus["overlap_difference"] == (3.0, 1.0)
    assert plus["largest_gap"] == pytest.approx(0.0054)
