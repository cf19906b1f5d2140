"""Transports: how a coordinator's requests reach the nodes and the answers come back."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dpkv.engine.node import Node
from dpkv.engine.requests import NodeRequest
from dpkv.errors import DpkvError, EngineError, UsageError

_EXIT_CODES = (EngineError.exit_code, UsageError.exit_code)
"""What a node may end a command with: never as if all were well."""


class Transport(Protocol):
    """Carries requests to nodes that are known by their number, from 0."""

    n_nodes: int

    def ask(self, node: int, request: NodeRequest) -> Any:
        """Return the answer of one node."""

    def ask_each(self, requests: Sequence[NodeRequest]) -> list[Any]:
        """Return every node's answer to its own request, in the order of the nodes."""


@dataclass(frozen=True)
class Failure:
    """A request that a node could not answer, and why. Never holds a record's value."""

    sentence: str
    exit_code: int


def answer(node: Node, request: NodeRequest) -> Any:
    """Return a node's answer, or what went wrong in a form that may leave the node.

    An unexpected error's own message may quote a record, so only its kind leaves.
    """
    try:
        with node.lock:
            return node.admit(request).answer(node)
    except DpkvError as error:
        return Failure(str(error), error.exit_code)
    except Exception as error:
        return Failure(
            f"a node failed at {type(request).__name__}: {type(error).__name__}. Its own log may "
            "tell more.",
            EngineError.exit_code,
        )


def open_reply(reply: Any) -> Any:
    """Return an answer, or raise what a node could not do."""
    if isinstance(reply, Failure):
        error = EngineError(str(reply.sentence))
        if reply.exit_code in _EXIT_CODES:
            error.exit_code = reply.exit_code
        raise error
    return reply


class LocalTransport:
    """Nodes of this process. Each uses all cores in its turn, which wastes none of them."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = list(nodes)
        self.n_nodes = len(self._nodes)

    def ask(self, node: int, request: NodeRequest) -> Any:
        """Return the answer of one node."""
        return open_reply(answer(self._nodes[node], request))

    def ask_each(self, requests: Sequence[NodeRequest]) -> list[Any]:
        """Return every node's answer to its own request."""
        pairs = zip(self._nodes, requests, strict=True)
        return [open_reply(answer(node, request)) for node, request in pairs]


@dataclass(frozen=True, eq=False)
class Message:
    """One message: to a node, or from it."""

    node: int
    to_node: bool
    content: Any
    encoded: bytes


class RecordingTransport:
    """Keeps every message that passes, as an object and as the bytes that a network would see."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.n_nodes = inner.n_nodes
        self.messages: list[Message] = []

    def ask(self, node: int, request: NodeRequest) -> Any:
        """Pass on a request and its answer, and keep both."""
        self._keep(node, True, request)
        reply = self._inner.ask(node, request)
        self._keep(node, False, reply)
        return reply

    def ask_each(self, requests: Sequence[NodeRequest]) -> list[Any]:
        """Pass on every node's request and its answer, and keep all of them."""
        for node, request in enumerate(requests):
            self._keep(node, True, request)
        replies = self._inner.ask_each(requests)
        for node, reply in enumerate(replies):
            self._keep(node, False, reply)
        return replies

    def _keep(self, node: int, to_node: bool, content: Any) -> None:
        self.messages.append(Message(node, to_node, content, pickle.dumps(content)))
