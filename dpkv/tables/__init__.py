"""Tables: CSV and Parquet in, as float records.

Reading is chunked. A table larger than a limit is converted once to a memory-mapped array in the
workspace, so that memory stays bounded and later passes run at memory speed.
"""

from dpkv.tables.prepared import Prepared, prepare, read_table
from dpkv.tables.stream import RecordStream, open_stream
from dpkv.tables.table import Source, Table, load, open_table
from dpkv.types import Progress

__all__ = [
    "Prepared",
    "Progress",
    "RecordStream",
    "Source",
    "Table",
    "load",
    "open_stream",
    "open_table",
    "prepare",
    "read_table",
]
