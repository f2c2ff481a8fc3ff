"""Whether a backup is what it says: each file by its hash, each log by what it folds to."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from ..memory_store.backups import Backups, Fault, Kept, Manifest, Point, Progress
from ..memory_store.errors import LakeError
from ..memory_store.fingerprint import point
from ..memory_store.lake import Lake
from ..memory_store.log import log_path

#: Files that are read at once.
_WORKERS = 8


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
