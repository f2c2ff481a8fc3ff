"""Replay: what was written, read and decided in a period, in order, each thing once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hindlake.jobs.purge import purge
from hindlake.memory_store.capture.traces import read_traces, scan_events, write_events
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.errors import UsageError
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.history.inbox import write_proposals
from hindlake.memory_store.history.log import settle
from hindlake.memory_store.history.moments import period_of
from hindlake.memory_store.history.replay import Replay, Selection
from hindlake.memory_store.history.timeline import Entry
from hindlake.memory_store.records.runs import Run, write_run
from hindlake.memory_store.settings import Settings
from hindlake.sdk.memory import Memory
from hindlake.sdk.recorder import Recorder

NOON = datetime(2026, 3, 9, 12, tzinfo=UTC)
LONG = (NOON - timedelta(days=30), NOON + timedelta(days=30))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


def told(entries: Any) -> list[str]:
    """Entries in a word each: what and verdict."""
    return [f"{entry.what} {entry.verdict}".strip() for entry in entries]


def live(settings: Settings, clock: ManualClock, namespace: str = "default") -> dict[str, str]:
    """A task that asks and uses a memory, and what a user has remembered before; a minute between the steps."""
    ids = {}
    with Memory(settings, namespace=namespace, clock=clock) as memory:
        recorder = Recorder(memory.settings, clock=clock)
        ids["mail"] = memory.remember("Ann likes e-mail", "preference", subject="ann")
        clock.advance(minutes=1)
        with recorder.task("Write to Ann", subject="ann", task_type="mail", task_id="write-ann") as task:
            ids["trace"] = task.trace_id
            clock.advance(minutes=1)
            hits = memory.search("how does Ann like to be told?", subject="ann")
            clock.advance(minutes=1)
            memory.used(hits)
            clock.advance(minutes=1)
            task.tool_call("send", error_code="BOUNCED")
            clock.advance(minutes=1)
            task.outcome("failure", "it bounced")
        clock.advance(minutes=1)
        ids["phone"] = memory.update(ids["mail"], "Ann likes the phone")
        clock.advance(minutes=1)
        memory.forget(ids["phone"], "she changed her mind")
        recorder.close()
    return ids


def propose(lake: Lake, clock: ManualClock, *rows: dict[str, Any]) -> None:
    """A run's decisions, and the run."""
    run = Run(run_id="run-1", job="tidy", namespace="default", version="1", started_at=clock.now(), status="done")
    run.ended_at = clock.advance(minutes=1)
    write_run(lake, run)
    common = {"at": clock.now(), "run": "run-1", "read_to": 99}
    write_proposals(lake, "default", [{**common, "act": f"act-{n}", **row} for n, row in enumerate(rows)])


def test_a_task_is_told_with_what_it_read_and_what_was_written_around_it(
    settings: Settings, lake: Lake, clock: ManualClock
) -> None:
    ids = live(settings, clock)
    entries = list(Replay(lake, "default", *LONG))
    assert told(entries) == [
        "remember waiting", "started", "search", "used", "ended failure", "episode waiting", "remember waiting",
        "update waiting", "forget waiting",
    ]  # fmt: skip
    assert [entry.at for entry in entries] == sorted(entry.at for entry in entries)
    search, used, ended = entries[2:5]
    assert (search.text, search.memories, search.traces) == (
        "how does Ann like to be told?", (ids["mail"],), (ids["trace"],)
    )  # fmt: skip
    assert (used.text, used.memories, used.tasks, used.subjects) == (
        search.text, search.memories, ("write-ann",), ("ann",)
    )  # fmt: skip
    assert (ended.text, ended.reason, ended.note) == ("Write to Ann", "it bounced", "3 events, 1 tool calls, 1 failed")
    assert entries[-2].memories == (ids["mail"], ids["phone"])
    assert entries[-1].reason == "she changed her mind"


def test_settling_gives_writes_their_place_and_doubles_none(settings: Settings, lake: Lake, clock: ManualClock) -> None:
    live(settings, clock)
    before = list(Replay(lake, "default", *LONG))
    settle(lake, "default")
    after = list(Replay(lake, "default", *LONG))
    assert told(after) == [line.replace("waiting", "accepted") for line in told(before)]
    assert sorted(entry.seq for entry in after if entry.kind == "write" and entry.seq) == [1, 2, 3, 4, 5]


def test_what_runs_decide_says_job_reason_and_verdict_also_when_it_is_refused(
    settings: Settings, lake: Lake, clock: ManualClock
) -> None:
    with Memory(settings, clock=clock) as memory:
        id = memory.remember("Ann likes e-mail", subject="ann")
    settle(lake, "default")
    downrank = {"decision": "downrank", "id": id, "strength": 0.5, "reason": "seldom used"}
    propose(lake, clock, downrank, {"decision": "archive", "id": "nobody", "state": "archived", "reason": "old"})
    settle(lake, "default")
    entries = list(Replay(lake, "default", *LONG, Selection(kinds=("decision", "run"))))
    assert told(entries) == ["started", "ended done", "downrank accepted", "archive refused"]
    assert [entry.job for entry in entries] == ["tidy"] * 4
    assert (entries[2].reason, entries[2].text, entries[2].subjects) == ("seldom used", "Ann likes e-mail", ("ann",))
    assert entries[3].reason == "nobody does not exist"


def test_each_filter_leaves_what_it_names(settings: Settings, lake: Lake, clock: ManualClock) -> None:
    ids = live(settings, clock)
    with Memory(settings, clock=clock) as memory:
        memory.remember("Bob likes tea", subject="bob")

    def only(**names: Any) -> list[str]:
        return told(Replay(lake, "default", *LONG, Selection(**names)))

    of_task = ["started", "search", "used", "send BOUNCED", "ended failure", "episode waiting"]
    assert only(trace=ids["trace"]) == of_task
    assert only(trace="write-ann") == of_task
    assert only(memory=ids["phone"]) == ["remember waiting", "update waiting", "forget waiting"]
    assert only(subject="bob") == ["remember waiting"]
    assert only(kinds=("read",)) == ["search", "used"]
    assert only(kinds=("step",)) == ["send BOUNCED"]
    assert only(trace=ids["trace"], kinds=("trace",)) == ["started", "ended failure"]
    assert only(subject="carl") == []
    with pytest.raises(UsageError, match="no kind of entry 'reads'"):
        Selection(kinds=("reads",))


def test_another_namespace_tells_nothing(settings: Settings, lake: Lake, clock: ManualClock) -> None:
    live(settings, clock, "mine")
    assert told(Replay(lake, "mine", *LONG))
    assert told(Replay(lake, "theirs", *LONG)) == []


def test_a_period_is_the_sum_of_its_parts(settings: Settings, lake: Lake, clock: ManualClock) -> None:
    live(settings, clock)
    propose(lake, clock, {"decision": "refuse", "id": "c1", "kind": "fact", "text": "no", "reason": "a platitude"})
    clock.advance(days=2)
    live(settings, clock)
    whole = list(Replay(lake, "default", *LONG))
    plain = [entry for entry in whole if entry.kind != "trace"]
    for cut in {entry.at for entry in whole} | {NOON + timedelta(days=1)}:
        parts = [
            entry
            for since, until in ((LONG[0], cut), (cut, LONG[1]))
            for entry in Replay(lake, "default", since, until)
            if entry.kind != "trace"
        ]
        assert [(entry.at, entry.what, entry.text, entry.memories) for entry in parts] == [
            (entry.at, entry.what, entry.text, entry.memories) for entry in plain
        ]


def test_a_memory_that_is_used_on_a_later_day_is_told_on_that_day_with_its_query(
    settings: Settings, lake: Lake, clock: ManualClock
) -> None:
    with Memory(settings, clock=clock) as memory:
        memory.remember("Ann likes e-mail")
        hits = memory.search("what does Ann like?")
        clock.advance(days=3)
        memory.used(hits)
    since = NOON + timedelta(days=2)
    (entry,) = Replay(lake, "default", since, since + timedelta(days=5))
    assert (entry.what, entry.text, entry.at) == ("used", "what does Ann like?", NOON + timedelta(days=3))


def test_a_task_that_began_before_the_period_went_on(settings: Settings, lake: Lake, clock: ManualClock) -> None:
    recorder = Recorder(settings, clock=clock)
    with recorder.task("Wait for the parcel", subject="ann") as task:
        clock.advance(days=1)
        task.user("Is it there?")
        clock.advance(minutes=1)
        task.outcome("success")
    recorder.close()
    since = NOON + timedelta(hours=12)
    assert told(Replay(lake, "default", since, since + timedelta(days=5)))[:2] == ["went on", "ended success"]
    ended = next(iter(Replay(lake, "default", NOON + timedelta(seconds=1), NOON + timedelta(days=5))))
    assert (ended.what, ended.text) == ("ended", "Wait for the parcel")


def test_an_event_that_lies_in_two_files_is_told_once(settings: Settings, lake: Lake, clock: ManualClock) -> None:
    ids = live(settings, clock)
    before = told(Replay(lake, "default", *LONG, Selection(trace=ids["trace"])))
    (trace,) = read_traces(lake, "default", [ids["trace"]])
    write_events(lake, trace.events, "joined-again")
    assert len(list(lake.names("ns=default/traces"))) > 1
    assert told(Replay(lake, "default", *LONG, Selection(trace=ids["trace"]))) == before
    assert scan_events(lake, "default", [], "2026-03-10").num_rows == 0


def test_what_was_purged_is_counted_and_not_shown(settings: Settings, lake: Lake, clock: ManualClock) -> None:
    with Memory(settings, clock=clock) as memory:
        gone = memory.remember("Ann's passport ends in May", subject="ann")
        kept = memory.remember("Ann likes e-mail", subject="ann")
        clock.advance(minutes=1)
        memory.search("what of Ann?", subject="ann")
    settle(lake, "default")
    clock.advance(minutes=1)
    purge(lake, settings, clock, "default", ids=[gone])
    replay = Replay(lake, "default", *LONG)
    entries = list(replay)
    assert replay.purged >= 2  # that it was remembered, and the decision to purge it
    assert not any(gone in entry.memories or "passport" in entry.text for entry in entries)
    (search,) = (entry for entry in entries if entry.what == "search")
    assert (search.memories, search.purged) == ((kept,), 1)
    assert [entry.note for entry in entries if entry.kind == "purge"] == ["1 memories, 0 events, 0 traces"]
    assert replay.memory(gone) is None


def test_what_was_masked_when_it_was_stored_stays_masked(settings: Settings, lake: Lake, clock: ManualClock) -> None:
    key = "AKIA" + "IOSFODNN7" + "EXAMPLE"
    with Memory(settings, clock=clock) as memory:
        memory.remember(f"The key is {key}")
        memory.search(f"whose key is {key}?")
    texts = [entry.text for entry in Replay(lake, "default", *LONG)]
    assert len(texts) == 2 and all("[masked:" in text and key not in text for text in texts)


def test_a_period_can_be_written_as_one_says_it(settings: Settings, clock: ManualClock) -> None:
    assert period_of("12h", "now", NOON) == (NOON - timedelta(hours=12), NOON)
    assert period_of("上周", "上周", NOON) == (datetime(2026, 3, 2, tzinfo=UTC), datetime(2026, 3, 9, tzinfo=UTC))
    assert period_of("2026-03-08T10:00+02:00", "2026-03-08", NOON) == (
        datetime(2026, 3, 8, 8, tzinfo=UTC), datetime(2026, 3, 9, tzinfo=UTC)
    )  # fmt: skip
    assert period_of("999999w", "9999-12-31", NOON)[0].year == 1
    with pytest.raises(UsageError, match="'soon' is no time"):
        period_of("soon", "now", NOON)
    with pytest.raises(UsageError, match="swap them"), Memory(settings, clock=clock) as memory:
        memory.replay("yesterday", "3d")


def test_the_lake_of_nobody_has_no_entries(lake: Lake) -> None:
    replay = Replay(lake, "default", datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC))
    entries: list[Entry] = list(replay)
    assert entries == [] and not replay.counts
