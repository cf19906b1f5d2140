"""The picture of a calibration: noise against k."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpkv.calibration.record import Calibration

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def sigma_figure(record: Calibration) -> Figure:
    """Draw sigma_1 as published, the certified sigma and the Laplace sigma_2 against k."""
    from matplotlib.figure import Figure  # noqa: PLC0415 (slow to import, rarely needed)

    figure = Figure(figsize=(7.0, 5.0), layout="constrained")
    axes = figure.add_subplot()
    counts = [row.k for row in record.rows]
    lines: dict[str, tuple[list[float | None], str, str]] = {
        "Laplace mechanism, sigma_2": ([row.laplace.sigma for row in record.rows], "#8c8c8c", "s"),
        "certified (Theorem A)": ([row.certified.sigma for row in record.rows], "#0b6e4f", "o"),
        "published sigma_1 (conditional on the data)": (
            [row.published.sigma for row in record.rows],
            "#c1440e",
            "^",
        ),
    }
    for label, (values, color, marker) in lines.items():
        shown = [(k, value) for k, value in zip(counts, values, strict=True) if value]
        if shown:
            axes.plot(*zip(*shown, strict=True), marker=marker, color=color, label=label)
        else:
            axes.plot([], [], marker=marker, color=color, label=f"{label}: undefined")
    if any(row.laplace.sigma > 0 for row in record.rows):
        axes.set_yscale("log")
    axes.set_xticks(counts)
    axes.set_xlabel("number of centres k")
    axes.set_ylabel(f"noise standard deviation ({record.coordinates})")
    axes.set_title(
        f"Noise at eps = {record.eps:g}, {record.neighbours}, m = {record.n_records}", loc="left"
    )
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=1, frameon=False)
    return figure
