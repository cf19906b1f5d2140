"""One compiled walk over the bytes of a CSV file: where records end, and which are ragged."""

from __future__ import annotations

from dpkv import kernels

_TAB, _LINE_FEED, _CARRIAGE_RETURN, _SPACE, _QUOTE = 9, 10, 13, 32, 34
_FIELD_START, _IN_FIELD, _IN_QUOTES, _AFTER_QUOTES = 0, 1, 2, 3


@kernels.compiled
def walk_records(text, delimiter, wanted, row):  # type: ignore[no-untyped-def]
    """Return (end, rows, line, cells) of whole records at the beginning of ``text``.

    ``end`` is where the last whole record ends and ``rows`` how many records there are. ``line`` is
    the offset, in lines, of the first record whose count ``cells`` is not ``wanted`` or whose
    number is ``row`` (0-based), or -1. Records end with LF, CRLF or CR outside quotes; a quote
    opens only at the start of a cell. All this is how pandas' parser reads them.

    A line of blanks is a record where one cell is wanted: its cell is missing. Several cells have
    delimiters between them even when all are missing, so a line without any is no record.
    """
    end = rows = line = cells_found = 0
    record_line = 0
    found = -1
    cells, blank, state = 1, True, _FIELD_START
    for i in range(len(text)):
        byte = text[i]
        breaks = byte == _LINE_FEED or (
            byte == _CARRIAGE_RETURN and i + 1 < len(text) and text[i + 1] != _LINE_FEED
        )
        if breaks:
            line += 1
        if state == _IN_QUOTES:
            if byte == _QUOTE:
                state = _AFTER_QUOTES
        elif byte == _QUOTE and state != _IN_FIELD:
            state = _IN_QUOTES  # opens a cell, or is the second of a doubled quote
            blank = False
        elif breaks:
            if not blank or wanted == 1:
                if found < 0 and (cells != wanted or rows == row):
                    found, cells_found = record_line, cells
                rows += 1
            end, record_line = i + 1, line
            cells, blank, state = 1, True, _FIELD_START
        elif byte == delimiter:
            cells += 1
            blank, state = False, _FIELD_START
        elif byte == _TAB or (byte == _SPACE and state == _AFTER_QUOTES):
            state = _IN_FIELD
        elif byte != _SPACE and byte != _CARRIAGE_RETURN:  # noqa: PLR1714 (compiled)
            blank, state = False, _IN_FIELD
    return end, rows, found, cells_found
