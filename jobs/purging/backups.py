"""What a purge removes from backups: the files that they keep, and the manifests that name them, written anew (N10).

A file of a pool is named by its content, so what is cleaned is another file; manifests are changed to it, and the one
with the text goes. Each manifest gets the record of the purge, so that a lake which is restored from it knows what was
purged. Doing it twice changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from pathlib import Path

import msgspec

from ...memory_store.errors import DamagedFile, HindlakeError
from ...memory_store.files.backups import FOLDERS, Backups, Kept, Manifest, places, pool_path
from ...memory_store.files.lake import Lake, namespace_path
from ...memory_store.records.leftovers import decode
from ...memory_store.records.pieces import Pieces, strings
from ...memory_store.records.purged import Blocked, Purge
from ...memory_store.settings import Settings
from .files import Removed, cleaned_file, sweep_unborn


@dataclass
class BackupsSwept:
    """What was taken out of the backups of a lake."""

    removed: Removed = field(default_factory=Removed)
    #: Places that can't be read or written now, and why
    unreachable: dict[str, str] = field(default_factory=dict)


def open_backups(lake: Lake, settings: Settings, unreachable: dict[str, str]) -> list[Backups]:
    """Every place where backups of a lake lie; those that can't be reached are named with the reason."""
    own = lake.format().lake
    found = []
    for url in places(lake):
        try:
            backups = Backups(settings, url)
            backups.check(own)
        except HindlakeError as error:
            unreachable[url] = str(error)
        else:
            found.append(backups)
    return found


def sweep_backups(
    lake: Lake, settings: Settings, purge: Purge, blocked: Blocked, pieces: Pieces, now: datetime
) -> BackupsSwept:
    """Take what was purged out of every backup of the lake that can be reached."""
    swept = BackupsSwept()
    for backups in open_backups(lake, settings, swept.unreachable):
        try:
            _Sweep(backups, purge, blocked, pieces, now, swept.removed).all()
        except HindlakeError as error:
            swept.unreachable[backups.url] = str(error)
    return swept


class _Sweep:
    """The sweep of one place."""

    def __init__(
        self, backups: Backups, purge: Purge, blocked: Blocked, pieces: Pieces, now: datetime, removed: Removed
    ) -> None:
        self.backups, self.purge, self.blocked, self.pieces = backups, purge, blocked, pieces
        self.removed = removed
        self.folder = namespace_path(purge.namespace)
        self.record_path = namespace_path(purge.namespace, "purged", f"{purge.purge_id}.json")
        # What it takes to look for the text is not needed where it was taken out.
        record = msgspec.structs.replace(purge, pieces={}, swept_at=purge.swept_at or now)
        self.record = msgspec.json.encode(record)
        #: The clean file for each that was looked at, by folder and hash; None: there is none
        self.clean: dict[tuple[str, str], Kept | None] = {}

    def all(self) -> None:
        """Every backup, then what none of them needs."""
        stale: set[str] = set()
        needed: set[str] = set()
        for folder in FOLDERS:
            for name in self.backups.names(folder):
                manifest = self.backups.manifest(name, folder)
                before = {pool_path(kept.path, kept.sha256) for kept in manifest.files}
                if self._manifest(manifest):
                    self.backups.replace(manifest, folder)
                after = {pool_path(kept.path, kept.sha256) for kept in manifest.files}
                stale |= before - after
                needed |= after
        self.backups.delete(sorted(stale - needed))
        for path in sorted(self.backups.pool(self.folder).keys() - needed - stale):
            self._unneeded(path)
        if not self.backups.url.startswith("s3://"):
            for unborn in (Path(self.backups.url) / ".unborn").glob("*"):
                sweep_unborn(unborn, self.pieces, self.removed)

    def _manifest(self, manifest: Manifest) -> bool:
        """Point a manifest to clean files; whether it changed."""
        files: list[Kept] = []
        known = None
        for kept in manifest.files:
            if not kept.path.startswith(f"{self.folder}/"):
                files.append(kept)
            elif kept.path == self.record_path:
                known = kept
            elif clean := self._cleaned(kept):
                files.append(clean)
        if known is None or known.sha256 != self._digest():
            known = Kept(self.record_path, len(self.record), self.backups.put(self.record_path, self.record), "")
        files.append(known)
        files.sort(key=lambda kept: kept.path)
        if files == manifest.files:
            return False
        manifest.files = files
        return True

    def _digest(self) -> str:
        return sha256(self.record).hexdigest()

    def _cleaned(self, kept: Kept) -> Kept | None:
        """A file as a backup may keep it; None if it has to go."""
        key = (kept.path.split("/")[1], kept.sha256)
        if key not in self.clean:
            self.clean[key] = self._look(kept)
        clean = self.clean[key]
        return clean if clean is None else Kept(kept.path, clean.bytes, clean.sha256, clean.version or kept.version)

    def _look(self, kept: Kept) -> Kept | None:
        self.removed.files["looked at in backups"] += 1
        try:
            data = self.backups.get(kept)
            clean, changed = cleaned_file(kept.path, data, self.purge, self.blocked, self.pieces)
        except DamagedFile:
            self.removed.damaged.append(f"{self.backups.url}/{pool_path(kept.path, kept.sha256)}")
            return Kept(kept.path, kept.bytes, kept.sha256, "")
        if not changed:
            return Kept(kept.path, kept.bytes, kept.sha256, "")
        self.removed.files["rewritten in backups" if clean is not None else "deleted in backups"] += 1
        self.removed.rows["backups"] += changed
        if clean is None:
            return None
        # No file of the lake has this version, so that the next backup looks for itself.
        return Kept(kept.path, len(clean), self.backups.put(kept.path, clean), "purged")

    def _unneeded(self, path: str) -> None:
        """A file that no backup needs, or that one which is being made has just put there: it goes if it has text."""
        try:
            rows = decode("", self.backups.raw(path))
        except FileNotFoundError:
            return
        if any(self.pieces.hits(strings(rows.column(name))[1]) for name in rows.column_names):
            self.backups.delete([path])
            self.removed.files["deleted in backups"] += 1
