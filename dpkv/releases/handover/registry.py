"""The entry of a release in the OpenDP deployments registry, as a tier 3 entry has it.

The fields are those of ``schemas/deployments-schema.yaml`` in opendp/deployments-registry-data, at
commit 057e5d8 (2026). What describes the product and its purpose is for people to say, as is
everything about how the decisions were made.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from dpkv.errors import UsageError
from dpkv.releases.about import About
from dpkv.releases.canonical import digest
from dpkv.releases.handover.marked_up import (
    as_code,
    as_text,
    bullets,
    in_words,
    sentence,
    told_domain,
    told_errors,
    told_sizes,
)
from dpkv.releases.handover.open_points import left_open
from dpkv.releases.handover.yaml_text import yaml_text
from dpkv.releases.record import ReleaseRecord
from dpkv.releases.wording import CHANGES, ERRORS_COVER, Explanation, weighing

_OPENING = """\
# An entry for the OpenDP deployments registry, tier 3, written by dpkv from the release's record.
# Replace every text that begins with "TO FILL IN", since a record cannot know it.
"""
_UNITS = {"row": "Row-level", "person": "Person-level"}
_BOUNDS = {
    "given": "The bounds were given as public: nothing was spent on them.",
    "private": "The bounds were found by noisy histograms, with a share of eps that is part of "
    "the total.",
}
_MISSING = {
    "refuse": "a table with a cell that is no number is refused",
    "fill": "an unusable cell becomes {value}, that cell alone",
    "ignore": "a row with an unusable cell counts for nothing",
    "category": "an unusable cell is a category of its own",
}


def entry_text(record: ReleaseRecord) -> str:
    """Return the entry as YAML."""
    return _OPENING + yaml_text(entry(record))


def entry(record: ReleaseRecord) -> dict[str, Any]:
    """Return the entry as plain values."""
    if not record.guarantee.end_to_end or record.kind != "release":
        raise UsageError(
            "only a release that is private from end to end can be registered: this record states "
            f"no eps. {record.summary}"
        )
    told = record.explanation
    return {
        "url_slug": _slug(record),
        "deployment": {
            "basic": _basic(record),
            "dp_variant": _variant(record, told),
            "privacy_loss": _loss(record, told),
            "deployment_model": _model(told),
            "implementation": _implementation(record, told),
            "administrative": {
                "status": "Draft",
                "registry_authors": [left_open("who writes this entry")],
                "tier": 3,
            },
        },
    }


def _slug(record: ReleaseRecord) -> str:
    name = record.release_id or record.centers_digest[:16]
    return "dpkv-" + re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _basic(record: ReleaseRecord) -> dict[str, Any]:
    columns = in_words(as_code(facts.name) for facts in record.plan.table)
    sizes = "" if record.sizes is None else ", with the size of each group and standard errors"
    about = record.plan.about or About.model_construct()
    source = "" if about.data is None else f" The data: {as_text(about.data)}."
    return {
        "name": left_open("the name of the data product"),
        "data_curators": [
            {
                "data_curator_name": left_open("who publishes it")
                if about.publisher is None
                else as_text(about.publisher),
                "data_curator_type": left_open("Government, Industry or Nonprofit"),
            }
        ],
        "description": f"{len(record.clusters)} centres of groups of a table, in the columns "
        f"{columns}{sizes}.{source}",
        "intended_use": left_open("what it is meant for")
        if about.purpose is None
        else as_text(about.purpose),
        "data_product_type": "Summary statistics",
        "data_product_region": left_open("which region the data describe, or whose law applies"),
        "data_product_sector": left_open(
            "Technology, Healthcare, Education, Government, Energy or Finance; or remove this line"
        ),
        "publication_date": record.created[:10],
    }


def _variant(record: ReleaseRecord, told: Explanation) -> dict[str, Any]:
    rules = {
        _MISSING[facts.missing].format(value=facts.fill): facts.name for facts in record.plan.table
    }
    return {
        "variant_name": "Pure DP" if record.guarantee.delta == "0" else "Approximate DP",
        "data_domain": f"Tables of rows with the columns {told_domain(record)}. Values outside are "
        f"moved to the nearest bound; {'; '.join(rules)}.",
        "unprotected_quantities": bullets([sentence(one) for one in told.not_protected]),
    }


def _loss(record: ReleaseRecord, told: Explanation) -> dict[str, Any]:
    promise = record.guarantee
    change = CHANGES[promise.unit, promise.neighbours.value]
    details = [
        f"Adjacent tables differ by {change} ({promise.neighbours.value}): the distance between "
        "tables is the number of such changes, and the bound on it is 1.",
        sentence(told.protects),
    ]
    if (weights := weighing(record.plan)) is not None:
        details.append(sentence(weights))
    parameters = {"epsilon": Decimal(str(promise.eps))}  # as text it is exact
    if promise.delta != "0":
        parameters["delta"] = Decimal(promise.delta)
    number = _number_of_units(record)
    return {
        "privacy_unit": _UNITS[promise.unit],
        "privacy_unit_details": bullets(details),
        **({} if number is None else {"number_of_privacy_units": number}),
        "privacy_parameters": parameters,
        "privacy_parameters_details": bullets([told.statement, *map(sentence, told.steps)]),
    }


def _number_of_units(record: ReleaseRecord) -> int | None:
    """Return the number of rows or persons: public, or else what noisy sizes add up to."""
    if record.n_records is not None:
        return record.n_records
    unit = record.plan.unit
    if record.sizes is None or unit.weight_column is not None or unit.persons == "limit":
        return None  # what sizes count is neither rows nor persons
    return round(sum(record.sizes))


def _model(told: Explanation) -> dict[str, Any]:
    return {
        "model_name": "Central",
        "model_name_details": sentence(told.model),
        "trust_assumptions": bullets([sentence(one) for one in told.assumptions]),
        "actors": bullets(
            [
                "The curator holds the records, runs dpkv and is trusted with both.",
                "Everybody else sees what the release published, and is not trusted: the guarantee "
                "holds whatever else they know.",
                left_open("who can reach the records, the workspace and the product"),
            ]
        ),
        "release_type": "One release",
        "release_type_details": left_open(
            "whether more is to be released about the same people, and from which budget"
        ),
        "data_source_type": left_open("Static or Dynamic"),
        "access_type": "Non-interactive",
        "access_type_details": "All questions were planned and priced before the records were "
        "used. Nobody can ask more.",
    }


def _implementation(record: ReleaseRecord, told: Explanation) -> dict[str, Any]:
    plan = record.plan
    prepared = [_BOUNDS[plan.bounds]]
    if plan.scaled:
        prepared.append("Columns are scaled to the same width by the bounds, before distances.")
    if plan.chosen is not None:
        prepared.append(f"The mechanism was chosen by public facts alone: {told.chosen}.")
    if plan.fewest is not None:
        prepared.append(
            f"The number of centres was chosen between {plan.fewest} and {plan.k} from private "
            "answers, at no further cost."
        )
    prepared.append(left_open("how eps and the other settings were chosen; whether data were seen"))
    mechanisms = [
        f"{told.title}. {sentence(told.why)}",
        *map(sentence, told.noise),
        f"dpkv {as_code(record.dpkv_version)}, with "
        + in_words(f"{name} {as_code(number)}" for name, number in record.versions.items())
        + ".",
        "Floating-point: all private choices and noise are exact, in integers on a public grid of "
        f"2^{record.grid.bits} levels.",
        f"Randomness: {sentence(told.randomness)}",
        "Timing: the release is not interactive; running time and memory use are not protected.",
        left_open("how the records are kept secure, and who has access"),
    ]
    after = ["Centres are computed from noisy answers and moved to points of the public grid."]
    if plan.clamp:
        after.append("Centres outside the bounds are moved into them.")
    errors = [one for one in (told_errors(record), told_sizes(record)) if one is not None]
    covered = [ERRORS_COVER] if errors else []
    return {
        "preprocessing_and_hyperparameter_tuning": bullets(prepared),
        "mechanisms": bullets(mechanisms),
        "composition": bullets(_composition(record)),
        "post_processing": bullets(after),
        "justification": left_open("why these settings, who decided, and how it was validated"),
        "utility": bullets([*map(sentence, errors), *covered, left_open("is it good enough?")]),
        "additional_information": bullets(_references(record)),
    }


def _composition(record: ReleaseRecord) -> list[str]:
    told = ["The steps of the release are composed sequentially; their prices add up to the total."]
    if record.charged is not None and record.ledger is not None:
        told.append(
            f"A ledger was charged eps = {record.charged:f} before the records were used, by its "
            f"entry {record.ledger.number}. It keeps the budget of all releases of this table."
        )
    else:
        told.append("No ledger was charged: whoever made the release keeps the account.")
    return told


def _references(record: ReleaseRecord) -> list[str]:
    told = [f"SHA-256 of the record: {digest(record.canonical())}"]
    told.append(f"SHA-256 of the file of centres: {record.centers_digest}")
    if record.synopsis_digest is not None:
        told.append(f"SHA-256 of the private synopsis: {record.synopsis_digest}")
    if record.signature is not None:
        told.append(f"Ed25519 key that signed it: {as_code(record.signature.public_key)}")
    told.append("Anybody can recompute the record by dpkv verify.")
    return told
