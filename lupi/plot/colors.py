"""The colors of all figures, by meaning: `real` is a gain, `s1` to `s10` are lines of a chart."""

_COLORS = {  # light, dark, print
    "paper": ("#ffffff", "#12161c", "#ffffff"),
    "ink": ("#1c2128", "#e6edf3", "#000000"),
    "soft": ("#57606a", "#a5b0bb", "#444444"),
    "rule": ("#d0d7de", "#39424e", "#bbbbbb"),
    "panel": ("#f4f6f8", "#1c232c", "#f4f4f4"),
    "real": ("#1b6ca8", "#6cb6ff", "#1b6ca8"),
    "shuffled": ("#6e7781", "#8b949e", "#6e7781"),
    "negative": ("#b3541e", "#f0a06a", "#b3541e"),
    "good": ("#1a6e34", "#6fdd8b", "#1a6e34"),
    "bad": ("#a4161a", "#ff8f8f", "#a4161a"),
    "doubt": ("#7d5700", "#e3c55b", "#7d5700"),
    "s1": ("#1b6ca8", "#6cb6ff", "#1b6ca8"),
    "s2": ("#b3541e", "#f0a06a", "#b3541e"),
    "s3": ("#1a6e34", "#6fdd8b", "#1a6e34"),
    "s4": ("#7b3fa0", "#d2a8ff", "#7b3fa0"),
    "s5": ("#8a6d00", "#e3c55b", "#8a6d00"),
    "s6": ("#00707a", "#56d4dd", "#00707a"),
    "s7": ("#a4161a", "#ff8f8f", "#a4161a"),
    "s8": ("#57606a", "#a5b0bb", "#57606a"),
    "s9": ("#c2387e", "#ff9bce", "#c2387e"),
    "s10": ("#3d4aa5", "#a3b1ff", "#3d4aa5"),
}
COLORS = {
    scheme: {name: found[k] for name, found in _COLORS.items()} for k, scheme in enumerate(("light", "dark", "print"))
}
LIGHT = COLORS["light"]


def css_variables(scheme: str) -> str:
    """Colors of a scheme as variables of a style sheet.

    Examples
    --------
    >>> css_variables("light")[:17]
    '--paper: #ffffff;'
    """
    return " ".join(f"--{name}: {color};" for name, color in COLORS[scheme].items())
