"""The calibration record: frozen data, written as JSON and read back with every field checked.

Curator-only: spread, monotonicity and everything published depend on the private records.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from dpkv import __version__
from dpkv.paper.published_calibration import LABEL

CERTIFIED_LABEL = (
    "eps-DP end to end by Theorem A, for replace-one neighbours; the number of records, k and the "
    "domain are public"
)
LEAKED_LABEL = (
    "Theorem A's noise for bounds read from the data: they leak the data, so this is not an "
    "end-to-end guarantee"
)
PRIVATE_BOUNDS_LABEL = (
    "eps-DP by Theorem A, for replace-one neighbours, besides what finding the bounds has cost; "
    "the number of records and k are public"
)
LEAK = "the bounds were read from the data, which leaks: no release from them is end to end private"


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class PotentialBound(_Record):
    """Phi of Theorem 7; the bound on the expected potential is (2 + log k) times it."""

    printed: float
    dimension_aware: float


class PublishedNoise(_Record):
    """eps~ and sigma_1 by the paper's formula, from this row's spread and monotonicity."""

    eps_tilde: float | None
    sigma: float | None
    note: str
    likelihood_ratio: float | None
    """Theorem 5's bound at this noise; at most e^eps by construction."""
    phi: PotentialBound | None
    label: str = LABEL


class RandomizedNoise(_Record):
    """The paper's own procedure, random search, beside the careful figures."""

    spread: float | None
    monotonicity: float | None
    eps_tilde: float | None
    sigma: float | None
    n_draws: int
    caveat: str


class CertifiedNoise(_Record):
    """eps~ and noise by Theorem A. With public bounds nothing here depends on the data."""

    eps_tilde: float
    sigma: float
    gamma: float
    spent: float
    noise_share: float
    """Root-mean-square distance of a noisy center from its record, over the domain's diameter."""
    phi: PotentialBound
    label: str


class WindowFigures(_Record):
    """A window at the certified eps~, in place of noise. Nothing here depends on the data either,
    where bounds are public."""

    ratio: float
    """rho, at most exp(eps~)."""
    side: float
    """Of the window, over the widest side of the domain."""
    near: float
    """The probability that a centre is a point of its record's window."""
    noise_share: float
    """Root-mean-square distance of a centre from its record, over the domain's diameter."""


class LaplaceNoise(_Record):
    """The Laplace mechanism's noise, sigma_2."""

    sigma: float
    noise_share: float
    phi: PotentialBound


class SublinearNoiseRegime(_Record):
    """Theorem 6 at its most favourable: a uniform density and failure probability one half."""

    largest_k: int
    applies: bool
    g: float | None


class Forecast(_Record):
    """What a release would be like, by the mechanism with the smallest predicted error."""

    mechanism: str
    deviations: tuple[float, ...]
    """The typical error of a center in every column's own unit."""
    hopeless: bool
    """Whether nothing better is predicted than what does without the data."""
    eps_for_half: float | None
    """An eps at which that would be half as much; None where a few multiples are not enough."""


class Row(_Record):
    """One number of clusters."""

    k: int
    forecast: Forecast | None
    """None where no release can have this eps."""
    spread: float | None
    spread_method: str
    spread_at_least: float | None
    """A spread that some choice of records attains: the truth is between this and ``spread``."""
    monotonicity: float | None
    monotonicity_method: str
    optimum_estimate: float
    """phi_opt, estimated from above by Lloyd restarts."""
    published: PublishedNoise
    randomized: RandomizedNoise | None
    certified: CertifiedNoise
    window: WindowFigures
    laplace: LaplaceNoise
    regime: SublinearNoiseRegime
    paper_eps_tilde: float | None = None
    """What the paper prints for a table of this very shape, if it is one of its own."""
    notes: tuple[str, ...] = ()


Convention = Literal["diameter", "radius"]


class Radius(_Record):
    """R of the published calibration, in working coordinates."""

    value: float
    convention: Convention
    of: Literal["domain", "smallest enclosing ball of the data"]


class Calibration(_Record):
    """How much noise each calibration needs, for every k of interest. Curator-only."""

    schema_version: Literal[1] = 1
    kind: Literal["calibration"] = "calibration"
    visibility: Literal["curator-only"] = "curator-only"
    dpkv_version: str = __version__
    created: str = Field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    neighbours: Literal["replace-one"] = "replace-one"
    eps: float
    n_records: int
    n_features: int
    columns: tuple[str, ...] | None = None
    data_file: str | None = None
    data_fingerprint: str | None = None
    """A keyed hash of the file: tells whether it is still the table that was calibrated."""
    header: bool | None = None
    missing: str | None = None
    schema_file: str | None = None
    """The schema that said what the table holds, where one did."""
    encoding: str | None = None
    decimal: str | None = None
    unit: Literal["row", "person"] = "row"
    """Whose data the forecasts' releases protect; all other figures are for single rows."""
    n_units: int | None = None
    """How many they are, where they are not the records."""
    person: str | None = None
    """The column that says whose a row is."""
    domain: dict[str, Any]
    coordinates: str
    radius: Radius
    eps_tilde_ceiling: float
    """log(1 + m (e^eps - 1)): what no calibration can exceed."""
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def row(self, k: int) -> Row | None:
        """Return the row of k, if there is one."""
        return next((row for row in self.rows if row.k == k), None)

    def to_json(self) -> str:
        """Return the record as JSON text."""
        return self.model_dump_json(indent=2) + "\n"

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return the header and the cells of the table a person reads."""
        header = ["k", "spread", "monotonicity", "eps~ published", "sigma_1"]
        header += ["eps~ certified", "sigma", "sigma_2", "centre moves by"]
        return header, [_cells(row) for row in self.rows]

    def __repr__(self) -> str:
        header, rows = self.table()
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        lines = [
            "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
            for line in (header, *rows)
        ]
        title = (
            f"Calibration: eps = {self.eps:g}, {self.neighbours}, {self.n_records} records x "
            f"{self.n_features} columns, bounds {self.domain['source']}, curator-only"
        )
        return "\n".join([title, *lines])

    __str__ = __repr__


def _cells(row: Row) -> list[str]:
    return [
        str(row.k),
        f"{_shown(row.spread)} {row.spread_method}",
        f"{_shown(row.monotonicity)} {row.monotonicity_method}",
        _shown(row.published.eps_tilde),
        _shown(row.published.sigma),
        _shown(row.certified.eps_tilde),
        _shown(row.certified.sigma),
        _shown(row.laplace.sigma),
        f"{row.certified.noise_share:.1%}",
    ]


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
