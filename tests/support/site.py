"""The site, built once for all processes of a run, and seen in a browser."""

from __future__ import annotations

import fcntl
import html
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.browser import FLAGS

ROOT = Path(__file__).resolve().parents[2]
_MEASURE = """addEventListener("load", async () => {
  await new Promise((done) => setTimeout(done, 2000));
  const seen = [...document.querySelectorAll("iframe")].map((frame) => {
    const page = frame.contentDocument, view = frame.contentWindow, root = page.documentElement;
    return {
      name: frame.dataset.name, width: root.clientWidth, scroll_width: root.scrollWidth,
      title: page.title,
      heading: page.querySelector("article h1")?.firstChild.textContent ?? "",
      broken: [...page.images].filter((one) => !one.naturalWidth).map((one) => one.src),
      unread: [...page.querySelectorAll("article math")].filter((one) => !one.clientHeight).length,
      fetched: view.performance.getEntriesByType("resource").map((entry) => entry.name),
    };
  });
  document.getElementById("seen").textContent = JSON.stringify(seen);
});"""


@dataclass(frozen=True)
class SeenPage:
    """What a page of the site looked like at a width."""

    name: str
    width: int
    scroll_width: int
    title: str
    heading: str
    broken: list[str]
    """Images that could not be shown."""
    unread: int
    """Formulas that take no room."""
    fetched: list[str]
    """What the page asked for."""


def build_site(target: Path, *settings: str) -> subprocess.CompletedProcess[str]:
    """Build the site as ``make docs`` does, without a network to fetch anything from."""
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9")
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(target),
         *settings],
        cwd=ROOT, env={**os.environ, **nowhere, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True, text=True, check=False, timeout=580,
    )  # fmt: skip


def built_once(shared: Path) -> Path:
    """Return the built site; whoever comes first builds it, and the others wait."""
    site = shared / "site"
    with (shared / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not site.exists():
            done = build_site(shared / "site.part")
            assert done.returncode == 0, done.stdout + done.stderr
            (shared / "site.part").rename(site)
    return site


def visit_site(
    program: str, site: Path, names: list[str], widths: tuple[int, ...], home: Path
) -> tuple[list[SeenPage], list[str]]:
    """Open pages of the site at every width; return what was seen and what the console said."""
    frames = [
        f'<iframe data-name="{html.escape(name)}" src="{(site / name).as_uri()}" '
        f'style="width: {width}px; height: 900px; border: 0"></iframe>'
        for name in names
        for width in widths
    ]
    around = home / "around.html"
    around.write_text(
        f"<!doctype html><meta charset=utf-8><script>{_MEASURE}</script>"
        f"<link rel=icon href='data:,'>{''.join(frames)}<pre id=seen></pre>",
        encoding="utf-8",
    )
    done = subprocess.run(
        [program, *FLAGS, f"--user-data-dir={home / 'profile'}", "--dump-dom", around.as_uri()],
        capture_output=True, text=True, check=True, timeout=580,
    )  # fmt: skip
    written = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, flags=re.DOTALL)
    assert written is not None and written[1], done.stderr[-2000:]
    seen: list[dict[str, Any]] = json.loads(html.unescape(written[1]))
    console = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    return [SeenPage(**page) for page in seen], console
