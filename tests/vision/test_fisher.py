"""Fisher vectors."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from vision_data import pictures

from lupi.vision import FisherVectors

IMAGES, BOXES, MASKS = pictures(12)


def test_vectors_tell_objects_from_background():
    inside = [image[b.top : b.bottom, b.left : b.right] for image, b in zip(IMAGES, BOXES)]
    outside = [image[:40, :40] if b.top > 40 or b.left > 40 else image[-40:, -40:] for image, b in zip(IMAGES, BOXES)]
    labels = np.repeat([1, 0], 12)
    fisher = FisherVectors(3, "dense", n_components=6, random_state=0, spacing=6)
    vectors = fisher.fit(inside + outside).transform(inside + outside)
    assert vectors.shape == (24, 3 * 13)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, rtol=1e-5)
    train = np.arange(24) % 2 == 0
    assert LogisticRegression(C=10).fit(vectors[train], labels[train]).score(vectors[~train], labels[~train]) > 0.9
    np.testing.assert_array_equal(
        clone(fisher).fit(inside + outside).transform(IMAGES[:2]), fisher.transform(IMAGES[:2])
    )


def test_unreadable_images_become_nan(tmp_path):
    fisher = FisherVectors(2, "dense", n_components=4, random_state=0, on_error="skip").fit(IMAGES[:3])
    with pytest.warns(UserWarning, match=r"gone\.png"):
        vectors = fisher.transform([IMAGES[0], tmp_path / "gone.png"])
    assert np.isnan(vectors).all(axis=1).tolist() == [False, True]
