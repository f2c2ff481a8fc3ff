"""The job `restore`: files of a backup back into a lake, and a new generation (R21).

A home without a lake gets all of them. A lake that is there loses nothing: what it lacks or can't be read is put back,
and everything else, newer files above all, stays. Whatever was purged, here or where the backup lies, is taken out of
a file before it is put back. Readers get a new generation, so that a switch takes a restore back; it shows the whole
log, or with `hold` what was known when the backup was made and what is written from now on.

Stopped anywhere it is finished by the same call. A home that was filled halfway is refused by everything else.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ..memory_store.clock import Clock
from ..memory_store.embedders import Embedder, embedder_named, embedder_of
from ..memory_store.errors import DamagedFile, LakeError, UsageError
from ..memory_store.files.backups import Backups, Manifest, Progress
from ..memory_store.files.lake import Lake, namespace_path
from ..memory_store.files.lake_format import MARKER, LakeFormat, check_format, read_format
from ..memory_store.history.inbox import inbox_paths
from ..memory_store.history.log import head, settle
from ..memory_store.records.pieces import Pieces
from ..memory_store.records.purged import Blocked, Purge, purges
from ..memory_store.records.vectors import namespace_key
from ..memory_store.settings import Settings
from ..memory_store.store.generations import build
from ..memory_store.store.held import Place
from ..memory_store.store.held import hold as build_held
from ..memory_store.store.registry import current
from .purging.decide import decide
from .purging.files import cleaned_file
from .safekeeping.restore_plan import MISSING, Step, plan

_WORKERS = 8


@dataclass
class RestoreReport:
    """What a restore did."""

    #: Name of the backup
    name: str
    #: Where the lake lies
    home: str
    #: Files of the backup
    files: int = 0
    #: Files that were put back because they were missing
    put_back: int = 0
    #: Files that were put back because they could not be read
    replaced: list[str] = field(default_factory=list)
    #: Files of the backup that were left out, by reason
    left_out: Counter[str] = field(default_factory=Counter)
    #: Files of the log that say something else here than in the backup
    parted: list[str] = field(default_factory=list)
    #: Files that lost what was purged since, before they were put back
    cleaned: int = 0
    #: Generation that readers use now
    generation: str = ""
    #: Number of the generation before, which readers can be switched back to; 0: there was none
    before: int = 0
    #: Place in the log by namespace that the generation shows; what was written before and after is told apart if held
    shows: dict[str, int] = field(default_factory=dict)
    is_held: bool = False
    is_new: bool = False
    is_dry_run: bool = False

    def summary(self) -> dict[str, Any]:
        """The report as plain values."""
        return {**vars(self), "left_out": dict(sorted(self.left_out.items()))}


def restore(
    settings: Settings,
    backups: Backups,
    clock: Clock,
    name: str = "",
    *,
    hold: bool = False,
    dry_run: bool = False,
    progress: Progress = lambda done, total: None,
) -> RestoreReport:
    """Bring a backup (empty: the newest) back into the home of the settings, and build a generation.

    With `hold` the generation shows each log up to where the backup was made, and what comes after it is built.
    With `dry_run` the report says what would be put back. `progress` is told of files done and of files in all.

    Raises `UsageError` if another lake lies there, `LakeError` if a file of the backup is gone or damaged or the logs
    of lake and backup say different things; what was put back until then is harmless.
    """
    manifest = backups.manifest(name)
    lake = Lake.open(settings, unfinished=True)
    report = RestoreReport(manifest.name, settings.home, len(manifest.files), is_held=hold, is_dry_run=dry_run)
    found = _found(lake)
    argument = f"{manifest.name} --from {backups.url}"
    is_fresh = found is None and not lake.names("")
    report.is_new = is_fresh or (found is not None and found.restoring == argument)
    if not report.is_new and found is not None:
        check_format(found, lake.url)
        if found.lake != manifest.lake:
            raise UsageError(
                f"{lake.url} is lake {found.lake}, the backup is of lake {manifest.lake}: restore it into a home of "
                "its own (--home DIR)"
            )
    view = backups.lake(manifest)
    steps = plan(lake, view, manifest, report.left_out, report.parted, is_new=report.is_new, progress=progress)
    if dry_run:
        report.put_back = sum(step.reason == MISSING for step in steps)
        report.replaced = [step.kept.path for step in steps if step.reason != MISSING]
        return report
    if report.is_new:
        own = read_format(view.get(MARKER), view.url)
        own.restoring = argument
        lake.put(MARKER, msgspec.json.encode(own))
    # A lake that does not say which it is may be another one: nothing of the backup is put into that.
    if found is not None or not report.parted:
        _put_back(lake, view, steps, _purges(lake, view, backups), report, progress)
    if report.parted:
        raise LakeError(
            f"the log in {lake.url} says something else than the backup from {report.parted[0]} on: both were written "
            "to since they parted, or it is another lake. Restore the backup into a home of its own (--home DIR) and "
            "compare"
        )
    for namespace in lake.namespaces():
        for purge in purges(lake, namespace):
            decide(lake, clock, purge)
        settle(lake, namespace)
    if report.is_new or found is None:
        own = read_format(view.get(MARKER), view.url)
        lake.put(MARKER, msgspec.json.encode(own))
    _show(lake, view, settings, clock, manifest, report)
    return report


def _found(lake: Lake) -> LakeFormat | None:
    """What the lake says of itself; None if it says nothing, or nothing that can be read."""
    try:
        return read_format(lake.get(MARKER), lake.url)
    except (FileNotFoundError, DamagedFile):
        return None


def _purges(lake: Lake, view: Lake, backups: Backups) -> dict[str, list[Purge]]:
    """What was purged, as the lake, this backup or a later one knows it, by namespace."""
    known: dict[str, dict[str, Purge]] = defaultdict(dict)
    newest = next(backups.manifests(), None)
    # The lake's own record last: it says the most.
    for source in (view, *((backups.lake(newest),) if newest is not None else ()), lake):
        for namespace in source.namespaces():
            known[namespace] |= {purge.purge_id: purge for purge in purges(source, namespace)}
    return {namespace: list(some.values()) for namespace, some in known.items()}


def _put_back(
    lake: Lake,
    view: Lake,
    steps: Sequence[Step],
    known: dict[str, list[Purge]],
    report: RestoreReport,
    progress: Progress,
) -> None:
    """Put files into the lake, each without what was purged; those of a log in order, so that it has no gap longer
    than it must.
    """
    blocked = {namespace: Blocked(some) for namespace, some in known.items()}
    keys = {namespace: _key(lake, view, namespace) for namespace in known}
    for namespace, some in known.items():
        for purge in some:
            # First of all, so that nothing that is put back later is used without it.
            _write_record(lake, namespace, purge)

    def put(step: Step) -> bool:
        path = step.kept.path
        data: bytes | None = view.get(path)
        namespace = path.split("/")[0].removeprefix("ns=") if path.startswith("ns=") else ""
        changed = 0
        for purge in known.get(namespace, ()):
            if data is None or path.startswith(namespace_path(namespace, "purged") + "/"):
                break
            pieces = Pieces.from_kept(purge.pieces, keys[namespace])
            data, rows = cleaned_file(path, data, purge, blocked[namespace], pieces)
            changed += rows
        if data is not None and step.reason == MISSING and not path.endswith(f"/{MARKER}"):
            lake.create(path, data)
        elif data is not None:
            lake.put(path, data)
        return bool(changed)

    order = sorted(steps, key=lambda step: (step.kept.path.split("/")[1:2] == ["log"], step.kept.path))
    logs = [step for step in order if step.kept.path.split("/")[1:2] == ["log"]]
    done = 0
    with ThreadPoolExecutor(_WORKERS) as pool:
        for was_cleaned in pool.map(put, order[: len(order) - len(logs)]):
            report.cleaned += was_cleaned
            done += 1
            progress(done, len(order))
    for step in logs:
        report.cleaned += put(step)
        done += 1
        progress(done, len(order))
    report.put_back = sum(step.reason == MISSING for step in steps)
    report.replaced = [step.kept.path for step in steps if step.reason != MISSING]


def _key(lake: Lake, view: Lake, namespace: str) -> bytes:
    """The key under which a namespace's purges know pieces of texts; where there is none they know none."""
    for source in (lake, view):
        if source.exists(namespace_path(namespace, "key")):
            return namespace_key(source, namespace)
    return b""


def _write_record(lake: Lake, namespace: str, purge: Purge) -> None:
    path = namespace_path(namespace, "purged", f"{purge.purge_id}.json")
    if not lake.exists(path):
        lake.put(path, msgspec.json.encode(purge))


def _show(lake: Lake, view: Lake, settings: Settings, clock: Clock, manifest: Manifest, report: RestoreReport) -> None:
    """Build the generation that readers use from now on."""
    if not report.is_new and lake.names("current"):
        report.before = current(lake).number
    embedder: Embedder = embedder_named(manifest.embedder, settings) if manifest.embedder else embedder_of(settings)
    reason = f"backup {manifest.name}"
    if report.is_held:
        places = {name: Place(at.seq, _waiting(view, name)) for name, at in manifest.namespaces.items()}
        report.generation = build_held(lake, settings, clock, embedder, places, reason).name
        report.shows = {name: place.seq for name, place in places.items()}
    else:
        report.generation = build(lake, settings, clock, embedder=embedder, reason=reason).name
        report.shows = {name: head(lake, name)[1] for name in lake.namespaces()}


def _waiting(view: Lake, namespace: str) -> frozenset[str]:
    """Acts that waited in the inbox when the backup was made."""
    tables = view.read_tables(inbox_paths(view, namespace), ["act"])
    return frozenset(act for _, rows in tables for act in rows.column("act").to_pylist())
