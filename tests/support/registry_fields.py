"""What the OpenDP deployments registry documents of an entry's fields, written down by hand.

Read from ``schemas/deployments-schema.yaml`` of opendp/deployments-registry-data at commit 057e5d8
(2026): the names of all fields, which of them must be there, of which tier they are, and what the
enumerated ones may say.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Field:
    tier: int = 0
    required: bool = False
    values: tuple[str, ...] = ()
    kind: type | tuple[type, ...] = str


SECTORS = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
PRODUCTS = (
    *("Summary statistics", "Machine learning model", "Dataset", "Synthetic data"),
    *("Interactive API", "SQL queries"),
)
STATES = (
    *("Converted", "Draft", "Pending", "Changes Required", "Approved"),
    *("Approved (Update Requested)", "Approved (Pending)"),
)
FIELDS = {
    "url_slug": Field(required=True),
    "deployment.basic.name": Field(1, True),
    "deployment.basic.data_curators.data_curator_name": Field(1, True),
    "deployment.basic.data_curators.data_curator_type": Field(
        1, True, ("Government", "Industry", "Nonprofit")
    ),
    "deployment.basic.description": Field(1, True),
    "deployment.basic.intended_use": Field(1, True),
    "deployment.basic.data_product_type": Field(1, True, PRODUCTS),
    "deployment.basic.data_product_region": Field(1, True),
    "deployment.basic.data_product_sector": Field(1, False, SECTORS),
    "deployment.basic.publication_date": Field(1, True),
    "deployment.dp_variant.variant_name": Field(
        2, False, ("Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom")
    ),
    "deployment.dp_variant.data_domain": Field(3),
    "deployment.dp_variant.unprotected_quantities": Field(3),
    "deployment.privacy_loss.privacy_unit": Field(2),
    "deployment.privacy_loss.privacy_unit_details": Field(3),
    "deployment.privacy_loss.number_of_privacy_units": Field(kind=int),  # where it is known
    "deployment.privacy_loss.privacy_parameters.epsilon": Field(2, kind=(int, float)),
    "deployment.privacy_loss.privacy_parameters.delta": Field(kind=(int, float, str)),
    "deployment.privacy_loss.privacy_parameters.rho": Field(kind=(int, float)),
    "deployment.privacy_loss.privacy_parameters_details": Field(3),
    "deployment.deployment_model.model_name": Field(
        2, False, ("Local", "Central", "Shuffle", "Federated", "Varies")
    ),
    "deployment.deployment_model.model_name_details": Field(3),
    "deployment.deployment_model.trust_assumptions": Field(3),
    "deployment.deployment_model.actors": Field(3),
    "deployment.deployment_model.release_type": Field(2, False, ("One release", "Many releases")),
    "deployment.deployment_model.release_type_details": Field(3),
    "deployment.deployment_model.data_source_type": Field(2, False, ("Static", "Dynamic")),
    "deployment.deployment_model.data_source_type_details": Field(),
    "deployment.deployment_model.access_type": Field(2, False, ("Interactive", "Non-interactive")),
    "deployment.deployment_model.access_type_details": Field(3),
    "deployment.implementation.preprocessing_and_hyperparameter_tuning": Field(3),
    "deployment.implementation.mechanisms": Field(3),
    "deployment.implementation.composition": Field(3),
    "deployment.implementation.post_processing": Field(3),
    "deployment.implementation.justification": Field(3),
    "deployment.implementation.utility": Field(3),
    "deployment.implementation.additional_information": Field(1),
    "deployment.administrative.status": Field(required=True, values=STATES),
    "deployment.administrative.registry_authors": Field(required=True),
    "deployment.administrative.tier": Field(required=True, values=("1", "2", "3"), kind=int),
}
"""All fields but the evidence sources, which are publications about a deployment."""


def flat(entry: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of an entry with their paths; the items of a list have the list's path."""
    for key, value in entry.items():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, dict):
                yield from flat(one, f"{path}{key}.")
            else:
                yield f"{path}{key}", one


def faults_of(entry: dict[str, Any]) -> dict[str, str]:
    """Return the fields of an entry that the registry would refuse, and why."""
    given = dict(flat(entry))
    wrong = {name: "is missing" for name, f in FIELDS.items() if f.required and name not in given}
    for name, value in given.items():
        known = FIELDS.get(name)
        if known is None:
            wrong[name] = "is unknown"
        elif not isinstance(value, known.kind) or isinstance(value, bool):
            wrong[name] = f"is of type {type(value).__name__}"
        elif known.values and str(value) not in known.values:
            wrong[name] = f"is {value!r}"
    date = given.get("deployment.basic.publication_date")
    if isinstance(date, str) and not _is_date(date):
        wrong["deployment.basic.publication_date"] = "is no date"
    return wrong


def _is_date(text: str) -> bool:
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
        return False
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return True
