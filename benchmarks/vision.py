"""Image files to visual words: overhead around SURF, and gain of the cache."""

from __future__ import annotations

import os
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

import numpy as np
from joblib.externals.loky import get_reusable_executor

from benchmarks.measure import Row, case, cpu_time
from lupi.vision import BagOfVisualWords, read_image


def photographs(folder, n, shape=(375, 500)):
    """JPEG files of noise on several scales, with about as many interest points as photographs."""
    from PIL import Image

    paths = []
    for seed in range(n):
        rng = np.random.RandomState(seed)
        total = np.zeros(shape)
        for size, weight in ((4, 10), (8, 20), (16, 30), (48, 40)):
            small = rng.normal(size=[-(-s // size) for s in shape])
            total += weight * np.kron(small, np.ones((size, size)))[: shape[0], : shape[1]]
        paths.append(f"{folder}/{seed:04}.jpg")
        Image.fromarray(np.clip(128 + total, 0, 255).astype(np.uint8)).save(paths[-1], quality=85)
    return paths


def time_with_workers(function):
    """Seconds by the clock, and CPU seconds of this process and of the joblib workers that the function starts."""
    get_reusable_executor().shutdown(wait=True)
    cpu, clock = _cpu_seconds(), perf_counter()
    function()
    clock = perf_counter() - clock
    # The CPU time of a worker is added to that of this process when the worker ends.
    get_reusable_executor().shutdown(wait=True)
    return clock, _cpu_seconds() - cpu


def _cpu_seconds():
    times = os.times()
    return process_time() + times.children_user + times.children_system


@case("vision-extraction", "SURF words of image files in two processes beside mahotas' SURF alone, and from the cache")
def extraction(quick):
    from mahotas.features import surf

    n, words = (6, 100) if quick else (1000, 1000)
    with TemporaryDirectory() as folder:
        paths = photographs(folder, n)
        images = [read_image(path) for path in paths]
        surf.surf(images[0])
        alone = time_with_workers(lambda: [surf.surf(image) for image in images])
        bag = BagOfVisualWords(words, random_state=0).fit(paths[: 2 if quick else 20])
        bag.set_params(cache=f"{folder}/cache", n_jobs=2)
        first = time_with_workers(lambda: bag.transform(paths))
        second = time_with_workers(lambda: bag.transform(paths))
    what = f"{n} images 375 x 500, {words} words"
    busy = f"{100 * first[1] / (2 * first[0]):.0f}% of two cores busy"
    return [
        Row(f"{what}; CPU time", first[1], "mahotas SURF alone", alone[1], target="ratio >= 0.91"),
        Row(f"{what}; by the clock", first[0], "half of mahotas SURF alone", alone[0] / 2, note=busy),
        Row("the same from the cache; CPU time", second[1], "first run", first[1], target=">= 20x"),
    ]


@case("vision-vocabulary", "Vocabulary of 3000 words from 200,000 generated descriptors")
def vocabulary(quick):
    n, words = (4000, 50) if quick else (200_000, 3000)
    rng = np.random.RandomState(0)
    descriptors = rng.normal(size=(n, 64)).astype(np.float32)
    descriptors /= np.linalg.norm(descriptors, axis=1, keepdims=True)
    bag = BagOfVisualWords(words)
    timing = cpu_time(lambda: bag._cluster(descriptors, np.random.RandomState(0)), repeats=1, warmup=False)
    return [Row(f"{words} words, {n} descriptors of 64 numbers, 5 passes", timing.seconds)]
