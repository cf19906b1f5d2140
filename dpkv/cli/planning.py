"""From options to a plan and its table: what ``dpkv release`` and ``dpkv simulate`` share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpkv.cli import options, output
from dpkv.cli.progress import ProgressBar
from dpkv.cli.reading import WORKSPACE, Watched
from dpkv.errors import UsageError

if TYPE_CHECKING:
    from dpkv.calibration import Calibration
    from dpkv.cli.kept_calibrations import KeptCalibration
    from dpkv.domain import Domain
    from dpkv.releases import InputTable, Plan
    from dpkv.releases.plan import BoundsSource
    from dpkv.tables import Source
    from dpkv.types import Floats

_LEAKY_OR_PRIVATE = ("private", "data")


@dataclass(frozen=True)
class Request:
    """The options that release and simulate share."""

    k: int
    data: Path | None
    eps: float | None
    mechanism: str
    calibration: str
    neighbours: str
    bounds: str | Domain | None
    bounds_share: float
    gamma: float | None
    iterations: int | None
    clamp: bool
    columns: list[str] | None
    header: bool | None
    scale: bool
    invalid: str
    memory_limit: int
    delta: float = 0.0


@dataclass(frozen=True)
class Taken:
    """What was not said and is the newest calibration's; None where it was said."""

    calibration: Path
    table: Path
    eps: float | None
    bounds: dict[str, Any] | None


@dataclass(frozen=True, eq=False)
class Job:
    """A table that was looked at but not read, and what is planned for it."""

    request: Request
    source: Source
    domain: Domain | None
    plan: Plan
    calibration: Calibration | None
    taken: Taken | None = None

    def read(self, account: str | None = None) -> tuple[Plan, InputTable, str]:
        """Read the table; return the finished plan, the records, and the account to charge.

        That is the table's fingerprint, unless another is given.
        """
        from dpkv.releases import InputTable
        from dpkv.tables import load

        path = self.source.path
        file = Watched(path)
        centred = self.request.invalid == "center" and self.domain is not None
        with ProgressBar(f"reading {path.name}") as bar:
            table = load(
                self.source,
                fill=self.domain.middle if centred and self.domain is not None else None,
                memory_limit=options.memory_bytes(self.request.memory_limit),
                progress=bar.update,
            )
        account = self._account(file, account)
        mapped = table.mapped_file is not None
        records = InputTable(table.values, table.columns, path.name, mapped=mapped)
        return self._finished(table.values), records, account

    def _account(self, file: Watched, given: str | None) -> str:
        """Return the account, having seen that the table is the one that was calibrated."""
        if given is not None and self.calibration is None:
            return given
        fingerprint = file.fingerprint(WORKSPACE)
        if self.calibration is not None and self.calibration.data_fingerprint != fingerprint:
            raise UsageError(
                f"{self.source.path} is not the table that was calibrated: run 'dpkv calibrate' on "
                "it again, or give --data."
            )
        return given or fingerprint

    def _finished(self, values: Floats) -> Plan:
        """Return the plan, with the published calibration's eps~ where that is asked for."""
        if self.plan.calibration != "published":
            return self.plan
        eps_tilde = self._known_eps_tilde()
        if eps_tilde is None:
            eps_tilde = self._calibrated_eps_tilde(values)
        return self.plan.model_copy(update={"eps_tilde": eps_tilde})

    def _known_eps_tilde(self) -> float | None:
        """Return eps~ of the calibration's row, where eps, bounds and k are still the same."""
        from dpkv.releases.produce import usable_eps_tilde

        record = self.calibration
        row = None if record is None else record.row(self.plan.k)
        if record is None or row is None or self.request.bounds is not None:
            return None
        if record.eps != float(self.plan.eps):
            return None
        return usable_eps_tilde(self.plan.k, row.published.eps_tilde, row.published.note)

    def _calibrated_eps_tilde(self, values: Floats) -> float:
        from dpkv.domain import data_domain
        from dpkv.releases.produce import published_eps_tilde
        from dpkv.validation import cluster_count

        cluster_count(self.plan.k, len(values), "--k")
        domain = self.domain or data_domain(values, scaled=self.plan.scaled)
        working = domain.to_working(values).astype("float64", copy=False)
        with ProgressBar("calibrating") as bar:
            return published_eps_tilde(self.plan, working, domain, progress=bar.describe)


def opened(request: Request) -> Job:
    """Find the table, and check everything that can be checked without reading it."""
    from dpkv.calibration import DEFAULT_GAMMA
    from dpkv.releases.plan import Plan
    from dpkv.tables import open_table
    from dpkv.tables.table import check_header

    kept = _newest_calibration() if request.data is None else None
    record, taken = None, None
    if kept is not None:
        record, asked = kept.record, request
        request = _completed(request, record)
        taken = _taken(asked, kept)
    if request.data is None or request.eps is None:
        raise UsageError("--eps must be given with --data: how much may the release cost?")
    options.memory_bytes(request.memory_limit)
    source = open_table(request.data, columns=request.columns, header=request.header)
    kind, domain = _bounds(request, record, source)
    if request.invalid == "center" and kind != "given":
        raise UsageError("--invalid center needs --bounds in numbers: the centre must be public.")
    check_header(source, request.invalid)
    plan = Plan.of(
        k=request.k,
        eps=request.eps,
        bounds=kind,
        columns=source.columns,
        domain=domain,
        invalid=request.invalid,
        mechanism=request.mechanism,
        neighbours=request.neighbours,
        calibration=request.calibration,
        iterations=request.iterations,
        delta=request.delta,
        bounds_share=request.bounds_share,
        scaled=request.scale,
        clamp=request.clamp,
        gamma=DEFAULT_GAMMA if request.gamma is None else request.gamma,
    )
    return Job(request, source, domain, plan, record, taken)


def _newest_calibration() -> KeptCalibration:
    from dpkv.cli.kept_calibrations import newest_calibration

    kept = newest_calibration(WORKSPACE)
    if kept is None:
        raise UsageError(
            "nothing is calibrated in this folder: run 'dpkv calibrate DATA --eps E' first, or "
            "give --data, --eps and --bounds."
        )
    return kept


def _taken(asked: Request, kept: KeptCalibration) -> Taken:
    """Return what a calibration supplies to a request that names no table."""
    assert kept.record.data_file is not None
    return Taken(
        calibration=kept.path,
        table=Path(kept.record.data_file),
        eps=kept.record.eps if asked.eps is None else None,
        bounds=kept.record.domain if asked.bounds is None else None,
    )


def _completed(request: Request, record: Calibration) -> Request:
    """Take from the calibration what was not said, and tell what it was not made for."""
    said = request.columns, request.header, None if request.invalid == "refuse" else True
    if any(value is not None for value in said) or not request.scale:
        raise UsageError(
            "--columns, --header, --no-scale and --invalid belong to --data: without it the newest "
            "calibration says how the table is read."
        )
    if record.data_file is None or record.columns is None:
        raise UsageError("the newest calibration names no table: give --data, --eps and --bounds.")
    uses_it = request.mechanism == "kvariates"
    if uses_it and record.row(request.k) is None:
        covered = ", ".join(str(row.k) for row in record.rows)
        output.note(f"k = {request.k} is not in the calibration (k = {covered}): calibrated anew.")
    if uses_it and request.eps is not None and request.eps != record.eps:
        output.note(
            f"eps = {request.eps:g}, not the calibration's {record.eps:g}: calibrated anew."
        )
    return replace(
        request,
        data=Path(record.data_file),
        eps=record.eps if request.eps is None else request.eps,
        gamma=record.rows[0].certified.gamma if request.gamma is None else request.gamma,
        columns=list(record.columns),
        header=record.header,
        invalid=record.invalid,
        scale=bool(record.domain.get("scaled", True)),
    )


def _bounds(
    request: Request, record: Calibration | None, source: Source
) -> tuple[BoundsSource, Domain | None]:
    """Return where the bounds come from, and the domain where they are given."""
    from dpkv.domain import Domain
    from dpkv.releases.api import as_bounds

    if request.bounds is not None:
        chosen = request.bounds
        if isinstance(chosen, str) and chosen not in _LEAKY_OR_PRIVATE:
            chosen = options.parse_bounds(chosen)
        return as_bounds(chosen, source.columns, scaled=request.scale)
    if record is None:
        raise UsageError(
            "--bounds must be given with --data: low,high in numbers; or private, to find them "
            "with a share of eps; or data, which leaks."
        )
    if record.domain["source"] == "data":
        return "data", None
    return "given", Domain.from_dict(record.domain)
