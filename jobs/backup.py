"""The job `backup`: the lake as it is now, in another place, from which it can be restored (R21).

What is copied is one moment of the log, though writers go on. Files are listed in the order opposite to the one in
which jobs write them, so that nothing is listed whose ground is missing:

1. what jobs write last, and so may only be there with what it stands for: gate rows, reflections, archive, sums
2. the inbox
3. the log, as far as it is gapless: what left the inbox since is in it
4. what jobs read: traces, reads, replies, vectors. Traces are listed again until nothing vanished meanwhile, since a
   small file is deleted only when the bigger one that holds its events is there
5. files that were overwritten since they were copied, as a purge does, are copied again

A file that an earlier backup has, by path, size and version, is not read again. A backup is there once its manifest
is; before that every file was read back from the pool, and the log folded to what the lake's log folds to.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import sha256
from secrets import token_hex
from typing import Any

from ..memory_store.clock import Clock
from ..memory_store.errors import LakeError, NoGeneration
from ..memory_store.files.backups import Backups, Kept, Manifest, Progress, pool_path, remember
from ..memory_store.files.lake import Entry, Lake, namespace_path
from ..memory_store.files.lake_format import own_version
from ..memory_store.history.fingerprint import point
from ..memory_store.history.log import log_path
from ..memory_store.settings import Settings
from ..memory_store.store.registry import current
from .safekeeping.check import check_files, check_points, damage
from .safekeeping.prune import grace, prune

#: Folders of the lake that say what is going on and nothing that is kept.
NOT_KEPT = ("lease", "probe")
#: Folders of a namespace that jobs read: they are listed after what was made of them.
_GROUND = ("traces", "reads", "replies", "vectors", "purged", "key")
#: Files that are copied at once.
_WORKERS = 8
#: Files after which a backup keeps what it knows, for the case that it is stopped.
_PARTIAL_FILES = 2_000
#: Listings of traces until a backup gives up: each takes far less time than files live.
_LISTINGS = 20


@dataclass
class BackupReport:
    """What a backup did. `files = copied + known + reused`."""

    #: Where it lies
    url: str
    #: Its name; empty for a dry run
    name: str = ""
    #: Files and bytes of the lake that belong to it
    files: int = 0
    bytes: int = 0
    #: Files that were written into the pool
    copied: int = 0
    copied_bytes: int = 0
    #: Files that an earlier backup has, by path, size and version
    known: int = 0
    #: Files whose content was in the pool already
    reused: int = 0
    #: Files that were read back from the pool
    verified: int = 0
    #: Files of the pool that were gone or damaged, and were copied again
    repaired: int = 0
    #: Memories by namespace
    memories: dict[str, int] = field(default_factory=dict)
    #: Files of the lake that can't be understood; "kept": the backup has what they were before
    damaged: dict[str, str] = field(default_factory=dict)
    #: Backups that are not kept any more
    dropped: list[str] = field(default_factory=list)
    #: Files that no backup needs any more and that were deleted from the pool
    pruned: int = 0
    is_dry_run: bool = False

    def summary(self) -> dict[str, Any]:
        """The report as plain values."""
        return dict(vars(self))


def backup(
    lake: Lake,
    backups: Backups,
    settings: Settings,
    clock: Clock,
    *,
    progress: Progress = lambda done, total: None,
) -> BackupReport:
    """Back the lake up while others write, check the backup, and drop those that are too old. Twice is harmless.

    Stopped anywhere it leaves the earlier backups as they are, and the next call goes on. `progress` is told of files
    done and of files in all.

    Raises `LakeError` if lake or backups can't be read or written, if the log has a gap, or if what was written can't
    be read back; `UsageError` if the place holds the backups of another lake.
    """
    backups.claim(lake.format().lake)
    remember(lake, backups.url)
    return _Backup(lake, backups, settings, clock, progress).make()


def forecast(lake: Lake, backups: Backups | None) -> BackupReport:
    """What a backup would copy now; `backups` is None for a place where there are none yet. Writes nothing."""
    report = BackupReport("" if backups is None else backups.url, is_dry_run=True)
    known: set[tuple[str, int, str]] = set()
    for manifest in () if backups is None else backups.manifests():
        known.update((kept.path, kept.bytes, kept.version) for kept in manifest.files)
    for entry in lake.entries(""):
        if entry.path.partition("/")[0] in NOT_KEPT:
            continue
        report.files += 1
        report.bytes += entry.bytes
        if (entry.path, entry.bytes, entry.version) in known:
            report.known += 1
        else:
            report.copied += 1
            report.copied_bytes += entry.bytes
    return report


class _Backup:
    """One backup that is being made."""

    def __init__(self, lake: Lake, backups: Backups, settings: Settings, clock: Clock, progress: Progress) -> None:
        self.lake, self.backups, self.settings, self.clock = lake, backups, settings, clock
        self.progress = progress
        self.report = BackupReport(backups.url)
        self.files: dict[str, Kept] = {}
        #: Files whose content this backup has written or seen in the pool
        self.fresh: set[str] = set()
        self.pool: set[str] = set()
        self.listed = 0

    def make(self) -> BackupReport:
        """Copy, check, publish, prune."""
        began_at, began = self.clock.now(), time.monotonic()
        self._look()
        logs = self._copy_all()
        points = {name: point(self.lake, name, paths) for name, paths in logs.items()}
        manifest = Manifest(
            name=f"{began_at:%Y%m%dT%H%M%S%f}-{token_hex(2)}", lake=self.lake.format().lake, home=self.settings.home,
            version=own_version(), began_at=began_at, ended_at=self.clock.now(), embedder=self._embedder(),
            namespaces=points, files=[self.files[path] for path in sorted(self.files)],
            damaged=[path for path, what in self.report.damaged.items() if what != "kept"],
        )  # fmt: skip
        self._check(manifest, time.monotonic() - began)
        if not self.backups.add(manifest):
            raise LakeError(f"{self.backups.url} has a backup {manifest.name} of someone else: make it again")
        self._check_there(manifest)
        self.backups.drop_partial()
        report = self.report
        report.name, report.files = manifest.name, len(manifest.files)
        report.bytes = sum(kept.bytes for kept in manifest.files)
        report.memories = {name: sum(at.memories.values()) for name, at in points.items()}
        report.dropped, report.pruned = prune(self.backups, self.settings, manifest.name)
        return report

    # What is known before

    def _look(self) -> None:
        """What earlier backups know, and what of the pool can be relied on to stay."""
        self.earlier: dict[tuple[str, int, str], str] = {}
        self.healthy: dict[str, Kept] = {}
        needed: set[str] = set()
        for manifest in self.backups.manifests():
            damaged = set(manifest.damaged)
            for kept in manifest.files:
                if kept.path not in damaged:  # else it is told again
                    self.earlier.setdefault((kept.path, kept.bytes, kept.version), kept.sha256)
                    self.healthy.setdefault(kept.path, kept)
                needed.add(pool_path(kept.path, kept.sha256))
        for kept in self.backups.read_partial():
            self.earlier.setdefault((kept.path, kept.bytes, kept.version), kept.sha256)
        pool = self.backups.pool()
        young = None if not pool else self.backups.now() - grace(self.settings) / 2
        # What no backup needs is about to go, unless a backup that was stopped has just put it there.
        self.pool = {
            path for path, entry in pool.items() if path in needed or (young is not None and entry.changed_at > young)
        }

    def _embedder(self) -> str:
        try:
            return current(self.lake).embedder
        except NoGeneration:
            return ""

    # Copying

    def _copy_all(self) -> dict[str, list[str]]:
        """Copy everything in its order; return the files of each log."""
        namespaces = self.lake.namespaces()
        for name in namespaces:
            some = self.lake.entries(namespace_path(name))
            self._copy(entry for entry in some if entry.path.split("/")[1] not in (*_GROUND, "inbox", "log"))
        for name in namespaces:
            self._copy(self.lake.entries(namespace_path(name, "inbox")))
        logs: dict[str, list[str]] = {}
        for name in namespaces:
            some = _gapless(self.lake, name)
            self._copy(some, must=True)
            logs[name] = [entry.path for entry in some]
        for _ in range(_LISTINGS):
            everything = self.lake.entries("")
            rest = [entry for entry in everything if self._is_ground(entry.path) and entry.path not in self.files]
            if not self._copy(rest) and self.listed:
                break
            self.listed += 1
        else:
            raise LakeError(
                f"files of {self.lake.url} vanish faster than they can be copied to {self.backups.url}: is "
                "`hindlake run compact` running in a loop?"
            )
        again = [entry for entry in self.lake.entries("") if self._is_changed(entry)]
        self._copy(again)
        return logs

    def _is_ground(self, path: str) -> bool:
        parts = path.split("/")
        return parts[1] in _GROUND if parts[0].startswith("ns=") else parts[0] not in NOT_KEPT

    def _is_changed(self, entry: Entry) -> bool:
        kept = self.files.get(entry.path)
        if kept is None or entry.path in self.report.damaged:
            return False
        return (kept.bytes, kept.version) != (entry.bytes, entry.version)

    def _copy(self, entries: Iterable[Entry], must: bool = False) -> bool:
        """Copy files; whether one had vanished, which raises with `must`."""
        some = list(entries)
        vanished = False
        seen = len(self.files)
        with ThreadPoolExecutor(_WORKERS) as pool:
            for start in range(0, len(some), _PARTIAL_FILES):
                portion = some[start : start + _PARTIAL_FILES]
                for done, (entry, kept) in enumerate(zip(portion, pool.map(self._copied, portion), strict=True)):
                    if kept is None:
                        if must:
                            raise LakeError(f"{self.lake.url} lost {entry.path} while it was backed up")
                        vanished = True
                        continue
                    self.files[entry.path] = kept
                    self.progress(seen + start + done + 1, seen + len(some))
                if start + _PARTIAL_FILES < len(some):
                    self.backups.write_partial(self.files.values())
        return vanished

    def _known(self, entry: Entry) -> str | None:
        """The hash of a file that an earlier backup has."""
        digest = self.earlier.get((entry.path, entry.bytes, entry.version))
        return digest if digest is not None and pool_path(entry.path, digest) in self.pool else None

    def _copied(self, entry: Entry) -> Kept | None:
        """A file of the pool for a file of the lake; None if that has vanished."""
        if digest := self._known(entry):
            self._count("known")
            return Kept(entry.path, entry.bytes, digest, entry.version)
        try:
            data = self.lake.get(entry.path)
        except FileNotFoundError:
            return None
        if reason := damage(entry.path, data):
            before = self.healthy.get(entry.path)
            if before is not None and pool_path(before.path, before.sha256) in self.pool:
                self.report.damaged[entry.path] = "kept"
                self._count("known")
                return Kept(entry.path, before.bytes, before.sha256, "")
            self.report.damaged[entry.path] = reason
        digest = sha256(data).hexdigest()
        where = pool_path(entry.path, digest)
        if where in self.pool:
            self._count("reused")
        else:
            self.backups.put(entry.path, data)
            self.fresh.add(where)
            self._count("copied", len(data))
        return Kept(entry.path, len(data), digest, entry.version)

    def _count(self, what: str, size: int = 0) -> None:
        setattr(self.report, what, getattr(self.report, what) + 1)
        self.report.copied_bytes += size

    # Checking

    def _check(self, manifest: Manifest, seconds: float) -> None:
        """Read what was written back, put right what is wrong, and fold the log that lies in the pool."""
        most = grace(self.settings).total_seconds() / 2
        must_read = self.settings.backup.verify == "full" or (most and seconds > most)
        self._check_there(manifest)
        try:
            self.backups.sync(sorted(self.fresh))
        except FileNotFoundError as error:
            # By a purge, which reaches the backups, or by a prune that waited long.
            raise LakeError(f"{error.filename} was removed meanwhile: run `hindlake backup create` again") from error
        some = [
            kept
            for kept in manifest.files
            if must_read or pool_path(kept.path, kept.sha256) in self.fresh or kept.path.split("/")[1:2] == ["log"]
        ]
        faults = check_files(self.backups, some, self.progress)
        self.report.verified = len(some)
        self._repair(manifest, [fault.path for fault in faults])
        view = self.backups.lake(manifest)
        if wrong := check_points(view, manifest):
            raise LakeError(
                f"the backup in {self.backups.url} does not fold to what the lake does: {'; '.join(wrong)}. It was not "
                "kept; run `hindlake backup create` again, and `hindlake rebuild` if it goes on"
            )

    def _check_there(self, manifest: Manifest) -> None:
        """Look that every file of the backup is in the pool in its size; copy again what is not."""
        pool = self.backups.pool()
        lost = []
        for kept in manifest.files:
            entry = pool.get(pool_path(kept.path, kept.sha256))
            if entry is None or entry.bytes != kept.bytes:
                lost.append(kept.path)
        self._repair(manifest, lost)

    def _repair(self, manifest: Manifest, paths: Sequence[str]) -> None:
        kept = {one.path: one for one in manifest.files}
        for path in paths:
            try:
                data = self.lake.get(path)
            except FileNotFoundError:
                data = b""
            if sha256(data).hexdigest() != kept[path].sha256:
                raise LakeError(
                    f"the backup of {path} in {self.backups.url} is gone or damaged, and the lake has another content: "
                    "run `hindlake backup create` again"
                )
            self.backups.put(path, data)
            self.fresh.add(pool_path(path, kept[path].sha256))
            self.report.repaired += 1


def _gapless(lake: Lake, namespace: str) -> list[Entry]:
    """The files of a log from its first on, as far as none is missing. Raises `LakeError` if one is for good.

    A listing that is made while files come may show a later one without an earlier one.
    """
    for _ in range(3):
        some = [entry for entry in lake.entries(namespace_path(namespace, "log")) if entry.path.endswith(".parquet")]
        if not some or some[-1].path == log_path(namespace, len(some)):
            return some
    missing = next(number for number, entry in enumerate(some, 1) if entry.path != log_path(namespace, number))
    raise LakeError(
        f"the log of {namespace} lacks {log_path(namespace, missing)}: bring it back with `hindlake backup restore`; "
        "earlier backups are kept as they are"
    )
