"""From options to a request and its table, completed from the newest calibration."""

from __future__ import annotations

import atexit
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpkv.cli import options, output
from dpkv.cli.progress import ProgressBar, progress_shown
from dpkv.errors import UsageError
from dpkv.mechanisms.registry import PAPERS
from dpkv.settings import find_workspace

if TYPE_CHECKING:
    from dpkv.calibration import Calibration
    from dpkv.cli.kept_calibrations import KeptCalibration
    from dpkv.cli.release_options import ReleaseOptions
    from dpkv.releases import Plan
    from dpkv.releases.inputs import FileInput, ReadTable
    from dpkv.releases.preparation import Preparation
    from dpkv.releases.remote_inputs import RemoteInput
    from dpkv.releases.request import AnyBounds

_LEAKY_OR_PRIVATE = ("private", "data")


@dataclass(frozen=True)
class Taken:
    """What was not said and is the newest calibration's; None where it was said."""

    calibration: Path
    table: Path
    eps: float | None
    bounds: dict[str, Any] | None


@dataclass(frozen=True, eq=False)
class ReleaseJob:
    """A table that was looked at but not read, and what is planned for it."""

    preparation: Preparation
    source: FileInput | RemoteInput
    eps_tilde: float | None = None
    """The published calibration's figure, where the calibration has it."""
    calibrated: str | None = None
    """The fingerprint of the table that was calibrated, where that says which table it is."""
    taken: Taken | None = None

    def read(self, account: str | None = None) -> tuple[Plan, ReadTable, str]:
        """Read the table; return the finished plan, the records, and the account to charge.

        That is the table's fingerprint, unless another is given.
        """
        table = read_table(self.preparation)
        account = self.find_account(account)
        with ProgressBar("calibrating") as bar:
            plan = self.preparation.complete(table, eps_tilde=self.eps_tilde, progress=bar.describe)
        return plan, table, account

    def find_account(self, given: str | None) -> str:
        """Return the account, having seen that the table is the one that was calibrated."""
        if given is not None and self.calibrated is None:
            return given
        with progress_shown():
            fingerprint = self.source.fingerprint(find_workspace())
        if self.calibrated not in (None, fingerprint):
            raise UsageError(
                f"{self.source.path} is not the table that was calibrated: run 'dpkv calibrate' on "
                "it again, or name the table to release from."
            )
        return given or fingerprint


def read_table(preparation: Preparation) -> ReadTable:
    """Read the records, with progress."""
    name = getattr(preparation.source, "label", "the table")
    with ProgressBar(f"reading {name}") as bar:
        return preparation.read(bar.update)


def plan_release(asked: ReleaseOptions, *, publishes: bool = True) -> ReleaseJob:
    """Find the table, and check everything that can be checked without reading it.

    What ``publishes`` the names of the columns asks for a header that was stated.
    """
    from dpkv.calibration import DEFAULT_GAMMA
    from dpkv.releases.inputs import FileInput
    from dpkv.releases.preparation import prepare_release
    from dpkv.releases.request import Request
    from dpkv.tables.described import schema_of

    kept = None if asked.table is not None else _newest_calibration()
    record = None if kept is None else kept.record
    options.memory_bytes(asked.memory_limit)
    columns = options.split_columns(asked.columns)
    header, missing, scale = asked.header, asked.missing, asked.scale
    table, eps, gamma = asked.table, asked.eps, asked.gamma
    if record is not None:
        _check_completable(asked, record)
        assert record.data_file is not None and record.columns is not None
        table, columns = [Path(record.data_file)], list(record.columns)
        header = header if record.header is None else record.header
        missing, scale = record.missing, bool(record.domain.get("scaled", True))
        eps = record.eps if eps is None else eps
        gamma = record.rows[0].certified.gamma if gamma is None else gamma
    if table is None or eps is None:
        raise UsageError("--eps must be given with a table: how much may the release cost?")
    beside = table[0] if table and len(table) == 1 else None
    schema = schema_of(asked.schema or (None if record is None else record.schema_file), beside)
    if asked.bounds is None and record is None and schema is None:
        raise UsageError(
            "--bounds must be given with a table: low,high in numbers; or private, to find them "
            "with a share of eps; or data, which leaks; or a schema beside the table."
        )
    bounds = _bounds(asked.bounds, record)
    request = Request(
        k=asked.k,
        eps=eps,
        bounds=bounds,
        mechanism=asked.mechanism,
        neighbours=asked.neighbours,
        calibration=asked.calibration,
        gamma=DEFAULT_GAMMA if gamma is None else gamma,
        iterations=asked.iterations,
        density=asked.density,
        lloyd_steps=asked.lloyd_steps,
        delta=asked.delta,
        bounds_share=asked.bounds_share,
        scaled=scale,
        clamp=asked.clamp,
        columns=columns,
        header=header,
        missing=missing,
        schema=schema,
        encoding=asked.encoding if record is None else record.encoding,
        decimal=asked.decimal if record is None else record.decimal,
        person=asked.person,
        rows_per_person=asked.rows_per_person,
        one_row_per_person=asked.one_row_per_person,
        weight=asked.weight,
        most_weight=asked.most_weight,
        publisher=asked.publisher,
        data_about=asked.data_about,
        purpose=asked.purpose,
    )
    asked.engine_options.check()
    source = FileInput(
        table,
        request.table_facts,
        memory_limit=options.memory_bytes(asked.memory_limit),
        workspace=find_workspace(),
        publishes=publishes,
    )
    preparation = prepare_release(request, source)
    table_input: FileInput | RemoteInput = source
    if asked.engine == "dask":
        table_input = _on_workers(preparation, source, asked)
        preparation = replace(preparation, source=table_input)
    if kept is None or record is None:
        return ReleaseJob(preparation, table_input)
    eps_tilde = _known_eps_tilde(asked, record, preparation.plan)
    return ReleaseJob(
        preparation, table_input, eps_tilde, record.data_fingerprint, _taken(asked, kept)
    )


def _on_workers(preparation: Preparation, files: FileInput, asked: ReleaseOptions) -> RemoteInput:
    """Return the table as workers read it."""
    from dpkv.releases.remote_inputs import RemoteInput

    found = RemoteInput(files, asked.engine_options.carry)
    atexit.register(found.close)  # whatever ends the command
    domain, plan = preparation.domain, preparation.plan
    found.plan_for(plan, None if domain is None else domain.grid(plan.grid_bits))
    return found


def as_calibrated(
    asked: ReleaseOptions, ks: tuple[int, ...] | None
) -> tuple[ReleaseOptions, tuple[int, ...] | None]:
    """Let an audit of the table that was calibrated last take bounds and k from there.

    Bounds that were read from the data are taken as such: an audit is no release.
    """
    from dpkv.cli.kept_calibrations import newest_calibration

    said = (
        *(asked.bounds, asked.columns, asked.header, asked.schema, asked.encoding, asked.decimal),
        None if asked.missing == "refuse" else asked.missing,
    )
    kept = newest_calibration(find_workspace())
    if kept is None or not asked.scale or any(value is not None for value in said):
        return asked, ks
    record = kept.record
    if asked.table is not None and [os.path.realpath(one) for one in asked.table] != [
        record.data_file
    ]:
        return asked, ks
    bounds = "data" if record.domain["source"] == "data" else None
    wanted = ks or tuple(row.k for row in record.rows)
    return replace(asked, k=str(wanted[0]), data=None, data_option=None, bounds=bounds), wanted


def _newest_calibration() -> KeptCalibration:
    from dpkv.cli.kept_calibrations import newest_calibration

    kept = newest_calibration(find_workspace())
    if kept is None:
        raise UsageError(
            "nothing is calibrated in this folder: run 'dpkv calibrate DATA --eps E' first, or "
            "give the table, --eps and --bounds."
        )
    return kept


def _taken(asked: ReleaseOptions, kept: KeptCalibration) -> Taken:
    """Return what a calibration supplies to a request that names no table."""
    assert kept.record.data_file is not None
    return Taken(
        calibration=kept.path,
        table=Path(kept.record.data_file),
        eps=kept.record.eps if asked.eps is None else None,
        bounds=kept.record.domain if asked.bounds is None else None,
    )


def _check_completable(asked: ReleaseOptions, record: Calibration) -> None:
    """Refuse what belongs to a table that is named, and tell what was not calibrated for.

    A calibration may have guessed the header; then it is still to be stated.
    """
    header = None if record.header is None else asked.header
    said = asked.columns, header, asked.missing, asked.schema, asked.encoding, asked.decimal
    if any(value is not None for value in said) or not asked.scale:
        raise UsageError(
            "--columns, --header, --no-scale, --missing, --schema, --encoding and --decimal belong "
            "to a table that is named: without one the newest calibration says how the table is "
            "read."
        )
    if record.data_file is None or record.columns is None:
        raise UsageError(
            "the newest calibration names no table: give the table, --eps and --bounds."
        )
    if asked.mechanism != PAPERS:
        return
    if not any(str(row.k) == asked.k for row in record.rows):
        covered = ", ".join(str(row.k) for row in record.rows)
        output.note(f"k = {asked.k} is not in the calibration (k = {covered}): calibrated anew.")
    if asked.eps is not None and asked.eps != record.eps:
        output.note(f"eps = {asked.eps:g}, not the calibration's {record.eps:g}: calibrated anew.")


def _known_eps_tilde(asked: ReleaseOptions, record: Calibration, plan: Plan) -> float | None:
    """Return eps~ of the calibration's row, where eps, bounds and k are still the same."""
    from dpkv.releases.produce import usable_eps_tilde

    row = record.row(plan.k)
    if plan.calibration != "published" or row is None or asked.bounds is not None:
        return None
    if record.eps != float(plan.eps):
        return None
    return usable_eps_tilde(plan.k, row.published.eps_tilde, row.published.note)


def _bounds(text: str | None, record: Calibration | None) -> AnyBounds | None:
    """Return the bounds as a request has them: those that were typed, or the calibration's."""
    from dpkv.domain import Domain

    if text is not None:
        bounds: AnyBounds = text if text in _LEAKY_OR_PRIVATE else options.parse_bounds(text)
        return bounds
    if record is None:
        return None
    if record.domain["source"] == "data":
        raise UsageError(
            "the newest calibration read its bounds from the data, and a release by them would "
            "leak them: give --bounds low,high; or --bounds private, to find them with a share of "
            "eps; or --bounds data, for a release without a guarantee."
        )
    return Domain.from_dict(record.domain)
