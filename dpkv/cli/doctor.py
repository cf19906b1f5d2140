"""``dpkv doctor``: is this installation fit to release?"""

from __future__ import annotations

from dpkv.cli import options, output
from dpkv.errors import VerificationError
from dpkv.settings import find_workspace

_MARKS = {True: "pass", False: "FAIL", None: "-"}


def doctor(as_json: options.AsJson = False) -> None:
    """Look at versions, randomness, workspace, ledger and machine, and test the sampler.

    A tiny release is made many times and compared with its exact distribution. No table is read,
    no budget charged, nothing repaired. Exit code 3 where something is wrong.

    Example:  dpkv doctor
    """
    from dpkv.doctor import examine

    found = list(examine(find_workspace()))
    wrong = [finding for finding in found if finding.passed is False]
    if as_json:
        output.print_json(
            {
                "schema_version": 1,
                "kind": "examination",
                "passed": not wrong,
                "checks": [
                    {"name": one.name, "passed": one.passed, "detail": one.detail} for one in found
                ],
            }
        )
    else:
        output.print_facts(
            "this installation", [[one.name, _MARKS[one.passed], one.detail] for one in found]
        )
    if wrong:
        raise VerificationError("; ".join(f"{one.name}: {one.detail}" for one in wrong) + ".")
    if not as_json:
        output.say("pass: fit to release.")
