"""The report in a real browser: nothing overflows, nothing is fetched, the console is silent."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread
from support.audit_example import audit, planned, told, violated, wide
from support.browser import DARK, LIGHT, NAMES, Seen, Visit, browser, screenshot, visit

import dpkv
from dpkv.audits.report import render
from dpkv.mechanisms import MECHANISMS

WIDTHS = (380, 1400)
BROKEN = """<!doctype html><title>broken</title><p style="width: 2000px">wide</p>
<svg width="9" height="9"><text x="5" y="5">cut off</text></svg>
<img src="https://example.invalid/x.png" alt=""><script>console.error("heard")</script>"""

program = browser()
pytestmark = pytest.mark.skipif(program is None, reason=f"needs a browser: {', '.join(NAMES)}")


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    audits = {
        "holds": audit(),
        "violated": violated(),
        "wide": wide(),
        "planned": planned(),
        "told": told(),
        "public": audit().public(),
    }
    return {name: render(found)["report.html"] for name, found in audits.items()}


@pytest.fixture(scope="module", params=[LIGHT, DARK], ids=["light", "dark"])
def visited(
    request: pytest.FixtureRequest, pages: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Visit:
    assert program is not None
    return visit(program, pages, WIDTHS, tmp_path_factory.mktemp("browser"), scheme=request.param)


def test_every_page_was_seen_at_every_width(visited: Visit, pages: dict[str, str]) -> None:
    assert {(page.name, page.width) for page in visited.seen} == set(product(pages, WIDTHS))
    assert all(page.title.startswith("Privacy audit: ") for page in visited.seen)


def test_the_console_is_silent_and_nothing_is_fetched(visited: Visit) -> None:
    assert visited.console == []
    assert [page.fetched for page in visited.seen if page.fetched] == []


def test_nothing_overflows(visited: Visit) -> None:
    for page in visited.seen:
        assert page.scroll_width <= page.width, (page.name, page.width, page.beyond[:3])
        assert page.beyond == [], (page.name, page.width)


def test_plots_can_be_read(visited: Visit) -> None:
    for page in visited.seen:
        assert page.cut == [], (page.name, page.width)
        assert page.smallest >= 9.0, (page.name, page.width)


def brightness(color: str) -> float:
    return sum(map(int, re.findall(r"\d+", color)[:3])) / (3 * 255)


def test_plots_follow_the_colour_scheme(visited: Visit, request: pytest.FixtureRequest) -> None:
    dark = "dark" in request.node.callspec.id
    for page in visited.seen:
        assert (brightness(page.ground) < 0.5) == dark
        assert (brightness(page.plot) > 0.5) == dark


# -- one release of every mechanism ----------------------------------------------------------------


def table() -> np.ndarray:
    """Return groups of records in three columns."""
    rng = np.random.default_rng(11)
    places = np.array([[-6.0, -5.0, 1.0], [5.0, 6.0, -3.0], [6.0, -6.0, 5.0]])
    return np.clip(places[np.arange(3_000) % 3] + rng.normal(0.0, 0.7, (3_000, 3)), -10, 10)


@pytest.fixture(scope="module")
def reports() -> dict[str, str]:
    """A page for a release of every mechanism, as its recipient makes it; one chose its k."""
    asked: dict[str, dict[str, Any]] = {name: {"mechanism": name, "k": 3} for name in MECHANISMS}
    asked["chosen"] = {"k": (2, 6)}
    pages = {}
    for name, options in asked.items():
        done = dpkv.release(
            table(), eps=2, bounds=(-10, 10), workspace=None, publisher="nobody", **options
        )
        found = dpkv.audit(done, public=True, workspace=None)
        assert found.verdict.holds
        pages[name] = found.files["report.html"]
    return pages


def test_a_release_of_every_mechanism_is_shown_well(
    reports: dict[str, str], tmp_path: Path
) -> None:
    assert program is not None
    seen = visit(program, reports, WIDTHS, tmp_path, scheme=LIGHT)
    assert seen.console == []
    assert {page.name for page in seen.seen} == set(reports)
    for page in seen.seen:
        where = page.name, page.width
        assert page.fetched == [] and page.cut == [] and page.beyond == [], where
        assert page.scroll_width <= page.width and page.smallest >= 9.0, where


def is_shown(picture: Path) -> bool:
    """Tell whether a picture has text and more than a few colours, and is mostly paper."""
    pixels = imread(picture)[:, :, :3]
    dark = float((pixels.max(axis=2) < 0.5).mean())
    return (
        0.005 < dark < 0.5 and len(np.unique((pixels * 15).astype(int).reshape(-1, 3), axis=0)) > 60
    )


def test_screenshots_show_the_groups_and_a_blank_page_is_noticed(
    reports: dict[str, str], tmp_path: Path
) -> None:
    assert program is not None
    for name, page in {**reports, "blank": "<!doctype html><title>x</title>"}.items():
        home = tmp_path / name
        home.mkdir()
        picture = screenshot(program, page, home, width=1100, height=1900)
        assert is_shown(picture) == (name != "blank"), name


def test_a_broken_page_is_noticed(tmp_path_factory: pytest.TempPathFactory) -> None:
    assert program is not None
    home = tmp_path_factory.mktemp("broken")
    found = visit(program, {"broken": BROKEN}, (380,), home, scheme=LIGHT)
    page: Seen = found.seen[0]
    assert any("heard" in line for line in found.console)
    assert page.fetched == ["https://example.invalid/x.png"]
    assert page.scroll_width > page.width
    assert page.beyond and page.cut == ["cut off"]
