"""Pages in headless Chromium: what they say on the console, what they ask the network for, and how they are laid out."""

import html
import json
import re
import shutil
import subprocess
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

FIGURES = ("answer", "gains", "splits")
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--allow-file-access-from-files",  # for a page in a frame
    "--host-resolver-rules=MAP * ~NOTFOUND",  # a test reaches nobody, whatever it asks for
    "--enable-logging=stderr",
    "--v=0",
)

_FRAME = """<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><body style="margin:0">
<iframe style="border:0;width:{width}px;height:{height}px" srcdoc="{page}"></iframe><script>
addEventListener("load", () => {{
  const win = document.querySelector("iframe").contentWindow, doc = win.document;
  const found = {{
    width: win.innerWidth, scroll_width: doc.documentElement.scrollWidth,
    loaded: [...win.performance.getEntriesByType("resource").map(e => e.name),
      ...[...doc.querySelectorAll("[src], link[href]")].map(e => e.src || e.href)].filter(n => !n.startsWith("data:")),
    probe: ((doc, win) => {{ {probe} }})(doc, win),
  }};
  const out = document.createElement("pre");
  out.id = "found"; out.textContent = JSON.stringify(found);
  document.body.append(out);
}});
</script>
"""


class Visit(NamedTuple):
    """What is left of a visit: the page after it has been drawn, console messages, addresses that were asked for."""

    dom: str
    console: list[str]
    requests: list[str]


class Seen(NamedTuple):
    """What happened.

    Attributes
    ----------
    width, scroll_width : int
        Of the window and of its content; a wider content scrolls sideways.
    requests : list of str
        Addresses that the page asked for, in the network or beside itself.
    console : list of str
        Lines of the console: messages, errors, uncaught exceptions.
    probe : object
        What the probe returned.
    """

    width: int
    scroll_width: int
    requests: list
    console: list
    probe: object


def find_browser():
    """Path of Chromium, or None."""
    return next((b for b in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if b), None)


def visit(browser, page, folder, width=400, height=2000, options=()):
    """Open a page file."""
    log = folder / "net.json"
    done = subprocess.run(
        [
            *(browser, *OPTIONS, *options, f"--user-data-dir={folder / 'profile'}"),
            *(f"--log-net-log={log}", f"--window-size={width},{height}", "--virtual-time-budget=2000", "--dump-dom"),
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    console = re.findall(r"CONSOLE[^\]]*\] (.*)", done.stderr)
    return Visit(done.stdout, console, _addresses(log))


def _addresses(log):
    """Addresses that the page asked for. Chromium's own requests (updates, the time) stand in its log without an origin."""
    params = [event.get("params", {}) for event in json.loads(log.read_text())["events"]]
    asked = {p["url"] for p in params if "url" in p and p.get("initiator", "not an origin") != "not an origin"}
    return sorted(url for url in asked if urlsplit(url).scheme not in ("file", "data"))


def look_at(page, width, folder, probe="return null;", options=()):
    """Open the text of a page in a window of any width; `probe` is the body of a JavaScript function of (doc, win).

    The page stands in a frame of that width, because a window of the browser cannot be narrower than 500 pixels.
    """
    browser = find_browser()
    if browser is None:
        pytest.skip("no Chromium is installed")
    folder.mkdir(parents=True, exist_ok=True)
    frame, height = folder / "frame.html", 900
    frame.write_text(_FRAME.format(width=width, height=height, page=html.escape(page), probe=probe), encoding="utf-8")
    visited = visit(browser, frame, folder, max(width, 500), height + 200, options)
    found = json.loads(html.unescape(re.search(r'<pre id="found">(.*?)</pre>', visited.dom, flags=re.DOTALL).group(1)))
    return Seen(
        found["width"],
        found["scroll_width"],
        sorted(set(visited.requests) | set(found["loaded"])),
        visited.console,
        found["probe"],
    )


def faults(visited, figures=FIGURES):
    """Everything that must not be: an empty list for a good page."""
    found = [f"console: {line}" for line in visited.console]
    found += [f"request: {url}" for url in visited.requests]
    if not re.search(r'id="verdict".*?<p class="answer">[^<]{20,}</p>', visited.dom, flags=re.DOTALL):
        found.append("no verdict")
    for name in figures:
        figure = re.search(rf'<svg[^>]*id="{name}".*?</svg>', visited.dom, flags=re.DOTALL)
        if figure is None or not re.search(r"<(rect|polyline|circle)\b", figure.group()):
            found.append(f"no figure {name}")
    return found
