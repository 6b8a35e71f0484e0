"""From image files to words: the price of everything around SURF, and what the cache saves."""

from benchmarks._registry import Row, case


def photographs(folder, n, shape=(375, 500)):
    """Noise on several scales, as JPEG files: about as many interest points as photographs have."""
    import numpy as np
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


def _surf_of_file(path):
    from mahotas.features import surf

    from lupi.vision import read_image

    return len(surf.surf(read_image(path)))


@case("vision-extraction", "SURF words of image files on two cores against mahotas' SURF alone, and from the cache")
def extraction(quick):
    """Reading, describing, storing, quantizing; targets: 10% over SURF alone, 95% of two cores; cache at least 20 times faster.

    Every run starts its own workers, and its time includes that. By the clock, figures mean something on a quiet machine only;
    the share of the cores with waiting added tells on any machine whether the program ever lets a core idle.
    """
    from tempfile import TemporaryDirectory

    from mahotas.features import surf

    from benchmarks._cores import core_use
    from lupi.engine.workers import run_anywhere
    from lupi.vision import BagOfVisualWords, read_image

    n, words = (6, 100) if quick else (1000, 1000)
    with TemporaryDirectory() as folder:
        paths = photographs(folder, n)
        surf.surf(read_image(paths[0]))
        gray = [read_image(path) for path in paths]
        alone = core_use(lambda: sum(len(surf.surf(image)) for image in gray))
        pair = core_use(lambda: list(run_anywhere(_surf_of_file, [(path,) for path in paths], n_jobs=2)))
        bag = BagOfVisualWords(words, random_state=0).fit(paths[: 2 if quick else 20])
        bag.set_params(cache=f"{folder}/cache", n_jobs=2)
        first = core_use(lambda: bag.transform(paths))
        second = core_use(lambda: bag.transform(paths))
    what = f"{n} images 375 x 500, {alone.value / n:.0f} points each, {words} words"
    clock = f"{what}; two processes, by the clock"
    return [
        Row(
            f"{what}; CPU time",
            first.cpu_seconds,
            peer="mahotas SURF alone",
            peer_seconds=alone.cpu_seconds,
            target="ratio to SURF alone >= 0.91",
        ),
        Row(
            clock,
            first.wall_seconds,
            peer="half of mahotas SURF alone in one process",
            peer_seconds=alone.wall_seconds / 2,
            target="95% of two cores busy",
            note=f"lupi took {_busy(first)}",
        ),
        Row(
            clock,
            first.wall_seconds,
            peer="reading and mahotas SURF in two processes",
            peer_seconds=pair.wall_seconds,
            note=f"took {_busy(pair)}",
        ),
        Row(
            "the same from the cache; CPU time",
            second.cpu_seconds,
            peer="first run",
            peer_seconds=first.cpu_seconds,
            target="from the cache >= 20x",
            note=f"by the clock: {first.wall_seconds / second.wall_seconds:.0f}x",
        ),
    ]


def _busy(use):
    text = f"{use.cpu_seconds:.1f} CPU s in {use.wall_seconds:.1f} s: {100 * use.busy(2):.1f}% of two cores busy"
    if use.waiting_seconds is None:
        return text
    return f"{text}; with {use.waiting_seconds:.1f} s of waiting for cores that others had: {100 * use.wanted(2):.1f}%"


@case("vision-vocabulary", "Mini-batch k-means with random initialization: 3000 words from 200k descriptors")
def vocabulary(quick):
    """Time of the vocabulary alone, on generated descriptors."""
    import numpy as np

    from benchmarks._registry import cpu_time
    from lupi.vision import BagOfVisualWords

    n, words = (4000, 50) if quick else (200_000, 3000)
    rng = np.random.RandomState(0)
    descriptors = rng.normal(size=(n, 64)).astype(np.float32)
    descriptors /= np.linalg.norm(descriptors, axis=1, keepdims=True)
    bag = BagOfVisualWords(words)
    timing = cpu_time(lambda: bag._cluster(descriptors, np.random.RandomState(0)), repeats=1, warmup=False)
    return [Row(f"{words} words, {n} descriptors of 64 numbers, {bag.max_epochs} passes", timing.seconds)]
