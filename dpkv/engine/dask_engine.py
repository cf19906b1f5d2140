"""Nodes on the workers of a Dask cluster (extra ``dask``).

A worker loads its own shard; a request carries the shard's description and the published centers,
never records. A shard keeps to one worker as long as that lives; when it is lost, Dask sends the
request to another, which loads the shard and rebuilds what the request asks for. Every wait has an
end: a cluster that does not answer is an error, never a hang.
"""

from __future__ import annotations

import contextlib
import logging
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn, TypeVar

from dpkv.engine.node import Node
from dpkv.engine.requests import NodeRequest
from dpkv.engine.shards import FileShard, ShardRecords
from dpkv.engine.transport import Failure, answer, open_reply
from dpkv.errors import DpkvError, EngineError, ParameterError, UsageError
from dpkv.validation import positive_finite

DEFAULT_TIMEOUT = 300.0
_CONNECT_WITHIN = 30.0
_CLOSE_WITHIN = 10.0
_GRACE = 1.0  # for Dask to report a wait of its own that has ended
_KEPT_NODES = 10_000  # shards that are large are memory-mapped, so they cost little
_PATIENCE = 1.0  # seconds between signs of life
_INSTALL = "--engine dask needs pip install 'dpkv[dask]'."

T = TypeVar("T")


@dataclass(frozen=True)
class Tls:
    """Files of a TLS connection, in PEM: the authority, the own certificate and its key."""

    ca_file: str
    cert: str
    key: str


# -- on a worker -----------------------------------------------------------------------------------

Kept = tuple[FileShard, list[int], ShardRecords, Node]
"""A shard as it was asked for, its file's state, the records and the node."""

_nodes: OrderedDict[FileShard, Kept] = OrderedDict()
_nodes_lock = threading.Lock()


def answer_from_shard(shard: FileShard, request: NodeRequest) -> Any:
    """Answer a request on a worker. Stateless: kept nodes only save time."""
    try:
        node = _node_of(shard)
    except DpkvError as error:
        return Failure(str(error), error.exit_code)
    except Exception as error:
        return Failure(f"a worker cannot load its shard: {type(error).__name__}.", 1)
    return answer(node, request)


def _node_of(shard: FileShard) -> Node:
    """Return the shard's node: kept for as long as its file and its run last.

    A later run takes over the records, so that a worker never holds them twice.
    """
    place = replace(shard, seed=None, number=0)
    with _nodes_lock:
        state = shard.state()
        kept = _nodes.pop(place, None)
        if kept is None or kept[1] != state:
            records = shard.load()
            kept = (shard, state, records, Node(records, shard.secret()))
        elif kept[0] != shard:
            kept = (shard, state, kept[2], Node(kept[2], shard.secret()))
        _nodes[place] = kept
        while len(_nodes) > _KEPT_NODES:
            _nodes.popitem(last=False)
        return kept[3]


def _piece(told: Any, number: int) -> Any:
    """Return what is for one receiver, or why there is nothing."""
    return told if isinstance(told, Failure) else told[number]


def _gathered(pieces: list[Any]) -> Any:
    """Return what came from all senders, or why it did not."""
    failures = [piece for piece in pieces if isinstance(piece, Failure)]
    return failures[0] if failures else pieces


def _settled(settle: Callable[[Sequence[Any]], Any], pieces: list[Any]) -> Any:
    """Return what a bucket makes of its pieces."""
    found = _gathered(pieces)
    return found if isinstance(found, Failure) else settle(found)


# -- on the coordinator ----------------------------------------------------------------------------


class DaskTransport:
    """Requests as Dask tasks, each shard's on one worker for as long as that lives."""

    def __init__(
        self,
        client: Any,
        shards: Sequence[Any],
        timeout: float,
        waiting: Callable[[], None] | None = None,
        work: Callable[[Any, Any], Any] = answer_from_shard,
    ) -> None:
        self.n_nodes = len(shards)
        self._client = client
        self._shards = list(shards)
        self._timeout = positive_finite("timeout", timeout)
        self._waiting = waiting
        self._work = work
        workers = _workers(client, min(timeout, _CONNECT_WITHIN))
        self._workers = workers
        self._home = [workers[number % len(workers)] for number in range(self.n_nodes)]
        self._beside: list[Any] = []

    def move_to(self, shards: Sequence[Any]) -> None:
        """Ask the same nodes of other shards from now on."""
        self._shards = list(shards)

    def shuffle(
        self,
        tell: Callable[[Any, int], Any],
        settle: Callable[[Sequence[Any]], Any],
    ) -> None:
        """Have the nodes tell buckets, and give every node what buckets tell it with each request.

        ``tell`` gives what a shard tells so many buckets, ``settle`` what a bucket tells every
        shard. All of it goes from worker to worker. It stays on workers for as long as this
        transport asks; what is lost with one of them, Dask has done again.
        """
        n_buckets = len(self._workers)
        told = [
            self._send(home, tell, shard, n_buckets)
            for shard, home in zip(self._shards, self._home, strict=True)
        ]
        settled = []
        for bucket, worker in enumerate(self._workers):
            pieces = [
                self._send(home, _piece, part, bucket)
                for part, home in zip(told, self._home, strict=True)
            ]
            settled.append(self._send(worker, _settled, settle, pieces))
        self._beside = [
            self._send(home, _gathered, [self._send(home, _piece, one, node) for one in settled])
            for node, home in enumerate(self._home)
        ]

    def ask(self, node: int, request: Any) -> Any:
        """Return the answer of one node."""
        return self._collect([(node, self._submit(node, request))])[0]

    def ask_each(self, requests: Sequence[Any]) -> list[Any]:
        """Return every node's answer to its own request."""
        futures = [(node, self._submit(node, request)) for node, request in enumerate(requests)]
        return self._collect(futures)

    def _submit(self, node: int, request: Any) -> Any:
        beside = [self._beside[node]] if self._beside else []
        return self._send(self._home[node], self._work, self._shards[node], request, *beside)

    def _send(self, home: str, work: Callable[..., Any], *arguments: Any) -> Any:
        """Have a worker do something: the one that is named, or another when that is lost."""
        try:
            return self._client.submit(
                work, *arguments, pure=False, workers=[home], allow_other_workers=True
            )
        except Exception as error:
            raise _lost_node(error) from None

    def _collect(self, futures: list[tuple[int, Any]]) -> list[Any]:
        replies = []
        try:
            for node, future in futures:
                replies.append(open_reply(self._result(node, future)))
        finally:
            for _, future in futures:
                future.release()
        return replies

    def _result(self, node: int, future: Any) -> Any:
        try:
            wait = partial(future.result, timeout=self._timeout)
            return _wait_until_done(self._timeout, wait, self._waiting)
        except TimeoutError:
            raise EngineError(
                f"node {node + 1} of {self.n_nodes} has not answered within {self._timeout:g} s: "
                "look at the cluster, or raise --timeout."
            ) from None
        except (Exception, CancelledError) as error:
            raise _lost_node(error) from None


def _lost_node(error: BaseException) -> EngineError:
    """Return the error of a cluster that went away, or of workers that cannot do the work."""
    kind = type(error).__name__
    if isinstance(error, ModuleNotFoundError):
        return EngineError("the workers lack a package: install this version of dpkv on them.")
    return EngineError(
        f"the cluster failed ({kind}): its scheduler or too many of its workers are gone."
    )


@contextlib.contextmanager
def dask_transport(
    shards: Sequence[Any],
    *,
    work: Callable[[Any, Any], Any] = answer_from_shard,
    scheduler: str | None = None,
    n_workers: int | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    tls: Tls | None = None,
    waiting: Callable[[], None] | None = None,
) -> Iterator[DaskTransport]:
    """Connect to a scheduler, or start a cluster of this machine's own, for the time of a run.

    A cluster started here has TLS credentials of its own, unless ``tls`` says which to use.
    ``waiting`` is called every second while nodes are waited for. ``work`` is what a worker does
    with a shard and a request.
    """
    timeout = positive_finite("timeout", timeout)
    distributed = _import_distributed()
    security = None
    if tls is not None:
        security = _security(distributed, tls)
    if scheduler is not None:
        _check_address(scheduler, tls)
    _silence()
    with contextlib.ExitStack() as stack:
        address: Any = scheduler
        if scheduler is None:
            from dpkv.engine import dask_cluster  # noqa: PLC0415 (it imports Dask)

            security = dask_cluster.temporary_credentials() if security is None else security
            wanted = len(shards) if n_workers is None else n_workers
            address = stack.enter_context(dask_cluster.own_cluster(wanted, security))
        client = _client(distributed, address, min(timeout, _CONNECT_WITHIN), security)
        stack.callback(_quietly, client.close, timeout=_CLOSE_WITHIN)
        yield DaskTransport(client, shards, timeout, waiting, work)


def _import_distributed() -> Any:
    try:
        import distributed  # noqa: PLC0415 (an optional extra)
    except ImportError:
        raise UsageError(_INSTALL) from None
    return distributed


def _security(distributed: Any, tls: Tls) -> Any:
    for name, path in (("--tls-ca", tls.ca_file), ("--tls-cert", tls.cert), ("--tls-key", tls.key)):
        try:
            with open(path, encoding="ascii") as file:  # noqa: PTH123
                file.read(1)
        except (OSError, UnicodeDecodeError):
            sentence = f"{name} must be a PEM file that can be read."
            raise UsageError(f"{sentence} Got {path!r} instead.") from None
    return distributed.Security(
        tls_ca_file=tls.ca_file,
        tls_client_cert=tls.cert,
        tls_client_key=tls.key,
        tls_scheduler_cert=tls.cert,
        tls_scheduler_key=tls.key,
        tls_worker_cert=tls.cert,
        tls_worker_key=tls.key,
        require_encryption=True,
    )


def _check_address(scheduler: str, tls: Tls | None) -> None:
    scheme = "tcp" if tls is None else "tls"
    if not re.fullmatch(rf"({scheme}://)?(\[[^\]/]+\]|[^:/\[\]]+):\d+", scheduler):
        other = "--tls-ca, --tls-cert and --tls-key make it tls://" if tls is None else "TLS is on"
        raise ParameterError("--scheduler", f"{scheme}://host:port ({other})", scheduler)


def _client(distributed: Any, address: Any, within: float, security: Any) -> Any:
    options = {"timeout": within, "security": security, "set_as_default": False}
    try:
        return _wait_until_done(within, lambda: distributed.Client(address, **options))
    except (OSError, TimeoutError, ValueError, TypeError, RuntimeError):
        shown = address if isinstance(address, str) else "of this machine"
        raise EngineError(
            f"the Dask scheduler {shown} does not answer within {within:g} s: check its address, "
            "that it runs, and its TLS files."
        ) from None


def _workers(client: Any, within: float) -> list[str]:
    """Return the addresses of the workers there are, having waited for the first."""

    def found() -> list[str]:
        client.wait_for_workers(1, timeout=within)
        return sorted(client.nthreads())

    try:
        return _wait_until_done(within, found)
    except Exception:
        raise EngineError(
            f"the Dask scheduler has no worker, and none came within {within:g} s: start one with "
            "dask worker."
        ) from None


def _wait_until_done(
    within: float, call: Callable[[], T], waiting: Callable[[], None] | None = None
) -> T:
    """Return what ``call`` returns, or raise TimeoutError: not every wait of Dask's has an end.

    ``waiting`` is called every second meanwhile. The call itself is made once and left alone: one
    that is cut short every second to look up would on a busy machine never get its answer.
    """
    ends: list[Callable[[], T]] = []

    def run() -> None:
        try:
            made = call()
            ends.append(lambda: made)
        except BaseException as error:
            ends.append(partial(_raise, error))

    thread = threading.Thread(target=run, name="dpkv-dask", daemon=True)
    thread.start()
    deadline = time.monotonic() + within + _GRACE
    while thread.is_alive() and (left := deadline - time.monotonic()) > 0.0:
        thread.join(min(left, _PATIENCE))
        if waiting is not None and thread.is_alive():
            waiting()
    if not ends:
        raise TimeoutError
    return ends[0]()


def _raise(error: BaseException) -> NoReturn:
    raise error


def _silence() -> None:
    """Keep Dask's own log, tracebacks and all, off the terminal: errors are told in a sentence."""
    for name in ("distributed", *logging.root.manager.loggerDict):
        if name.partition(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL)


def _quietly(close: Any, **options: Any) -> None:
    """Close what may be gone already."""
    with contextlib.suppress(Exception):
        close(**options)
