"""Episodes: what the digest says, and that it never grows."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from hindlake.memory_store.capture.episodes import EPISODE_CHARACTERS, episode_rows, episode_text, shorten
from hindlake.memory_store.capture.events import Event, Trace, trace_of
from hindlake.memory_store.clock import END_OF_TIME
from hindlake.memory_store.schema import table_of

START = datetime(2026, 3, 1, 9, tzinfo=UTC)
WRITTEN = datetime(2026, 3, 2, tzinfo=UTC)


def trace(*events: dict[str, object]) -> Trace:
    """Events of one trace, a second apart."""
    return trace_of(
        [
            Event("acme", "t1", f"e{n}", n, START + timedelta(seconds=n), **fields)  # type: ignore[arg-type]
            for n, fields in enumerate(events)
        ]
    )


PARCEL = (
    {
        "type": "task",
        "content": "Find the late parcel ORD-88121",
        "subject": "mira",
        "task_type": "delivery",
        "task_id": "parcel",
        "agent_role": "executor",
    },
    {"type": "message", "role": "system", "content": "You are Helper Bot of Parcel House."},
    {"type": "message", "role": "user", "content": "My parcel ORD-88121 should have come to Lisbon."},
    {
        "type": "tool_call",
        "tool": "track",
        "arguments": json.dumps({"order_id": "ORD-88121"}),
        "retries": 2,
        "error_code": "timeout",
        "error_message": "carrier did not answer in 30 s",
    },
    {
        "type": "tool_call",
        "tool": "track",
        "arguments": json.dumps({"order_id": "ORD-88121"}),
        "result": json.dumps({"state": "held at customs"}),
    },
    {"type": "message", "role": "agent", "content": "It is held at customs."},
    {"type": "outcome", "outcome": "partial", "content": "parcel not released"},
)


def test_the_digest_tells_task_path_results_answer_and_outcome() -> None:
    assert episode_text(trace(*PARCEL), "en").splitlines() == [
        "Task: Find the late parcel ORD-88121",
        "Steps: track (failed timeout, 2 retries) → track",
        "Results: track: carrier did not answer in 30 s; track: state: held at customs",
        "Answer: It is held at customs.",
        "Outcome: partial, parcel not released",
    ]


def test_a_chinese_trace_has_a_chinese_digest() -> None:
    row = episode_rows(
        trace(
            {"type": "message", "role": "user", "content": "我的包裹还没到，请查一下"},
            {"type": "tool_call", "tool": "track", "error_code": "timeout", "error_message": "超时"},
            {"type": "outcome", "outcome": "failure"},
        ),
        WRITTEN,
    )[0]
    assert row["language"] == "zh"
    assert row["text"].splitlines()[0] == "任务：我的包裹还没到，请查一下"
    assert row["text"].splitlines()[-1] == "结局：失败"


def test_the_row_fits_the_log_and_carries_what_filters_need() -> None:
    row = episode_rows(trace(*PARCEL), WRITTEN)[0]
    assert table_of([row], "log").num_rows == 1
    expected = {
        "decision": "add",
        "kind": "episode",
        "state": "active",
        "subject": "mira",
        "task_type": "delivery",
        "task_id": "parcel",
        "agent_role": "executor",
        "outcome": "partial",
        "said_by": "agent",
        "language": "en",
        "valid_from": START + timedelta(seconds=6),
        "valid_to": END_OF_TIME,
        "at": WRITTEN,
        "confidence": 1.0,
    }
    assert {name: row[name] for name in expected} == expected
    assert {"ORD-88121", "Lisbon"} <= set(row["entities"])


def test_the_same_trace_gives_the_same_ids_and_another_tenant_others() -> None:
    one, again = episode_rows(trace(*PARCEL), WRITTEN)[0], episode_rows(trace(*PARCEL), START)[0]
    assert (one["id"], one["act"]) == (again["id"], again["act"])
    foreign = Trace("other", "t1", trace(*PARCEL).events)
    assert episode_rows(foreign, WRITTEN)[0]["id"] != one["id"]


def test_evidence_is_verbatim_and_leaves_the_prompt_out() -> None:
    some = trace(*PARCEL)
    by_id = {event.event_id: event for event in some.events}
    evidence = episode_rows(some, WRITTEN)[0]["evidence"]
    assert [item["event_id"] for item in evidence] == ["e0", "e3", "e6"]
    for item in evidence:
        event = by_id[item["event_id"]]
        assert item["quote"] in event.content + event.error_message + event.result


def test_a_long_path_keeps_its_ends_and_its_failures() -> None:
    calls: list[dict[str, object]] = [{"type": "tool_call", "tool": f"look_into_drawer_{n}"} for n in range(200)]
    calls[90] = {"type": "tool_call", "tool": "open_safe", "error_code": "denied"}
    text = episode_text(trace(*calls), "en")
    assert "look_into_drawer_0 →" in text
    assert "open_safe (failed denied)" in text
    assert "look_into_drawer_199" in text


def test_text_that_cannot_be_stored_is_dropped() -> None:
    assert shorten("a\0b \ud800 c", 20) == "ab c"


_text = st.text(max_size=4000)


@given(
    st.lists(
        st.fixed_dictionaries(
            {"type": st.sampled_from(["task", "message", "tool_call", "step", "feedback", "outcome"])},
            optional={
                "role": st.sampled_from(["user", "agent", "system"]),
                "content": _text,
                "tool": _text,
                "result": _text,
                "arguments": _text,
                "error_code": _text,
                "error_message": _text,
                "outcome": st.sampled_from(["success", "failure", "partial", "unknown"]),
            },
        ),
        min_size=1,
        max_size=12,
    )
)
def test_any_trace_becomes_one_bounded_row(events: list[dict[str, object]]) -> None:
    (row,) = episode_rows(trace(*events), WRITTEN)
    assert len(row["text"]) <= EPISODE_CHARACTERS
    assert table_of([row], "log").num_rows == 1
