"""The job `purge`: what is purged is gone from every file, and nothing brings it back (N10).

1. The purge is written down: memories, events, keyed hashes of pieces of the texts. From here on reflectors see those
   events empty, and settle refuses what rests on them.
2. `purge` decisions go into the log; readers mask the memories at once.
3. What waits on this machine's disk is brought into the lake, and every file of the namespace is rewritten, in the
   lake and in its backups.
4. A generation is folded from what is left. The old ones go when readers that hold them have had their grace.
5. Everything is decoded and searched; the receipt says what was found.

Each step can be done again, so a purge that was killed is finished by the next call. A sweep after the longest job
could have ended does 3 to 5 once more, and then drops the hashes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any

import msgspec

from ..memory_store.capture.reads import roll_reads
from ..memory_store.capture.spool import home_label, roll_segments, waiting
from ..memory_store.clock import Clock
from ..memory_store.embedders import embedder_named
from ..memory_store.errors import UsageError
from ..memory_store.files.lake import Lake
from ..memory_store.files.store_files import generation_folders, remove_generation
from ..memory_store.history.log import settle
from ..memory_store.ids import derive_id
from ..memory_store.records.leftovers import Place, find, find_in_backups
from ..memory_store.records.pieces import Pieces
from ..memory_store.records.purged import Purge, blocked, purges, receipt_path, write_purge, write_receipt
from ..memory_store.records.vectors import namespace_key
from ..memory_store.settings import Settings
from ..memory_store.store.generations import build, current, ensure, fold_to_head, open_tables
from .purging.backups import open_backups, sweep_backups
from .purging.decide import decide
from .purging.files import Removed, sweep
from .purging.plan import Asked, Plan, listed, plan_purge

#: What no program here can reach, said in every receipt.
OUT_OF_REACH = (
    "the provider of a language model or embedder that was asked about it",
    "exports, copies and logs outside of this home and of its backups",
    "spools of other machines, until their recorders are collected and the sweep is done",
    "processes that run: what they hold in memory, until they end",
    "copies of the store on machines that search a bucket (index.copy_to), until each looks at it next",
    "blocks of a disk that held deleted files, and old versions in a bucket that keeps versions",
)


#: How an entry of `Receipt.expires` begins that is about backups.
_BACKUPS = "backups in"
#: What has to be gone before the last sweep counts.
_WAITING = ("generation", _BACKUPS)


@dataclass
class Receipt:
    """What a purge did. It names ids, places and numbers, never a text."""

    purge_id: str
    namespace: str
    asked_at: datetime
    #: When this receipt was written
    at: datetime
    #: Memories that are hidden from every reader
    hidden: list[str]
    #: Of these, those that were not named, and why they went too
    also: dict[str, str] = field(default_factory=dict)
    #: Memories that come back, because what they had been merged into is gone
    restored: list[str] = field(default_factory=list)
    #: Events that say nothing any more
    events: int = 0
    #: Files looked at, rewritten and deleted, and rows that say less, by folder
    removed: dict[str, dict[str, int]] = field(default_factory=dict)
    #: Whether everything was decoded and no piece of the texts was found
    verified: bool = False
    #: Files, versions and columns that were decoded
    decoded: dict[str, int] = field(default_factory=dict)
    #: Where pieces were found all the same
    leftovers: list[Place] = field(default_factory=list)
    #: Files that can't be understood, so that no one can say what they hold
    damaged: list[str] = field(default_factory=list)
    #: Other memories that have something in common with it, and what
    related: dict[str, str] = field(default_factory=dict)
    #: Where others say the same: these stay unless you purge them too
    elsewhere: list[Place] = field(default_factory=list)
    #: Events of other traces that say the same, as trace and event
    same_in_traces: list[tuple[str, str]] = field(default_factory=list)
    #: Purged texts that are said elsewhere word by word: a copy of them can't be told from those
    indistinct: int = 0
    #: What goes later by itself or by the next call, and when
    expires: list[dict[str, Any]] = field(default_factory=list)
    out_of_reach: list[str] = field(default_factory=lambda: list(OUT_OF_REACH))
    #: When the sweep that finishes it is due; None once it is done
    sweep_due: datetime | None = None
    #: Whether this only shows what a purge would do
    dry_run: bool = False

    def summary(self) -> dict[str, Any]:
        """The receipt as plain values."""
        return asdict(self)


#: Called with the name of each step before it is done.
Progress = Callable[[str], None]


def purge(
    lake: Lake,
    settings: Settings,
    clock: Clock,
    namespace: str,
    *,
    ids: Sequence[str] = (),
    subject: str = "",
    trace: str = "",
    dry_run: bool = False,
    now: bool = False,
    progress: Progress = lambda step: None,
) -> Receipt:
    """Remove memories, all about a subject, or a trace and what rests on it alone. The same call again finishes it.

    Old generations are kept for `jobs.purge_grace_minutes`, for searches that hold them; `now` skips the grace. With
    `dry_run` the receipt says what would go. Raises `UnknownMemory` and `UsageError` for what is not there, and
    whatever the lake or the store raise; then call it again.
    """
    asked = Asked(tuple(dict.fromkeys(ids)), subject, trace)
    progress("plan")
    if not dry_run:
        settle(lake, namespace)
    plan = _plan(lake, settings, clock, namespace, asked)
    if dry_run:
        return _receipt(plan, clock.now(), dry_run=True)
    if plan.purge.swept_at is not None:
        # The texts were forgotten with the last sweep: there is nothing left to look for.
        return msgspec.json.decode(lake.get(receipt_path(namespace, plan.purge.purge_id)), type=Receipt)
    progress("record")
    write_purge(lake, plan.purge)
    progress("decide")
    decide(lake, clock, plan.purge)
    return _finish(lake, settings, clock, plan, now, progress)


def sweep_due(
    lake: Lake,
    settings: Settings,
    clock: Clock,
    *,
    namespaces: Sequence[str] | None = None,
    now: bool = False,
    progress: Progress = lambda step: None,
) -> list[Receipt]:
    """Do the last sweep of every purge for which it is due, `now` for all that had none; return their receipts.

    What a job in flight or another machine has written since is removed, and old generations go. While backups can't be
    reached a purge is not finished.
    """
    receipts = []
    for namespace in lake.chosen(namespaces):
        for known in purges(lake, namespace):
            if known.swept_at is not None or (clock.now() < _due(settings, known) and not now):
                continue
            receipt = _finish(lake, settings, clock, Plan(known), now, progress)
            if not receipt.leftovers and not any(item["what"].startswith(_WAITING) for item in receipt.expires):
                known.swept_at, known.pieces = clock.now(), {}
                write_purge(lake, known)
                receipt.sweep_due = None
                write_receipt(lake, namespace, known.purge_id, receipt.summary())
            receipts.append(receipt)
    return receipts


def _plan(lake: Lake, settings: Settings, clock: Clock, namespace: str, asked: Asked) -> Plan:
    """A new plan, or the purge of the same that was begun before and has nothing new to take in."""
    request = (*sorted(asked.ids), "subject", asked.subject, "trace", asked.trace)
    own = derive_id(namespace, "purge", *request)
    mine = [known for known in purges(lake, namespace) if known.purge_id.startswith(own)]
    name = f"{own}-{len(mine) + 1}"
    plan = plan_purge(lake, settings, namespace, asked, name, clock.now())
    fresh = set(plan.purge.ids).difference(*(known.ids for known in mine))
    events = set(plan.purge.events).difference(*(known.events for known in mine))
    if mine and not fresh and not events:
        return Plan(mine[-1])
    if not plan.purge.ids and not plan.purge.events:
        raise UsageError(f"nothing is known about subject {asked.subject} in namespace {namespace}")
    # What was begun and not finished before goes into the new one, so that its texts are still recognised.
    key = namespace_key(lake, namespace)
    pieces = Pieces.from_kept(plan.purge.pieces, key)
    for known in mine:
        pieces = pieces.joined(Pieces.from_kept(known.pieces, key))
        plan.purge.ids = sorted({*plan.purge.ids, *known.ids})
        plan.purge.events = sorted({*plan.purge.events, *known.events})
        plan.purge.vectors = sorted({*plan.purge.vectors, *known.vectors})
    plan.purge.pieces = pieces.kept()
    return plan


def _finish(lake: Lake, settings: Settings, clock: Clock, plan: Plan, now: bool, progress: Progress) -> Receipt:
    """Mask, rewrite, rebuild, verify; each step is done again by whoever comes after a kill."""
    purge, namespace = plan.purge, plan.purge.namespace
    pieces = Pieces.from_kept(purge.pieces, namespace_key(lake, namespace))
    progress("mask")
    settle(lake, namespace)
    generation = ensure(lake, settings, clock)
    tables = open_tables(settings, generation)
    fold_to_head(lake, tables, namespace, embedder_named(generation.embedder, settings))
    progress("collect")
    fsync = settings.recorder.fsync
    roll_segments(lake, settings.spool_folder, home_label(settings), fsync=fsync)
    roll_reads(lake, settings)
    progress("rewrite")
    gone = blocked(lake, namespace)
    removed = sweep(lake, settings, purge, gone, pieces)
    progress("backups")
    swept = sweep_backups(lake, settings, purge, gone, pieces, clock.now())
    removed.add(swept.removed)
    progress("rebuild")
    while current(lake).name in purge.generations:
        build(lake, settings, clock, reason=f"purge {purge.purge_id}")
    progress("remove")
    expires = _remove_old(lake, settings, clock, purge, now)
    progress("verify")
    left = [item["generation"] for item in expires]
    found = find(lake, settings, namespace, pieces, gone, left)
    for backups in open_backups(lake, settings, swept.unreachable):
        find_in_backups(backups, namespace, pieces, gone, found)
    progress("receipt")
    receipt = _receipt(plan, clock.now(), removed=removed)
    receipt.expires = [{"what": f"generation {item['generation']}", "on": item["on"]} for item in expires]
    receipt.expires += _held(settings)
    # Backups that are made on push out the old ones, night by night.
    last = clock.now() + timedelta(days=settings.backup.keep)
    receipt.expires += [
        {"what": f"{_BACKUPS} {url}, which can't be rewritten now: {reason}", "on": last}
        for url, reason in swept.unreachable.items()
    ]
    receipt.leftovers, receipt.elsewhere = listed(found.leftovers), listed(found.elsewhere)
    receipt.decoded = {"files": found.files, "columns": found.columns}
    receipt.verified = not found.leftovers and not removed.damaged and bool(pieces)
    receipt.sweep_due = None if purge.swept_at else _due(settings, purge)
    write_receipt(lake, namespace, purge.purge_id, receipt.summary())
    return receipt


def _remove_old(lake: Lake, settings: Settings, clock: Clock, purge: Purge, now: bool) -> list[dict[str, Any]]:
    """Delete the generations that were there before, if the grace is over; else say when it will be."""
    over = current(lake).created_at + timedelta(minutes=settings.jobs.purge_grace_minutes)
    old = [name for name in generation_folders(settings) if name in purge.generations]
    if now or clock.now() >= over:
        for name in old:
            remove_generation(settings, name)
        return []
    return [{"generation": name, "on": over} for name in old]


def _held(settings: Settings) -> list[dict[str, Any]]:
    """Events on this machine that a running process holds: they come into the lake when it is done with them."""
    held = waiting(settings.spool_folder)
    return [{"what": f"{held.segments} spool segments that a process appends to", "on": None}] if held.segments else []


def _due(settings: Settings, purge: Purge) -> datetime:
    return purge.asked_at + timedelta(hours=settings.jobs.purge_sweep_hours)


def _receipt(plan: Plan, at: datetime, *, removed: Removed | None = None, dry_run: bool = False) -> Receipt:
    purge = plan.purge
    counts = {} if removed is None else {"files": dict(removed.files), "rows": dict(removed.rows)}
    return Receipt(
        purge_id=purge.purge_id,
        namespace=purge.namespace,
        asked_at=purge.asked_at,
        at=at,
        hidden=list(purge.ids),
        also=purge.also,
        restored=purge.restored,
        events=len(purge.events),
        removed=counts,
        damaged=[] if removed is None else list(removed.damaged),
        related=dict(listed(list(plan.related.items()))),
        same_in_traces=listed(plan.same_in_traces),
        indistinct=plan.indistinct,
        dry_run=dry_run,
    )
