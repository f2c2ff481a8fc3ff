"""The read log: what was asked, what was returned, and what of it was put before a model.

Reads are acknowledged as events are, by a spool on this machine's disk (in a folder of its own beside theirs), and
rolled into `ns=<ns>/reads/day=<day>/<segment>.parquet`. A read is one row; each time that some of its memories are
put before a model another row of the same `read_id`, with `injected` set, names them. All rows of a read lie in the
day of the read itself, which its id tells, so that a day can be looked at alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ..clock import as_utc
from ..files.lake import Lake, namespace_path
from ..ids import sortable_id, time_of
from ..schema import table_of
from ..settings import Settings
from .spool import Rolled, home_label, roll_frames

if TYPE_CHECKING:
    import pyarrow as pa


class Read(msgspec.Struct, array_like=True, gc=False):
    """One row of the table `reads`, whose schema says what each field means."""

    namespace: str
    read_id: str
    at: datetime
    trace_id: str = ""
    query: str = ""
    filters: str = ""
    generation: str = ""
    seq: int = 0
    ids: list[str] = []
    injected: bool = False


encode_read = msgspec.msgpack.Encoder().encode
decode_read = msgspec.msgpack.Decoder(Read).decode


def new_read_id(at: datetime) -> str:
    """A new id of a read that is made at a time, which `day_of` finds in it again."""
    return sortable_id(max(int(as_utc(at).timestamp() * 1000), 0))


def day_of(read: Read) -> date:
    """The day, UTC, that a row of the read log lies in: that of the read, whenever its memories were put to use.

    >>> at = datetime(2026, 3, 1, 23, 59, tzinfo=UTC)
    >>> day_of(Read("acme", new_read_id(at), datetime(2026, 3, 2, tzinfo=UTC), injected=True)).isoformat()
    '2026-03-01'
    """
    try:
        return datetime.fromtimestamp(time_of(read.read_id) / 1000, UTC).date()
    except (ValueError, OverflowError):
        return as_utc(read.at).date()


def reads_folder(settings: Settings) -> Path:
    """The folder of this machine where reads wait for the lake."""
    return settings.spool_folder / "reads"


def roll_reads(lake: Lake, settings: Settings) -> Rolled:
    """Roll every segment of reads that no process holds into the lake. Doing it twice changes nothing.

    Raises `LakeError` if the lake can't be written; what was not rolled is still there.
    """
    fsync = settings.recorder.fsync
    return roll_frames(lake, reads_folder(settings), home_label(settings), decode_read, write_reads, fsync=fsync)


def write_reads(lake: Lake, reads: Sequence[Read], segment: str) -> list[str]:
    """Write reads as one file a namespace and day, named for their segment, and return the paths."""
    paths = []
    ordered = sorted(reads, key=lambda read: (read.namespace, day_of(read), read.read_id, read.at))
    for (namespace, day), group in groupby(ordered, key=lambda read: (read.namespace, day_of(read))):
        path = f"{day_folder(namespace, day.isoformat())}/{segment}.parquet"
        lake.create_table(path, table_of([msgspec.structs.asdict(read) for read in group], "reads"))
        paths.append(path)
    return paths


def day_folder(namespace: str, day: str) -> str:
    """The folder of one day's reads.

    >>> day_folder("acme", "2026-03-01")
    'ns=acme/reads/day=2026-03-01'
    """
    return namespace_path(namespace, "reads", f"day={day}")


def read_days(lake: Lake, namespace: str) -> dict[str, list[str]]:
    """The files of the read log by day, oldest day first."""
    prefix = namespace_path(namespace, "reads")
    days: dict[str, list[str]] = {}
    for path in lake.names(prefix):
        day = path.removeprefix(f"{prefix}/day=").partition("/")[0]
        days.setdefault(day, []).append(path)
    return days


def scan_reads(lake: Lake, paths: Sequence[str], columns: list[str] | None = None) -> Iterator[pa.Table]:
    """Rows of some files of the read log, a file at a time."""
    for _, rows in lake.read_tables(list(paths), columns):
        yield rows
