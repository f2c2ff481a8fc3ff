"""Time, always asked of a clock, so that tests and the demo can let a month pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol

#: Where an open interval ends. Never null, so that "set to open" and "not set" stay apart in the log.
END_OF_TIME = datetime(9999, 12, 31, tzinfo=UTC)


class Clock(Protocol):
    """Anything that knows the time."""

    def now(self) -> datetime:
        """The time in UTC, to the microsecond."""
        ...


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        """The time in UTC, to the microsecond."""
        return datetime.now(UTC)


@dataclass
class ManualClock:
    """A clock that moves when told to.

    >>> clock = ManualClock(datetime(2026, 3, 1, tzinfo=UTC))
    >>> clock.advance(days=30).date().isoformat()
    '2026-03-31'
    """

    #: The time that the clock shows now.
    time: datetime = field(default_factory=lambda: datetime(2026, 1, 1, tzinfo=UTC))

    def now(self) -> datetime:
        """The time that the clock was last set to."""
        return self.time

    def advance(self, **delta: float) -> datetime:
        """Move on by a `timedelta(**delta)` and return the new time."""
        self.time += timedelta(**delta)
        return self.time


def as_utc(value: datetime) -> datetime:
    """Turn any datetime into UTC; one without a zone is taken as UTC already.

    >>> as_utc(datetime(2026, 1, 1, 8)).isoformat()
    '2026-01-01T08:00:00+00:00'
    """
    if value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return value.astimezone(UTC)
