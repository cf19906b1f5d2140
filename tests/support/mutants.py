"""Hostile variants of a JSON file: every value in it, in turn, replaced by what nobody expects.

``mutants(text)`` yields one text for every place of the JSON and every hostile value: huge whole
numbers, numbers beyond floats, negative and tiny ones, NaN, deep nests, long texts, wrong types,
missing keys. A place is an object's value or a list's item, containers included; of a long list
only the first and the last item are taken, since the others are like them.

``outcomes(judge, texts)`` runs a judge over texts in a process of its own, with a limit on the
processor time and the memory of each, so that a hang is an answer instead of a hang. Nothing here
knows what the files mean: the judge is named as ``module:function``, takes a text and returns a
word.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

Place = tuple[str | int, ...]
_TOKEN = "@hostile@"
_MISSING = "missing"

HOSTILE: dict[str, str] = {
    # what it is called, and its JSON text
    "null": "null",
    "true": "true",
    "zero": "0",
    "minus one": "-1",
    "a half": "0.5",
    "tiny": "5e-324",
    "minus tiny": "-1e-9",
    "a million": "1000000",
    "2^53": str(2**53),
    "2^63": str(2**63),
    "huge": str(10**300),
    "1e4000 written out": str(10**4000),
    "minus 1e4000 written out": str(-(10**4000)),
    "too long for Python": "1" + "0" * 5000,
    "the largest float": "1.7976931348623157e308",
    "1e4000": "1e4000",
    "minus 1e4000": "-1e4000",
    "1e-4000": "1e-4000",
    "NaN": "NaN",
    "NaN in words": '"NaN"',
    "Infinity in words": '"Infinity"',
    "a tiny number in words": '"0.' + "0" * 400 + '1"',
    "a huge exponent in words": '"1e999999999"',
    "nothing with a huge exponent": '"0e-999999999"',
    "many digits in words": '"1.' + "3" * 20_000 + '"',
    "empty text": '""',
    "long text": json.dumps("x" * 200_000),
    "control characters": json.dumps("\x1b[2J\x07\x00"),
    "half a surrogate": '"\\ud800"',
    "empty list": "[]",
    "empty object": "{}",
    "list of numbers": json.dumps([1] * 50_000),
    "list of lists": json.dumps([[0]] * 20_000),
    "deep list": "[" * 900 + "]" * 900,
    "deeper list": "[" * 100_000 + "]" * 100_000,
    "deep object": '{"a":' * 900 + "1" + "}" * 900,
    "repeated keys": '{"a": 1, "a": 2}',
    _MISSING: "",
}


@dataclass(frozen=True)
class Mutant:
    """A text, the place that was altered, and what stands there now."""

    place: Place
    value: str
    text: str

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.place)) or 'the whole'}: {self.value}"


def places(fields: Any, place: Place = ()) -> Iterator[Place]:
    """Yield the whole and every place in it, containers before what they hold."""
    yield place
    if isinstance(fields, dict):
        for key, below in fields.items():
            yield from places(below, (*place, key))
    elif isinstance(fields, list):
        for position in sorted({0, len(fields) - 1} & set(range(len(fields)))):
            yield from places(fields[position], (*place, position))


def mutants(text: str) -> Iterator[Mutant]:
    """Yield every hostile variant of a JSON text."""
    fields = json.loads(text)
    for place in places(fields):
        around = _replaced(fields, place)
        for name, value in HOSTILE.items():
            if name != _MISSING:
                yield Mutant(place, name, around.replace(json.dumps(_TOKEN), value))
        if place:
            yield Mutant(place, _MISSING, _without(fields, place))


def sampled(text: str, number: int, seed: int = 0) -> list[Mutant]:
    """Return so many of the hostile variants, spread at random over places and values."""
    found = list(mutants(text))
    return random.Random(seed).sample(found, min(number, len(found)))


def _replaced(fields: Any, place: Place) -> str:
    if not place:
        return json.dumps(_TOKEN)
    altered = copy.deepcopy(fields)
    _holder(altered, place)[place[-1]] = _TOKEN
    return json.dumps(altered)


def _without(fields: Any, place: Place) -> str:
    altered = copy.deepcopy(fields)
    del _holder(altered, place)[place[-1]]
    return json.dumps(altered)


def _holder(fields: Any, place: Place) -> Any:
    for key in place[:-1]:
        fields = fields[key]
    return fields


# -- running a judge with limits -------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What a judge said of a text, and the processor time it took, in seconds."""

    word: str
    seconds: float


ENDED = "ended by its limits"
_MEGABYTE = 1 << 20


def outcomes(
    judge: str, texts: Sequence[str], *, seconds: int = 2, megabytes: int = 1024
) -> list[Outcome]:
    """Judge every text, each within limits; one that exceeds them has the word ``ENDED``.

    The limit on processor time is the system's, so it ends whatever runs, and is exact to about a
    second. The limit on memory is on what is taken beyond what the judge has when it is warm: the
    first text is judged twice, and should be an unaltered one.
    """
    found: list[Outcome] = []
    while len(found) < len(texts):
        done = _run(judge, [texts[0], *texts[len(found) :]], seconds, megabytes)
        if not done:
            raise RuntimeError(f"{judge} did not survive the first text")
        found += done[1:]
        if len(found) < len(texts):
            found.append(Outcome(ENDED, float(seconds)))
    return found


def _run(judge: str, texts: Sequence[str], seconds: int, megabytes: int) -> list[Outcome]:
    """Return the outcomes up to the text that ended the process, if one did."""
    command = [sys.executable, "-m", "support.mutants", judge, str(seconds), str(megabytes)]
    home = str(Path(__file__).resolve().parents[1])
    path = os.pathsep.join([home, *filter(None, [os.environ.get("PYTHONPATH")])])
    finished = subprocess.run(
        command,
        input="".join(json.dumps(text) + "\n" for text in texts),
        env={**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "ignore"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    return [Outcome(*json.loads(line)) for line in finished.stdout.splitlines()]


def _serve(judge: str, seconds: int, megabytes: int) -> None:
    """Judge texts from standard input, one a line, and print word and processor time of each."""
    module, _, name = judge.partition(":")
    decide = getattr(import_module(module), name)
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    for number, line in enumerate(sys.stdin):
        text = json.loads(line)
        if number:  # the first one warms up: imports and compiling are not to be counted
            _limit(seconds, megabytes if number == 1 else None)
        start = time.process_time()
        word = decide(text)
        print(json.dumps([word, time.process_time() - start]), file=out, flush=True)


def _limit(seconds: int, megabytes: int | None) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    allowed = int(used.ru_utime + used.ru_stime) + seconds + 1
    resource.setrlimit(resource.RLIMIT_CPU, (allowed, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    if megabytes is not None:
        with contextlib.suppress(OSError, ValueError):
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            most = pages * resource.getpagesize() + megabytes * _MEGABYTE
            resource.setrlimit(resource.RLIMIT_AS, (most, most))


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
