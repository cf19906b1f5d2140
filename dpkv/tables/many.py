"""One table in many files: a folder, a pattern, or files by name, all with the same columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dpkv.errors import TableError
from dpkv.tables.chunk import Chunk
from dpkv.tables.facts import TableFacts
from dpkv.tables.finding import folder_of
from dpkv.tables.table import Source, open_table


def open_files(paths: Sequence[Path], facts: TableFacts) -> Source:
    """Look at all files of a table; a single one is a source as it is."""
    if len(paths) == 1:
        return open_table(paths[0], facts)
    return ManyFiles([open_table(path, facts) for path in paths])


class ManyFiles:
    """The rows of several files, one file after the other, in the order given."""

    def __init__(self, sources: Sequence[Source]) -> None:
        first = sources[0]
        for other in sources[1:]:
            if other.facts != first.facts:
                raise TableError(
                    f"{other.path} has other columns than {first.path}: all files of a table must "
                    "have the same columns in the same order, or name those to use with --columns."
                )
        self._sources = list(sources)
        self.files = tuple(source.path for source in sources)
        self.path = folder_of(self.files)
        self.facts = first.facts
        self.columns = first.columns
        self.labels = first.labels
        self.header_guessed = any(source.header_guessed for source in sources)
        self.names_guessed = any(source.names_guessed for source in sources)

    @property
    def layout(self) -> dict[str, Any]:
        """What decides the numbers read, besides the files and the columns."""
        return {
            "files": [str(path.resolve()) for path in self.files],
            "layouts": [source.layout for source in self._sources],
        }

    def chunks(self) -> Iterator[Chunk]:
        """Yield the cells, file by file; a row is named by its file and its place in that."""
        for number, source in enumerate(self._sources):
            for chunk in source.chunks():
                share = (number + chunk.share) / len(self._sources)
                locate = _naming(source.path.name, chunk.locate)
                yield replace(chunk, share=share, locate=locate)


def _naming(file: str, locate: Callable[[int], str]) -> Callable[[int], str]:
    return lambda row: f"{file}, {locate(row)}"
