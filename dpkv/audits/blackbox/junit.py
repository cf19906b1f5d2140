"""An audit as JUnit XML, which continuous integration shows beside its tests."""

from __future__ import annotations

from xml.etree import ElementTree

from dpkv.audits.blackbox.results import PROVES_NOTHING, BlackBoxAudit


def junit_xml(audit: BlackBoxAudit) -> str:
    """Return one test case: it fails where the claim is violated."""
    failures = str(int(not audit.holds))
    counts = {"tests": "1", "failures": failures, "errors": "0", "time": f"{audit.seconds:.3f}"}
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": "dpkv audit", **counts})
    case = ElementTree.SubElement(
        suite,
        "testcase",
        {"classname": "dpkv.audit", "name": _plain(f"{audit.mechanism}: {audit.claim}"),
         "time": f"{audit.seconds:.3f}"},
    )  # fmt: skip
    said = f"{audit.headline}.\n{PROVES_NOTHING if audit.holds else _details(audit)}.\n"
    if audit.holds:
        ElementTree.SubElement(case, "system-out").text = _plain(said)
    else:
        failure = ElementTree.SubElement(
            case, "failure", {"type": "PrivacyViolation", "message": _plain(audit.headline)}
        )
        failure.text = _plain(said)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suites, "unicode")


def _details(audit: BlackBoxAudit) -> str:
    best, pair = audit.best, audit.witness
    if best is None or pair is None:
        return "no event"
    return (
        f"event: {best.words}\n{best.hits[0]} of {best.runs[0]} runs on the {best.likelier_under} "
        f"table, {best.hits[1]} of {best.runs[1]} on the other\nfirst table: {pair.first}\n"
        f"second table: {pair.second}\nagain: {audit.again}"
    )


def _plain(text: str) -> str:
    """Return text that XML can hold."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)
