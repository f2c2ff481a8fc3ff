"""The overlay: what the inbox and the log say beyond what a store has folded, so that a write is readable at once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..files.lake import Lake
from ..schema import arrow_schema, conform
from .fold import fold
from .inbox import inbox_paths
from .log import log_path, log_paths, read_keys, read_log

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Overlay:
    """What a reader has to add to the store, and to take away from it."""

    #: Memories (schema `memories`) that were added after the store's fold
    added: pa.Table
    #: State of memories whose state changed after the store's fold, by id
    states: dict[str, str] = field(default_factory=dict)
    #: `seq` of the last row of the log that is taken into account
    seq: int = 0
    #: Files that wait in the inbox
    waiting: int = 0
    #: Place in the log that the store stood at
    folded_to: int = 0

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """What was added, row by row."""
        rows: list[dict[str, Any]] = self.added.to_pylist()
        return rows


class OverlayReader:
    """Reads the overlay of one namespace again and again; files that it has seen are not fetched twice."""

    def __init__(self, lake: Lake, namespace: str) -> None:
        self._lake = lake
        self._namespace = namespace
        self._inbox: dict[str, pa.Table] = {}
        self._log: pa.Table = arrow_schema("log").empty_table()
        self._number = -1
        self._start = 0
        self._seen: tuple[tuple[str, ...], int, int, int] | None = None
        self._overlay = Overlay(arrow_schema("memories").empty_table())

    def read(self, folded_to: int) -> Overlay:
        """The overlay over a store that was folded to a place in the log.

        The inbox is listed first: an act that leaves it meanwhile is in the log that is read after.
        """
        import pyarrow as pa

        paths = inbox_paths(self._lake, self._namespace)
        mine = [path for path in paths if "/u-" in path]
        fresh = [path for path in mine if path not in self._inbox]
        fetched = {path: conform(rows, "log") for path, rows in self._lake.read_tables(fresh)}
        self._inbox = {path: rows for path in mine if (rows := self._inbox.get(path, fetched.get(path))) is not None}
        log = self._read_log(folded_to)
        seq = int(log.column("seq")[-1].as_py()) if log.num_rows else folded_to
        key = (tuple(self._inbox), folded_to, seq, len(paths))
        if self._seen != key:
            rows = pa.concat_tables([log, self._provisional(log, seq)])
            self._overlay = replace(_overlay(self._namespace, rows, seq, len(paths)), folded_to=folded_to)
            self._seen = key
        return self._overlay

    def _read_log(self, folded_to: int) -> pa.Table:
        import pyarrow as pa
        import pyarrow.compute as pc

        if self._number < 0 or folded_to < self._start:  # readers went back to a generation that stands further behind
            self._number = len(log_paths(self._lake, self._namespace))
            self._log = read_log(self._lake, self._namespace, folded_to)
        # Looking for the next file is cheaper than listing all; numbers have no gap.
        if self._lake.exists(log_path(self._namespace, self._number + 1)):
            newer = log_paths(self._lake, self._namespace, self._number)
            self._number += len(newer)
            found = [conform(rows, "log") for _, rows in self._lake.read_tables(newer)]
            self._log = pa.concat_tables([self._log, *found])
        if self._log.num_rows:
            self._log = self._log.filter(pc.greater(self._log.column("seq"), folded_to))
        self._start = folded_to
        return self._log

    def _provisional(self, log: pa.Table, seq: int) -> pa.Table:
        """Rows of the inbox as the next settle would number them; what is in the log already is left out."""
        import pyarrow as pa
        import pyarrow.compute as pc

        schema = arrow_schema("log")
        if not self._inbox:
            return schema.empty_table()
        rows = pa.concat_tables(list(self._inbox.values()))
        changes = rows.filter(pc.not_equal(rows.column("decision"), "add"))
        if changes.num_rows:
            # A leftover of a settle that died could undo what came later: look for it in the whole log. What was
            # settled after `log` was read is in neither, and counts as waiting.
            for keys in read_keys(self._lake, self._namespace):
                keys = keys.filter(pc.less_equal(keys.column("seq"), seq))
                rows = rows.filter(pc.invert(pc.is_in(rows.column("act"), value_set=pc.unique(keys.column("act")))))
        rows = rows.filter(pc.invert(pc.is_in(rows.column("act"), value_set=pc.unique(log.column("act")))))
        is_add = pc.equal(rows.column("decision"), "add")
        changes = rows.filter(pc.invert(is_add))
        if "alias" in changes.column("decision").to_pylist():  # it may be said, taken back and said again
            changes = changes.sort_by("at")
        rows = pa.concat_tables([rows.filter(is_add), changes])
        for name, values in (
            ("seq", pa.array(range(seq + 1, seq + 1 + rows.num_rows), pa.int64())),
            ("verdict", pa.array(["accepted"] * rows.num_rows, pa.string())),
        ):
            at = rows.schema.get_field_index(name)
            rows = rows.set_column(at, schema.field(at), values)
        return rows


def _overlay(namespace: str, rows: pa.Table, seq: int, waiting: int) -> Overlay:
    if not rows.num_rows:
        return Overlay(arrow_schema("memories").empty_table(), seq=seq, waiting=waiting)
    states: dict[str, str] = {}
    keys = zip(*(rows.column(name).to_pylist() for name in ("id", "state", "verdict", "decision")), strict=True)
    for id, state, verdict, decision in keys:
        if verdict == "accepted" and decision != "refuse" and state is not None:
            states[id] = state
    return Overlay(fold(namespace, rows), states, seq, waiting)
