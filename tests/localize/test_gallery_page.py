"""The gallery in a browser: silent console, no request, usable on a desk and on a telephone."""

import numpy as np
import pytest
from browser import look_at
from PIL import Image
from vision_data import pictures

from lupi.localize import evaluate_boxes, write_gallery
from lupi.vision import Box

# Orders and filters as a reader would, and reports what is on the page each time.
PROBE = """
const overlaps = () => [...doc.querySelectorAll(".cards li")].map(card => Number(card.dataset.overlap));
const choose = (id, value) => {
  const list = doc.getElementById(id);
  list.value = value; list.dispatchEvent(new win.Event("change"));
};
const found = { first: overlaps() };
choose("order", "high"); found.high = overlaps();
choose("order", "file"); found.file = overlaps();
choose("label", [...doc.getElementById("label").options].at(-1).value);
found.labels = [...doc.querySelectorAll(".cards li")].map(card => card.dataset.label);
found.shown = doc.getElementById("shown").textContent;
choose("label", "");
doc.querySelector("details").open = true;
const texts = [...doc.querySelectorAll("p, b, td, th, label, select, summary, h1")].filter(e => e.textContent.trim());
found.smallest_font = Math.min(...texts.map(e => parseFloat(win.getComputedStyle(e).fontSize)));
found.rightmost = Math.max(...texts.filter(e => !e.closest(".table")).map(e => e.getBoundingClientRect().right));
const images = [...doc.images];
images.forEach(image => { image.loading = "eager"; });
found.pictures = images.map(image => [image.naturalWidth > 0, image.getBoundingClientRect().width]);
found.columns = new Set([...doc.querySelectorAll(".cards li")].map(card => Math.round(card.getBoundingClientRect().left))).size;
return found;
"""


@pytest.fixture(scope="module")
def gallery(tmp_path_factory):
    """A page of nine images, one of them with a name that has no place to break, and its figures."""
    folder = tmp_path_factory.mktemp("gallery")
    images, boxes, _ = pictures(9)
    names = [f"{k}.png" for k in range(8)] + ["a_file_name_without_any_space_" * 3 + ".png"]
    for image, name in zip(images, names):
        Image.fromarray(image).save(folder / name)
    rng = np.random.RandomState(0)
    predicted = [Box(*(int(max(0, v + rng.randint(-9, 9))) for v in box)) for box in boxes[:8]] + [None]
    result = evaluate_boxes(
        boxes,
        predicted,
        images=[folder / name for name in names],
        labels=np.arange(9) % 3,
        label_names=["gull", "Bird & <Sons>", "a_class_with_a_rather_long_name_of_one_piece"],
    )
    write_gallery(folder / "page.html", result, title="ssvm+ on birds")
    return (folder / "page.html").read_text(encoding="utf-8"), [row["overlap"] for row in result["images"]]


@pytest.mark.parametrize(("width", "columns"), [(1280, 5), (400, 1)])
def test_gallery_in_a_browser(gallery, width, columns, tmp_path):
    page, overlaps = gallery
    seen = look_at(page, width, tmp_path, PROBE)
    assert seen.console == []
    assert seen.requests == []
    assert seen.width == width
    assert seen.scroll_width <= width
    found = seen.probe
    for order, expected in (("first", sorted(overlaps)), ("high", sorted(overlaps, reverse=True)), ("file", overlaps)):
        np.testing.assert_allclose(found[order], expected, atol=1e-6)
    assert found["labels"] == ["a_class_with_a_rather_long_name_of_one_piece"] * 3
    assert found["shown"] == "3 of 9 images"
    assert found["columns"] == columns
    assert found["smallest_font"] >= 12
    assert found["rightmost"] <= width
    assert len(found["pictures"]) == 9
    assert all(loaded and size >= 180 for loaded, size in found["pictures"])


def test_the_browser_would_tell(gallery, tmp_path):
    """Each fault that the test above looks for is seen when it is there."""
    faults = """<img src="http://127.0.0.1:9/far.png"><img src="near.png"><script>console.error("a complaint")</script>
    <script>missing()</script><div style="width:700px">wide</div></body>"""
    seen = look_at(gallery[0].replace("</body>", faults), 400, tmp_path)
    assert {url.rsplit("/", 1)[-1] for url in seen.requests} == {"near.png", "far.png"}
    assert any("a complaint" in line for line in seen.console)
    assert any("missing is not defined" in line for line in seen.console)
    assert seen.scroll_width >= 700
