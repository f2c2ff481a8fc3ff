"""Whether a backup is what it says: each file by its hash, each log by what it folds to."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec

from ...memory_store.errors import DamagedFile, LakeError
from ...memory_store.files.backups import Backups, Fault, Kept, Manifest, Point, Progress
from ...memory_store.files.lake import Lake
from ...memory_store.history.fingerprint import point
from ...memory_store.history.log import log_path

#: Files that are read at once.
_WORKERS = 8


@dataclass
class VerifyReport:
    """What verifying a backup found."""

    name: str
    files: int
    bytes: int
    #: Memories by namespace
    memories: dict[str, int]
    #: Files that are gone, are not what they were, or can't be understood
    faults: list[Fault] = field(default_factory=list)
    #: Logs that don't fold to what they did
    wrong: list[str] = field(default_factory=list)
    #: Files that could not be understood when they were backed up
    damaged: list[str] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether the backup can be restored as it was."""
        return not self.faults and not self.wrong

    def summary(self) -> dict[str, Any]:
        """The report as plain values."""
        return {**vars(self), "faults": [asdict(fault) for fault in self.faults], "is_whole": self.is_whole}


def verify(
    backups: Backups, manifest: Manifest, scratch: Lake, progress: Progress = lambda done, total: None
) -> VerifyReport:
    """Restore a backup into an empty scratch lake: each file has its hash and can be read, each log folds as it did.

    `progress` is told of files done and of files in all.
    """
    report = VerifyReport(
        manifest.name,
        len(manifest.files),
        sum(kept.bytes for kept in manifest.files),
        {name: sum(at.memories.values()) for name, at in manifest.namespaces.items()},
        damaged=manifest.damaged,
    )
    unreadable = set(manifest.damaged)

    def bring(kept: Kept) -> Fault | None:
        try:
            data = backups.get(kept)
        except DamagedFile as error:
            return Fault(kept.path, str(error))
        scratch.put(kept.path, data)
        reason = "" if kept.path in unreadable else damage(kept.path, data)
        return Fault(kept.path, reason) if reason else None

    with ThreadPoolExecutor(_WORKERS) as pool:
        for start in range(0, len(manifest.files), 256):
            some = manifest.files[start : start + 256]
            report.faults += [fault for fault in pool.map(bring, some) if fault is not None]
            progress(start + len(some), len(manifest.files))
    report.wrong = check_points(scratch, manifest)
    return report


def check_files(backups: Backups, files: Sequence[Kept], progress: Progress = lambda done, total: None) -> list[Fault]:
    """Read files of a backup, and name those that are not what they were."""

    def look(kept: Kept) -> Fault | None:
        try:
            backups.get(kept)
        except LakeError as error:
            return Fault(kept.path, str(error))
        return None

    faults = []
    with ThreadPoolExecutor(_WORKERS) as pool:
        for start in range(0, len(files), 256):
            faults += [fault for fault in pool.map(look, files[start : start + 256]) if fault is not None]
            progress(min(start + 256, len(files)), len(files))
    return faults


def check_points(lake: Lake, manifest: Manifest) -> list[str]:
    """Fold the logs of a lake up to where a backup was made, and say where they differ from what it says."""
    wrong = []
    for name, expected in manifest.namespaces.items():
        try:
            found: Point | None = point(lake, name, [log_path(name, n + 1) for n in range(expected.files)])
        except LakeError as error:
            found = None
            wrong.append(f"the log of {name} can't be read: {error}")
        if found is not None and found != expected:
            wrong.append(
                f"{name} folds to {sum(found.memories.values())} memories at {found.seq}, not to "
                f"{sum(expected.memories.values())} at {expected.seq} as they were"
            )
    return wrong


def damage(path: str, data: bytes) -> str:
    """Why a file of the lake can't be understood; empty if it can."""
    if path.endswith(".parquet"):
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
            for group in range(file.num_row_groups):
                file.read_row_group(group)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            return str(error) or type(error).__name__
    elif path.endswith(".json"):
        try:
            msgspec.json.decode(data)
        except msgspec.DecodeError as error:
            return str(error)
    return ""
