"""Usage: which memories were put before agents, computed from the read log; and the newest numbers about each memory.

The reads of a day are summed up in one file, named for the files that it was made of: when a late segment brings more
of them, the name no longer fits and the day is summed up anew. Nothing is ever counted onwards, so nothing is counted
twice. `ns=<ns>/credit/<number>.parquet` holds what the job `credit` makes of it all; the newest counts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from ..capture.reads import read_days, scan_reads
from ..clock import as_utc
from ..files.lake import Lake, namespace_path
from ..history.log import read_keys
from ..ids import derive_id
from ..schema import arrow_schema, conform, table_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COLUMNS = ["read_id", "at", "trace_id", "ids", "injected"]
#: Files of `credit` that are kept: readers may still be opening the last but one.
_KEPT = 2


def shown(reads: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What rows of the read log put before agents, as rows of the table `usage`, by memory and task.

    Where a read says what was injected, only that counts, for the task that injected it (that of the read, if it
    names none); else all that it returned does, for the task that asked.
    """
    injected = {row["read_id"] for row in reads if row["injected"]}
    asked = {row["read_id"]: row["trace_id"] or "" for row in reads if not row["injected"]}
    by_key: dict[tuple[str, str], set[str]] = {}
    last: dict[tuple[str, str], datetime] = {}
    for row in reads:
        if row["read_id"] in injected and not row["injected"]:
            continue
        trace = row["trace_id"] or asked.get(row["read_id"], "")
        for id in row["ids"] or ():
            key = (id, trace)
            by_key.setdefault(key, set()).add(row["read_id"])
            last[key] = max(last.get(key, row["at"]), row["at"])
    return [
        {"id": id, "trace_id": trace, "reads": len(ids), "last_at": last[id, trace]}
        for (id, trace), ids in sorted(by_key.items())
    ]


def read_usage(lake: Lake, namespace: str, *, write: bool = True) -> pa.Table:
    """What was put before agents, a row a memory, task and day (schema `usage`), from the whole read log.

    Only days that have new files are read; with `write` their sums are kept for the next time.
    """
    import pyarrow as pa

    folder = namespace_path(namespace, "usage")
    kept = set(lake.names(folder))
    wanted: list[str] = []
    fresh: list[pa.Table] = []
    for day, files in read_days(lake, namespace).items():
        name = derive_id(namespace, "usage", *(file.rpartition("/")[2] for file in files))
        path = f"{folder}/day={day}/{name}.parquet"
        if path in kept:
            wanted.append(path)
            continue
        rows: list[dict[str, Any]] = []
        for table in scan_reads(lake, files, _COLUMNS):
            rows += conform(table, "reads").select(_COLUMNS).to_pylist()
        fresh.append(table_of(shown(rows), "usage"))
        if write:
            lake.create_table(path, fresh[-1])
            lake.delete(other for other in kept if other.startswith(f"{folder}/day={day}/"))
    known = [conform(rows, "usage") for _, rows in lake.read_tables(wanted)]
    return pa.concat_tables([arrow_schema("usage").empty_table(), *known, *fresh])


def first_read(lake: Lake, namespace: str) -> datetime | None:
    """When the read log begins: what was never read before that, no one can know; None if there is no log."""
    days = read_days(lake, namespace)
    if not days:
        return None
    firsts = [
        as_utc(min(rows.column("at").to_pylist()))
        for rows in scan_reads(lake, days[min(days)], ["at"])
        if rows.num_rows
    ]
    return min(firsts, default=None)


def heirs(lake: Lake, namespace: str) -> dict[str, str]:
    """For each memory that was merged into another, the one that stands for it now."""
    import pyarrow as pa
    import pyarrow.compute as pc

    names = ("id", "verdict", "decision", "state", "superseded_by")
    merged: set[str] = set()
    for keys in read_keys(lake, namespace, names):
        merged.update(keys.filter(pc.equal(keys.column("state"), "merged")).column("id").to_pylist())
    if not merged:
        return {}
    wanted = pa.array(merged, pa.string())
    into: dict[str, str] = {}
    for keys in read_keys(lake, namespace, names):
        # Few memories were ever merged: only what the log says of those is looked at.
        rows = keys.filter(pc.and_(pc.is_in(keys.column("id"), value_set=wanted), pc.is_valid(keys.column("state"))))
        for id, verdict, decision, state, successor in zip(
            *(rows.column(name).to_pylist() for name in names), strict=True
        ):
            if verdict != "accepted" or decision == "refuse":
                continue
            if state == "merged" and successor:
                into[id] = successor
            else:
                into.pop(id, None)
    return {id: _end(id, into) for id in into}


def _end(id: str, into: Mapping[str, str]) -> str:
    seen = {id}
    while (successor := into.get(id)) is not None and successor not in seen:
        seen.add(successor)
        id = successor
    return id


def inherited(usage: pa.Table, into: Mapping[str, str]) -> pa.Table:
    """The same usage, that of merged memories counted as that of those they were merged into."""
    import pyarrow as pa

    if not into or not usage.num_rows:
        return usage
    ids = [into.get(id, id) for id in usage.column("id").to_pylist()]
    return usage.set_column(usage.schema.get_field_index("id"), "id", pa.array(ids, pa.string()))


class Use(NamedTuple):
    """What is known about the use of one memory; columns of the table `credit`."""

    #: When it was last put before an agent
    last_at: datetime
    #: Bounds of what it adds to the success rate of its tasks; None: there was nothing to compare
    low: float | None
    high: float | None


def credit_paths(lake: Lake, namespace: str) -> list[str]:
    """The files of `credit`, oldest first."""
    return lake.names(namespace_path(namespace, "credit"))


def read_credit(lake: Lake, namespace: str) -> pa.Table:
    """The newest numbers about each memory that was ever put before an agent (schema `credit`), by id."""
    while paths := credit_paths(lake, namespace):
        for _, rows in lake.read_tables(paths[-1:]):
            return conform(rows, "credit")
    return arrow_schema("credit").empty_table()


def write_credit(lake: Lake, namespace: str, credit: pa.Table) -> bool:
    """Make these the newest numbers. False, and nothing is written, if the newest are the same."""
    while True:
        paths = credit_paths(lake, namespace)
        if credit.equals(read_credit(lake, namespace)):
            return False
        number = int(paths[-1].rpartition("/")[2].partition(".")[0]) + 1 if paths else 1
        if lake.create_table(namespace_path(namespace, "credit", f"{number:012d}.parquet"), credit):
            lake.delete(paths[: 1 - _KEPT])
            return True


@dataclass(frozen=True)
class _Newest:
    """The newest numbers, ready to be asked."""

    path: str
    #: Sorted
    ids: npt.NDArray[np.bytes_]
    #: Microseconds since 1970
    last_at: npt.NDArray[np.int64]
    #: NaN where there was nothing to compare
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]

    def use(self, place: int) -> Use:
        """What is known about the memory at a place."""
        last_at = _EPOCH + timedelta(microseconds=int(self.last_at[place]))
        low, high = float(self.low[place]), float(self.high[place])
        return Use(last_at, None, None) if low != low else Use(last_at, low, high)


class CreditReader:
    """Answers what is known about the use of a few memories of a namespace. Safe to share between threads."""

    def __init__(self, lake: Lake, namespace: str, seconds: float) -> None:
        """`seconds`: how long the numbers are used before newer ones are looked for."""
        self._lake, self._namespace, self._seconds = lake, namespace, seconds
        self._lock = threading.Lock()
        self._looked_at = float("-inf")
        self._newest: _Newest | None = None

    def uses(self, ids: Iterable[str]) -> dict[str, Use]:
        """What is known, by id; memories that were never put before an agent are left out."""
        import numpy as np

        newest = self._load()
        wanted = sorted(set(ids))
        if newest is None or not wanted:
            return {}
        asked = np.array([id.encode() for id in wanted])
        places = np.minimum(np.searchsorted(newest.ids, asked), len(newest.ids) - 1)
        hits = np.flatnonzero(newest.ids[places] == asked)
        return {wanted[hit]: newest.use(places[hit]) for hit in hits}

    def _load(self) -> _Newest | None:
        import numpy as np
        import pyarrow as pa

        with self._lock:
            if time.monotonic() - self._looked_at < self._seconds:
                return self._newest
            self._looked_at = time.monotonic()
            paths = credit_paths(self._lake, self._namespace)
            if not paths or (self._newest is not None and self._newest.path == paths[-1]):
                return self._newest
            rows = read_credit(self._lake, self._namespace)
            if not rows.num_rows:
                return self._newest
            ids = np.array([id.encode() for id in rows.column("id").to_pylist()])
            order = np.argsort(ids, kind="stable")
            last_at, low, high = (
                np.asarray(rows.column(name).cast(type).to_numpy())[order]
                for name, type in (("last_at", pa.int64()), ("low", pa.float64()), ("high", pa.float64()))
            )
            self._newest = _Newest(paths[-1], ids[order], last_at, low, high)
            return self._newest
