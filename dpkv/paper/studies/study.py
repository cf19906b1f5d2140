"""What a study is: a frozen spec, cases that can be run one by one, and what to make of them.

The spec is a TOML file of this package: what is asked, which tables and figures of the paper it
answers to, the settings of the full run, what the quick run does differently, and what was found.
A study's own module says how its settings become cases, what a case finds, and how the findings are
summed up, drawn and told.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from dpkv.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Figures = dict[str, Any]
"""What one case found, as plain JSON values."""
Rows = list[dict[str, Any]]
"""What all cases found, as flat objects: the lines of the CSV."""
Summary = dict[str, Any]
"""``rows``, and what follows from them."""
Finished = Mapping[str, Figures]
"""What each case found, by its name."""


@dataclass(frozen=True)
class Case:
    """A piece of a study that is run as a whole; ``weight`` is its share of the time, roughly."""

    name: str
    weight: float = 1.0


@dataclass(frozen=True)
class Study:
    """A study's parts. ``settings`` is a frozen dataclass that the spec's numbers go into.

    All that is drawn and told follows from the settings and the rows, which are what is kept.
    """

    name: str
    settings: type[Any]
    cases: Callable[[Any], Sequence[Case]]
    run: Callable[[Any, Case], Figures]
    tabulate: Callable[[Any, Finished], Rows]
    summarise: Callable[[Any, Rows], Summary]
    draw: Callable[[Summary], Figure]
    tell: Callable[[Summary], list[str]]


@dataclass(frozen=True)
class Spec:
    """A study's spec: words for people, and settings by size."""

    name: str
    title: str
    question: str
    paper: tuple[str, ...]
    """Labels of the paper's tables and figures."""
    home: str
    """The folder of the project that keeps the committed result."""
    differs: tuple[str, ...]
    """How the full run differs from the paper's experiment."""
    findings: str
    """What the full run found, in a person's words."""
    sizes: Mapping[str, Mapping[str, Any]]
    text: str
    """The file itself."""

    def settings(self, study: Study, size: str) -> Any:
        """Return the study's settings at a size, "quick" or "full"."""
        values = {**self.sizes["full"], **(self.sizes["quick"] if size == "quick" else {})}
        known = {field.name for field in fields(study.settings)}
        if values.keys() - known:
            raise UsageError(f"the spec of {self.name} names unknown settings.")
        return study.settings(**{name: _freeze(value) for name, value in values.items()})


def _freeze(value: Any) -> Any:
    return tuple(map(_freeze, value)) if isinstance(value, list) else value


def load_spec(name: str) -> Spec:
    """Return the spec of that name; it is part of the package."""
    text = files("dpkv.paper.studies").joinpath("specs", f"{name}.toml").read_text(encoding="utf-8")
    return parse_spec(name, text)


def parse_spec(name: str, text: str) -> Spec:
    """Return a spec from its TOML."""
    fields_ = tomllib.loads(text)
    return Spec(
        name=name,
        title=fields_["title"],
        question=fields_["question"],
        paper=tuple(fields_["paper"]),
        home=fields_["home"],
        differs=tuple(fields_.get("differs", ())),
        findings=" ".join(fields_["findings"].split()),
        sizes={"full": fields_["full"], "quick": fields_["quick"]},
        text=text,
    )


def digest_of(name: str, settings: Any) -> str:
    """Return what tells one run's settings from another's."""
    text = json.dumps([name, asdict(settings)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
