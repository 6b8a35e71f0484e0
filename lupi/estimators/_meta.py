"""What the meta-estimators around any scikit-learn estimator share."""

from copy import deepcopy

from sklearn.utils import get_tags


def has_method(method):
    """Whether the wrapped estimator has a method, as the condition of ``available_if``."""

    def check(self):
        getattr(getattr(self, "estimator_", self.estimator), method)
        return True

    return check


def delegated_tags(meta, tags):
    """Tags of the wrapped estimator, so that a wrapped classifier is a classifier."""
    inner = get_tags(meta.estimator)
    tags.estimator_type = inner.estimator_type
    tags.classifier_tags = deepcopy(inner.classifier_tags)
    tags.regressor_tags = deepcopy(inner.regressor_tags)
    tags.target_tags = deepcopy(inner.target_tags)
    tags.target_tags.multi_output = False  # one target, whatever the wrapped estimator could do
    tags.input_tags.sparse = inner.input_tags.sparse
    return tags
