"""Time comes from a clock, in UTC, and a date without a zone is taken as UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from hindlake.memory_store.clock import END_OF_TIME, ManualClock, SystemClock, as_utc

ZONES = st.integers(-23, 23).map(lambda hours: timezone(timedelta(hours=hours)))


def test_the_system_clock_shows_utc() -> None:
    before, shown, after = datetime.now(UTC), SystemClock().now(), datetime.now(UTC)
    assert before <= shown <= after
    assert shown.tzinfo is UTC


def test_a_manual_clock_moves_only_when_told_to() -> None:
    clock = ManualClock(datetime(2026, 2, 27, 23, 30, tzinfo=UTC))
    assert clock.now() == clock.now()
    assert clock.advance(days=1, minutes=30) == clock.now() == datetime(2026, 3, 1, tzinfo=UTC)
    assert clock.advance(hours=-1).day == 28


@given(st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=ZONES))
def test_any_zone_becomes_the_same_instant_in_utc(moment: datetime) -> None:
    assert as_utc(moment) == moment
    assert as_utc(moment).utcoffset() == timedelta(0)


@given(st.datetimes())
def test_a_time_without_a_zone_is_taken_as_utc(moment: datetime) -> None:
    assert as_utc(moment).replace(tzinfo=None) == moment


def test_an_open_end_is_after_everything() -> None:
    assert as_utc(datetime(9999, 12, 30, 23, 59)) < END_OF_TIME
