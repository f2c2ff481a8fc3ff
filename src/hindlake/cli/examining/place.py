"""Where things lie: home, disk, spool, and the clocks of those who write."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ...memory_store.capture.spool import waiting
from ...memory_store.history.log import log_paths
from .finding import Finding, Patient

#: Free space below which a disk is nearly full, and below which the next write may fail, in bytes.
_LOW, _EMPTY = 2 << 30, 200 << 20
#: A file of the spool older than this should have been collected.
_SPOOL_AGE = timedelta(hours=2)
#: Clocks that differ by less than this are taken to agree.
_SKEW = timedelta(seconds=30)
#: File systems that are gone when a machine or a container is.
_PASSING = ("tmpfs", "ramfs", "overlay", "aufs")
_MOUNTS = Path("/proc/self/mountinfo")


def home(patient: Patient) -> Iterator[Finding]:
    """Whether the lake can be written, and keeps the promise that the log rests on."""
    patient.lake.check_conditional_writes()
    if not patient.settings.is_remote and (kind := passing_file_system(Path(patient.settings.home))):
        yield Finding(
            "home-not-kept", "doubtful",
            f"{patient.settings.home} lies on {kind}, which is gone when the machine or the container is",
            "mount a volume or a disk there, or set HINDLAKE_HOME to a folder that is kept, or to s3://bucket/prefix",
        )  # fmt: skip


def passing_file_system(path: Path, mounts: Path = _MOUNTS) -> str:
    """The kind of a file system that does not outlive the machine; empty for one that does, or if it is not known."""
    try:
        lines = mounts.read_text("utf-8").splitlines()
    except OSError:
        return ""
    best, kind = "", ""
    for line in lines:
        before, _, after = line.partition(" - ")
        point = before.split()[4].replace("\\040", " ")
        inside = path.is_relative_to(point)
        if inside and len(point) >= len(best):
            best, kind = point, after.split()[0]
    return kind if kind in _PASSING else ""


def disk(patient: Patient) -> Iterator[Finding]:
    """Whether there is room for what is written next."""
    folders = {patient.settings.spool_folder}
    if not patient.settings.is_remote:
        folders.add(Path(patient.settings.home))
    for folder in sorted(folders):
        there = next(parent for parent in (folder, *folder.parents) if parent.exists())
        free = shutil.disk_usage(there).free
        if free < _LOW:
            yield Finding(
                "disk-full", "broken" if free < _EMPTY else "doubtful",
                f"{free >> 20} MB are free where {folder} lies",
                "make room; `hindlake run compact` joins small files, `hindlake generations list` shows old stores",
            )  # fmt: skip


def spool(patient: Patient) -> Iterator[Finding]:
    """Whether events can be kept on this machine, and come into the lake."""
    folder = patient.settings.spool_folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        yield Finding(
            "spool-not-writable", "broken",
            f"events can't be kept in {folder} ({error}): `Recorder` returns False",
            f"let user {_user()} write there, or set HINDLAKE_SPOOL to a folder where it can",
        )  # fmt: skip
        return
    kept = waiting(folder)
    if kept.oldest is not None and patient.clock.now() - kept.oldest > _SPOOL_AGE:
        yield Finding(
            "spool-old", "doubtful",
            f"{kept.events} events wait on this machine, the oldest since {kept.oldest:%Y-%m-%d %H:%M} UTC",
            "run `hindlake run collect` on this machine, by cron or by the flow `collect`",
        )  # fmt: skip
    if kept.damaged:
        yield Finding(
            "spool-damaged", "doubtful",
            f"{kept.damaged} files of the spool could not be read to their end and were set aside in {folder}",
            "what could be read is in the lake; keep the *.damaged files if you want to look at the rest",
        )  # fmt: skip


def clocks(patient: Patient) -> Iterator[Finding]:
    """Whether the clock of this machine agrees with the store's, and with those who wrote before."""
    now = patient.clock.now()
    if patient.settings.is_remote:
        path = f"probe/clock-{now:%Y%m%dT%H%M%S%f}"
        patient.lake.put(path, b"")
        try:
            written = next(entry.changed_at for entry in patient.lake.entries("probe") if entry.path == path)
        finally:
            patient.lake.delete([path])
        yield from _skewed(written - datetime.now(UTC), "the clock of the object store")
    if paths := log_paths(patient.lake, patient.namespace):
        last = max(patient.lake.read_table(paths[-1], ["at"]).column("at").to_pylist())
        if last > now:
            yield from _skewed(last - now, "the last decision of the log, by whoever wrote it,")


def _skewed(difference: timedelta, whose: str) -> Iterator[Finding]:
    if abs(difference) > _SKEW:
        seconds = difference.total_seconds()
        yield Finding(
            "clock-skew", "doubtful",
            f"{whose} is {abs(seconds):.0f} seconds {'ahead of' if seconds > 0 else 'behind'} this machine's clock",
            "set both by NTP: the order of decisions does not rest on clocks, but dates of memories do",
        )  # fmt: skip


def _user() -> str:
    with contextlib.suppress(OSError, ImportError, KeyError):
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    return os.environ.get("USERNAME", "this user")
