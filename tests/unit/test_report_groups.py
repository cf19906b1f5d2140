"""The report's groups as people read them, and what eps means in odds."""

from typing import Any

from support.audit_example import audit, violated

from dpkv.audits.report import render
from dpkv.audits.report.context import context
from dpkv.audits.report.pages import markdown
from dpkv.audits.results import Audit

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
    told = markdown(context(with_groups()))
    assert "4,059 ± 53" in told and "standard error that is due to noise" in told


def test_a_mechanism_that_tells_no_sizes_says_so() -> None:
    told = markdown(context(with_groups(groups=(), groups_note="Nothing is asked.")))
    assert "Nothing is asked." in told and "standard error" not in told


def test_eps_is_said_in_odds_where_a_promise_holds() -> None:
    eps = float(audit().subject.eps)
    assert eps == 1.0
    assert "becomes 2.72 to 1 at most" in markdown(context(audit()))
    assert "to 1 at most" not in markdown(context(violated()))
