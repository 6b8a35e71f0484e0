"""A page in headless Chromium, and what is wrong with it."""

import json
import re
import shutil
import subprocess
from typing import NamedTuple
from urllib.parse import urlsplit

FIGURES = ("gains", "splits", "times")
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


class Visit(NamedTuple):
    """What is left of a visit: the page after it has been drawn, console messages, addresses that were asked for."""

    dom: str
    console: list[str]
    requests: list[str]


def find_browser():
    """Path of Chromium, or None."""
    return next((b for b in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if b), None)


def visit(browser, page, folder, width=400):
    """Open a page file."""
    log = folder / "net.json"
    done = subprocess.run(
        [
            *(browser, *OPTIONS, f"--user-data-dir={folder / 'profile'}"),
            *(f"--log-net-log={log}", f"--window-size={width},2000", "--virtual-time-budget=2000", "--dump-dom"),
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    console = re.findall(r"CONSOLE[^\]]*\] (.*)", done.stderr)
    return Visit(done.stdout, console, _addresses(log))


def _addresses(log):
    """Addresses that the page asked for. Chromium's own requests (updates, the time) stand in its log without an origin."""
    params = [event.get("params", {}) for event in json.loads(log.read_text())["events"]]
    asked = {p["url"] for p in params if "url" in p and p.get("initiator", "not an origin") != "not an origin"}
    return sorted(url for url in asked if urlsplit(url).scheme not in ("file", "data"))


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
