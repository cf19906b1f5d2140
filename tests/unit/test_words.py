"""Records hold codes: no sentence and no module's name may matter to one that was published."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from dpkv.mechanisms import MECHANISMS, Mechanism
from dpkv.releases import ReleaseRecord, verify, wording
from dpkv.releases.kept_releases import parse_record
from dpkv.releases.verify import failed

RECORDS = Path(__file__).resolve().parents[1] / "support" / "records"
PUBLISHED = sorted(path.stem for path in RECORDS.glob("*.json"))
OTHER = "Quite another sentence."


def record_of(name: str) -> ReleaseRecord:
    path = RECORDS / f"{name}.json"
    return parse_record(path.read_text(encoding="utf-8"), path)


def shipped() -> list[type[Mechanism]]:
    return [kind for kind in MECHANISMS.values() if kind.__module__.startswith("dpkv.")]


def reword(monkeypatch: pytest.MonkeyPatch) -> int:
    """Say everything that is rendered in other words; return how many sentences that were."""
    count = 0
    for name, sentences in vars(wording).items():
        if isinstance(sentences, dict) and name.isupper():
            monkeypatch.setattr(wording, name, dict.fromkeys(sentences, OTHER))
            count += len(sentences)
    for kind in shipped():
        for name in ("title", "why", "note"):
            monkeypatch.setattr(kind, name, OTHER)
        monkeypatch.setattr(kind, "words", MappingProxyType({}))
    return count


def move(monkeypatch: pytest.MonkeyPatch) -> None:
    """Move every mechanism to a module of another name, as a new version of dpkv might."""
    for name, kind in MECHANISMS.items():
        place = f"moved.{name}"
        module = import_module(kind.__module__)
        monkeypatch.setitem(sys.modules, place, module)
        monkeypatch.setattr(kind, "__module__", place)
        monkeypatch.setitem(MECHANISMS._homes, name, f"{place}:{kind.__qualname__}")
    monkeypatch.setattr(MECHANISMS, "_known", {})


def test_every_mechanism_that_is_shipped_has_a_record() -> None:
    assert sorted(kind.name for kind in shipped()) == PUBLISHED


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_record_verifies_whatever_is_said_of_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = record_of(name).explanation
    assert not failed(verify(record_of(name)))
    assert reword(monkeypatch) > 50
    move(monkeypatch)
    record = record_of(name)
    assert not failed(verify(record))
    after = record.explanation
    assert after.statement != before.statement and after.why != before.why
    assert after.assumptions != before.assumptions and after.title != before.title


def test_a_code_does_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: a record whose code is another one does not verify."""
    reword(monkeypatch)
    fields = json.loads(record_of("lloyd").to_json())
    fields["steps"][0]["name"] = "cluster-sums"
    wrong = failed(verify(parse_record(json.dumps(fields), Path("r.json"))))
    assert [check.name for check in wrong] == ["accounting"]


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for below in value.values() if isinstance(value, dict) else value:
            yield from texts(below)


@pytest.mark.parametrize("name", PUBLISHED)
def test_records_hold_no_sentence(name: str) -> None:
    found = list(texts(json.loads((RECORDS / f"{name}.json").read_text(encoding="utf-8"))))
    assert len(found) > 20 and not [text for text in found if " " in text]
    assert not [text for text in found if "dpkv." in text]
