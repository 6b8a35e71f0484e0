"""The report page: what it holds, whether it can be read by everyone, and what a real browser says."""

import json
import re
from collections import Counter
from html.parser import HTMLParser

import numpy as np
import pytest
from browser import FIGURES, faults, visit

from lupi.comparison import compare
from lupi.comparison.render.page import render
from lupi.datasets import make_privileged

pytest.importorskip("jinja2")
GRIDS = {"l2svm": {"C": [1.0]}, "svm2+": {"C": [1.0]}, "reference": {"C": [1.0]}}
COMMAND = "lupi compare 'my table.csv' --target ill --privileged 'z*'"


@pytest.fixture(scope="module")
def summary():
    pd = pytest.importorskip("pandas")
    X, y, Z = make_privileged(80, 3, 2, random_state=0, return_X_y_privileged=True)
    Z = pd.DataFrame({"visit": Z[:, 0], "note": np.where(Z[:, 1] > 0, "high", "low")})
    made = compare(
        pd.DataFrame(X, columns=["x0", "x1", "x2"]),
        np.where(y == 1, "yes", "no"),
        Z,
        methods=["svm2+", "reference"],
        baselines=[],
        permutations=3,
        n_splits=3,
        train_size=[24, 40],
        inner_folds=2,
        grids=GRIDS,
        kernel="linear",
        command=COMMAND,
    ).summary
    return made | {"notes": ["Leakage? A column says it all."], "source": "my table.csv"}


@pytest.fixture(scope="module")
def page(summary):
    return render(summary)


def test_page_holds_everything(page, summary):
    assert page.index(summary["verdict"]["text"]) < page.index("<h2")  # on top
    for name in ("gains", "splits", "curve", "times"):
        figure = re.search(rf'<svg[^>]*id="{name}".*?</svg>', page, flags=re.DOTALL).group()
        assert "nan" not in figure.lower()
    for text in ("L2-SVM", "SVM2+", "★", summary["data"]["sha256"], summary["environment"]["packages"]["numpy"]):
        assert text in page
    assert COMMAND.replace("'", "&#39;") in page
    assert "Leakage? A column says it all." in page
    for row in summary["hard_examples"]["rows"]:
        assert f'<th scope="row">{row["row"]}</th>' in page


def test_page_needs_no_network(page):
    assert not re.search(r"(src|href)=\"(?!data:)|https?://|@import|url\(", page)


def test_bars_are_sorted(page):
    bars = re.search(r'id="splits".*?</svg>', page, flags=re.DOTALL).group()
    ends = [
        float(y) + (float(height) if css == "negative" else 0.0)
        for y, height, css in re.findall(r'y="([\d.]+)" width="[\d.]+" height="([\d.]+)" class="(\w+)"', bars)
    ]
    assert len(ends) == 3
    assert ends == sorted(ends)


def test_one_training_size_says_how_to_get_a_curve(summary):
    page = render(summary | {"sizes": summary["sizes"][:1]})
    assert 'id="curve"' not in page
    assert "--train-size 12,24" in page


def test_page_escapes_what_the_table_says(summary):
    hard = json.loads(json.dumps(summary["hard_examples"]))
    hard["rows"][0]["label"] = "<script>alert(1)</script>"
    page = render(summary | {"hard_examples": hard, "source": "<script>2</script>", "notes": ["<script>3</script>"]})
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 3


# ---------------------------------------------------------------- for everyone


def colours(page, scheme):
    """Values of the style's variables: those of the page, overlaid with those of a colour scheme or of print."""
    style = page[page.index("<style>") : page.index("</style>")]
    blocks = [style[: style.index("@media")]]
    if scheme != "light":
        start = style.index({"dark": "prefers-color-scheme: dark", "print": "@media print"}[scheme])
        blocks.append(style[start : style.index("}", start)])
    return {name: value for block in blocks for name, value in re.findall(r"--(\w+): (#\w+);", block)}


def luminance(colour):
    digits = colour[1:] if len(colour) == 7 else "".join(2 * c for c in colour[1:])
    parts = [int(digits[k : k + 2], 16) / 255 for k in (0, 2, 4)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    """Contrast ratio of WCAG 2."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_contrast_by_hand():
    assert contrast("#000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#fff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("scheme", ["light", "dark", "print"])
def test_contrast_is_enough(page, scheme):
    found = colours(page, scheme)
    for text in ("ink", "soft", "good", "bad"):
        for ground in ("paper", "panel"):
            assert contrast(found[text], found[ground]) >= 4.5, (text, ground)
    drawn = ["real", "shuffled", "negative", *(f"s{k}" for k in range(1, 11))]
    for part in drawn:
        assert contrast(found[part], found["paper"]) >= 3, part
    assert len({found[f"s{k}"] for k in range(1, 11)}) == 10


class Outline(HTMLParser):
    """Elements with their attributes, and which tables have captions and headers."""

    def __init__(self, page):
        super().__init__()
        self.elements = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def test_outline_is_accessible(page):
    outline = Outline(page)
    assert outline.all("html") == [{"lang": "en"}]
    assert len(outline.all("main")) == len(outline.all("h1")) == 1
    ids = Counter(attributes["id"] for _, attributes in outline.elements if "id" in attributes)
    assert set(ids.values()) == {1}
    for section in outline.all("section"):
        assert section.get("aria-label") or ids[section["aria-labelledby"]] == 1
    for figure in outline.all("svg"):
        assert figure["role"] == "img"
        assert all(ids[name] for name in figure["aria-labelledby"].split())
    for figure in re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL):
        assert re.search(r"<title[^>]*>[^<]{10,}</title><desc[^>]*>[^<]{10,}</desc>", figure)
    tables = re.findall(r"<table.*?</table>", page, flags=re.DOTALL)
    assert len(tables) == 3
    for table in tables:
        assert re.search(r"<caption><span>[^<]{10,}</span></caption>", table)
        assert re.search(r'<th scope="col"', table)
        body = table[table.index("<tbody>") :]
        assert body.count("<tr") == body.count('<th scope="row"')
    for region in (a for tag, a in outline.elements if a.get("class") == "scroll"):
        assert region["tabindex"] == "0"  # the keyboard has to reach what scrolls
        assert region["aria-label"]


# ---------------------------------------------------------------- in a real browser


def test_page_in_a_browser(browser, page, tmp_path):
    (tmp_path / "report.html").write_text(page)
    assert faults(visit(browser, tmp_path / "report.html", tmp_path), (*FIGURES, "curve")) == []


def test_browser_check_can_fail(browser, page, tmp_path):
    broken = re.sub(r'<svg[^>]*id="times".*?</svg>', "", page, flags=re.DOTALL)
    broken = re.sub(r'(<svg[^>]*id="gains".*?</desc>).*?(</svg>)', r"\1\2", broken, flags=re.DOTALL)
    extra = '<script>console.error("something broke")</script><img src="http://picture.invalid/a.png" alt="">'
    (tmp_path / "report.html").write_text(broken.replace("</body>", f"{extra}</body>"))
    found = "\n".join(faults(visit(browser, tmp_path / "report.html", tmp_path)))
    assert "something broke" in found
    assert "request: http://picture.invalid/a.png" in found
    assert "no figure times" in found  # missing
    assert "no figure gains" in found  # empty
    assert "no figure splits" not in found
    (tmp_path / "report.html").write_text(page.replace('class="answer"', 'class="other"'))
    assert faults(visit(browser, tmp_path / "report.html", tmp_path)) == ["no verdict"]


WIDTHS = """<iframe src="report.html" style="width: 400px; height: 900px"></iframe><p id="found"></p><script>
const frame = document.querySelector("iframe");
frame.onload = () => { const page = frame.contentDocument.documentElement;
  document.getElementById("found").textContent = `${page.scrollWidth} of ${page.clientWidth}`; };
</script>"""


def test_page_fits_a_phone(browser, page, tmp_path):
    """Tables scroll in their own boxes; the page itself is no wider than the screen."""
    (tmp_path / "frame.html").write_text(WIDTHS)
    for content, fits in ((page, True), (page.replace("<main>", '<main style="width: 600px">'), False)):
        (tmp_path / "report.html").write_text(content)
        dom = visit(browser, tmp_path / "frame.html", tmp_path, width=600).dom
        wide, screen = map(int, re.search(r'id="found">(\d+) of (\d+)<', dom).groups())
        assert 380 <= screen <= 400
        assert (wide <= screen) is fits
