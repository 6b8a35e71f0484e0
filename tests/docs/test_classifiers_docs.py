"""The code on the page about classifiers runs."""

import re
from pathlib import Path

from lupi.datasets import make_privileged

PAGE = Path(__file__).parents[2] / "docs" / "classifiers.md"


def run(word, **names):
    """The names that the page's block with that word leaves behind."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    (block,) = (block for block in blocks if word in block)
    exec(block, names)
    return names


def test_probabilities_of_an_svm():
    names = run("CalibratedClassifierCV")
    model, cancer = names["model"], names["cancer"]
    shares = model.predict_proba(names["table"][cancer.feature_names])
    # Calibrated: the mean probability of a class is about its share.
    assert abs(shares[:, 1].mean() - cancer.target.mean()) < 0.02


def test_landmarks():
    X, y, Z = make_privileged(400, random_state=0, return_X_y_privileged=True)
    model = run("n_components", X=X, y=y, Z=Z)["model"]
    assert model.dual_gap_ < 1e-2
    assert 0 <= model.approximation_error_ < 1
    assert 0 <= model.privileged_approximation_error_ < 1
