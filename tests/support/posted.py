"""Parts of a table in this process, as if on workers: all that is said travels as bytes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

from dpkv.engine import file_parts
from dpkv.engine.dask_engine import _gathered, _piece, _settled
from dpkv.engine.file_parts import FilePart, answer_from_part
from dpkv.engine.transport import open_reply


def lose_all() -> None:
    """As if every worker had been replaced: nothing of what was kept is there."""
    file_parts._held.clear()


class Posted:
    """Parts of this process, to which tasks and from which answers travel as bytes."""

    def __init__(self, parts: Sequence[FilePart], before: Callable[[], None] | None = None) -> None:
        self.parts, self.asked = list(parts), 0
        self.n_buckets = 3
        self._beside: list[Any] = []
        self._before = before or (lambda: None)

    def ask(self, node: int, request: Any) -> Any:
        self.asked += 1
        self._before()
        beside = [self._beside[node]] if self._beside else []
        return open_reply(sent(answer_from_part, self.parts[node], request, *beside))

    def ask_each(self, requests: Sequence[Any]) -> list[Any]:
        return [self.ask(node, request) for node, request in enumerate(requests)]

    def move_to(self, shards: Sequence[FilePart]) -> None:
        self.parts = list(shards)

    def shuffle(
        self, tell: Callable[[Any, int], Any], settle: Callable[[Sequence[Any]], Any]
    ) -> None:
        told = []
        for part in self.parts:
            self._before()
            told.append(sent(tell, part, self.n_buckets))
        settled = [
            sent(_settled, settle, [_piece(one, bucket) for one in told])
            for bucket in range(self.n_buckets)
        ]
        self._beside = [
            sent(_gathered, [_piece(one, node) for one in settled])
            for node in range(len(self.parts))
        ]


def sent(work: Callable[..., Any], *arguments: Any) -> Any:
    """Do something with copies that came as bytes, and return such a copy of what it gives."""
    work, arguments = pickle.loads(pickle.dumps((work, arguments)))
    return pickle.loads(pickle.dumps(work(*arguments)))
