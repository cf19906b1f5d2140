"""What the scikit-learn classes share: tables checked as scikit-learn does, no cell told."""

from __future__ import annotations

import re
from typing import Any

from sklearn.utils.validation import validate_data

_SHOWN_ARRAY = re.compile(
    r"(instead:\n)array=.*\n(?=Reshape)|(?<=Complex data not supported)\n.*|(?<=got scalar )`.*`",
    re.DOTALL,
)


def checked(estimator: Any, data: Any, **options: Any) -> Any:
    """Return what scikit-learn makes of a table; its refusals must not quote a record."""
    try:
        return validate_data(estimator, data, order="C", **options)
    except (TypeError, ValueError) as error:
        sentence = _without_records(str(error))
        kind = TypeError if isinstance(error, TypeError) else ValueError
    raise kind(sentence)


def _without_records(sentence: str) -> str:
    """Return scikit-learn's or numpy's sentence without the array or the cell that it shows."""
    if sentence.startswith("could not convert"):
        return "X must be numeric: drop or encode the other columns."
    return _SHOWN_ARRAY.sub(lambda found: found.group(1) or "", sentence)
