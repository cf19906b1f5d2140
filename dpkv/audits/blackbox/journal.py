"""What an audit has seen so far, on disk, so that it can be stopped and taken up again.

A search is settled by its seed and by what it saw. So it is enough to keep what was seen: taken up
again, it finds its runs in the journal and goes on where they end.
"""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from dpkv.audits.blackbox.observations import Sample
from dpkv.errors import UsageError


class Journal:
    """Samples and decisions by name, in a file of JSON lines; None keeps them in memory alone."""

    def __init__(self, path: Path | None, subject: dict[str, Any]) -> None:
        self._path = path
        self._samples: dict[str, Sample] = {}
        self._decided: dict[str, Any] = {}
        if path is None:
            return
        if path.exists():
            self._read(path, subject)
        else:
            self._append({"subject": subject})

    def _read(self, path: Path, subject: dict[str, Any]) -> None:
        try:
            lines = path.read_text(encoding="utf-8").split("\n")
            head = json.loads(lines[0])
        except (OSError, ValueError):
            raise UsageError(f"--state {path} is not the state of an audit.") from None
        if not isinstance(head, dict) or head.get("subject") != subject:
            raise UsageError(
                f"--state {path} is of another audit (command, claim, schema, seed, budget or "
                "alpha): name a new file."
            )
        whole = lines[1:-1] if lines[-1] else lines[1:]  # a line cut short is run again
        for line in whole:
            if line:
                self._take(json.loads(line))
        if lines[-1]:
            path.write_text("\n".join([lines[0], *whole, ""]), encoding="utf-8")

    def _take(self, entry: dict[str, Any]) -> None:
        if "decided" in entry:
            self._decided[entry["decided"]] = entry["value"]
        else:
            self._samples[entry["runs"]] = _unpack(entry)

    def decided(self, name: str, value: Any) -> Any:
        """Return what was decided under this name; the given value, where nothing was."""
        if name not in self._decided:
            self._decided[name] = value
            self._append({"decided": name, "value": value})
        return self._decided[name]

    def find(self, name: str) -> Sample | None:
        """Return the runs of that name, if there were any."""
        return self._samples.get(name)

    def keep(self, name: str, sample: Sample) -> None:
        """Write runs down."""
        if self._path is not None:
            self._append({"runs": name, **_pack(sample)})

    def _append(self, entry: dict[str, Any]) -> None:
        if self._path is None:
            return
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")
        except OSError as error:
            raise UsageError(f"--state {self._path} cannot be written: {error.strerror}.") from None


def _pack(sample: Sample) -> dict[str, Any]:
    known = sorted(set(sample.kinds.tolist()))
    codes = {kind: code for code, kind in enumerate(known)}
    return {
        "kinds": known,
        "codes": _bytes(np.asarray([codes[kind] for kind in sample.kinds], np.int32)),
        "width": sample.numbers.shape[1],
        "numbers": _bytes(np.ascontiguousarray(sample.numbers)),
        "seconds": _bytes(sample.seconds.astype(np.float32)),
    }


def _unpack(entry: dict[str, Any]) -> Sample:
    codes = np.frombuffer(_from_text(entry["codes"]), np.int32)
    kinds = np.empty(len(codes), object)
    kinds[:] = [entry["kinds"][code] for code in codes]
    numbers = np.frombuffer(_from_text(entry["numbers"])).reshape(len(codes), entry["width"])
    seconds = np.frombuffer(_from_text(entry["seconds"]), np.float32).astype(np.float64)
    return Sample(kinds, numbers, seconds)


def _bytes(array: np.ndarray) -> str:
    return base64.b64encode(zlib.compress(array.tobytes(), 1)).decode("ascii")


def _from_text(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))
