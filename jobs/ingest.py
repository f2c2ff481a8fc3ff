"""Load what exists: files of other systems become traces of the lake, each record with a verdict.

Doing it twice changes nothing: a trace's id comes from the record's own identity or content, an event's from its
trace and place, and what the lake holds already is not written again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..memory_store.capture.events import Event
from ..memory_store.capture.masking import Mask
from ..memory_store.capture.traces import scan_events, write_events
from ..memory_store.clock import Clock
from ..memory_store.errors import UsageError
from ..memory_store.files.lake import Lake
from ..memory_store.formats import (
    FORMATS,
    Broken,
    Draft,
    Format,
    Record,
    RecordError,
    Stamp,
    detect,
    finish,
    format_named,
    open_sources,
    read_records,
    trace_id_of,
)
from ..memory_store.settings import Settings, check_namespace

#: Traces of one file of the lake, and the bounds that keep a batch small when traces are large.
_BATCH_TRACES, _BATCH_EVENTS, _BATCH_CHARS = 1_000, 50_000, 64_000_000
#: Parts of unfinished traces that are kept in memory; past this the trace that has waited longest is closed.
_OPEN_PARTS = 50_000


@dataclass(frozen=True)
class Rejected:
    """A record that was not loaded."""

    #: File and place, such as runs.json.gz#record 3
    where: str
    #: What is wrong with it
    why: str


@dataclass
class FileVerdict:
    """What became of one file; `records` = `loaded` + `known` + `rejected`."""

    #: The file; a file of an archive is archive!member
    where: str
    #: Formats that were found in it
    formats: set[str] = field(default_factory=set)
    #: Traces that it holds, and places where none could be read
    records: int = 0
    loaded: int = 0
    known: int = 0
    rejected: int = 0
    #: Events that were written
    events: int = 0
    #: What was odd but loaded, such as tool calls without a result
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class IngestReport:
    """What an ingest did. Every record is loaded, known or rejected."""

    #: Traces that are new in the lake
    loaded: int
    #: Traces that the lake held already
    known: int
    #: Of these, how many gained events that the lake did not hold
    grown: int
    #: Records that could not be loaded, with place and reason
    rejected: tuple[Rejected, ...]
    #: Events that were written
    events: int
    #: One verdict a file
    files: tuple[FileVerdict, ...]

    @property
    def records(self) -> int:
        """Records of all files."""
        return sum(file.records for file in self.files)


def ingest(
    lake: Lake, sources: Sequence[str | Path], settings: Settings, clock: Clock, *, namespace: str,
    format: str = "auto", subject: str = "", agent_role: str = "", task_type: str = "",
) -> IngestReport:  # fmt: skip
    """Load files, folders and archives into the lake.

    `sources` are paths, or "-" for standard input. `subject`, `agent_role` and `task_type` are for records that don't
    say theirs. Raises `UsageError` for a path that does not exist or a format that is unknown; what is wrong inside a
    file becomes a rejected row.
    """
    check_namespace(namespace)
    if not sources:
        raise UsageError("nothing to ingest: name a file, a folder, or - for standard input")
    known_format = None if format == "auto" else format_named(format)
    keep = settings.recorder
    mask = Mask(keep.mask_secrets, keep.mask_personal) if keep.mask_secrets or keep.mask_personal else None
    stamp = Stamp(namespace, clock.now(), subject, agent_role, task_type, keep.max_value_bytes, mask)
    writer = _Writer(lake, namespace)
    for source in open_sources(sources):
        verdict = FileVerdict(source.name)
        writer.files.append(verdict)
        parts = _Parts(verdict, writer, stamp)
        for item in read_records(source):
            parts.add(item, known_format)
        parts.close()
    writer.flush()
    files = tuple(writer.files)
    return IngestReport(
        loaded=sum(file.loaded for file in files),
        known=sum(file.known for file in files),
        grown=writer.grown,
        rejected=tuple(writer.rejected),
        events=sum(file.events for file in files),
        files=files,
    )


class _Parts:
    """The records of one file on their way to traces."""

    def __init__(self, verdict: FileVerdict, writer: _Writer, stamp: Stamp) -> None:
        self._verdict = verdict
        self._writer = writer
        self._stamp = stamp
        self._open: OrderedDict[tuple[str, str], _Open] = OrderedDict()
        self._parts = 0
        self._strange: list[str] = []

    def add(self, item: Record | Broken, known_format: Format | None) -> None:
        """Take one record, or one place where there was none."""
        if isinstance(item, Broken):
            self._reject(item.where, item.why)
            return
        format = known_format or detect(item.value)
        if format is None:
            self._strange.append(item.where)
            return
        self._verdict.formats.add(format.name)
        try:
            for key, part in format.split(item):
                if key:
                    self._keep(format, key, part, item.where)
                else:
                    self._join(_Open(format, key, item.where, [part]))
        except RecordError as error:
            self._reject(item.where, str(error))
        except RecursionError:
            self._reject(item.where, "nested too deeply")

    def close(self) -> None:
        """Finish every trace that was waiting for more, and say what no format knew."""
        for waiting in self._open.values():
            self._join(waiting)
        self._open.clear()
        known = ", ".join(f"{format.name} ({format.about})" for format in FORMATS)
        if self._strange and not self._verdict.formats:
            # A file of something else is one row, however many records it has.
            self._reject(self._verdict.where, f"none of its {len(self._strange)} records has a known format: {known}")
            return
        for where in self._strange:
            self._reject(where, f"no known format: {known}")

    def _keep(self, format: Format, key: str, part: object, where: str) -> None:
        waiting = self._open.setdefault((format.name, key), _Open(format, key, where, []))
        waiting.parts.append(part)
        self._open.move_to_end((format.name, key))
        self._parts += 1
        if self._parts > _OPEN_PARTS:
            _, oldest = self._open.popitem(last=False)
            self._parts -= len(oldest.parts)
            self._join(oldest)

    def _join(self, waiting: _Open) -> None:
        try:
            draft = waiting.format.join(waiting.key, waiting.parts)
            drafts = [draft, *draft.begun]
            for one in drafts:
                one.where = waiting.where
                self._writer.add(one, self._stamp, f"ingest:{waiting.format.name}", self._verdict)
        except RecordError as error:
            self._reject(waiting.where, str(error))
        except RecursionError:
            self._reject(waiting.where, "nested too deeply")
        else:
            self._verdict.records += len(drafts)
            self._verdict.notes.extend(f"{waiting.where}: {note}" for one in drafts for note in one.notes)

    def _reject(self, where: str, why: str) -> None:
        self._verdict.records += 1
        self._verdict.rejected += 1
        self._writer.rejected.append(Rejected(where, why))


@dataclass
class _Open:
    """A trace that may get more parts."""

    format: Format
    key: str
    where: str
    parts: list[object]


class _Writer:
    """Gathers finished traces and writes what the lake does not hold."""

    def __init__(self, lake: Lake, namespace: str) -> None:
        self._lake = lake
        self._namespace = namespace
        #: Events that the lake holds, by trace
        self._held = _events_by_trace(lake, namespace)
        self._batch: list[Event] = []
        self._traces = 0
        self._chars = 0
        self._doubtful: list[tuple[list[Event], FileVerdict]] = []
        self.files: list[FileVerdict] = []
        self.rejected: list[Rejected] = []
        self.grown = 0

    def add(self, draft: Draft, stamp: Stamp, source: str, verdict: FileVerdict) -> None:
        """Take a trace and give it its verdict. Raises what `finish` does, and then has taken nothing."""
        trace_id = trace_id_of(self._namespace, draft)
        held = self._held.get(trace_id, 0)
        if held == len(draft.events):
            verdict.known += 1
            return
        events = finish(draft, stamp, source)
        if not held:
            self._held[trace_id] = len(events)
            verdict.loaded += 1
            self._take(events, verdict)
        else:  # it has grown, or was torn by a kill, or this is another part of it
            verdict.known += 1
            self._doubtful.append((events, verdict))
            self._chars += _size(events)
        if self._traces >= _BATCH_TRACES or len(self._batch) >= _BATCH_EVENTS or self._chars >= _BATCH_CHARS:
            self.flush()

    def flush(self) -> None:
        """Write what was gathered."""
        if self._doubtful:
            self._settle_doubtful()
        if self._batch:
            write_events(self._lake, self._batch)
        self._batch, self._traces, self._chars = [], 0, 0

    def _take(self, events: list[Event], verdict: FileVerdict) -> None:
        self._batch.extend(events)
        self._traces += 1
        self._chars += _size(events)
        verdict.events += len(events)

    def _settle_doubtful(self) -> None:
        """Of traces that the lake holds in part, take the events that it lacks."""
        import pyarrow as pa
        import pyarrow.compute as pc

        wanted = {events[0].trace_id for events, _ in self._doubtful}
        rows = scan_events(self._lake, self._namespace, [])
        rows = rows.filter(pc.is_in(rows.column("trace_id"), value_set=pa.array(sorted(wanted), pa.string())))
        there = set(rows.column("event_id").to_pylist())
        there.update(event.event_id for event in self._batch if event.trace_id in wanted)
        for events, verdict in self._doubtful:
            lacking = [event for event in events if event.event_id not in there]
            if lacking:
                there.update(event.event_id for event in lacking)
                self._held[events[0].trace_id] += len(lacking)
                self.grown += 1
                self._take(lacking, verdict)
        self._doubtful = []


def _events_by_trace(lake: Lake, namespace: str) -> dict[str, int]:
    """Events by trace, without what was said of a trace later by its id: feedback and outcomes are in no file."""
    import pyarrow.compute as pc

    events = scan_events(lake, namespace, ["source"])
    counted = events.filter(pc.not_equal(events.column("source"), "recorder")).column("trace_id").value_counts()
    return dict(zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True))


def _size(events: list[Event]) -> int:
    return sum(len(one.content) + len(one.arguments) + len(one.result) + len(one.attributes) for one in events)
