"""Times that a query names."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindlake.memory_store.text.dates import span_of

#: A Thursday
NOW = datetime(2026, 3, 12, 9, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("query", "since", "until"),
    [
        ("what did Mia say yesterday?", "2026-03-11", "2026-03-12"),
        ("last Tuesday", "2026-03-10", "2026-03-11"),
        ("last Thursday", "2026-03-05", "2026-03-06"),
        ("this Friday", "2026-03-13", "2026-03-14"),
        ("who came last week", "2026-03-02", "2026-03-09"),
        ("which trips in May 2023", "2023-05-01", "2023-06-01"),
        ("on 3 June, 2022", "2022-06-03", "2022-06-04"),
        ("on March 2nd", "2026-03-02", "2026-03-03"),
        ("on 20 May", "2025-05-20", "2025-05-21"),
        ("on 2024-02-29", "2024-02-29", "2024-03-01"),
        ("in December", "2025-12-01", "2026-01-01"),
        ("in 2023", "2023-01-01", "2024-01-01"),
        ("two weeks ago", "2026-02-23", "2026-03-02"),
        ("the last 3 days", "2026-03-09", "2026-03-13"),
        ("last year", "2025-01-01", "2026-01-01"),
        ("上周说了什么", "2026-03-02", "2026-03-09"),
        ("上周三去哪了", "2026-03-04", "2026-03-05"),
        ("周一的会议", "2026-03-09", "2026-03-10"),
        ("前天", "2026-03-10", "2026-03-11"),
        ("昨晚吃了什么", "2026-03-11", "2026-03-12"),
        ("三天前", "2026-03-09", "2026-03-10"),
        ("最近两个月", "2026-01-11", "2026-03-13"),
        ("上个月的账单", "2026-02-01", "2026-03-01"),
        ("去年5月", "2025-05-01", "2025-06-01"),
        ("2024年3月8日", "2024-03-08", "2024-03-09"),
        ("２０２４年３月", "2024-03-01", "2024-04-01"),
        ("12月", "2025-12-01", "2026-01-01"),
    ],
)
def test_a_time_in_a_query_is_a_span_of_days(query: str, since: str, until: str) -> None:
    span = span_of(query, NOW)
    assert span is not None
    assert tuple(time.date().isoformat() for time in span) == (since, until)


@pytest.mark.parametrize(
    "query",
    ["", "I may go", "march on", "room 2023", "error 404 at 10:30", "they sat down", "Feb 30, 2024", "一月饼", "周末"],
)
def test_what_could_mean_something_else_is_no_time(query: str) -> None:
    assert span_of(query, NOW) is None


@given(st.text(max_size=80), st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1)))
def test_any_text_gives_a_span_that_is_not_empty_or_none(query: str, now: datetime) -> None:
    span = span_of(query, now.replace(tzinfo=UTC))
    assert span is None or span[0] < span[1]
