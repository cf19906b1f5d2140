"""Judges of hostile files for ``support.mutants``: what dpkv says of a text, in a word."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from dpkv.audits.witness import check_witness, parse_witness
from dpkv.errors import DpkvError
from dpkv.releases.kept_releases import parse_record
from dpkv.releases.standing import read_synopsis
from dpkv.releases.verify import Check, failed, verify

_HERE = Path("file.json")
REFUSED, FAILS, PASSES = "refused", "fails", "passes"


def record(text: str) -> str:
    """Verify a record without a workspace."""
    try:
        found = verify(parse_record(text, _HERE))
    except DpkvError as error:
        return _refused(error)
    except Exception as error:
        return type(error).__name__
    return _verdict(found)


def synopsis(text: str) -> str:
    """Read a synopsis and cluster it."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "synopsis.json"
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        try:
            found = read_synopsis(path, workspace=None)
            centers = found.cluster(3, rng=0)
        except DpkvError as error:
            return _refused(error)
        except Exception as error:
            return type(error).__name__
    return PASSES if np.isfinite(centers).all() else "not finite"


def witness(text: str) -> str:
    """Recompute a witness."""
    try:
        found = check_witness(parse_witness(text, _HERE))
    except DpkvError as error:
        return _refused(error)
    except Exception as error:
        return type(error).__name__
    return _verdict(found)


def busy(text: str) -> str:
    """Hang or take more memory than there is, where the text says so: to test the limits."""
    while text == "hang":
        pass
    if text == "eat":
        try:
            bytearray(1 << 40)
        except MemoryError:
            return "MemoryError"
    return PASSES


def _refused(error: DpkvError) -> str:
    return REFUSED if _is_short(str(error)) else "a bad sentence"


def _verdict(checks: tuple[Check, ...]) -> str:
    if not all(_is_short(check.detail) for check in checks):
        return "a bad sentence"
    return FAILS if failed(checks) else PASSES


def _is_short(words: str) -> bool:
    return bool(words) and "\n" not in words and len(words) < 1000
