"""Moments: a time, or a place in the log, and which place a time stands for."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from .clock import as_utc
from .errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

#: A time, or a place in the log
Moment = datetime | int


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
