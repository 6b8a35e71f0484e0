"""A page in headless Chromium: what it says on the console, what it asks the network for, and how it is laid out."""

import html
import json
import re
import shutil
import subprocess
from typing import NamedTuple

import pytest

# Requests of the browser itself (updates, dictionaries) have no origin; those of a page from a file have the origin "null".
_OWN = "not an origin"

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


def look_at(page, width, folder, probe="return null;", screenshot=None):
    """Open the text of a page in a window of any width; `probe` is the body of a JavaScript function of (doc, win).

    The page stands in a frame of that width, because a window of the browser cannot be narrower than 500 pixels.
    """
    browser = next((b for b in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if b), None)
    if browser is None:
        pytest.skip("no Chromium is installed")
    folder.mkdir(parents=True, exist_ok=True)
    height = 900
    frame, log = folder / "frame.html", folder / "net.json"
    frame.write_text(_FRAME.format(width=width, height=height, page=html.escape(page), probe=probe), encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0", "--no-first-run"]
    options += ["--disable-background-networking", f"--user-data-dir={folder / 'profile'}", f"--log-net-log={log}"]
    options += [f"--window-size={max(width, 500)},{height + 200}"]
    options += [f"--screenshot={screenshot}"] if screenshot else ["--dump-dom"]
    done = subprocess.run([browser, *options, frame.as_uri()], capture_output=True, text=True, timeout=240, check=True)
    if screenshot:
        return None
    found = json.loads(html.unescape(re.search(r'<pre id="found">(.*?)</pre>', done.stdout, flags=re.DOTALL).group(1)))
    asked = re.findall(r'"initiator":"([^"]*)"[^{}]*?"url":"([^"]*)"', log.read_text())
    return Seen(
        found["width"],
        found["scroll_width"],
        sorted({url for initiator, url in asked if initiator != _OWN} | set(found["loaded"])),
        [line for line in done.stderr.splitlines() if "CONSOLE" in line],
        found["probe"],
    )
