"""From image files to words: the price of everything around SURF, and what the cache saves."""

from lupi.bench._registry import Row, case


def _photographs(folder, n, shape=(375, 500)):
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


@case("vision-extraction", "SURF words of image files against mahotas' SURF alone, and from the cache")
def extraction(quick):
    """CPU seconds of reading, describing, storing and quantizing; target: 10% over SURF alone; cache at least 20 times faster."""
    from tempfile import TemporaryDirectory
    from time import perf_counter, process_time

    from mahotas.features import surf

    from lupi.vision import BagOfVisualWords, read_image

    n = 6 if quick else 100
    with TemporaryDirectory() as folder:
        paths = _photographs(folder, n)
        grey = [read_image(path) for path in paths]
        surf.surf(grey[0])
        start = process_time()
        points = sum(len(surf.surf(image)) for image in grey)
        alone = process_time() - start
        bag = BagOfVisualWords(100, random_state=0).fit(paths[:2])
        bag.set_params(cache=f"{folder}/cache", n_jobs=2)
        clock, start = perf_counter(), process_time()
        bag.transform(paths)
        first, first_clock = process_time() - start, perf_counter() - clock
        clock, start = perf_counter(), process_time()
        bag.transform(paths)
        second, second_clock = process_time() - start, perf_counter() - clock
    busy = f"two threads: {first_clock:.1f} s by the clock, {100 * first / first_clock / 2:.0f}% of two cores"
    return [
        Row(
            f"{n} images 375 x 500, {points / n:.0f} points each",
            first,
            peer="mahotas SURF alone",
            peer_seconds=alone,
            target="ratio >= 0.91",
            note=busy,
        ),
        Row(
            "the same from the cache",
            second,
            peer="first run",
            peer_seconds=first,
            target=">= 20x",
            note=f"by the clock: {first_clock / second_clock:.0f}x",
        ),
    ]


@case("vision-vocabulary", "Mini-batch k-means with random initialization: 3000 words from 200k descriptors")
def vocabulary(quick):
    """Time of the vocabulary alone, on generated descriptors."""
    import numpy as np

    from lupi.bench._registry import cpu_time
    from lupi.vision import BagOfVisualWords

    n, words = (4000, 50) if quick else (200_000, 3000)
    rng = np.random.RandomState(0)
    descriptors = rng.normal(size=(n, 64)).astype(np.float32)
    descriptors /= np.linalg.norm(descriptors, axis=1, keepdims=True)
    bag = BagOfVisualWords(words)
    timing = cpu_time(lambda: bag._cluster(descriptors, np.random.RandomState(0)), repeats=1, warmup=False)
    return [Row(f"{words} words, {n} descriptors of 64 numbers, {bag.max_epochs} passes", timing.seconds)]
