"""The report's page: readable by anyone, in both colour schemes, and numbers written well."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from support.audit_example import audit, utility
from support.pages import Element, parsed
from support.reports import VARIANTS, read, rendered

import dpkv.audits.report as package
from dpkv.audits.report import render
from dpkv.audits.report.numbers import count, exact, interval, lower, number
from dpkv.audits.report.svg import COLORS


@pytest.fixture(params=VARIANTS)
def page(request: pytest.FixtureRequest) -> Element:
    return read(request.param)


def test_the_page_is_accessible(page: Element) -> None:
    assert page.all("html")[0].attributes["lang"] == "en-GB"
    levels = [int(e.tag[1]) for e in page.all() if re.fullmatch(r"h[1-6]", e.tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    for figure in page.all("figure"):
        assert figure.all("figcaption")[0].text.strip()
    for element in page.all("svg"):
        assert element.attributes.get("aria-label") or element.attributes["aria-hidden"] == "true"
    for table in page.all("table"):
        assert all(row.children[0].tag == "th" for row in table.all("tbody")[0].all("tr"))


def test_identifiers_are_unique_and_found(page: Element) -> None:
    elements = page.all()
    names = [e.attributes["id"] for e in elements if "id" in e.attributes]
    assert len(names) == len(set(names))
    for element in elements:
        target = element.attributes.get("href", "")
        clip = re.findall(r"url\(#(.*?)\)", element.attributes.get("clip-path", ""))
        labels = element.attributes.get("aria-labelledby", "").split()
        for name in (*([target[1:]] if target.startswith("#") else []), *clip, *labels):
            assert name in names


STYLE_SHEET = (Path(package.__file__).parent / "templates" / "report.css").read_text("utf-8")


def colors() -> tuple[dict[str, str], dict[str, str]]:
    light, dark = re.findall(r":root \{(.*?)\}", STYLE_SHEET, flags=re.DOTALL)
    found = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", text)) for text in (light, dark)]
    assert found[0].keys() == found[1].keys()
    return found[0], found[1]


def luminance(color: str) -> float:
    parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_and_plots_stand_out(theme: int) -> None:
    """WCAG 2.2: 4.5 for text, 3 for graphics."""
    theme_colors = colors()[theme]
    for text in ("ink", "quiet", "good", "bad", "link"):
        for ground in ("paper", "page", "stripe"):
            assert contrast(theme_colors[text], theme_colors[ground]) >= 4.5
    for tone in ("good", "warn", "info"):
        for text in (tone, "ink"):
            assert contrast(theme_colors[text], theme_colors[f"{tone}-soft"]) >= 4.5
    assert contrast("#ffffff", theme_colors["band"]) >= 4.5
    for name in set(COLORS) - {"paper", "soft"}:
        assert contrast(theme_colors[f"plot-{name}"], theme_colors["paper"]) >= 3.0


@pytest.mark.parametrize("name", VARIANTS)
def test_plots_take_their_colours_from_the_page(name: str) -> None:
    light = colors()[0]
    assert {f"plot-{role}": color for role, color in COLORS.items()}.items() <= light.items()
    for drawing in re.findall(r"<svg.*?</svg>", rendered(name)["report.html"], flags=re.DOTALL):
        assert not re.search(r"(?:fill|stroke)[:=][ \"]*#", drawing)


@pytest.mark.parametrize(
    "changes",
    [
        {"rivals": (), "utility": utility((3,))},
        {"data_losses": (audit().data_losses[0].model_copy(update={"simulated_losses": (0.0,)}),)},
        {"data_losses": (audit().data_losses[3].model_copy(update={"simulated_losses": ()}),)},
        {
            "data_losses": (
                audit().data_losses[0].model_copy(
                    update={"simulated_losses": (0.0, 1e-300, math.inf)}
                ),
                audit().data_losses[1].model_copy(update={"mechanism": "面積 $x$"}),
            )
        },
        {"calibration": (audit().calibration[0].model_copy(update={"laplace": math.inf}),)},
        {
            "subject": audit().subject.model_copy(
                update={
                    "columns": ("$面積_\x00$",),
                    "n_features": 1,
                    "released_centers": ((2.0,),),
                    "domain": {"kind": "box", "lower": [0.0], "upper": [9.0]},
                }
            ),
        },
        {
            "subject": audit().subject.model_copy(
                update={
                    "columns": ("a", "b", "c"),
                    "n_features": 3,
                    "released_centers": ((1.0, 2.0, 3.0),),
                    "domain": {"kind": "box", "lower": [0.0] * 3, "upper": [9.0] * 3},
                }
            ),
        },
    ],
)  # fmt: skip
def test_odd_audits_are_drawn(changes: dict[str, Any]) -> None:
    files = render(audit(**changes))
    assert parsed(files["report.html"]).all("svg")
    assert "nan" not in re.sub(r"[a-z]nan|nan[a-z]", "", files["report.html"])


# Numbers.


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (number(None), "–"),
        (number(0.0), "0"),
        (number(7.85), "7.850"),
        (number(-18.613), "−18.61"),
        (number(0.00063041), "0.0006304"),
        (number(3.14159e-7), "3.142×10⁻⁷"),
        (number(1999.96), "2000"),
        (number(123456.7), "123\N{NARROW NO-BREAK SPACE}457"),
        (number(2.5e12), "2.500×10¹²"),
        (number(math.inf), "∞"),
        (number(math.nan), "undefined"),
        (exact(1.0), "1"),
        (exact(0.1), "0.1"),
        (exact(1e-6), "1×10⁻⁶"),
        (count(9999), "9999"),
        (count(20000), "20\N{NARROW NO-BREAK SPACE}000"),
        (lower(0.99999, beside=1.0), "0.9999"),
        (lower(1.0000001, beside=1.0), "1.0000001"),
        (lower(1.0, beside=1.0), "1.000"),
        (lower(2.71828), "2.718"),
        (lower(0.77777), "0.7777"),
        (interval((1.23456, 1.23456)), "[1.234, 1.235]"),
        (interval(None), ""),
    ],
)
def test_numbers_are_written(written: str, text: str) -> None:
    assert written == text
