"""A Dask cluster of this machine's own that nobody else on the machine can use (extra ``dask``).

Whoever can talk to a scheduler, a worker or its nanny can run code as their owner, and every user
of a machine can reach its ports. So all of them speak TLS only, with credentials that are made for
one run and known to its processes alone, unless the caller names TLS files. Nothing serves HTTP,
which Dask does without credentials, dashboard or not. And workers keep what they write in a folder
of their owner's: Dask's own, ``dask-scratch-space``, is one that another user may have made, who
could then replace what a worker is about to unpickle.

This module imports Dask, so it is imported only where a cluster is started.
"""

from __future__ import annotations

import contextlib
import logging
import tempfile
from collections.abc import Iterator
from typing import Any

from distributed import Nanny, Scheduler, Security, SpecCluster, Worker

from dpkv.errors import EngineError, UsageError
from dpkv.validation import whole_number

_CLOSE_WITHIN = 10.0
_HERE = "127.0.0.1"


class _WithoutHttp:
    """A part of the cluster that serves no HTTP."""

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Do not start what a server of Dask's starts here."""


class QuietScheduler(_WithoutHttp, Scheduler):
    """A scheduler without an HTTP server."""


class QuietWorker(_WithoutHttp, Worker):
    """A worker without an HTTP server."""


def temporary_credentials() -> Any:
    """Return TLS credentials that are made now, for whoever gets this object.

    They are in memory; Dask puts them into a folder of the owner's for as long as OpenSSL reads
    them.
    """
    try:
        return Security.temporary()  # type: ignore[no-untyped-call]
    except ImportError:
        raise UsageError(
            "--engine dask needs the package cryptography, for the certificates of its own "
            "cluster: pip install 'dpkv[dask]'."
        ) from None


@contextlib.contextmanager
def own_cluster(n_workers: int, security: Security) -> Iterator[SpecCluster]:
    """Start a scheduler in this process and so many workers in others, for the time of a block."""
    number = whole_number("workers", n_workers, at_least=1)
    with tempfile.TemporaryDirectory(prefix="dpkv-dask-", ignore_cleanup_errors=True) as folder:
        try:
            cluster = _start(number, security, folder)
        except (OSError, RuntimeError, TimeoutError) as error:
            kind = type(error).__name__
            raise EngineError(f"no cluster could be started here ({kind}).") from None
        try:
            yield cluster
        finally:
            with contextlib.suppress(Exception):  # it may be gone already
                cluster.close(timeout=_CLOSE_WITHIN)


def _start(n_workers: int, security: Security, folder: str) -> SpecCluster:
    """Start what ``distributed.LocalCluster`` starts, but for the HTTP servers."""
    place = {
        "host": _HERE,
        "protocol": "tls://",
        "security": security,
        "dashboard": False,
        "local_directory": folder,
    }
    worker = {
        "cls": Nanny,
        "options": place
        | {
            "worker_class": QuietWorker,
            "nthreads": 1,
            "memory_limit": 1.0 / n_workers,
            "silence_logs": logging.CRITICAL,
        },
    }
    return SpecCluster(  # type: ignore[no-untyped-call]
        scheduler={"cls": QuietScheduler, "options": place | {"port": 0}},
        workers=dict.fromkeys(range(n_workers), worker),
        worker=worker,
        security=security,
        silence_logs=logging.CRITICAL,
    )
