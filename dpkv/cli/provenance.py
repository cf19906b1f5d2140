"""What a curator is told of a release besides its record: the account, and the calibration."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dpkv.cli import output
from dpkv.cli.accounts import SHOWN_FINGERPRINT

if TYPE_CHECKING:
    from dpkv.cli.planning import Taken
    from dpkv.releases import Charging, ReleaseRecord


def describe_account(charging: Charging, label: str) -> str:
    """Say which account of which ledger: what other folders and accounts spend is not in it."""
    from dpkv.ledger import NAMED

    name = charging.dataset
    if not name.startswith(NAMED):
        name = f"{label} ({name[:SHOWN_FINGERPRINT]})"
    return f"{charging.ledger.place}, account {name}; what is spent elsewhere is not in it"


def with_curators_facts(
    record: ReleaseRecord, charging: Charging, taken: Taken | None
) -> dict[str, Any]:
    """Return the record for a program, with what is not in it because it is not for publishing."""
    calibration = None
    if taken is not None:
        calibration = {
            "file": str(taken.calibration.absolute()),
            "table": str(taken.table),
            "eps": taken.eps,
            "bounds": taken.bounds,
        }
    ledger = charging.ledger
    place = ledger.place if ledger.is_shared else str(ledger.path.absolute())
    charged = {"ledger": place, "account": charging.dataset}
    facts = {"charged_to": charged, "taken_from_calibration": calibration}
    return {**json.loads(record.to_json()), "curator_only": facts}


def describe_taken(taken: Taken) -> str:
    """Say what is the calibration's, and which calibration that is."""
    told = [f"table {taken.table.name}"]
    if taken.eps is not None:
        told.append(f"eps = {taken.eps:g}")
    if taken.bounds is not None:
        told.append(f"bounds {_numbers_told(taken.bounds)}")
    return f"calibration {taken.calibration}: {', '.join(told)}"


def _numbers_told(domain: dict[str, Any]) -> str:
    if domain["source"] == "data":
        return "read from the data"
    if "lower" not in domain:
        return f"an L1 ball of radius {domain['radius']:g}"
    pairs = [
        f"{low:g}..{high:g}" for low, high in zip(domain["lower"], domain["upper"], strict=True)
    ]
    return pairs[0] if len(set(pairs)) == 1 else output.first_few(pairs)
