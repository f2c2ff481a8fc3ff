"""Events in memory: a table and back without a loss, and a trace in order whatever order they came in."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindlake.memory_store.capture.events import Cut, Event, events_of, events_table, group_traces, trace_of

T0 = datetime(2026, 3, 1, 9, tzinfo=UTC)

_TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
_VALUES = {
    str: _TEXT,
    int: st.integers(-(2**63), 2**63 - 1),
    int | None: st.none() | st.integers(0, 2**40),
    float | None: st.none() | st.floats(allow_nan=False),
    datetime: st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)),
    list[Cut]: st.lists(st.builds(Cut, field=_TEXT, bytes=st.integers(0, 2**40), sha256=_TEXT), max_size=2),
}
EVENTS = st.builds(Event, **{field.name: _VALUES[field.type] for field in msgspec.structs.fields(Event)})


def event(seq: int, type: str = "message", trace_id: str = "t", **given: object) -> Event:
    at = T0 + timedelta(seconds=seq)
    return Event("acme", trace_id, f"{trace_id}-{seq}", seq, at, type, **given)  # type: ignore[arg-type]


@given(st.lists(EVENTS, max_size=4))
def test_events_come_back_from_a_table_as_they_were(events: list[Event]) -> None:
    assert events_of(events_table(events)) == events


def test_columns_that_an_older_file_lacks_take_their_default() -> None:
    rows = events_table([event(0, content="hi")]).drop_columns(["cuts", "masked", "time_source", "latency_us"])
    assert events_of(rows) == [event(0, content="hi")]


def test_a_column_that_this_version_does_not_know_is_no_obstacle() -> None:
    rows = events_table([event(0)])
    assert events_of(rows.append_column("mood", rows.column("seq"))) == [event(0)]


def test_a_trace_is_ordered_and_holds_no_event_twice() -> None:
    events = [event(n) for n in range(9)]
    shuffled = [*events, *events[3:6]]
    random.Random(1).shuffle(shuffled)
    assert trace_of(shuffled).events == tuple(events)


def test_events_of_many_traces_are_told_apart() -> None:
    events = [event(n, trace_id=trace) for n in range(3) for trace in ("b", "a")]
    other = Event("other", "a", "x", 0, T0 + timedelta(days=1), "task")
    traces = group_traces([*events, other])
    assert [(trace.namespace, trace.trace_id, len(trace.events)) for trace in traces] == [
        ("acme", "a", 3),
        ("acme", "b", 3),
        ("other", "a", 1),
    ]
    assert group_traces([]) == []


@pytest.mark.parametrize(
    ("outcomes", "outcome", "ended"),
    [
        ([], "unknown", False),
        (["failure"], "failure", True),
        (["failure", "success"], "success", True),  # the last word counts
        (["partial", ""], "partial", True),
    ],
)
def test_the_outcome_is_the_last_one_that_was_logged(outcomes: list[str], outcome: str, ended: bool) -> None:
    trace = trace_of([event(0, "task"), *(event(n, "outcome", outcome=o) for n, o in enumerate(outcomes, 1))])
    assert (trace.outcome, trace.is_ended) == (outcome, ended)


def test_the_goal_is_the_tasks_own_words_or_the_users_first() -> None:
    said = [event(1, role="agent", content="hello"), event(2, role="user", content="我的包裹呢?")]
    assert trace_of([event(0, "task"), *said]).goal == "我的包裹呢?"
    assert trace_of([event(0, "task", content="find a parcel"), *said]).goal == "find a parcel"
    assert trace_of([event(0, "task")]).goal == ""


def test_a_trace_knows_its_calls_its_times_and_the_first_of_each_field() -> None:
    late = Event("acme", "t", "late", 1, T0 - timedelta(hours=1), "message", subject="ann")  # a clock that went back
    trace = trace_of([event(0, "task"), late, event(2, "tool_call", tool="pay", subject="bob")])
    assert [call.tool for call in trace.tool_calls] == ["pay"]
    assert trace.first("subject") == "ann"
    assert trace.first("model") == ""
    assert trace.ended_at == T0 + timedelta(seconds=2)
