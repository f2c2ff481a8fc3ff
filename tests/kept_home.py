"""A small lake in which work is done as jobs do it, in their order of writing, for the tests of backups."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hindlake.memory_store.capture.events import Event
from hindlake.memory_store.capture.traces import scan_events, write_events
from hindlake.memory_store.clock import END_OF_TIME, ManualClock
from hindlake.memory_store.files.backups import Backups, Manifest
from hindlake.memory_store.files.lake import Lake, namespace_path
from hindlake.memory_store.history.fold import fold
from hindlake.memory_store.history.inbox import inbox_paths, write_proposals, write_user_act
from hindlake.memory_store.history.log import log_paths, read_log, settle
from hindlake.memory_store.schema import conform, table_of
from hindlake.memory_store.settings import Settings

NOW = datetime(2026, 3, 1, 3, tzinfo=UTC)


def memory_row(id: str, text: str, **columns: Any) -> dict[str, Any]:
    """The row that adds a memory."""
    return {
        "act": f"add-{id}", "at": NOW, "decision": "add", "id": id, "kind": "fact", "text": text, "state": "pending",
        "entities": [], "tags": [], "valid_from": NOW, "valid_to": END_OF_TIME, "strength": 1.0, "superseded_by": "",
        "derived_from": [], "said_by": "user", **columns,
    }  # fmt: skip


def remember(lake: Lake, id: str, text: str = "", namespace: str = "default", **columns: Any) -> None:
    """What a user writes: one inbox file."""
    write_user_act(lake, namespace, [memory_row(id, text or f"memory {id}", **columns)], f"add-{id}")


def reflect_on(lake: Lake, trace: str, namespace: str = "default", *, settled: bool = True) -> None:
    """What a job does with a trace: events, proposals, the log, and last the gate row that says it is done."""
    write_events(lake, [Event(namespace, trace, f"{trace}-e", 0, NOW, "message", role="user", content=f"said {trace}")])
    evidence = [{"trace_id": trace, "event_id": f"{trace}-e", "quote": ""}]
    row = memory_row(f"of-{trace}", f"learnt from {trace}", evidence=evidence, run="r", read_to=0)
    write_proposals(lake, namespace, [row])
    if settled:
        settle(lake, namespace)
    gate = {"namespace": namespace, "trace_id": trace, "at": NOW, "run": "r", "reflected": True, "trigger": "routine"}
    lake.put_table(namespace_path(namespace, "gate", f"{trace}.parquet"), table_of([gate], "gate"))


def known_ids(lake: Lake, namespace: str = "default") -> set[str]:
    """Memories that the log or the inbox adds."""
    rows = read_log(lake, namespace, 0, ["id"]).column("id").to_pylist()
    for _, waiting in lake.read_tables(inbox_paths(lake, namespace)):
        rows += waiting.column("id").to_pylist()
    return set(rows)


def assert_consistent(lake: Lake, namespace: str = "default") -> None:
    """The log has no gap, what is known rests on traces that are there, and what counts as done was done."""
    assert len(log_paths(lake, namespace)) == len(lake.names(namespace_path(namespace, "log")))
    traces = set(scan_events(lake, namespace, ["content"]).column("trace_id").to_pylist())
    assert {id.removeprefix("of-") for id in known_ids(lake, namespace) if id.startswith("of-")} <= traces
    gated = [path.rpartition("/")[2].removesuffix(".parquet") for path in lake.names(f"ns={namespace}/gate")]
    assert {f"of-{trace}" for trace in gated} <= known_ids(lake, namespace)


def memories(lake: Lake, namespace: str = "default") -> list[dict[str, Any]]:
    """What the log folds to, by id."""
    return sorted(fold(namespace, conform(read_log(lake, namespace), "log")).to_pylist(), key=lambda row: row["id"])


def with_backups(settings: Settings, **values: Any) -> Settings:
    """The settings with other values for backups."""
    return settings.model_copy(update={"backup": settings.backup.model_copy(update=values)})


def night(clock: ManualClock) -> ManualClock:
    """The next night."""
    clock.time += timedelta(days=1)
    return clock


def kept(backups: Backups, name: str = "") -> tuple[Manifest, Lake]:
    """A backup, the newest unless named, and the lake that it holds."""
    manifest = backups.manifest(name)
    return manifest, backups.lake(manifest)
