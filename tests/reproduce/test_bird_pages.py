"""Every figure on the pages about birds, recomputed from the stored scores of single draws."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from lupi.reproduce._entry import paper_table

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
        assert cells(table_line("feyereisl-table1", arm, "## The localizer against one constant box")) == expected
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


def test_tables_of_all_sizes():
    result = stored("feyereisl-table1")
    _, _, text = (RESULTS / "feyereisl-table1.md").read_text(encoding="utf-8").partition("## The table\n")
    text = text.partition("\n## ")[0]
    shown = re.split(r"^n = (\d+), (\d+) test images, (\d+) draws\n", text, flags=re.MULTILINE)[1:]
    assert [int(n) for n in shown[::4]] == [size["n"] for size in result["sizes"]]
    for size, n_test, n_draws, section in zip(result["sizes"], shown[1::4], shown[2::4], shown[3::4]):
        of = units_of(result, size)
        assert all((len(own), own[0]["n_test"]) == (int(n_draws), int(n_test)) for own in of.values())
        overlaps = {arm: 100 * np.array([unit["mean_overlap"] for unit in own]) for arm, own in of.items()}
        for arm, own in of.items():
            line = next(line for line in section.splitlines() if line.startswith(f"{arm}  "))
            assert cells(line) == [
                figure(overlaps[arm]),
                figure([100 * unit["detection_rate"] for unit in own]),
                figure(overlaps[arm] - overlaps["mean box"], "+"),
                figure(overlaps[arm] - overlaps["SSVM"], "+"),
            ]
            assert int(line.split()[-1]) == sum(unit["unconverged"] for unit in own)
            assert line.split()[-2] == f"{max(unit['largest_gap'] for unit in own):.1g}"
        for end in ("", " + geometry"):
            right, wrong = f"SSVM+{end}", f"SSVM+, others' information{end}"
            difference = figure(overlaps[right] - overlaps[wrong], "+")
            assert f"{right} minus {wrong}: {difference} points of overlap" in section
        ahead = sum(row["overlap"] > 0 for row in size["classes"])
        assert f"ahead of SSVM in {ahead} of {len(size['classes'])} classes" in section
        weights = [row["images"] for row in size["classes"]]
        assert sum(weights) == sum(unit["n_test"] for unit in of["SSVM"])
        mean = np.average([row["overlap"] for row in size["classes"]], weights=weights)
        assert mean == pytest.approx((overlaps["SSVM+"] - overlaps["SSVM"]).mean(), abs=1e-9)


def units_of(result, size):
    """The units of each arm at one size, draw by draw."""
    rows, n = size["rows"], size["n"]
    return {row["arm"]: [result["units"][f"{n}/{seed}/{row['arm']}"] for seed in range(row["seeds"])] for row in rows}


def test_sentences_about_all_sizes():
    result = stored("feyereisl-table1")
    sizes = [units_of(result, size) for size in result["sizes"]]

    def minus(arm, base):
        pairs = [[[100 * unit["mean_overlap"] for unit in of[name]] for name in (arm, base)] for of in sizes]
        return ", ".join(figure(np.subtract(*pair), "+") for pair in pairs)

    others, fine, placed = "SSVM+, others' information", "SSVM, 16 values of C", "SSVM, 16 values of C + geometry"
    text = page("feyereisl-table1")
    for start, arm, base in (
        ("**SSVM+ minus SSVM**, by size: ", "SSVM+", "SSVM"),
        ("With the information of other birds: ", others, "SSVM"),
        ("as many candidates as SSVM+ has: ", fine, "SSVM"),
        ("minus the constant box: ", placed, "mean box"),
        ("geometry and as many candidates: ", "SSVM+ + geometry", placed),
        ("scale 20 with 16 values of C: ", "SSVM, 5 C x 3 scales + geometry", placed),
        ("Its overlap minus that of exact inference: ", "SSVM+, alternating", "SSVM+"),
        ("; with geometry ", "SSVM+, alternating + geometry", "SSVM+ + geometry"),
    ):
        assert start + minus(arm, base) in text, start
    printed = {int(row["n"]): row for row in paper_table("feyereisl_2014_table1")}
    gains = [printed[size["n"]] for size in result["sizes"]]
    gains = [f"{float(row['ssvm+_overlap']) - float(row['ssvm_overlap']):+.1f}" for row in gains]
    assert f"(paper {', '.join(gains)})" in text
    units = result["units"]
    missed = [units[name]["unconverged"] for name in units if "alternating" in name]
    # 16 candidates, and the best one fitted again.
    assert f"{sum(missed)} of its {17 * len(missed)} fits end above the gap of 0.01" in text
    assert not any(unit["unconverged"] for name, unit in units.items() if "alternating" not in name)
    minutes = sum(unit["seconds"] for unit in units.values()) / 60
    assert f"{minutes:.1f} minutes of processor time for the fits and tests" in text
    names = ", ".join(str(size["n"]) for size in result["sizes"])
    gains = [minus(arm, "SSVM") for arm in ("SSVM+", others, fine)]
    assert (
        f"n = {names}, 2 draws: SSVM+ minus SSVM {gains[0]}; with masks and attributes of other birds {gains[1]}; "
        f"SSVM with a grid of that size {gains[2]}"
    ) in page("README")


def test_table_at_14_images_with_the_full_grid():
    result = stored("feyereisl-table1-full-grid")
    (size,) = result["sizes"]
    rows = {row["arm"]: row for row in size["rows"]}
    plain = np.array(rows["SSVM"]["overlap"]["values"])
    for arm, row in rows.items():
        overlap = np.array(row["overlap"]["values"])
        own = [result["units"][f"14/{seed}/{arm}"] for seed in range(5)]
        np.testing.assert_allclose(overlap, [100 * unit["overlap"] for unit in own])
        detected = [100 * unit["detected"] for unit in own]
        expected = [figure(overlap), figure(detected), figure(overlap - plain, "+")]
        assert cells(table_line("feyereisl-table1", arm, "## n = 14 with the full grid")) == expected
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
