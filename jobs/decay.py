"""The job `decay`: what has lost its strength, expired or was never used is archived, ranked down or deleted, as the
policy of its namespace and kind says (R15 to R18).

Time counts from the last touch. For strength that is the latest of: since when the statement holds (`valid_from`),
when it was written (an old history that is loaded today is not old news tonight), when it was last put before an
agent (what is asked for is in use), and when someone last brought it back. An expiry does not count reads, since it
bounds how long a record is kept. That a memory was never read is known only since reads are logged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from ..memory_store.clock import Clock, as_utc
from ..memory_store.files.lake import Lake
from ..memory_store.history.touches import restored_at
from ..memory_store.recall.ranking import decayed
from ..memory_store.records.usage import first_read, heirs, inherited, read_usage
from ..memory_store.schema import ALIAS
from ..memory_store.settings import RetentionPolicy, Settings
from .deciding.decide import Decided, DecideReport, View, decide

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

#: Columns of the store that the job looks at.
COLUMNS = ("id", "kind", "importance", "strength", "valid_from", "added_at")
#: Memories that are held as Python values at once.
BATCH_ROWS = 20_000
#: Days, and strength, by which numbers that are computed in columns may differ.
_SPARE = 1e-6


def decay(
    lake: Lake,
    settings: Settings,
    clock: Clock,
    *,
    version: str,
    namespaces: Sequence[str] | None = None,
    dry_run: bool = False,
) -> DecideReport:
    """Send away the active memories whose time is over. Nothing is destroyed; `restore` brings each back.

    Counts what was `kept` by policy and what is `alive`. With `dry_run` nothing is written. Raises when the lake or
    the store fail.
    """
    return decide(
        lake, settings, clock, partial(rule, write=not dry_run), job="decay", version=version, namespaces=namespaces,
        dry_run=dry_run,
    )  # fmt: skip


@dataclass(frozen=True)
class Touches:
    """What is known about the use of the memories of a namespace."""

    #: When each was last put before an agent
    read_at: Mapping[str, datetime] = field(default_factory=dict)
    #: Since when reads are logged; None: they are not
    logged_since: datetime | None = None
    #: When each was last brought back
    restored_at: Mapping[str, datetime] = field(default_factory=dict)


def rule(view: View, *, write: bool) -> Iterator[Decided]:
    """What becomes of the active memories of one namespace."""
    usage = read_usage(view.lake, view.namespace, write=write)
    usage = inherited(usage, heirs(view.lake, view.namespace)) if usage.num_rows else usage
    last = usage.group_by("id").aggregate([("last_at", "max")])
    read_at = dict(zip(last.column("id").to_pylist(), last.column("last_at_max").to_pylist(), strict=True))
    touches = Touches(read_at, first_read(view.lake, view.namespace))
    yield from _decided(view, view.memories(COLUMNS, states=("active",), not_kinds=(ALIAS,)), touches)


def _decided(view: View, memories: pa.Table, touches: Touches) -> Iterator[Decided]:
    """Decide on memories; only those whose time may be over are looked at one by one."""
    settings, rate = view.settings, view.settings.search.decay
    kinds = set(memories.column("kind").unique().to_pylist())
    policies = {kind: settings.retention.policy(view.namespace, kind) for kind in kinds}
    over = memories.filter(may_go(memories, policies, touches, view.now, rate))
    back = restored_at(view.lake, view.namespace, over.column("id").to_pylist())
    touches = Touches(touches.read_at, touches.logged_since, back)
    yield Decided(counts=Counter(alive=memories.num_rows - over.num_rows))
    for start in range(0, over.num_rows, BATCH_ROWS):
        decided = Decided()
        for row in over.slice(start, BATCH_ROWS).to_pylist():
            policy = policies[row["kind"]]
            reason = reason_to_go(row, policy, touches, view.now, rate)
            if not reason:
                decided.counts["alive"] += 1
            elif sets := _sets(row, policy, settings.retention.downrank):
                decided.acts.append([{"id": row["id"], "reason": reason, **sets}])
            else:
                decided.counts["kept"] += 1
        yield decided


def may_go(
    memories: pa.Table, policies: Mapping[str, RetentionPolicy], touches: Touches, now: datetime, rate: float
) -> pa.Array:
    """A flag for each memory (columns `COLUMNS`): False where `reason_to_go` finds none and need not be asked."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    def days(times: pa.ChunkedArray) -> npt.NDArray[np.float64]:
        micros = times.cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy()
        return np.asarray((now.timestamp() * 1e6 - micros) / 86_400e6 + _SPARE, np.float64)

    def of(name: str) -> npt.NDArray[np.float64]:
        values = [float(getattr(policies[one], name)) for one in kind.dictionary.to_pylist()]
        return np.asarray(np.array(values, np.float64)[kind.indices.to_numpy()])

    kind = memories.column("kind").combine_chunks().dictionary_encode()
    came = np.fmin(days(memories.column("valid_from")), days(memories.column("added_at")))
    came = np.nan_to_num(came, nan=_SPARE)
    times = pa.chunked_array([pa.array(touches.read_at.values(), pa.timestamp("us", "UTC"))])
    place = pc.index_in(memories.column("id").combine_chunks(), value_set=pa.array(touches.read_at, pa.string()))
    read = np.append(days(times), np.nan)[pc.fill_null(place, -1).to_numpy(zero_copy_only=False)]
    logged = -np.inf if touches.logged_since is None else _days(as_utc(touches.logged_since), now) + _SPARE
    expired = (of("ttl_days") > 0) & (came > of("ttl_days"))
    unused = (of("unused_days") > 0) & np.isnan(read) & (np.minimum(came, logged) > of("unused_days"))
    importance = np.clip(memories.column("importance").to_numpy().astype(np.float64), 0.0, 1.0)
    quiet = np.maximum(np.fmin(came, read), 0.0)
    weak = importance * np.exp(-rate * (1 - importance / 2) * quiet) < of("floor") + _SPARE
    return pa.array(expired | unused | weak)


def _sets(row: Mapping[str, Any], policy: RetentionPolicy, downrank: float) -> dict[str, Any]:
    """The decision of a policy, and what it sets; nothing where it leaves the memory alone."""
    if policy.action == "archive":
        return {"decision": "archive", "state": "archived"}
    if policy.action == "delete":
        return {"decision": "forget", "state": "deleted"}
    strength = 1.0 if row["strength"] is None else row["strength"]
    if policy.action == "downrank" and strength > downrank:
        return {"decision": "downrank", "strength": downrank}
    return {}


def reason_to_go(row: Mapping[str, Any], policy: RetentionPolicy, touches: Touches, now: datetime, rate: float) -> str:
    """Why the time of a memory (columns `COLUMNS`) is over; empty while it is not. `rate`: of decay, a day."""
    times = (row["valid_from"], row["added_at"], touches.restored_at.get(row["id"]))
    came = max((as_utc(time) for time in times if time is not None), default=now)
    read_at = touches.read_at.get(row["id"])
    if policy.ttl_days and (days := _days(came, now)) > policy.ttl_days:
        return f"it is {days:.0f} days old, and this kind is kept for {policy.ttl_days}"
    if policy.unused_days and read_at is None and touches.logged_since is not None:
        days = _days(max(came, as_utc(touches.logged_since)), now)
        if days > policy.unused_days:
            return f"no one has read it in {days:.0f} days"
    if row["importance"] is None:
        return ""
    days = _days(came if read_at is None else max(came, as_utc(read_at)), now)
    strength = decayed(min(max(row["importance"], 0.0), 1.0), days, rate)
    if strength < policy.floor:
        return f"importance {row['importance']:.2f} has decayed to {strength:.2f} in {days:.0f} days"
    return ""


def _days(since: datetime, now: datetime) -> float:
    return (now - since).total_seconds() / 86_400
