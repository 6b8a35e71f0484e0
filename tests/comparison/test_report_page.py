"""The report page: what it holds, and whether it can be read by everyone."""

import base64
import csv
import io
import json
import re
from collections import Counter
from html.parser import HTMLParser

import pytest
from summaries import ANSWERS, summary

from lupi.comparison import compare
from lupi.comparison.report import render
from lupi.comparison.verdict import percent
from lupi.datasets import make_privileged

pytest.importorskip("jinja2")
COMMAND = "lupi compare 'my table.csv' --target ill --privileged 'z*'"


@pytest.fixture(scope="module")
def page():
    return render(summary("yes") | {"command": COMMAND, "notes": ["A note about the data."]})


def keys(value):
    """The shape of a summary: its keys, however deep; of a list that of its first and last parts."""
    if isinstance(value, dict):
        return {
            key: keys(part) for key, part in value.items() if key not in ("params", "warnings", "grids", "packages")
        }
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [keys(value[0]), keys(value[-1])]
    return None


def test_stored_summaries_are_like_fresh_ones():
    X, y, Z = make_privileged(120, 3, 2, random_state=0, return_X_y_privileged=True)
    options = {"n_splits": 3, "train_size": [24, 40], "inner_folds": 2, "permutations": 3}
    fresh = compare(X, y, Z, methods=["surrogate-ridge", "joint"], baselines=["linear"], kernel="linear", **options)
    stored = keys(summary("yes"))
    found = keys(fresh.summary)
    stored.pop("columns"), found.pop("columns")  # empty where nothing helps
    assert found == stored
    assert "<svg" in render(fresh.summary)


@pytest.mark.parametrize("answer", ANSWERS)
def test_page_holds_everything(answer):
    made = summary(answer)
    page = render(made)
    words = page.replace("&#39;", "'").replace("&lt;", "<")
    first, second = words.split("</header>")[0], words.split("</header>")[1]
    assert re.search(rf'id="badge"><span aria-hidden="true">.</span>{answer.capitalize()}</p>', first)
    for text in (made["verdict"]["text"], *made["verdict"]["actions"], 'id="answer"'):
        assert text in first
    for text in (*made["notes"], *(leak["text"] for leak in made["leaks"])):
        assert second.count(text) == 1
    for text in made["verdict"]["notes"]:
        assert text in second
    for text in (made["data"]["sha256"], made["environment"]["packages"]["numpy"], 'id="permutation"'):
        assert text in second
    for size in made["sizes"]:
        for row in size["methods"]:
            assert f"{percent(row['mean'])} ± {percent(row['error'])}</td>" in second
    for figure in re.findall("<svg.*?</svg>", page, flags=re.DOTALL):
        assert not re.search("nan|inf", figure.lower())


def test_page_of_a_yes(page):
    assert COMMAND.replace("'", "&#39;") in page
    assert 'id="columns"' in page
    assert "20 labeled rows with the columns are worth more than 40 without them." in page


def test_figures_of_constant_scores():
    made = summary("no")
    made["permutation"] |= {"permuted": [0.5] * 19, "score": 0.5}
    for row in made["sizes"][0]["methods"]:
        row["scores"] = [0.5] * len(row["scores"])
    assert "nan" not in "".join(re.findall("<svg.*?</svg>", render(made), flags=re.DOTALL)).lower()


def test_one_training_size_says_how_to_get_a_curve():
    page = render(summary("no"))
    assert 'id="curve"' not in page
    assert "--train-size 20,40" in page


def test_page_without_matplotlib_has_the_table_alone(monkeypatch):
    monkeypatch.setattr("lupi.comparison.report.find_spec", lambda name: None)
    found = render(summary("yes"))
    assert "<svg" not in found
    assert 'pip install "lupi[report]"' in found.replace("&#34;", '"')
    assert found.count("<table") == 2


def test_failed_fits_and_no_method_at_all():
    made = summary("no")
    for row in made["sizes"][0]["methods"]:
        row |= {"failed": 2, "mean": None, "error": None, "errors": ["it <broke>"]}
    made["sizes"][0]["methods"] = [row for row in made["sizes"][0]["methods"] if not row["outcome"]]
    made["sizes"][0]["best_baseline"] = None
    made["verdict"] |= {"candidate": None, "method": None}
    page = render(made | {"permutation": None, "permutation_skipped": "nothing could be fitted."})
    assert "2 failed" in page
    assert "it &lt;broke&gt;" in page
    assert "Not run: nothing could be fitted." in page


def test_downloads_are_in_the_page(page):
    files = dict(re.findall(r'<a download="(\S+)" href="data:[^,]*;base64,(\S+)"', page))
    content = {name: base64.b64decode(text).decode() for name, text in files.items()}
    made = summary("yes")
    assert json.loads(content["results.json"])["sizes"] == made["sizes"]
    lines = list(csv.DictReader(io.StringIO(content["methods.csv"])))
    assert [line["title"] for line in lines] == [row["title"] for size in made["sizes"] for row in size["methods"]]
    assert float(lines[2]["gain"]) == made["sizes"][0]["methods"][2]["gain"]["mean"]


def test_page_needs_no_network(page):
    assert not re.search(r"(src|href)=\"(?!data:|#)|https?://|@import|url\((?!#)", page)
    assert "default-src 'none'" in page


EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"


def poisoned(value, path=()):
    """Every text of a summary replaced by markup, but for the words that the page chooses by."""
    if isinstance(value, dict):
        kept = ("answer", "role", "outcome", "rows", "name", "counterpart", "best_baseline", "candidate", "kernel")
        return {key: part if key in kept and isinstance(part, str) else poisoned(part) for key, part in value.items()}
    if isinstance(value, list):
        return [poisoned(part) for part in value]
    return EVIL if isinstance(value, str) else value


def test_page_escapes_what_the_table_says(page):
    made = summary("unclear") | {"command": "x"}
    made["columns"] = [effect | {"name": EVIL} for effect in summary("yes")["columns"]]
    found = render(poisoned(made))
    assert found.count("<script") == page.count("<script") == 1
    assert "<img" not in found
    assert found.count("&lt;script&gt;") >= 20
    assert not re.search(r"<[^>]*\son\w+=", found.split("<script")[0])


# ---------------------------------------------------------------- for everyone


def colors(page, scheme):
    """Values of the style's variables: those of the page, overlaid with those of a color scheme or of print."""
    style = page[page.index("<style>") : page.index("</style>")]
    blocks = [style[: style.index("@media")]]
    if scheme != "light":
        start = style.index({"dark": "prefers-color-scheme: dark", "print": "@media print"}[scheme])
        blocks.append(style[start : style.index("}", start)])
    return {name: value for block in blocks for name, value in re.findall(r"--(\w+): (#\w+);", block)}


def luminance(color):
    digits = color[1:] if len(color) == 7 else "".join(2 * c for c in color[1:])
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
    found = colors(page, scheme)
    for text in ("ink", "soft", "good", "bad", "real"):
        for ground in ("paper", "panel"):
            assert contrast(found[text], found[ground]) >= 4.5, (text, ground)
    for badge in ("good", "soft", "doubt"):  # its letters have the paper's color; printed ones are black
        assert contrast(found[badge], found["paper"]) >= 4.5, badge
    lines = ("real", "negative", "counterpart", "shuffled", "soft")
    for part in lines:
        assert contrast(found[part], found["paper"]) >= 3, part
    assert len({found[part] for part in lines}) == len(lines)


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
    assert len(tables) == 2
    for table in tables:
        assert re.search(r"<caption><span>[^<]{10,}</span></caption>", table)
        heads = re.findall(r'<th scope="col"', table)
        body = table[table.index("<tbody") :]
        assert body.count("<tr") == body.count('<th scope="row"')
        assert body.count("<td") == body.count("<tr") * (len(heads) - 1)
    # Rows that a phone shows as cards are no table for a browser any more: the roles say it.
    for role in ("table", "row", "columnheader", "rowheader", "cell"):
        assert f'role="{role}"' in tables[0]
