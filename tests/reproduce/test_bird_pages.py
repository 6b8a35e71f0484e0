"""Every figure on the pages about birds, recomputed from the stored scores of single draws."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def stored(name):
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def page(name):
    """The page in one line: sentences may be wrapped."""
    return " ".join((RESULTS / f"{name}.md").read_text(encoding="utf-8").split())


def table_line(name, start, section=""):
    """The rest of the line that starts so, in the section of this heading."""
    _, _, text = (RESULTS / f"{name}.md").read_text(encoding="utf-8").partition(section or "# ")
    lines = text.splitlines()
    return next(line[len(start) :] for line in lines if line.startswith(f"{start}  "))


def figure(values, sign=""):
    values = np.asarray(values)
    return f"{values.mean():{sign}.1f} ± {values.std(ddof=1) / np.sqrt(len(values)):.1f}"


def cells(line):
    return re.findall(r"[+-]?\d+\.\d ± \d+\.\d", line)


def test_table_of_the_geometry():
    result = stored("feyereisl-geometry")
    (size,) = result["sizes"]
    units, n = result["units"], size["n"]
    seeds = range(size["rows"][0]["seeds"])
    of = {row["arm"]: [units[f"{n}/{seed}/{row['arm']}"] for seed in seeds] for row in size["rows"]}
    plain = np.array([unit["mean_overlap"] for unit in of["SSVM, 16 values of C"]])
    constant = np.array([unit["mean_overlap"] for unit in of["mean box"]])
    for arm, own in of.items():
        overlap = np.array([unit["mean_overlap"] for unit in own])
        expected = [
            figure(100 * overlap),
            figure([100 * unit["detection_rate"] for unit in own]),
            figure(100 * (overlap - constant), "+"),
            figure(100 * (overlap - plain), "+"),
        ]
        assert cells(table_line("feyereisl-table1", arm)) == expected
        np.testing.assert_allclose([unit["ahead"]["difference"] for unit in own], overlap - constant, atol=1e-12)
    placed = of["SSVM, 16 values of C + geometry"]
    ahead = [f"{100 * u['ahead']['difference']:.1f} ± {100 * u['ahead']['standard_error']:.1f}" for u in placed]
    assert f"by {ahead[0]} points of overlap in the first draw and {ahead[1]} in the second" in page("feyereisl-table1")
    assert all(unit["ahead"]["difference"] > 5 * unit["ahead"]["standard_error"] for unit in placed)
    share = round(100 * np.mean([unit["detection_rate"] for unit in placed]))
    assert f"{share}% of the birds are found" in page("feyereisl-table1")
    vision = " ".join((RESULTS.parent / "vision.md").read_text(encoding="utf-8").split())
    three = [figure([100 * unit["mean_overlap"] for unit in own]) for own in of.values()]
    assert f"reaches {three[1]} percent, one constant box {three[0]}, and the same SSVM" in vision
    assert f"`geometry=True` {three[2]}: it is ahead of the constant box by {ahead[0]} and {ahead[1]} points" in vision
    index = (RESULTS / "README.md").read_text(encoding="utf-8")
    means = [f"{100 * np.mean([unit['mean_overlap'] for unit in own]):.1f}%" for own in of.values()]
    assert (
        f"words alone {means[1]}, one constant box {means[0]}, words with the geometry of the box {means[2]}" in index
    )


def test_table_at_14_images():
    result = stored("feyereisl-table1")
    (size,) = result["sizes"]
    rows = {row["arm"]: row for row in size["rows"]}
    plain = np.array(rows["SSVM"]["overlap"]["values"])
    for arm, row in rows.items():
        overlap = np.array(row["overlap"]["values"])
        own = [result["units"][f"14/{seed}/{arm}"] for seed in range(5)]
        np.testing.assert_allclose(overlap, [100 * unit["overlap"] for unit in own])
        detected = [100 * unit["detected"] for unit in own]
        expected = [figure(overlap), figure(detected), figure(overlap - plain, "+")]
        assert cells(table_line("feyereisl-table1", arm, "## The table at n = 14")) == expected
    for right, wrong in (
        ("SSVM+, masks", "SSVM+, masks of others"),
        ("SSVM+, masks + attributes", "SSVM+, both of others"),
    ):
        difference = np.array(rows[right]["overlap"]["values"]) - rows[wrong]["overlap"]["values"]
        assert f"{right} minus {wrong}: {figure(difference, '+')} points" in page("feyereisl-table1")
    ahead = sum(row["overlap"] > 0 for row in size["classes"])
    assert f"ahead in {ahead} of {len(size['classes'])} classes" in page("feyereisl-table1")


def test_table_of_sun():
    result = stored("sun-table2")
    units = result["units"]
    for row in result["rows"]:
        overlap = np.array([100 * units[f"50/{seed}/{row['arm']}"]["mean_overlap"] for seed in range(5)])
        plain = np.array([100 * units[f"50/{seed}/JKSE"]["mean_overlap"] for seed in range(5)])
        expected = [figure(overlap), figure(row["detection"]["values"]), figure(overlap - plain, "+")]
        assert cells(table_line("sun-table2", row["arm"])) == expected
    for row in result["species"]:
        printed = cells(table_line("sun-table2", row["name"]))
        arms = ("JKSE", "JKSE+", "JKSE+, others' information")
        assert printed == [f"{row[arm]['mean']:.1f} ± {row[arm]['error']:.1f}" for arm in arms]
    equal = sum(units[f"50/{s}/JKSE"]["mean_overlap"] == units[f"50/{s}/JKSE+"]["mean_overlap"] for s in range(5))
    chosen = [units[f"50/{seed}/JKSE"]["params"] for seed in range(5)]
    assert f"exactly the overlap of JKSE in {equal} of 5 draws" in page("sun-table2")
    assert [c["nu"] for c in chosen] == [1e-4] * 5
    assert sum(c["gamma"] == 1e-4 for c in chosen) == 3
    assert f"equal in {equal} of 5 draws, with an end of the grid chosen in all 5" in page("README")


@pytest.mark.parametrize("name", ["feyereisl-table1", "sun-table2", "README"])
def test_pages_show_no_folder_of_a_machine(name):
    assert "/work/" not in page(name)
    assert "/tmp/" not in page(name)
