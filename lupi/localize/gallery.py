"""One HTML page with all evaluated images, sortable by overlap; nothing is loaded from elsewhere."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any

from lupi.files import write_atomically
from lupi.localize.pictures import overlay_jpeg
from lupi.vision.images import ImageReadError

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8883; }
body { font: 16px/1.45 system-ui, sans-serif; margin: 0 auto; max-width: 1200px; padding: 1rem; }
h1 { font-size: 1.4rem; margin: 0 0 .5rem; }
.figures { display: flex; flex-wrap: wrap; gap: .5rem 2rem; margin: .5rem 0 1rem; }
.figures b { display: block; font-size: 1.5rem; }
.legend span { border-bottom: 3px solid #eb7814; margin-right: 1.2rem; }
.legend span + span { border-bottom: 3px dashed #2878e1; }
.bar { display: flex; flex-wrap: wrap; gap: .5rem 1rem; align-items: center; margin: 1rem 0; }
.bar label { display: flex; gap: .4rem; align-items: center; min-width: 0; max-width: 100%; }
select { font: inherit; padding: .25rem; min-width: 0; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 220px), 1fr)); gap: .8rem;
  padding: 0; margin: 0; }
.cards li { list-style: none; border: 1px solid var(--line); border-radius: 6px; overflow: hidden; }
.cards img { display: block; width: 100%; height: 190px; object-fit: contain; background: var(--soft); }
.cards p { margin: 0; padding: .4rem .6rem; font-size: .85rem; overflow-wrap: anywhere; }
.cards b { font-size: 1rem; }
.table { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; }
td, th { text-align: right; padding: .15rem .7rem; border-bottom: 1px solid var(--line); }
td:first-child, th:first-child { text-align: left; overflow-wrap: anywhere; }
"""

_SCRIPT = """
const list = document.querySelector(".cards"), cards = [...list.children];
const order = document.querySelector("#order"), label = document.querySelector("#label"), shown = document.querySelector("#shown");
function arrange() {
  const by = { low: (a, b) => a.dataset.overlap - b.dataset.overlap, high: (a, b) => b.dataset.overlap - a.dataset.overlap,
    file: (a, b) => a.dataset.index - b.dataset.index }[order.value];
  const kept = cards.filter(c => !label.value || c.dataset.label === label.value).sort(by);
  list.replaceChildren(...kept);
  shown.textContent = kept.length + " of " + cards.length + " images";
}
order.addEventListener("change", arrange); label.addEventListener("change", arrange); arrange();
"""


def write_gallery(
    path: str | PathLike[str],
    evaluation: dict[str, Any],
    *,
    images: Sequence[Any] | None = None,
    title: str = "Localization",
    max_size: int = 360,
) -> None:
    """Write the page.

    Parameters
    ----------
    path : path
        The HTML file.
    evaluation : dict
        From :func:`~lupi.localize.evaluate_boxes`.
    images : sequence of sources or None, default=None
        The evaluated images; None reads the paths of the evaluation.
    title : str
        Heading.
    max_size : int, default=360
        Longest side of the pictures.
    """
    records = evaluation["images"]
    sources = [record["image"] for record in records] if images is None else list(images)
    cards = "\n".join(_card(k, record, source, max_size) for k, (record, source) in enumerate(zip(records, sources)))
    labels = [row["label"] for row in evaluation["per_class"]]
    options = "".join(f"<option>{escape(str(name))}</option>" for name in labels)
    at = f"{evaluation['threshold']:g}"
    page = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,"><title>{escape(title)}</title><style>{_STYLE}</style></head><body>
<h1>{escape(title)}</h1>
<div class="figures"><div><b>{100 * evaluation["mean_overlap"]:.1f}%</b>mean overlap</div>
<div><b>{100 * evaluation["detection_rate"]:.1f}%</b>detected (overlap &gt; {at})</div>
{_constant(evaluation["constant_box"])}<div><b>{evaluation["n_images"]}</b>images</div></div>
<p class="legend"><span>predicted box</span><span>true box</span></p>
{_table(evaluation["per_class"], at)}
<div class="bar"><label>Order <select id="order"><option value="low">lowest overlap first</option>
<option value="high">highest overlap first</option><option value="file">as given</option></select></label>
<label>Class <select id="label"><option value="">all</option>{options}</select></label><span id="shown"></span></div>
<ul class="cards">{cards}</ul>
<script>{_SCRIPT}</script></body></html>
"""
    write_atomically(path, page.encode())


def _constant(figures: dict[str, Any] | None) -> str:
    if figures is None:
        return ""
    return f"<div><b>{100 * figures['mean_overlap']:.1f}%</b>mean overlap of one box for all</div>"


def _table(rows: list[dict[str, Any]], at: str) -> str:
    if len(rows) < 2:
        return ""
    body = "".join(
        f"<tr><td>{escape(str(row['label']))}</td><td>{row['n_images']}</td><td>{100 * row['mean_overlap']:.1f}%</td>"
        f"<td>{100 * row['detection_rate']:.1f}%</td></tr>"
        for row in rows
    )
    head = f"<tr><th>class</th><th>images</th><th>mean overlap</th><th>overlap &gt; {at}</th></tr>"
    return (
        f'<details><summary>{len(rows)} classes</summary><div class="table"><table>{head}{body}</table></div></details>'
    )


def _card(k: int, record: dict[str, Any], source: str, max_size: int) -> str:
    name = escape(Path(record["image"]).name)
    label, overlap = escape(str(record["label"])), record["overlap"]
    try:
        data = b64encode(overlay_jpeg(source, record["predicted"], record["true"], max_size)).decode()
        picture = f'<img loading="lazy" alt="{name} with boxes" src="data:image/jpeg;base64,{data}">'
    except ImageReadError:
        picture = "<p>This image cannot be read.</p>"
    text = f"<p><b>{100 * overlap:.1f}%</b> {label}<br>{name}</p>"
    return f'<li data-index="{k}" data-overlap="{overlap:.6f}" data-label="{label}">{picture}{text}</li>'
