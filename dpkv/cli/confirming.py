"""What a curator is told before a release is charged, and asked where a person sits there."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from dpkv.cli import output
from dpkv.errors import UserInterruptError

if TYPE_CHECKING:
    from dpkv.releases import Settled


def tell_prediction(settled: Settled) -> None:
    """Say how far off centres will typically be, in the user's units, where that can be told."""
    from dpkv.releases.predictions import predicted_deviations

    found = predicted_deviations(settled)
    if found is None:
        return
    pairs = zip(found, settled.plan.columns, strict=True)
    shown = output.first_few(f"{deviation:.2g} in {name}" for deviation, name in pairs)
    often = "" if settled.plan.fewest is None else f" if there are {settled.plan.k} of them"
    output.note(
        f"predicted: a centre is typically off by about {shown}, because of the noise{often}."
    )


def confirm_charge(settled: Settled, account: str) -> None:
    """Ask whether to go on, where there is somebody to answer; elsewhere nothing is asked."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    plan = settled.plan
    delta = f", delta = {plan.delta}" if plan.delta != "0" else ""
    question = f"charge eps = {plan.eps}{delta} to {account}, once and for all?"
    if not typer.confirm(output.printable(question), default=True, err=True):
        raise UserInterruptError("stopped before anything was charged.")
