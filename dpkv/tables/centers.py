"""Centres out: the one way they are written as CSV, so that the text has one digest."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from dpkv.types import Floats


def centers_csv(columns: Sequence[str], centers: Floats) -> str:
    """Return the centres as CSV text; a number is the shortest decimal that rounds to it."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(centers.tolist())
    return text.getvalue()
