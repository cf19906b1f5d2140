"""The report's groups as people read them, and what eps means in odds."""

from typing import Any

from support.audit_example import audit, publication, told, violated
from support.pages import parsed
from support.reports import read, rendered

from dpkv.audits.report import render
from dpkv.audits.report.context import context
from dpkv.audits.report.pages import markdown
from dpkv.audits.results import Audit, Density

GROUPS = (
    ("centre", "size", "age", "<i>"),
    ("1", "4,059 ± 53", "61.20 ± 0.15", "3.1 ± 0.2"),
    ("2", "941 ± 40", "34.70 ± 0.32", "8.0 ± 0.3"),
)


def with_groups(**changes: Any) -> Audit:
    found = audit()
    facts = {"groups": GROUPS, "groups_note": "Errors cover noise.", **changes}
    return found.model_copy(update={"subject": found.subject.model_copy(update=facts)})


def test_groups_are_shown_with_their_errors_and_escaped() -> None:
    (page,) = (text for name, text in render(with_groups()).items() if name.endswith(".html"))
    for cell in ("4,059 ± 53", "34.70 ± 0.32", "Errors cover noise.", "&lt;i&gt;"):
        assert cell in page
    assert "<th><i>" not in page
    words = markdown(context(with_groups()))
    assert "4,059 ± 53" in words and "standard error that is due to noise" in words


def test_groups_of_many_columns_are_a_table_with_a_row_for_each() -> None:
    names = [f"column {place}" for place in range(9)]
    rows = [[str(group), "100 ± 9", *(f"{group}.{place} ± 0.1" for place in range(9))]
            for group in range(1, 9)]  # fmt: skip
    groups = (("centre", "size", *names), *map(tuple, rows))
    page = parsed(render(with_groups(groups=groups))["report.html"])
    tables = {t.attributes["id"]: t for t in page.with_class("table")}
    first, second = tables["table-groups"], tables["table-groups-2"]
    for table in (first, second):
        assert [row.children[0].text for row in table.all("tbody")[0].all("tr")] == ["size", *names]
    assert "8.3 ± 0.1" in second.text and "8.3 ± 0.1" not in first.text


def test_page_one_says_who_released_what_and_what_for() -> None:
    page = markdown(context(told()))
    for words in (
        "where patients live",
        "to plan clinics",
        "on 13 March 2026",
        "a number chosen privately from 2 to 8",
        "1 of 2 spent, 1 left",
        "not signed; 11 checks of the record passed",
    ):
        assert words in page, words
    nobody = publication(publisher=None, data_about=None, purpose=None, spent=None)
    subject = audit().subject.model_copy(update={"publication": nobody})
    page = markdown(context(audit(subject=subject)))
    assert "does not say who released it" in page and "not seen here" in page


def test_the_picture_is_the_private_density_with_ellipses_and_no_made_up_point() -> None:
    page = read("told")
    (picture,) = (f for f in page.with_class("picture") if f.attributes["id"] == "picture-centers")
    assert "Heat map of the private density over east_km, north_km, with 5 centres" in str(
        [e.attributes.get("aria-label") for e in picture.all("svg")]
    )
    assert "90 %" in picture.text and "synthetic" not in page.text
    assert rendered("told")["report.html"].count("var(--plot-blue)") > 2
    assert "picture-curve" in {f.attributes["id"] for f in page.with_class("picture")}


def test_bounds_of_parts_name_the_eps_that_they_were_tried_at() -> None:
    rows = audit().sampled
    other = tuple(row.model_copy(update={"claimed_eps": 2.0, "lower_bound": 1.37}) for row in rows)
    assert "not with the release's" in markdown(context(audit(sampled=other)))
    assert "not with the release's" not in markdown(context(audit()))


def test_a_mechanism_that_tells_no_sizes_says_so() -> None:
    words = markdown(context(with_groups(groups=(), groups_note="Nothing is asked.")))
    assert "Nothing is asked." in words and "standard error" not in words


def test_eps_is_said_in_odds_where_a_promise_holds() -> None:
    eps = float(audit().subject.eps)
    assert eps == 1.0
    assert "becomes 2.72 to 1 at most" in markdown(context(audit()))
    assert "to 1 at most" not in markdown(context(violated()))


def test_what_a_hostile_record_says_of_itself_is_drawn_and_shown() -> None:
    """A time that is none, a curve shorter than the chosen number, sizes of nobody, one column."""
    odd = publication(created="<b>yesterday", curve=(3.0,), sizes=(0.0,) * 5, center_sd=())
    subject = audit().subject.model_copy(update={"publication": odd})
    page = render(audit(subject=subject))["report.html"]
    assert "&lt;b&gt;yesterday" in page and "<b>yesterday" not in page
    line = Density(columns=("east_km",), edges=((-10.0, 0.0, 10.0),), records=((3.0, 0.0),))
    one = publication(densities=(line,), curve=())
    subject = audit().subject.model_copy(
        update={
            "publication": one,
            "columns": ("east_km",),
            "n_features": 1,
            "released_centers": ((1.0,), (2.0,), (3.0,), (4.0,), (5.0,)),
            "domain": {"kind": "l1-ball", "center": [0.0], "radius": 10.0},
        }
    )
    assert "over east_km, with 5 centres" in render(audit(subject=subject))["report.html"]
