"""The code on the page about classifiers runs."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "classifiers.md"


def test_probabilities_of_an_svm():
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    names = {}
    exec(block, names)
    model, cancer = names["model"], names["cancer"]
    shares = model.predict_proba(names["table"][cancer.feature_names])
    # Calibrated: the mean probability of a class is about its share.
    assert abs(shares[:, 1].mean() - cancer.target.mean()) < 0.02
