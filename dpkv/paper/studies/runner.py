"""Running a study case by case, so that it can stop anywhere and go on later.

Every finished case is a JSON line in ``cases.jsonl`` of the study's folder; the first line says
whose cases they are. A case's randomness follows from the settings and its own name, so that a run
in two halves finds what a run in one piece does.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dpkv import __version__
from dpkv.errors import UsageError
from dpkv.paper.studies.study import Case, Figures, Finished, Rows, Spec, Study, Summary, digest_of
from dpkv.types import StageProgress

CASES = "cases.jsonl"
_MINUTE, _HOUR = 60.0, 3600.0


class CaseLog:
    """The finished cases of one run, on disk."""

    def __init__(self, folder: Path, study: Study, settings: Any) -> None:
        self._path = folder / CASES
        self._head = {"study": study.name, "settings": digest_of(study.name, settings)}
        self.finished: dict[str, Figures] = {}

    def open(self, *, resume: bool) -> None:
        """Read what is there, or begin anew."""
        if not resume:
            self._append(self._head)
            return
        lines = self._lines()
        if not lines:
            self._append(self._head)
        elif lines[0] != self._head:
            raise UsageError(
                f"{self._path} is of another study, or of other settings: choose another --out."
            )
        self.finished = {line["case"]: line["found"] for line in lines[1:] if "case" in line}

    def _lines(self) -> list[dict[str, Any]]:
        if not self._path.exists():
            return []
        lines = []
        for text in self._path.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(ValueError):  # cut short by a crash
                line = json.loads(text)
                if isinstance(line, dict):
                    lines.append(line)
        return lines

    def add(self, case: Case, found: Figures) -> None:
        """Keep a finished case."""
        self.finished[case.name] = found
        self._append({"case": case.name, "found": found})

    def _append(self, line: dict[str, Any]) -> None:
        text = json.dumps(line, allow_nan=False)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"\n{text}\n" if file.tell() else f"{text}\n")  # ends a line cut short
            file.flush()
            os.fsync(file.fileno())


def run_cases(
    study: Study,
    settings: Any,
    log: CaseLog,
    progress: StageProgress | None = None,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, Figures]:
    """Run the cases that are not finished, and return what all of them found, in their order."""
    cases = list(study.cases(settings))
    waiting = [case for case in cases if case.name not in log.finished]
    total = sum(case.weight for case in cases)
    left = sum(case.weight for case in waiting)
    started, done = clock(), 0.0
    for case in waiting:
        if progress is not None:
            remaining = (clock() - started) * left / done if done else None
            progress(f"{study.name}, {case.name}{_time_left(remaining)}", 1.0 - left / total)
        log.add(case, study.run(settings, case))
        done, left = done + case.weight, left - case.weight
    return {case.name: log.finished[case.name] for case in cases}


def _time_left(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < _MINUTE:
        return ", less than a minute left"
    if seconds < 2 * _HOUR:
        return f", about {seconds / _MINUTE:.0f} min left"
    return f", about {seconds / _HOUR:.1f} h left"


def rng_of(seed: int, *name: object) -> np.random.Generator:
    """Return the randomness of what has that name: it depends on nothing else that is run."""
    words = hashlib.sha256("/".join(map(str, (seed, *name))).encode()).digest()
    return np.random.default_rng(int.from_bytes(words[:16]))


def result_of(spec: Spec, study: Study, size: str, settings: Any, finished: Finished) -> Summary:
    """Return a study's result as one JSON object, with six digits of every number.

    What it tells is calculated from the rows as they are written, so that anybody can do it again.
    """
    summary = sum_up(study, settings, _round(study.tabulate(settings, finished)))
    return {
        "schema_version": 1,
        "kind": "study",
        "study": study.name,
        "title": spec.title,
        "size": size,
        "settings": digest_of(study.name, settings),
        "dpkv_version": __version__,
        "found": study.tell(summary),
        **summary,
    }


def sum_up(study: Study, settings: Any, rows: Rows) -> Summary:
    """Return what follows from the rows of a result, with six digits of every number."""
    summary: Summary = _round(study.summarise(settings, rows))
    return summary


def _round(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: _round(one) for name, one in value.items()}
    return [_round(one) for one in value] if isinstance(value, list) else value


def csv_of(rows: Rows) -> str:
    """Return flat objects as CSV; a column that some rows lack is empty there."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else value


def page_of(spec: Spec, size: str, digest: str, found: list[str]) -> str:
    """Return the short text of what was found, as Markdown; ``digest`` is that of the settings."""
    lines = [f"# {spec.title}", "", spec.question, "", "Paper: " + ", ".join(spec.paper) + ".", ""]
    lines += ["![the figure](figure.svg)", ""]
    lines += [f"## What the {size} run found", "", *(f"- {line}" for line in found), ""]
    if size == "full":
        lines += ["## What to make of it", "", spec.findings, ""]
        lines += ["## How it differs from the paper's experiment", ""]
        lines += [f"- {line}" for line in spec.differs] + [""]
    option = " --full" if size == "full" else ""
    lines += [f"Made by `dpkv study run {spec.name}{option}`; figures in `result.csv`.", ""]
    lines += [f"Digest of the settings: `{digest}`.", ""]
    return "\n".join(lines)
