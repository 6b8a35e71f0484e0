"""The terminal: every number and mark at any width, names that look like markup, terminals without Unicode."""

import io
import re

import pytest
from rich.console import Console
from summaries import ANSWERS, summary, with_every_outcome

from lupi.comparison.report import LEGEND, MARKS, TerminalTable
from lupi.comparison.verdict import p_value, percent, signed

LONG = "surrogate {}, boosted, with a rather long name, labeled rows only"


def shown(made, width, encoding="utf-8", verdict=True):
    bytes_ = io.BytesIO()
    with io.TextIOWrapper(bytes_, encoding=encoding, errors="strict") as file:
        Console(file=file, width=width).print(TerminalTable(made, verdict))
        file.flush()
        return bytes_.getvalue().decode(encoding)


def squeezed(text):
    return re.sub(r"\s+", "", text)


def figures(row):
    """What has to be seen of a row, in this order."""
    yield f"{percent(row['mean'])} ± {percent(row['error'])}"
    if row["outcome"]:
        yield from (signed(row[part]["mean"]) for part in ("gain", "over_best_baseline", "shuffled_gain"))
        yield p_value(row["p"])


@pytest.mark.parametrize("width", [24, 40, 60, 80, 100, 250])
def test_every_number_and_mark_is_there(width):
    made = with_every_outcome(LONG)
    text = shown(made, width)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    place = 0
    for size in made["sizes"]:
        place = text.index("With", place)
        assert squeezed(text[place:]).startswith(f"With{size['train_size']}labeledtrainingrows")
        for row in size["methods"]:
            for figure in figures(row):
                place = text.index(figure, place) + len(figure)
    for mark, _ in MARKS.values():
        assert text.split("gain: over")[0].count(mark) >= len(made["sizes"])
    assert squeezed(LEGEND) in squeezed(text)


def test_a_line_of_80_columns_has_name_figures_and_mark():
    made = with_every_outcome()
    lines = shown(made, 80).splitlines()
    for row in made["sizes"][-1]["methods"]:
        if row["outcome"]:
            wanted = [row["title"], *figures(row), MARKS[row["outcome"]][0]]
            assert any(re.fullmatch(r"\s*" + r"\s+".join(map(re.escape, wanted)) + r"\s*", line) for line in lines), (
                wanted
            )


@pytest.mark.parametrize("answer", ANSWERS)
def test_answer_notes_and_actions(answer):
    made = summary(answer)
    for width in (30, 80):
        text = squeezed(shown(made, width).replace("\n- ", "\n"))
        assert squeezed(f"{answer.upper()} {made['verdict']['text']}") in text
        for words in (*made["verdict"]["notes"], *made["verdict"]["actions"]):
            assert squeezed(words) in text
    assert squeezed(made["verdict"]["text"]) not in squeezed(shown(made, 80, verdict=False))


def test_unlabeled_rows_are_in_the_heading():
    assert "With 40 labeled and 200 unlabeled training rows, tested on 160" in " ".join(
        shown(summary("unclear"), 80).split()
    )


def test_names_that_look_like_markup_are_shown_as_they_are():
    name = "[red]{}[/red] [/] :smile:"
    text = shown(with_every_outcome(name), 100)
    assert name.format(3) in text


def test_failed_fits_are_said():
    made = summary("yes")
    made["sizes"][-1]["methods"][0] |= {"failed": 3, "mean": None, "error": None}
    assert "3 failed" in shown(made, 80)


def test_terminal_without_unicode():
    made = with_every_outcome()
    text = shown(made, 80, "ascii")
    row = made["sizes"][0]["methods"][0]
    assert f"{percent(row['mean'])} / {percent(row['error'])}" in text
    assert "v beats every baseline" in " ".join(text.split())
