"""What a report says about protocol, data and environment, so that the run can be repeated."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from lupi import __version__
from lupi.comparison.metrics import METRICS
from lupi.validation import is_frame

PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "joblib", "pandas")


def protocol_facts(protocol):
    """The protocol as a plain dictionary."""
    return {
        "metric": protocol.metric,
        "metric_title": METRICS[protocol.metric].title,
        "n_splits": protocol.n_splits,
        "train_sizes": list(protocol.train_sizes),
        "inner_folds": protocol.inner_folds,
        "kernel": protocol.kernel,
        "seed": protocol.seed,
        "max_test": protocol.max_test,
        "standardize": protocol.standardize,
        "balanced": protocol.balanced,
        "grids": {name: {key: list(values) for key, values in grid} for name, grid in protocol.grids},
    }


def data_facts(X, privileged, data, classes, digest):
    """Sizes, names and classes of the data, and their SHA-256."""
    names = [[str(c) for c in table.columns] if is_frame(table) else None for table in (X, privileged)]
    return {
        "rows": len(data.y),
        "features": data.X.shape[1],
        "privileged": data.privileged.shape[1],
        "feature_names": names[0],
        "privileged_names": names[1],
        "classes": None if classes is None else [str(c) for c in classes],
        "class_counts": None if classes is None else np.bincount(data.y).tolist(),
        "groups": None if data.groups is None else int(data.groups.max()) + 1,
        "sha256": digest,
    }


def environment():
    """Versions, for the report.

    Returns
    -------
    dict
    """
    versions = {"lupi": __version__}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "packages": versions,
    }
