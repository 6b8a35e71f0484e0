"""The report page in Chromium: console, network, first screen, widths, color schemes, print, sorting, hostile content."""

import re

import pytest
from browser import FIGURES, faults, find_browser, look_at, visit
from summaries import summary, with_every_outcome

from lupi.comparison.report import render

pytest.importorskip("jinja2")


@pytest.fixture(scope="module")
def page():
    return render(summary("yes"))


@pytest.fixture(scope="module")
def browser():
    found = find_browser()
    if found is None:
        pytest.skip("no Chromium is installed")
    return found


DARK = "--blink-settings=preferredColorScheme=0"
# Where the first screen's parts end, what of the figures' text is cut off, and the colors that were really used.
PROBE = """
const at = id => doc.getElementById(id).getBoundingClientRect();
const answer = doc.querySelector(".answer").getBoundingClientRect();
const cut = [...doc.querySelectorAll("svg.figure text")].filter(text => {
  const box = text.getBoundingClientRect(), svg = text.ownerSVGElement.getBoundingClientRect();
  return box.left < svg.left - 1 || box.right > svg.right + 1 || box.bottom > svg.bottom + 1; }).map(t => t.textContent);
const cell = doc.querySelector("table.methods td"), style = win.getComputedStyle(doc.body);
return { badge: at("badge").bottom, sentence: answer.bottom, figure: at("answer").bottom, do: at("do").bottom, cut,
  cards: win.getComputedStyle(cell).display, label: win.getComputedStyle(cell, "::before").content, paper: style.backgroundColor };
"""


def as_printed(page):
    """The page with the style that paper gets."""
    page = page.replace("@media screen", "@media (max-width: 1px)").replace("@media print", "@media all")
    return page.replace("<details>", "<details open>")


@pytest.mark.parametrize(
    ("answer", "width", "scheme"),
    [
        ("yes", 1280, "light"),
        ("no", 1280, "dark"),
        ("unclear", 400, "light"),
        ("yes", 400, "dark"),
        ("no", 400, "light"),
    ],
)
def test_first_screen(answer, width, scheme, tmp_path):
    seen = look_at(render(summary(answer)), width, tmp_path, PROBE, [DARK] if scheme == "dark" else [])
    assert (seen.console, seen.requests) == ([], [])
    assert seen.scroll_width <= seen.width == width
    found = seen.probe
    assert found["badge"] < found["sentence"] < 800
    assert max(found["figure"], found["do"]) <= 800  # a laptop's and a phone's window
    assert found["cut"] == []
    assert found["cards"] == ("flex" if width == 400 else "table-cell")
    assert found["label"] == ('"score"' if width == 400 else "none")
    assert found["paper"] == ("rgb(18, 22, 28)" if scheme == "dark" else "rgb(255, 255, 255)")


def test_print(tmp_path):
    seen = look_at(as_printed(render(with_every_outcome("a {} method"))), 794, tmp_path, PROBE, [DARK])
    assert seen.console == []
    assert seen.scroll_width <= seen.width
    assert seen.probe["cut"] == []
    assert seen.probe["cards"] == "table-cell"
    assert seen.probe["paper"] == "rgb(255, 255, 255)"  # in a dark room, too


@pytest.mark.parametrize("width", [1280, 400])
def test_long_names_do_not_widen_the_page(width, tmp_path):
    made = with_every_outcome("a_name_{}_" + "that_does_not_end_" * 8) | {"source": "x" * 200, "command": "y" * 300}
    made["columns"] = [effect | {"name": "z" * 80} for effect in made["columns"]]
    seen = look_at(render(made), width, tmp_path, PROBE)
    assert seen.scroll_width <= seen.width
    assert seen.probe["cut"] == []


SORT = """
const table = doc.querySelector("table.methods"), button = table.tHead.rows[0].cells[COLUMN].querySelector("button");
const names = () => [...table.tBodies[0].rows].map(row => row.cells[0].textContent.replace(" ★", ""));
const seen = [names()];
for (let k = 0; k < 3; k++) { button.click(); seen.push(names()); }
button.focus();
const tip = doc.getElementById("tip");
return { seen, tip: tip.hidden ? "" : tip.textContent, titles: doc.querySelectorAll("[title]").length };
"""


def test_sorting_and_explanations(tmp_path):
    made = with_every_outcome()
    rows = made["sizes"][-1]["methods"]
    found = look_at(render(made), 1280, tmp_path, SORT.replace("COLUMN", "3")).probe
    written = [row["title"] for row in rows]
    gains = {row["title"]: row["over_best_baseline"]["mean"] for row in rows if row["outcome"]}
    rest = [title for title in written if title not in gains]  # no gain: last, whichever way
    descending, ascending = (sorted(gains, key=lambda title: sign * gains[title]) for sign in (-1, 1))
    assert found["seen"] == [written, descending + rest, ascending + rest, written]
    assert found["tip"] == "gain over the baseline with the best mean"
    assert found["titles"] == 0  # the browser's own box would come on top


def test_page_without_its_script(page, tmp_path):
    """Everything is there; only sorting is not."""
    seen = look_at(re.sub("<script>.*?</script>", "", page, flags=re.DOTALL), 400, tmp_path, PROBE)
    assert (seen.console, seen.requests) == ([], [])
    assert seen.probe["cards"] == "flex"
    assert seen.scroll_width <= seen.width


def test_page_in_a_browser(browser, page, tmp_path):
    (tmp_path / "report.html").write_text(page)
    figures = (*FIGURES, "curve", "permutation", "columns")
    assert faults(visit(browser, tmp_path / "report.html", tmp_path), figures) == []


def test_browser_check_can_fail(browser, page, tmp_path):
    broken = re.sub(r'<svg[^>]*id="splits".*?</svg>', "", page, flags=re.DOTALL)
    broken = re.sub(r'(<svg[^>]*id="gains".*?</desc>).*?(</svg>)', r"\1\2", broken, flags=re.DOTALL)
    broken = re.sub(r"<meta http-equiv[^>]*>", "", broken)
    extra = '<script>console.error("something broke")</script><img src="http://picture.invalid/a.png" alt="">'
    (tmp_path / "report.html").write_text(broken.replace("</body>", f"{extra}</body>"))
    found = "\n".join(faults(visit(browser, tmp_path / "report.html", tmp_path)))
    assert "something broke" in found
    assert "request: http://picture.invalid/a.png" in found
    assert "no figure splits" in found  # missing
    assert "no figure gains" in found  # empty
    assert "no figure answer" not in found
    (tmp_path / "report.html").write_text(page.replace('class="answer"', 'class="other"'))
    assert "no verdict" in faults(visit(browser, tmp_path / "report.html", tmp_path))


def test_policy_of_the_page_stops_foreign_scripts(browser, page, tmp_path):
    extra = '<script>document.title = "taken over"</script><img src="http://picture.invalid/a.png" alt="">'
    (tmp_path / "report.html").write_text(page.replace("</body>", f"{extra}</body>"))
    visited = visit(browser, tmp_path / "report.html", tmp_path)
    assert "<title>taken over" not in visited.dom
    assert visited.requests == []
