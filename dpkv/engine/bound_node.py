"""A node that is bound to one run of one plan: it counts what it is asked, and refuses all else.

Theorem B's price is that of k noisy records and k - 1 noisy sums, at the plan's noise. A plain
``Node`` answers whatever it is asked, so there the price is the coordinator's word. A party that
does not take that word binds its node: it answers ``Describe``, which is public, one ``NoisySum``
for each number of centers below k and one ``NoisyRecord`` for each round, all of the same run, and
the same ones again as often as an answer is lost. Any coordinator whatever then gets what the plan
costs and no more; only with a trusted coordinator, which gets exact sums, is it still trusted.
"""

from __future__ import annotations

import hashlib
import json
import threading
from pathlib import Path
from typing import Any

import numpy as np

from dpkv.engine.node import Cuts, Node
from dpkv.engine.private_plan import PrivatePlan
from dpkv.engine.requests import Describe, NoisyRecord, NoisySum
from dpkv.engine.shards import ShardRecords
from dpkv.errors import ParameterError, UsageError
from dpkv.types import Integers
from dpkv.workspace import write_atomically


class BoundNode(Node):
    """A node that answers one run of ``plan``, whoever asks.

    ``account`` is a file that keeps what was asked, so that a node that starts again goes on
    counting; without it a node counts for as long as it lives. ``run`` names the run; without it,
    the first question does.
    """

    def __init__(
        self,
        records: ShardRecords,
        plan: PrivatePlan,
        secret: bytes | None = None,
        *,
        run: str | None = None,
        account: Path | None = None,
    ) -> None:
        super().__init__(records, secret)
        if self.n_records not in plan.shard_sizes:  # a smaller one would cost more
            raise ParameterError(
                "plan", f"for shards of {plan.shard_sizes} records", self.n_records
            )
        if self.working.shape[1] != plan.grid.n_features:
            raise ParameterError(
                "plan", f"for {plan.grid.n_features} columns", self.working.shape[1]
            )
        self._plan = plan
        self._account = _Account(plan, run, account)

    def admit(self, request: Any) -> Any:
        """Return the plan's own question that ``request`` is, or refuse it.

        What is answered is made of the plan's grid and scales: those of a request are compared, and
        never used.
        """
        kind = type(request)
        if kind is Describe:
            return request
        if kind is not NoisySum and kind is not NoisyRecord:
            raise UsageError(
                f"this node is bound to a plan of private dk-means++ and does not answer "
                f"{kind.__name__}: ask for the plan's NoisySum and NoisyRecord."
            )
        return self._sum(request) if kind is NoisySum else self._record(request)

    def _sum(self, asked: NoisySum) -> NoisySum:
        plan = self._plan
        self._check(asked.grid, asked.scale, plan.sum_scale)
        centers, cuts = _as_centers(asked.centers, asked.cuts, plan)
        content = hashlib.blake2b(centers.tobytes(), digest_size=16).hexdigest()
        self._account.enter(asked.run, f"sum for {len(centers)} centres", content)
        return NoisySum(plan.grid, plan.sum_scale, asked.run, centers, cuts)

    def _record(self, asked: NoisyRecord) -> NoisyRecord:
        plan = self._plan
        self._check(asked.grid, asked.scale, plan.noise_scale)
        if type(asked.round) is not int or not 1 <= asked.round <= plan.n_clusters:
            raise UsageError(f"this node's plan has {plan.n_clusters} rounds: ask for no other.")
        self._account.enter(asked.run, f"record of round {asked.round}", "")
        return NoisyRecord(plan.grid, plan.noise_scale, asked.run, asked.round)

    def _check(self, grid: object, scale: object, planned: float) -> None:
        if type(grid) is not type(self._plan.grid) or grid != self._plan.grid:
            raise UsageError("this node's plan has another grid: ask on the plan's.")
        if type(scale) is not float or scale != planned:
            raise UsageError("this node's plan has noise of another scale: ask with the plan's.")


def _as_centers(centers: object, cuts: object, plan: PrivatePlan) -> tuple[Integers, Cuts]:
    """Return centers and cuts as plain data, or refuse what is none."""
    if not isinstance(centers, np.ndarray) or centers.ndim != 2 or centers.dtype.kind != "i":  # noqa: PLR2004
        raise UsageError("centers must be a matrix of integers.")
    if not 1 <= len(centers) < plan.n_clusters:
        raise UsageError(
            f"this node's plan has {plan.n_clusters} centres: ask for sums after 1 to "
            f"{plan.n_clusters - 1} of them."
        )
    if not isinstance(cuts, tuple) or any(type(cut) is not int for cut in cuts):
        raise UsageError("cuts must be whole numbers.")
    return np.array(centers, dtype="<i8", subok=False), cuts


class _Account:
    """The questions of the one run that were let through, in memory and maybe on disk."""

    def __init__(self, plan: PrivatePlan, run: str | None, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._plan = hashlib.blake2b(repr(plan).encode(), digest_size=16).hexdigest()
        self._run = run
        self._asked: dict[str, str] = {}
        if path is not None and path.exists():
            self._restore(path)

    def enter(self, run: object, question: str, content: str) -> None:
        """Count a question, or refuse it: of another run, or asked before in other words."""
        with self._lock:
            if type(run) is not str or self._run not in (None, run):
                raise UsageError("this node is bound to one run, and this is another: end it.")
            if self._asked.get(question, content) != content:
                raise UsageError(
                    f"this node was asked for the {question} before, for other ones: it answers "
                    "once."
                )
            if question in self._asked:
                return
            asked = {**self._asked, question: content}
            if self._path is not None:  # on disk before it is answered
                kept = {"plan": self._plan, "run": run, "asked": asked}
                write_atomically(self._path, json.dumps(kept) + "\n")
            self._run, self._asked = run, asked

    def _restore(self, path: Path) -> None:
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            plan, run, asked = str(kept["plan"]), str(kept["run"]), dict(kept["asked"])
        except (OSError, ValueError, KeyError, TypeError):
            raise UsageError(
                f"{path} is no account of questions, or a damaged one: put it back, or bind the "
                "node to a new run and charge that anew."
            ) from None
        if plan != self._plan or self._run not in (None, run):
            raise UsageError(f"{path} is the account of another plan or run: use a file for each.")
        self._run, self._asked = run, asked
