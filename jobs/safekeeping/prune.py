"""Which backups are kept, and what of the pool none of them needs."""

from __future__ import annotations

from datetime import timedelta

from ...memory_store.files.backups import FOLDERS, Backups, pool_path
from ...memory_store.settings import Settings


def prune(backups: Backups, settings: Settings, newest: str) -> tuple[list[str], int]:
    """Keep the newest backup of each of the last nights; delete what none of them needs once the grace is over.

    `newest` has just been made. Returns the names of those that are not kept, and how many files went. A backup that
    is being made relies on files that another backup needs, or that are young: neither goes.
    """
    nights: dict[str, str] = {}
    for name in backups.names():
        nights[name[:8]] = name
    keep = {newest, *(nights[night] for night in sorted(nights)[-settings.backup.keep :])}
    gone = [name for name in backups.names() if name not in keep]
    for name in gone:
        backups.drop(name)
    old = backups.now() - grace(settings)
    over = [entry.path for entry in backups.dropped() if entry.changed_at <= old]
    names = {path.rpartition("/")[2].removesuffix(".json") for path in over}
    needed: set[str] = set()
    pool = backups.pool()
    for folder in FOLDERS:
        for name in backups.names(folder):
            if folder == "manifests" or name not in names:
                # Raises on one that is damaged: who can't tell what it needs must delete nothing.
                needed.update(pool_path(kept.path, kept.sha256) for kept in backups.manifest(name, folder).files)
    some = [path for path, entry in pool.items() if path not in needed and entry.changed_at <= old]
    backups.delete(some)
    backups.delete(over)
    return gone, len(some)


def grace(settings: Settings) -> timedelta:
    """How long a file that no backup needs is kept."""
    return timedelta(hours=settings.backup.grace_hours)
