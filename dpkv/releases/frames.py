"""A release's groups as a pandas frame, and as a table in a notebook."""

from __future__ import annotations

from html import escape
from typing import Any

from dpkv.errors import UsageError
from dpkv.releases.digits import counted, in_width, with_error
from dpkv.releases.record import ReleaseRecord
from dpkv.releases.wording import ERRORS_COVER, UNTOLD
from dpkv.tables.centers import size_name


def frame_of(record: ReleaseRecord) -> Any:
    """Return a row per center: place, size, and errors where these are known."""
    try:
        import pandas as pd  # noqa: PLC0415 (optional)
    except ImportError:
        raise UsageError("to_frame needs pandas: pip install pandas.") from None
    rows = []
    size = size_name(record.columns)
    for cluster in record.clusters:
        row: dict[str, Any] = dict(zip(record.columns, cluster.center, strict=True))
        if cluster.center_sd is not None:
            row |= {size: cluster.size, f"{size}_sd": cluster.size_sd}
            pairs = zip(record.columns, cluster.center_sd, strict=True)
            row |= {f"{name}_sd": sd for name, sd in pairs}
        rows.append(row)
    return pd.DataFrame(rows)


def cells_of(record: ReleaseRecord) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of the groups as people read them, in the users' units."""
    sized = record.sizes is not None
    header = ["centre", *([size_name(record.columns)] if sized else []), *record.columns]
    lower, upper = record.extent
    rows = []
    for number, cluster in enumerate(record.clusters, start=1):
        size = [] if cluster.size is None else [counted(cluster.size, cluster.size_sd or 0.0)]
        if cluster.center_sd is None:
            sides = [high - low for low, high in zip(lower, upper, strict=True)]
            places = [in_width(*pair) for pair in zip(cluster.center, sides, strict=True)]
        else:
            pairs = zip(cluster.center, cluster.center_sd, strict=True)
            places = [" ± ".join(with_error(*pair)) for pair in pairs]
        rows.append([str(number), *size, *places])
    return header, rows


def note_of(record: ReleaseRecord) -> str:
    """Return what errors cover, and what cannot be told, in sentences."""
    covered = [ERRORS_COVER] if record.sizes is not None else []
    if record.untold is not None:
        why = UNTOLD.get(record.untold, record.untold)
        covered.append(f"{why[:1].upper()}{why[1:]}.")
    return " ".join(covered)


def html_of(record: ReleaseRecord) -> str:
    """Return the groups as an HTML table with the promise above it, everything escaped."""
    header, rows = cells_of(record)
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    note = note_of(record)
    return (
        f"<div><p>{escape(record.summary)}</p><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table><p><small>{escape(note)}</small></p></div>"
    )
