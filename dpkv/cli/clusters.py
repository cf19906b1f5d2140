"""The released groups as people read them: centres, sizes, errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpkv.cli import output

if TYPE_CHECKING:
    from dpkv.releases import ReleaseRecord

_MOST_COLUMNS, _MOST_ROWS = 4, 20
_NEAR, _BAR = 6, 30
_MARK = {True: "<- chosen", False: ""}


def show_clusters(record: ReleaseRecord) -> None:
    """Print the centres in the columns' units, with what noise leaves open of them."""
    from dpkv.releases.digits import with_error
    from dpkv.releases.frames import cells_of
    from dpkv.releases.wording import ERRORS_COVER, UNTOLD

    header, rows = cells_of(record)
    shown = len(header) - max(0, len(record.columns) - _MOST_COLUMNS)
    more = ["..."] if shown < len(header) else []
    rows = [[*row[:shown], *more] for row in rows[:_MOST_ROWS]]
    output.print_table("centres", [*header[:shown], *more], rows)
    if len(record.clusters) > _MOST_ROWS:
        output.say(f"{len(record.clusters) - _MOST_ROWS} more centres are in the file.")
    if record.curve is not None:
        _show_curve(record)
    if record.potential is not None:
        potential = record.potential
        told = " ± ".join(with_error(potential.value, potential.sd))
        output.say(f"potential: {told}, from noisy answers")
    if record.untold is not None:
        output.say(f"{UNTOLD.get(record.untold, record.untold)}.")
    if record.sizes is not None:
        output.say(ERRORS_COVER)


def _show_curve(record: ReleaseRecord) -> None:
    """Print the private potential for every number of centres, as numbers and as bars."""
    curve, chosen = record.curve or (), len(record.clusters)
    first = max(1, chosen - _NEAR)
    shown = range(first, min(len(curve), chosen + _NEAR) + 1)
    most = max((curve[k - 1] for k in shown), default=0.0) or 1.0
    rows = [
        [str(k), f"{curve[k - 1]:.4g}", "#" * round(_BAR * curve[k - 1] / most), _MARK[k == chosen]]
        for k in shown
    ]
    plan = record.plan
    output.print_table(
        f"k chosen from {plan.fewest}..{plan.k} by the private cells, free of charge",
        ["k", "potential", "", ""],
        rows,
        n_words=4,
    )
