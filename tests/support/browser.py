"""A headless Chromium that opens pages at several widths and says what it saw."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
LIGHT, DARK = 1, 0
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--allow-file-access-from-files",
    "--enable-logging=stderr",
    "--virtual-time-budget=20000",
    "--hide-scrollbars",
    "--window-size=1500,900",
)

_MEASURE = Path(__file__).with_name("measure.js").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Seen:
    """What a page looked like at a width."""

    name: str
    width: int
    scroll_width: int
    beyond: list[str]
    """What reaches over the edge, scrolling tables left out."""
    cut: list[str]
    """Text of plots that reaches over the plot's edge."""
    smallest: float
    """Font size of the smallest text of a plot, in CSS pixels."""
    fetched: list[str]
    """What the page asked for besides itself."""
    title: str
    ground: str
    plot: str


@dataclass(frozen=True)
class Visit:
    """What all pages looked like, and what the console said."""

    seen: list[Seen]
    console: list[str]


def browser() -> str | None:
    """Return the browser of this machine, if there is one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def screenshot(program: str, page: str, home: Path, *, width: int, height: int) -> Path:
    """Return a picture of the top of a page."""
    (home / "page.html").write_text(page, encoding="utf-8")
    picture = home / "page.png"
    subprocess.run(
        [program, *FLAGS, f"--user-data-dir={home / 'profile'}",
         f"--blink-settings=preferredColorScheme={LIGHT}", f"--window-size={width},{height}",
         f"--screenshot={picture}", (home / "page.html").as_uri()],
        capture_output=True, check=True, timeout=300,
    )  # fmt: skip
    return picture


def visit(
    program: str, pages: dict[str, str], widths: tuple[int, ...], home: Path, *, scheme: int
) -> Visit:
    """Open every page at every width in one run of the browser."""
    frames = []
    for place, (name, page) in enumerate(pages.items()):
        (home / f"page-{place}.html").write_text(page, encoding="utf-8")
        frames += [
            f'<iframe data-name="{html.escape(name)}" src="page-{place}.html" '
            f'style="width: {width}px; height: 900px; border: 0"></iframe>'
            for width in widths
        ]
    around = home / "around.html"
    around.write_text(
        f"<!doctype html><meta charset=utf-8><script>{_MEASURE}</script>"
        f"<link rel=icon href='data:,'>{''.join(frames)}<pre id=seen></pre>",
        encoding="utf-8",
    )
    done = subprocess.run(
        [program, *FLAGS, f"--user-data-dir={home / 'profile'}",
         f"--blink-settings=preferredColorScheme={scheme}", "--dump-dom", around.as_uri()],
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    written = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, flags=re.DOTALL)
    assert written is not None and written[1], done.stderr[-2000:]
    seen: list[dict[str, Any]] = json.loads(html.unescape(written[1]))
    console = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    return Visit([Seen(**page) for page in seen], console)
