"""Formats that hindlake can ingest: one module a format, each from records to drafts of traces.

A format has a `name`, a sentence `about` it, and three functions: `matches` (is this value of my kind?), `split`
(a record into parts, each with the key of the trace it belongs to; an empty key: a whole trace), and `join` (the
parts of one trace into a `Draft`). None of them reads files, knows the lake, or raises but `RecordError`.
"""

from __future__ import annotations

from .detect import FORMATS, Format, detect, format_named
from .draft import Draft, RecordError, Stamp, finish, trace_id_of
from .records import Broken, Record, read_records
from .sources import Source, open_sources

__all__ = [
    "FORMATS",
    "Broken",
    "Draft",
    "Format",
    "Record",
    "RecordError",
    "Source",
    "Stamp",
    "detect",
    "finish",
    "format_named",
    "open_sources",
    "read_records",
    "trace_id_of",
]
