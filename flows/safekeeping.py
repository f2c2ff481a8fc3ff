"""Backups as plain functions: what the command line runs at once and Prefect runs every night."""

from __future__ import annotations

import tempfile
from pathlib import Path

from ..jobs.backup import BackupReport, backup, forecast
from ..jobs.collect import collect
from ..jobs.restore import RestoreReport, restore
from ..jobs.safekeeping.check import VerifyReport, verify
from ..memory_store.clock import Clock
from ..memory_store.errors import UsageError
from ..memory_store.files.backups import Backups, Progress
from ..memory_store.files.folder import Folder
from ..memory_store.files.lake import Lake
from ..memory_store.history.log import settle
from ..memory_store.settings import Settings
from ..memory_store.telemetry.observing import observing


def _silent(done: int, total: int) -> None:
    """Progress that no one looks at."""


@observing("backup")
def run_backup(settings: Settings, clock: Clock, place: str = "", *, progress: Progress = _silent) -> BackupReport:
    """Collect and settle, so that all that is known here is in the log, then back the lake up and check the backup."""
    lake = Lake.open(settings)
    backups = Backups(settings, place, make=True)
    collect(lake, settings, clock)
    for namespace in lake.namespaces():
        settle(lake, namespace)
    return backup(lake, backups, settings, clock, progress=progress)


def forecast_backup(settings: Settings, place: str = "") -> BackupReport:
    """What a backup would copy now. Nothing is written."""
    backups: Backups | None = None
    try:
        backups = Backups(settings, place)
        backups.check("")
    except UsageError:
        if not (place or settings.backup.to):
            raise
        backups = None
    return forecast(Lake.open(settings), backups)


def run_verify(
    settings: Settings,
    place: str = "",
    name: str = "",
    *,
    every: bool = False,
    scratch: str = "",
    progress: Progress = _silent,
) -> list[VerifyReport]:
    """Restore a backup, the newest unless named, or every one, into a scratch folder that is removed afterwards."""
    backups = Backups(settings, place)
    backups.check("")
    names = backups.names() if every else [backups.manifest(name).name]
    reports = []
    for one in names:
        with tempfile.TemporaryDirectory(prefix="hindlake-verify-", dir=scratch or None) as folder:
            reports.append(verify(backups, backups.manifest(one), Lake(Folder(Path(folder)), folder), progress))
    return reports


@observing("restore")
def run_restore(
    settings: Settings,
    clock: Clock,
    place: str = "",
    name: str = "",
    *,
    hold: bool = False,
    dry_run: bool = False,
    progress: Progress = _silent,
) -> RestoreReport:
    """Bring a backup back into the home of the settings."""
    backups = Backups(settings, place)
    backups.check("")
    return restore(settings, backups, clock, name, hold=hold, dry_run=dry_run, progress=progress)
