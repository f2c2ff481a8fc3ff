"""Moments: a time, or a place in the log, and which place a time stands for."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from ..clock import as_utc
from ..errors import UsageError
from ..text.dates import span_of

if TYPE_CHECKING:
    import pyarrow as pa

#: A time, or a place in the log
Moment = datetime | int

_AGE = re.compile(r"(\d{1,6})([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def moment_of(text: str) -> Moment:
    """A moment as one writes it: an ISO date (its end), an ISO date and time (UTC without a zone), or a place.

    >>> moment_of("2026-03-01").isoformat(), moment_of("2026-03-01T08:00+08:00").isoformat(), moment_of("17")
    ('2026-03-01T23:59:59.999999+00:00', '2026-03-01T00:00:00+00:00', 17)
    """
    said = text.strip()
    if said.isdecimal() and len(said) != 8:
        return int(said)
    try:
        when = datetime.fromisoformat(said)
    except ValueError:
        raise UsageError(f"{text!r} is no time: write 2026-03-01, 2026-03-01T08:30, or a place in the log") from None
    is_day = "T" not in said and ":" not in said
    return as_utc(when.replace(hour=23, minute=59, second=59, microsecond=999_999) if is_day else when)


def period_of(since: str, until: str, now: datetime) -> tuple[datetime, datetime]:
    """A period as one writes its ends: an ISO date or time, an age (`30m`, `12h`, `2d`, `3w`: so long ago), `now`, or
    a word for a day, week, month or year (`yesterday`, `last week`, 上周). Of what lasts, `since` is the beginning and
    `until` the end.

    >>> now = datetime(2026, 3, 12, 9, 30, tzinfo=UTC)
    >>> [time.isoformat(" ", "minutes")[:16] for time in period_of("2d", "yesterday", now)]
    ['2026-03-10 09:30', '2026-03-12 00:00']
    >>> [time.isoformat(" ", "minutes")[:16] for time in period_of("2026-03-01", "2026-03-01", now)]
    ['2026-03-01 00:00', '2026-03-02 00:00']
    """
    return _span(since, now)[0], _span(until, now)[1]


def _span(text: str, now: datetime) -> tuple[datetime, datetime]:
    said = text.strip()
    if said == "now":
        return now, now
    if age := _AGE.fullmatch(said):
        try:
            then = now - timedelta(seconds=int(age[1]) * _SECONDS[age[2]])
        except OverflowError:
            then = datetime(1, 1, 1, tzinfo=UTC)
        return then, then
    try:
        when = as_utc(datetime.fromisoformat(said))
    except ValueError:
        if span := span_of(said, now):
            return span
        raise UsageError(
            f"{text!r} is no time: write 2026-03-01, 2026-03-01T08:30, 12h, 2d, yesterday or last week"
        ) from None
    is_day = "T" not in said and ":" not in said
    return when, when + timedelta(days=1) if is_day and when.date() < date.max else when


def seq_at(log: pa.Table, at: datetime) -> int:
    """The place in the log that a time stands for: the last row that was written by then.

    Where clocks disagree it is the place that puts the fewest rows on the wrong side, so that one machine whose clock
    is wrong can't move it far. A later time never gives an earlier place.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if not log.num_rows:
        return 0
    by_then = pc.less_equal(log.column("at"), pa.scalar(as_utc(at), log.schema.field("at").type))
    balance = np.cumsum(2 * by_then.to_numpy(zero_copy_only=False).astype(np.int64) - 1)
    if balance.max() < 0:
        return 0
    last = log.num_rows - 1 - int(np.argmax(balance[::-1]))
    return int(log.column("seq")[last].as_py()) if balance[last] > 0 else 0
