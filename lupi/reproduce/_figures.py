"""Pictures of the papers' figures."""

from __future__ import annotations

GAIN, LOSS, CONTROL = "#2a7f3f", "#b5382b", "#8a8a8a"


def difference_bars(differences, controls, unit, path):
    """One panel for each comparison: a bar for each task, sorted, with its shuffled control as a dot.

    Parameters
    ----------
    differences : dict of str to list of float
        Title of each panel and the difference for each task.
    controls : dict of str to list of float
        The same with shuffled privileged features.
    unit : str
        What is measured, for the axis.
    path : path-like
        Where the picture goes.

    Returns
    -------
    bool
        False if matplotlib is not installed, and nothing was drawn.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure = Figure(figsize=(5.2 * len(differences), 4.2), layout="constrained")
    panels = figure.subplots(1, len(differences), squeeze=False, sharey=True)[0]
    for panel, (title, values) in zip(panels, differences.items()):
        order = sorted(range(len(values)), key=lambda k: -values[k])
        heights = [values[k] for k in order]
        panel.bar(range(len(order)), heights, color=[GAIN if h > 0 else LOSS for h in heights], width=0.8)
        dots = [controls[title][k] for k in order]
        panel.plot(range(len(order)), dots, "o", ms=3.5, color=CONTROL, label="shuffled control")
        panel.axhline(0, color="black", lw=0.8)
        wins = sum(h > 0 for h in heights)
        panel.set_title(
            f"{title}\nabove in {wins} of {len(heights)}; shuffled in {sum(d > 0 for d in dots)}", fontsize=10
        )
        panel.set_xticks([])
        panel.set_xlabel("tasks, sorted")
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel(f"difference in {unit}")
    panels[0].legend(frameon=False, loc="lower left", fontsize=9)
    figure.savefig(path, dpi=130, metadata={"Software": None})
    return True
