"""Events as bytes: what is spliced decodes to the very event that it stands for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindlake.memory_store.capture.events import Event
from hindlake.memory_store.capture.wire import HEAD_BYTES, Stem, decode, encode

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=300)
TIMES = st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))
SHARED = st.builds(
    Event, TEXT, TEXT, st.just(""), st.just(0), st.just(AT), st.just(""), subject=TEXT, agent=TEXT, agent_role=TEXT,
    task_type=TEXT, task_id=TEXT, conversation_id=TEXT, parent_trace_id=TEXT, language=TEXT, source=TEXT,
)  # fmt: skip
OWN = st.tuples(
    TEXT, st.integers(0, 2**62), TIMES, *[TEXT] * 10, st.integers(0, 2**31), st.none() | st.integers(0, 2**62), TEXT,
    st.none() | st.floats(allow_nan=False),
)  # fmt: skip


@given(SHARED, OWN)
def test_an_event_spliced_around_its_own_fields_is_the_whole_event(shared: Event, own: Any) -> None:
    """Oracle: the event with every field set by name."""
    stem = Stem(shared)
    spliced = stem.head + encode(own)[HEAD_BYTES:] + stem.tail
    assert decode(spliced) == stem.event(own)
    assert len(spliced) == stem.size + len(encode(own)) - HEAD_BYTES
    names = [field.name for field in msgspec.structs.fields(Event)]
    assert tuple(getattr(stem.event(own), name) for name in names[2:19]) == own


@given(TIMES)
def test_a_time_in_seconds_is_the_same_for_who_decodes_and_who_builds(at: datetime) -> None:
    stem = Stem(Event("acme", "t", "", 0, AT, ""))
    own = ("e", 0, at.timestamp(), "step", *[""] * 9, 0, None, "", None)
    spliced = decode(stem.head + encode(own)[HEAD_BYTES:] + stem.tail)
    built = stem.event(own)  # type: ignore[arg-type]
    assert abs((spliced.at - at).total_seconds()) <= 2e-6
    assert abs((built.at - spliced.at).total_seconds()) <= 2e-6


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(UnicodeEncodeError):
        Stem(Event("acme", "t", "", 0, AT, "", subject="\ud83d"))


def test_an_event_is_encoded_whole_too() -> None:
    event = Event("acme", "t", "e", 3, AT, "message", content="hi", cuts=[], masked=2)
    assert decode(encode(event)) == event
