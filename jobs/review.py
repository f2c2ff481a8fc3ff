"""The job `review`: a sample of what was reflected in a month, for people to judge (R11).

Which memories are in a sample depends on their ids and the month only, so it is the same on every machine. The sample
of a month that is over is fixed in the lake when it is first drawn.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ..memory_store.clock import Clock
from ..memory_store.errors import UsageError
from ..memory_store.files.lake import Among, Lake, namespace_path
from ..memory_store.history.inbox import Row, write_user_act
from ..memory_store.history.log import log_paths
from ..memory_store.ids import derive_id
from ..memory_store.recall.predicates import READABLE
from ..memory_store.records.reflected import memories_of, reflected_ids
from ..memory_store.records.reviews import fix_sample, last_verdicts, read_reviews, read_sample

#: Memories of one sample (R11).
SAMPLE = 100
_MONTH = re.compile(r"(\d{4})-(\d{2})")


@dataclass(frozen=True)
class Period:
    """A span of time, and the name of its sample."""

    #: Such as 2026-11
    name: str
    since: datetime
    #: Not in it any more
    until: datetime

    @classmethod
    def month(cls, name: str) -> Period:
        """A month of the calendar, UTC. Raises `UsageError` if it is none.

        >>> Period.month("2026-12").until.isoformat()
        '2027-01-01T00:00:00+00:00'
        """
        match = _MONTH.fullmatch(name)
        if match is None or not (1 <= int(match[2]) <= 12 and 1 <= int(match[1]) < 9999):
            raise UsageError(f"{name!r} is no month: write it as 2026-11")
        year, month = int(match[1]), int(match[2])
        until = datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)
        return cls(name, datetime(year, month, 1, tzinfo=UTC), until)

    @classmethod
    def between(cls, since: datetime, until: datetime) -> Period:
        """Any span. Raises `UsageError` if it is empty."""
        if since >= until:
            raise UsageError(f"nothing lies between {since:%Y-%m-%d %H:%M} and {until:%Y-%m-%d %H:%M}")
        return cls(f"{since:%Y-%m-%dT%H:%M:%SZ}/{until:%Y-%m-%dT%H:%M:%SZ}", since, until)

    @classmethod
    def before(cls, now: datetime) -> Period:
        """The month before the one of `now`.

        >>> Period.before(datetime(2026, 1, 9, tzinfo=UTC)).name
        '2025-12'
        """
        year, month = (now.year, now.month - 1) if now.month > 1 else (now.year - 1, 12)
        return cls.month(f"{year:04}-{month:02}")


@dataclass(frozen=True)
class ReviewReport:
    """What the job did: counts only."""

    namespaces: int = 0
    #: Memories in samples
    drawn: int = 0
    #: Of these, those that have a verdict
    judged: int = 0


def review(
    lake: Lake, clock: Clock, *, namespaces: Sequence[str] | None = None, month: str = "", size: int = SAMPLE
) -> ReviewReport:
    """Draw the sample of a month in the namespaces named, or in all; of the month before this one unless it is named.

    Drawing it again changes nothing. Raises `UsageError` when the month is none.
    """
    period = Period.month(month) if month else Period.before(clock.now())
    drawn = judged = sampled = 0
    for namespace in lake.chosen(namespaces):
        ids = draw(lake, namespace, period, size, clock.now())
        verdicts = last_verdicts(read_reviews(lake, namespace)) if ids else {}
        sampled += bool(ids)
        drawn += len(ids)
        judged += sum(id in verdicts for id in ids)
    return ReviewReport(sampled, drawn, judged)


def draw(lake: Lake, namespace: str, period: Period, size: int, now: datetime) -> list[str]:
    """Ids of the memories of a sample, in the order in which they are to be judged.

    It is fixed once its period is over; before, memories that are reflected later take the place of some. A smaller
    sample is the beginning of a bigger one.
    """
    if size < 1:
        raise UsageError("a sample has at least one memory")
    if fixed := read_sample(lake, namespace, period.name, size):
        return fixed
    found = reflected_ids(lake, namespace, period.since, period.until)
    order = sorted(found, key=lambda id: derive_id(namespace, "review-sample", period.name, id))[:size]
    if now < period.until or not order:
        return order
    memories = memories_of(lake, namespace, order)
    return fix_sample(lake, namespace, period.name, size, [memories[id] for id in order], now)


def forget_wrong(lake: Lake, namespace: str, now: datetime) -> list[str]:
    """Forget every memory whose last verdict is wrong and which can still be recalled; return their ids.

    Each verdict does so once: a memory that was restored afterwards stays.
    """
    wrong = {id: row for id, row in last_verdicts(read_reviews(lake, namespace)).items() if row["verdict"] == "wrong"}
    if not wrong:
        return []
    acts = {id: derive_id(namespace, "act", "review", row["review_id"]) for id, row in wrong.items()}
    done = _done(lake, namespace, acts)
    forgotten = []
    for id, memory in memories_of(lake, namespace, wrong).items():
        if memory["state"] in READABLE and acts[id] not in done:
            said = wrong[id]["reason"]
            reason = f"judged wrong in a review{f': {said}' if said else ''}"
            row: Row = {"act": acts[id], "at": now, "decision": "forget", "id": id, "state": "deleted"}
            write_user_act(lake, namespace, [{**row, "reason": reason}], acts[id])
            forgotten.append(id)
    return sorted(forgotten)


def _done(lake: Lake, namespace: str, acts: dict[str, str]) -> set[str]:
    """Which of these acts are in the log or in the inbox."""
    done = {act for act in acts.values() if lake.exists(namespace_path(namespace, "inbox", f"u-{act}.parquet"))}
    for _, rows in lake.read_tables(log_paths(lake, namespace), ["id", "act"], among=Among("id", sorted(acts))):
        done.update(set(rows.column("act").to_pylist()) & set(acts.values()))
    return done
