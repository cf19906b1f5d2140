"""The report in a real browser: nothing overflows, nothing is fetched, the console is silent."""

from __future__ import annotations

import re
from itertools import product

import pytest
from support.audit_example import audit, planned, violated, wide
from support.browser import DARK, LIGHT, NAMES, Seen, Visit, browser, visit

from dpkv.audits.report import render

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


def test_a_broken_page_is_noticed(tmp_path_factory: pytest.TempPathFactory) -> None:
    assert program is not None
    home = tmp_path_factory.mktemp("broken")
    found = visit(program, {"broken": BROKEN}, (380,), home, scheme=LIGHT)
    page: Seen = found.seen[0]
    assert any("heard" in line for line in found.console)
    assert page.fetched == ["https://example.invalid/x.png"]
    assert page.scroll_width > page.width
    assert page.beyond and page.cut == ["cut off"]
