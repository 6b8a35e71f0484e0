"""Figures of the result pages."""

from __future__ import annotations

import io

import numpy as np


def difference_bars(gains, controls, title):
    """SVG of sorted paired differences: a bar per task, a dot for its shuffled control."""
    from matplotlib.figure import Figure

    order = np.argsort(gains)[::-1]
    figure = Figure(figsize=(7.2, 2.6), layout="constrained")
    axes = figure.subplots()
    values = np.asarray(gains)[order]
    axes.bar(np.arange(len(values)), values, color=np.where(values > 0, "#1a7f5a", "#b5502f"))
    if controls is not None:
        axes.plot(np.arange(len(values)), np.asarray(controls)[order], "o", color="#666666", markersize=3)
    axes.axhline(0.0, color="#333333", linewidth=0.8)
    axes.set_xticks([])
    axes.set_ylabel("points")
    axes.set_title(title, fontsize=9)
    content = io.BytesIO()
    figure.savefig(content, format="svg", metadata={"Date": None})
    return content.getvalue()
