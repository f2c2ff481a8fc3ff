"""Replay: everything that was written, read and decided in a period, on one timeline, from the lake alone (R32).

A day of events and reads is held at a time, so that a long period can be told; of the log, the decisions of the
period. What was purged is counted, not shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from ..capture.episodes import shorten
from ..capture.reads import read_days
from ..capture.traces import scan_events
from ..clock import as_utc
from ..errors import UsageError
from ..files.lake import Lake, namespace_path
from ..records.purged import Blocked, purges
from ..records.runs import all_runs
from ..schema import arrow_schema, conform
from .inbox import inbox_paths
from .log import log_paths
from .timeline import (
    KINDS,
    TEXT,
    USUAL,
    Entry,
    Known,
    Row,
    Told,
    gate_entries,
    log_entries,
    purge_entries,
    read_entries,
    reflection_entries,
    review_entries,
    run_entries,
    trace_entries,
)

if TYPE_CHECKING:
    import pyarrow as pa

#: A read lies in the day that it was made on; for so many days after it, what is put to use is looked for.
_USED_WITHIN = 7
#: Memories whose words are held before some are let go.
_TOLD = 200_000
_EVENTS = ["at", "seq", "type", "role", "name", "content", "tool", "arguments", "result", "error_code",
           "error_message", "outcome", "score", "subject", "agent", "task_type", "task_id"]  # fmt: skip
_LOG = ["act", "seq", "at", "run", "decision", "id", "verdict", "reason", "superseded_by", "kind", "text", "subject",
        "task_id", "evidence"]  # fmt: skip
_READS = ["read_id", "at", "trace_id", "query", "filters", "seq", "ids", "injected"]
_Make = Callable[[Iterable[Row], Known], Iterator[Entry]]
_FOLDERS: tuple[tuple[str, list[str], _Make], ...] = (
    ("gate", ["trace_id", "at", "run", "reflected", "trigger"], gate_entries),
    ("reflections", ["at", "run", "traces", "reflector", "error", "input_tokens", "output_tokens"], reflection_entries),
    ("reviews", ["at", "sample", "memory_id", "verdict", "reason"], review_entries),
)


@dataclass(frozen=True)
class Selection:
    """Which entries are wanted. Empty: any."""

    #: A trace, or a task by its task_id
    trace: str = ""
    memory: str = ""
    subject: str = ""
    kinds: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for kind in self.kinds:
            if kind not in KINDS:
                raise UsageError(f"there is no kind of entry {kind!r}: take some of {', '.join(KINDS)}")

    @property
    def wanted(self) -> tuple[str, ...]:
        """The kinds of entries that are looked for. Who names a trace wants to see its steps too."""
        return self.kinds or (KINDS if self.trace else USUAL)

    def takes(self, entry: Entry) -> bool:
        """Whether an entry is wanted."""
        return (
            entry.kind in self.wanted
            and (not self.trace or self.trace in entry.traces or self.trace in entry.tasks)
            and (not self.memory or self.memory in entry.memories)
            and (not self.subject or self.subject in entry.subjects)
        )


class Replay:
    """The entries of a period, in the order of time; read from the lake while they are asked for, a day at a time."""

    def __init__(
        self, lake: Lake, namespace: str, since: datetime, until: datetime, selection: Selection | None = None
    ) -> None:
        """From `since` to before `until`. Raises `UsageError` for a period that is none."""
        self._lake = lake
        #: The namespace that is told of
        self.namespace = namespace
        self.since, self.until = as_utc(since), as_utc(until)
        if self.since >= self.until:
            raise UsageError(f"nothing lies from {self.since.isoformat()} to {self.until.isoformat()}: swap them?")
        self.selection = selection or Selection()
        #: Entries that were left out so far because they are about something that was purged
        self.purged = 0
        #: Entries that were given so far, by kind
        self.counts: Counter[str] = Counter()
        self._memories: Mapping[str, Told] = {}

    def memory(self, id: str) -> Told | None:
        """What a memory says that an entry has named; None for one that the log does not have, such as a passage."""
        return self._memories.get(id)

    def __iter__(self) -> Iterator[Entry]:
        self.purged, self.counts = 0, Counter()
        purged, runs, log = purges(self._lake, self.namespace), all_runs(self._lake, self.namespace), self._log()
        gone = Blocked(purged)
        self._memories = memories = _Memories(log, gone.ids)
        known = Known(memories, {run.run_id: run.job for run in runs}, frozenset(gone.ids))
        tables: list[tuple[pa.Table, _Make]] = [(_between(log, self.since, self.until), log_entries), *self._kept()]
        del log
        fixed = [e for e in (*run_entries(runs), *purge_entries(purged)) if self.since <= e.at < self.until]
        reads = _Reads(self._lake, self.namespace, self.since, self.until, known)
        days = reads.days | self._trace_days() | {entry.at.date() for entry in fixed}
        days |= {day for table, _ in tables for day in _days_of(table)}
        for day in sorted(days):
            start = datetime(day.year, day.month, day.day, tzinfo=UTC)
            since, until = max(self.since, start), min(self.until, start + timedelta(days=1))
            found = [entry for entry in fixed if since <= entry.at < until]
            if day == self.since.date():
                self._events(day, known, gone, start, since)  # what began before, to be told by its name
            found += self._events(day, known, gone, since, until)
            read = reads.of(day)
            memories.look_up(id for row in read for id in row["ids"] or ())
            found += self._without(read_entries(read, known), gone)
            for table, make in tables:
                rows = _between(table, since, until).to_pylist()
                memories.look_up(row["id"] for row in rows if "id" in row)
                found += self._without(make(rows, known), gone)
            for entry in sorted(found, key=lambda entry: (entry.at, entry.seq or 0)):
                if self.selection.takes(entry):
                    self.counts[entry.kind] += 1
                    yield entry

    def _without(self, entries: Iterable[Entry], gone: Blocked) -> Iterator[Entry]:
        """The entries without those that are about what was purged; they are counted, if their kind is wanted."""
        for entry in entries:
            if entry.kind == "read":
                is_gone = bool(entry.purged and not entry.memories) or any(map(gone.trace, entry.traces))
            elif entry.kind == "reflection":
                is_gone = any(map(gone.trace, entry.traces))
            else:
                is_gone = bool(entry.memories) and entry.memories[0] in gone.ids
            if is_gone:
                self.purged += entry.kind in self.selection.wanted
            else:
                yield entry

    def _events(self, day: date, known: Known, gone: Blocked, since: datetime, until: datetime) -> list[Entry]:
        """Entries of events of a day."""
        rows = _between(scan_events(self._lake, self.namespace, _EVENTS, day.isoformat()), since, until)
        kept = []
        for row in rows.sort_by([(name, "ascending") for name in ("at", "trace_id", "seq")]).to_pylist():
            if gone.event(row["trace_id"], row["event_id"]):
                kind = "trace" if row["type"] in ("task", "outcome", "feedback") else "step"
                self.purged += kind in self.selection.wanted and since >= self.since
            else:
                kept.append(row)
        return list(trace_entries(kept, known, "step" in self.selection.wanted))

    def _kept(self) -> Iterator[tuple[pa.Table, _Make]]:
        """Rows of the period of the tables that lie in one folder each, and what makes entries of them."""
        import pyarrow as pa

        for folder, columns, make in _FOLDERS:
            paths = self._lake.names(namespace_path(self.namespace, folder))
            found = [
                _between(conform(rows, folder).select(columns), self.since, self.until)
                for _, rows in self._lake.read_tables(paths, columns)
            ]
            yield pa.concat_tables([arrow_schema(folder).empty_table().select(columns), *found]), make

    def _log(self) -> pa.Table:
        """Rows of the whole log, and of the inbox what is not in it yet."""
        import pyarrow as pa
        import pyarrow.compute as pc

        waiting = inbox_paths(self._lake, self.namespace)  # listed first: what leaves it meanwhile is in the log
        inbox = [conform(rows, "log").select(_LOG) for _, rows in self._lake.read_tables(waiting, _LOG)]
        paths = log_paths(self._lake, self.namespace)
        log = [conform(rows, "log").select(_LOG) for _, rows in self._lake.read_tables(paths, _LOG)]
        settled = pa.concat_tables([arrow_schema("log").empty_table().select(_LOG), *log])
        acts = pc.unique(settled.column("act"))
        more = [rows.filter(pc.invert(pc.is_in(rows.column("act"), value_set=acts))) for rows in inbox]
        return pa.concat_tables([settled, *more])

    def _trace_days(self) -> set[date]:
        folders = self._lake.folders(namespace_path(self.namespace, "traces"))
        days = {date.fromisoformat(folder.rpartition("day=")[2]) for folder in folders if "day=" in folder}
        return {day for day in days if self.since.date() <= day <= self.until.date()}


class _Memories(Mapping[str, Told]):
    """What memories, and refused candidates, say, by id; looked up in the rows of the log when it is asked."""

    def __init__(self, log: pa.Table, purged: set[str]) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        said = pc.is_in(log.column("decision"), value_set=pa.array(["add", "alias", "refuse"]))
        self._rows = log.filter(said).select(["id", "kind", "text", "subject", "task_id", "evidence"]).combine_chunks()
        self._told: dict[str, Told] = {}
        self._places: dict[str, int] = {}
        for place, id in enumerate(self._rows.column("id").to_pylist()):
            if id not in purged:
                self._places.setdefault(id, place)

    def look_up(self, ids: Iterable[str]) -> None:
        """Look up many memories together, which is faster than one by one."""
        import pyarrow as pa

        if len(self._told) > _TOLD:
            self._told.clear()
        wanted = [id for id in dict.fromkeys(ids) if id in self._places and id not in self._told]
        rows = self._rows.take(pa.array([self._places[id] for id in wanted], pa.int64()))
        self._told |= {id: _told(row) for id, row in zip(wanted, rows.to_pylist(), strict=True)}

    def __getitem__(self, id: str) -> Told:
        if id not in self._places:
            raise KeyError(id)
        if id not in self._told:
            self.look_up([id])
        return self._told[id]

    def __contains__(self, id: object) -> bool:
        return id in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _told(row: Row) -> Told:
    traces = dict.fromkeys(item["trace_id"] for item in row["evidence"] or ())
    text = shorten(row["text"] or "", TEXT)
    return Told(row["kind"] or "", text, row["subject"] or "", row["task_id"] or "", tuple(traces))


class _Reads:
    """Rows of the read log, asked for day by day. What was put to use on a later day than it was read comes there."""

    def __init__(self, lake: Lake, namespace: str, since: datetime, until: datetime, known: Known) -> None:
        self._lake, self._since, self._until, self._known = lake, since, until, known
        self._files = {date.fromisoformat(day): files for day, files in read_days(lake, namespace).items()}
        self._later: list[dict[str, Any]] = []
        late = timedelta(days=_USED_WITHIN)
        before = sorted(day for day in self._files if since.date() - late <= day < since.date())
        for day in before:
            rows = self._read(day)
            self._learn(rows)
            self._later += [row for row in rows if row["at"] >= since]
        read = [day for day in self._files if since.date() <= day <= until.date()]
        #: Days of the period that may have rows
        self.days = {day for one in (*before, *read) for day in (one + timedelta(n) for n in range(_USED_WITHIN + 1))}
        self.days = {day for day in self.days if since.date() <= day <= until.date()}

    def of(self, day: date) -> list[dict[str, Any]]:
        """The rows of a day, each read before what was used of it. Days are to be asked for in their order."""
        rows = sorted([*self._later, *self._read(day)], key=lambda row: (row["at"], row["injected"]))
        self._learn(row for row in rows if row["at"] < self._since)
        self._later = [row for row in rows if row["at"].date() > day]
        return [row for row in rows if row["at"].date() <= day and self._since <= row["at"] < self._until]

    def _learn(self, rows: Iterable[Row]) -> None:
        """What was asked before the period is known from now on."""
        list(read_entries(rows, self._known))

    def _read(self, day: date) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for _, rows in self._lake.read_tables(self._files.get(day, []), _READS):
            found += conform(rows, "reads").select(_READS).to_pylist()
        return found


def _between(rows: pa.Table, since: datetime, until: datetime) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    at = rows.column("at")
    start, end = (pa.scalar(time, at.type) for time in (since, until))
    return rows.filter(pc.and_(pc.greater_equal(at, start), pc.less(at, end)))


def _days_of(rows: pa.Table) -> set[date]:
    import pyarrow.compute as pc

    return {as_utc(at).date() for at in pc.unique(pc.floor_temporal(rows.column("at"), unit="day")).to_pylist()}
