"""The algorithms that run over a stream, by name, as problems that trials can run."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dpkv import kernels
from dpkv.errors import UsageError
from dpkv.seeding.kmeans_sharp import sharp_stream
from dpkv.seeding.online import OnlineSeeding, estimate_varsigma, ok_means
from dpkv.seeding.online_facility import online_kmeans
from dpkv.seeding.potentials import LloydResult, lloyd_iterations
from dpkv.seeding.probes import NearestPointProbe
from dpkv.seeding.streaming import (
    StreamSeeding,
    estimate_stretching,
    sk_means,
    stream_potentials,
)
from dpkv.seeding.trials import Found, Trials
from dpkv.streams import Stream
from dpkv.theorems import MINIBATCHES, STREAMS
from dpkv.types import Float64s, Floats, Indices, Progress

_SAMPLED = 5000


class StreamProblem:
    """An algorithm on a stream. A file is read again for the potential; a pipe is gone by then."""

    def __init__(
        self,
        stream: Stream,
        algorithm: str,
        *,
        summary_points: int | None = None,
        builder: str | None = None,
        n_records: int | None = None,
    ) -> None:
        self.algorithm = algorithm
        self.n_records: int | None = n_records
        self._stream = stream
        self._summary_points = summary_points
        self._builder = builder or "facility"
        self._made: list[StreamSeeding | OnlineSeeding] = []

    def seed(self, n_clusters: int, rng: np.random.Generator, progress: Progress) -> Found:  # noqa: ARG002
        """Run the algorithm in one pass; the stream itself reports progress."""
        found = _RUNS[self.algorithm](self, n_clusters, rng)
        self.n_records = found.details["n_records"]
        return found

    def sk(self, n_clusters: int, rng: np.random.Generator) -> Found:
        """Run sk-means++."""
        made = sk_means(
            self._stream,
            n_clusters,
            summary_points=self._summary_points,
            builder=self._builder,
            second_pass=self._stream.rereadable,
            rng=rng,
        )
        self._made.append(made)
        points = len(made.summary.points)
        exact = "exact" if made.spread_is_exact else "at most this"
        summary = f"{points} points ({self._builder}), spread {made.spread:.6g}, {exact}"
        return Found(
            made.centers,
            {
                "n_records": made.summary.n_records,
                "summary_points": points,
                "builder": self._builder,
                "spread": made.spread,
                "spread_is_exact": made.spread_is_exact,
                "summary": summary,
            },
        )

    def ok(self, n_clusters: int, rng: np.random.Generator) -> Found:
        """Run ok-means++ on k minibatches; a file's records are counted first."""
        if self.n_records is None:
            if not self._stream.rereadable:
                raise UsageError(
                    "ok needs --stream-length for a pipe, to cut it into k minibatches: say how "
                    "many records will come."
                )
            self.n_records = sum(len(chunk) for chunk in self._stream.chunks())
        made = ok_means(self._stream, n_clusters, n_records=self.n_records, rng=rng)
        self._made.append(made)
        sizes = made.batch_sizes
        summary = f"{len(sizes)} minibatches of {min(sizes)} to {max(sizes)} records"
        details = {"n_records": made.n_records, "batch_sizes": list(sizes), "summary": summary}
        return Found(made.centers, details)

    def sharp(self, n_clusters: int, rng: np.random.Generator) -> Found:
        """Run k-means# on blocks, then k-means++."""
        made = sharp_stream(self._stream, n_clusters, rng=rng)
        summary = f"{made.n_blocks} blocks, at most {made.most_held} weighted points held"
        return Found(made.centers, {"n_records": made.n_records, "summary": summary})

    def online(self, n_clusters: int, rng: np.random.Generator) -> Found:
        """Run on-line k-means, which opens more than k centers."""
        made = online_kmeans(self._stream, n_clusters, rng=rng)
        summary = f"{len(made.centers)} centres for k = {n_clusters}, on-line cost {made.cost:.6g}"
        return Found(made.centers, {"n_records": made.n_records, "summary": summary})

    def guarantee(self, trials: Trials) -> dict[str, Any] | None:
        """Return what a theorem promises of the best run, if there is one for the algorithm.

        The optimum is estimated by that run's Lloyd iterations, stretching and varsigma on a
        uniform sample of the stream: the result is an estimate of the guarantee.
        """
        if not self._made:
            return None
        best = trials.best
        made = self._made[trials.runs.index(best)]
        rows, sample = sample_stream(self._stream, _SAMPLED, np.random.default_rng(trials.seed))
        if isinstance(made, StreamSeeding):
            probe = NearestPointProbe(made.summary.points)
            eta = estimate_stretching(sample, probe, best.centers, rng=trials.seed).eta
            value = made.guarantee(best.potential, eta) if math.isfinite(eta) else math.inf
            return _describe_estimate(value, f"{STREAMS}, as its proof gives it", "eta", eta)
        batches = np.searchsorted(np.cumsum(made.batch_sizes), rows, side="right") + 1
        varsigma = estimate_varsigma(sample, batches, best.centers, rng=trials.seed).varsigma
        return _describe_estimate(
            made.guarantee(best.potential, varsigma), MINIBATCHES, "varsigma", varsigma
        )

    def potential(self, centers: Floats) -> float:
        """Return phi of all records, NaN where the stream is gone."""
        if not self._stream.rereadable:
            return math.nan
        return stream_potentials(self._stream, centers)[0]

    def lloyd(self, centers: Floats, progress: Progress) -> LloydResult:
        """Run Lloyd's iterations, a pass over the stream for each."""
        start = np.asarray(centers, dtype=np.float64)
        return lloyd_iterations(self._clusters, start, progress=progress)

    def _clusters(self, centers: Float64s) -> tuple[Float64s, Float64s, float]:
        sums, masses, phi = np.zeros_like(centers), np.zeros(len(centers)), 0.0
        for chunk in self._stream.chunks():
            some, counts, part = kernels.clusters(chunk, centers)
            sums, masses, phi = sums + some, masses + counts, phi + part
        return sums, masses, phi


def sample_stream(stream: Stream, size: int, rng: np.random.Generator) -> tuple[Indices, Float64s]:
    """Return the places and the records of a uniform sample of a stream, in its order."""
    keys, places, kept = np.empty(0), np.empty(0, np.int64), None
    before = 0
    for chunk in stream.chunks():
        keys = np.concatenate([keys, rng.random(len(chunk))])
        places = np.concatenate([places, np.arange(before, before + len(chunk))])
        kept = chunk if kept is None else np.concatenate([kept, chunk])
        before += len(chunk)
        least = np.sort(np.argsort(keys)[:size])
        keys, places, kept = keys[least], places[least], kept[least]
    assert kept is not None
    return places, kept


def _describe_estimate(value: float, theorem: str, name: str, figure: float) -> dict[str, Any]:
    of = f"{theorem}, with the optimum estimated by Lloyd's iterations and {name} from a sample"
    return {
        "value": value if math.isfinite(value) else None,
        "of": of,
        name: figure if math.isfinite(figure) else None,
    }


_RUNS: dict[str, Callable[[StreamProblem, int, np.random.Generator], Found]] = {
    "sk": StreamProblem.sk,
    "ok": StreamProblem.ok,
    "kmeans-sharp": StreamProblem.sharp,
    "online-kmeans": StreamProblem.online,
}
