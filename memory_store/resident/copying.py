"""Which tables have a copy of their rows for searching, and when it is made anew."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ..settings import IndexSettings
from ..store.lance import Door
from ..store.stored import PACKED
from .columns import LABELS
from .files import newest_copy, remove_copies, write_copy
from .following import Follower

if TYPE_CHECKING:
    from ..store.lance import Snapshot

#: Share of the rows of a copy that may be gone.
_GONE = 0.1
#: Seconds after which a copy that holds rows that are gone is made anew, as versions of a table are cleaned up.
_KEPT = 7 * 86_400
#: Bytes that a row takes beside its vector, about.
_ROW = 1_000


def make_copy(door: Door, name: str, settings: IndexSettings) -> None:
    """Copy a table that should have a copy and has none, or one that too much has happened since.

    Doing it twice changes nothing. Raises `StoreError` where the files can't be written.
    """
    if not door.url.startswith("s3://"):
        door.ask(name, lambda snapshot: _copy(snapshot, door.url, name, settings))


async def _copy(snapshot: Snapshot, url: str, name: str, settings: IndexSettings) -> None:
    has = {PACKED, *LABELS} <= snapshot.columns
    dim = (await snapshot.table.schema()).field("vector").type.list_size
    size = snapshot.rows * (4 * dim + _ROW)
    if not has or snapshot.rows <= settings.scan_rows or size > settings.resident_mb * 2**20:
        remove_copies(url, name)
        return
    follower = Follower(url, name, settings.waiting_rows)
    known, copy = await follower.at(snapshot), newest_copy(url, name)
    if known is not None and copy is not None:
        old = time.time() - copy.stat().st_mtime > _KEPT
        if known.gone <= (0 if old else snapshot.rows * _GONE):
            return
    await write_copy(snapshot, url, name, dim, follower.centres)
