"""The report: three files that agree, with everything escaped and nothing from elsewhere."""

from __future__ import annotations

import hashlib
import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support.audit_example import HOSTILE, audit, wide
from support.pages import Element, cells, figures, parsed, shown
from support.reports import VARIANTS, read, rendered

from dpkv.audits.report import render
from dpkv.audits.report.context import context
from dpkv.audits.report.pages import markdown
from dpkv.audits.results import Audit

EMPTY: dict[str, Any] = {
    "calibration": (),
    "worst_cases": (),
    "data_losses": (),
    "sampled": (),
    "conformance": (),
    "published_bound": None,
    "utility": (),
    "rivals": (),
    "notes": (),
}


def in_words(found: Audit) -> Element:
    """Return the Markdown of an audit: quick, for it has no pictures."""
    return shown(markdown(context(found)))


@pytest.fixture(params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def files(variant: str) -> dict[str, str]:
    return rendered(variant)


@pytest.fixture
def page(variant: str) -> Element:
    return read(variant)


def tables(page: Element) -> dict[str, Element]:
    found = {t.attributes["id"].removeprefix("table-"): t for t in page.with_class("table")}
    assert found
    return found


# The three files agree.


def test_there_are_three_files(files: dict[str, str]) -> None:
    assert list(files) == ["report.html", "report.md", "audit.json"]


def test_html_and_markdown_have_the_same_tables(files: dict[str, str], page: Element) -> None:
    in_html = [cells(table) for table in tables(page).values()]
    in_markdown = [cells(table) for table in shown(files["report.md"]).all("table")]
    assert in_html == in_markdown


def test_html_and_markdown_say_the_same(files: dict[str, str], page: Element) -> None:
    squeezed = re.sub(r"[()\s]", "", shown(files["report.md"]).text)
    classes = ("prose", "headline", "caption", "below-table")
    said = [element for name in classes for element in page.with_class(name)]
    said += [*page.all("dd"), *page.all("h3")]
    assert len(said) > 10
    for element in said:
        assert re.sub(r"[()\s]", "", element.text) in squeezed


def of_utility(found: dict[str, Any], name: str) -> list[list[Any]]:
    """Return what a comparison table shows, from the JSON: a row a rival, its ks in order."""
    kind, eps_place, part = name.rsplit("-", 2)
    eps = sorted({row["eps"] for row in found["utility"]})[int(eps_place) - 1]
    rows = [row for row in found["utility"] if row["eps"] == eps]
    ks = sorted({row["k"] for row in rows})
    half = len(ks) // 2 if len(ks) > 6 else len(ks)
    ks = ks[:half] if part == "1" else ks[half:]
    values = {
        "ratio": lambda row: [row["ratio"], *(row["ratio_interval"] or ())],
        "optimum": lambda row: [row["over_optimum"], *(row["over_optimum_interval"] or ())],
        "potential": lambda row: [row["potential"]],
    }[kind]
    names = list(dict.fromkeys(row["name"] for row in rows))
    return [
        [v for k in ks for row in rows if (row["name"], row["k"]) == (name, k) for v in values(row)]
        for name in names
    ]


def of_centers(found: dict[str, Any], name: str) -> list[list[Any]]:
    centers = found["subject"]["released_centers"]
    half = len(centers) // 2 if len(centers) > 6 else len(centers)
    part = centers[:half] if name.endswith("1") else centers[half:]
    return [list(column) for column in zip(*part, strict=True)]


def of_losses(found: dict[str, Any]) -> list[list[Any]]:
    return [
        [row["k"], row["claimed_eps"], row["release_loss"],
         statistics.median(row["simulated_losses"]), max(row["simulated_losses"]),
         len(row["simulated_losses"]), row["n_replacements"]]
        for row in found["data_losses"]
    ]  # fmt: skip


CALIBRATION = (
    "k",
    "certified_eps_tilde",
    "certified",
    "laplace",
    "published_eps_tilde",
    "published",
)
SAMPLED = ("k", "claimed_eps", "lower_bound", "alpha", "runs_a_side", "hits")
CONFORMANCE = ("statistic", "p_value", "level", "runs")
PUBLISHED_BOUND = ("instances", "tightest", "violations", "violations_as_run")


def picked(rows: list[dict[str, Any]], *names: str) -> list[list[Any]]:
    return [[row[name] for name in names] for row in rows]


def expected(found: dict[str, Any], name: str) -> list[list[Any]] | None:
    """Return the values that the figures of a table are made from; None for a table of words."""
    if name.startswith(("ratio-", "optimum-", "potential-")):
        return of_utility(found, name)
    if name.startswith("centers-"):
        return of_centers(found, name)
    domain = found["subject"]["domain"]
    known: dict[str, Callable[[], list[list[Any]] | None]] = {
        "calibration": lambda: picked(found["calibration"], *CALIBRATION),
        "worst-cases": lambda: picked(found["worst_cases"], "k", "claimed_eps", "loss"),
        "data-losses": lambda: of_losses(found),
        "sampled": lambda: [[*row, *hits] for *row, hits in picked(found["sampled"], *SAMPLED)],
        "conformance": lambda: picked(found["conformance"], *CONFORMANCE),
        "published-bound": lambda: picked([found["published_bound"]], *PUBLISHED_BOUND),
        "release-noise": lambda: [
            [noise["sd"]] for noise in found["subject"]["publication"]["noise"]
        ],
        "bounds": lambda: list(map(list, zip(domain["lower"], domain["upper"], strict=True))),
        "rivals": lambda: None,
        "settings": lambda: None,
    }
    return known[name]()


def test_every_figure_of_every_table_is_the_one_in_the_json(
    files: dict[str, str], page: Element
) -> None:
    found = json.loads(files["audit.json"])
    checked = 0
    for name, table in tables(page).items():
        wanted = expected(found, name)
        if wanted is None:
            assert not table.all("tbody")[0].with_class("figure")
            continue
        rows = table.all("tbody")[0].all("tr")
        assert len(rows) == len(wanted)
        for row, values in zip(rows, wanted, strict=True):
            text = " ".join(cell.text for cell in row.with_class("figure"))
            present = [Decimal(str(value)) for value in values if value is not None]
            printed = figures(text)
            assert len(printed) == len(present), (name, text, values)
            for (figure, unit), value in zip(printed, present, strict=True):
                assert figure == value or abs(figure - value) < unit, (name, text, values)
                checked += 1
    assert checked > 40


def test_the_gauge_shows_the_bound_of_the_json(files: dict[str, str], page: Element) -> None:
    verdict = json.loads(files["audit.json"])["verdict"]
    gauge = page.with_class("gauge")[0]
    bound, claimed = (figures(mark.text)[0] for mark in gauge.with_class("mark"))
    assert claimed[0] == Decimal(str(verdict["claimed_eps"]))
    true = Decimal(str(verdict["lower_bound"]))
    assert bound[0] == true or 0 <= true - bound[0] < bound[1]


def test_the_json_is_the_audit(files: dict[str, str]) -> None:
    assert Audit.model_validate_json(files["audit.json"]).to_json() == files["audit.json"]


# The same audit, the same bytes.


def test_the_same_audit_gives_the_same_bytes() -> None:
    assert render(wide()) == rendered("wide")


@pytest.mark.processes
def test_another_process_gives_the_same_bytes() -> None:
    program = (
        "import hashlib\n"
        "from support.audit_example import audit\n"
        "from dpkv.audits.report import render\n"
        "print(hashlib.sha256(''.join(render(audit()).values()).encode()).hexdigest())\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env={
            **os.environ,
            "PYTHONHASHSEED": "7",
            "PYTHONPATH": str(Path(__file__).parents[1]),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    here = hashlib.sha256("".join(rendered("holds").values()).encode())
    assert done.stdout.strip() == here.hexdigest()


# Nothing runs, nothing is fetched, everything is escaped.


def test_the_page_is_self_contained_and_runs_nothing(files: dict[str, str], page: Element) -> None:
    for element in page.all():
        assert element.tag not in {"script", "iframe", "object", "embed", "img", "image", "base"}
        for name, value in element.attributes.items():
            assert not name.startswith("on")
            assert name != "src"
            if name == "href":
                assert value.startswith("#") or value == "data:,"
    assert not re.search(r"url\((?!#)|@import|https?://", files["report.html"].lower())


def test_hostile_names_are_shown_as_text() -> None:
    files = rendered("wide")
    assert "<script" not in files["report.html"].lower()
    assert "alert(1)</" not in files["report.html"]
    page, words = read("wide"), shown(files["report.md"])
    assert page.all("h1")[0].text == HOSTILE
    assert page.all("title")[0].text == f"Privacy audit: {HOSTILE}"
    assert not words.all("script")
    assert page.text.count(HOSTILE) > 10
    assert words.text.count(HOSTILE) > 10


@pytest.mark.parametrize(
    "name",
    ["[a](https://b)", "# x", "- x", "1. x", "~~x~~", "__x__", "a\n\n<b>", "x|y", "\\", "`", "$x$"],
)
def test_markdown_shows_any_name_as_it_is(name: str) -> None:
    item = next(
        e for e in in_words(audit(notes=(name,))).all("li") if " ".join(name.split()) in e.text
    )
    assert [child.tag for child in item.children] == []


# What it must say.


def test_a_violation_is_said_in_words_and_a_sign() -> None:
    files, page = rendered("violated"), read("violated")
    assert page.with_class("status")[0].text.split() == ["✕", "Violation", "found"]
    assert len(page.with_class("bad")) == 2
    assert "## ✕ Violation found" in files["report.md"]
    assert "Claimed guarantee, not upheld" in page.text
    assert page.with_class("beyond")


def test_what_holds_shows_no_violation() -> None:
    files, page = rendered("holds"), read("holds")
    assert page.with_class("status")[0].text.split() == ["✓", "No", "violation", "found"]
    assert not page.with_class("bad") and not page.with_class("beyond")
    assert "✕" not in files["report.html"] + files["report.md"]


def test_a_violation_without_a_bound_above_the_claim_does_not_blame_the_bound() -> None:
    verdict = audit().verdict.model_copy(update={"holds": False})
    report = context(audit(verdict=verdict))
    assert "the violation lies elsewhere" in report.verdict.gauge.sentence
    assert report.verdict.gauge.bound_place < report.verdict.gauge.claimed_place


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_the_relation_is_named(neighbours: str) -> None:
    subject = audit().subject.model_copy(update={"neighbours": neighbours})
    text = in_words(audit(subject=subject)).text
    assert f"{neighbours}: one record is" in text
    assert f"Every figure here is for {neighbours} neighbours" in text


def banners(name: str) -> str:
    return " ".join(element.text for element in read(name).with_class("banner"))


def test_banners_say_who_may_see_it_and_what_it_is() -> None:
    assert "For the curator only: do not publish" in banners("holds")
    assert "planted" not in banners("holds")
    assert "Public variant" in banners("public")
    assert "For the curator only" not in banners("public")
    assert "Self-test with a planted fault" in banners("violated")
    assert "half-noise" in banners("violated")
    assert "> **For the curator only: do not publish.**" in rendered("holds")["report.md"]


def test_failures_say_why() -> None:
    for text in (read("holds").text, rendered("holds")["report.md"]):
        assert "k = 5: a block has 3 distinct records, fewer than k = 5" in text
        assert "k = 4: 2 of 30 runs: overflow in a sum" in text


def test_absent_parts_are_left_out() -> None:
    page = parsed(render(audit(**EMPTY))["report.html"])
    names = [table.attributes["id"] for table in page.with_class("table")]
    assert names == ["table-centers-1", "table-settings"]
    titles = {heading.text for heading in page.all("h2")}
    assert {"Calibration", "Utility", "Rivals", "The noise of this release"}.isdisjoint(titles)
    assert not {heading.text for heading in page.all("h3")}


def test_without_a_release_nothing_is_drawn() -> None:
    page = read("planned")
    assert "Nothing has been released" in page.text
    assert "Nothing yet" in page.text
    assert "picture-centers" not in {e.attributes.get("id") for e in page.all()}


# What is for the curator alone.


FIGURES = re.compile(r"\d+\.\d{3,}|\d{4,}")


def curator_only(page: Element) -> set[str]:
    """Return every figure that only the curator's tables print."""
    private, public = set(), set()
    for name, table in tables(page).items():
        for row in table.all("tbody")[0].all("tr"):
            for place, cell in enumerate(row.children):
                own = name.startswith(("data-", "ratio-", "optimum-", "potential-"))
                own |= name == "calibration" and place > 3
                (private if own else public).update(FIGURES.findall(cell.text))
    return private - public


def test_the_public_variant_has_no_figure_of_the_curators() -> None:
    private = curator_only(read("holds"))
    assert len(private) > 60
    files, page = rendered("public"), read("public")
    for text in (page.text, files["report.md"]):
        assert private.isdisjoint(FIGURES.findall(text))
    pictures = {figure.attributes["id"] for figure in page.with_class("picture")}
    assert pictures == {"picture-noise", "picture-centers"}
    assert "published, sigma_1" not in files["report.html"]


def test_the_public_json_has_nothing_of_the_curators() -> None:
    found = json.loads(rendered("public")["audit.json"])
    assert found["data_losses"] == found["utility"] == []
    assert found["verdict"]["utility"] is None
    for row in found["calibration"]:
        assert (row["published"], row["published_eps_tilde"], row["published_note"]) == (
            None,
            None,
            "",
        )


def test_what_is_marked_public_is_stripped_once_more() -> None:
    assert render(audit(visibility="public")) == rendered("public")


def test_the_public_variant_says_what_it_leaves_out() -> None:
    for text in (rendered("public")["report.md"], banners("public")):
        for part in ("published calibration", "losses on the curator's own records", "accuracy"):
            assert part in text
