"""The work: runs that failed or hang, schedules that don't run, backups that are old."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from ...memory_store.capture.traces import scan_events
from ...memory_store.errors import LakeError, UsageError
from ...memory_store.files.backups import Backups
from ...memory_store.files.leases import EVERY, holders
from ...memory_store.records.gated import looked_at, over
from ...memory_store.records.runs import Run, last_runs
from .finding import Finding, Patient

#: How many of the newest runs are looked at.
_RUNS = 200
#: Steps of a night that leave a run behind them.
_NIGHTLY = ("credit", "decay", "dedup", "promote")
#: A job that runs every night is late after this time.
_LATE = timedelta(hours=50)
_DAY = timedelta(hours=26)
#: A run that is still going on after this time, without a lease, is dead.
_LONG = timedelta(hours=24)


def runs(patient: Patient) -> Iterator[Finding]:
    """Whether runs failed, stopped at their budget, or never ended; the last of each job counts."""
    newest: dict[str, Run] = {}
    for run in last_runs(patient.lake, patient.namespace, _RUNS):
        newest.setdefault(run.job, run)
    alive = {
        name.split("/")[0]
        for name, holder in holders(patient.lake).items()
        if name.endswith((f"/{EVERY}", f"/{patient.namespace}")) and not (holder.is_done or holder.is_dead)
    }
    for job, run in sorted(newest.items()):
        when = f"{job} of {run.started_at:%Y-%m-%d %H:%M} UTC"
        if run.status == "failed":
            yield Finding(
                "run-failed", "broken", f"{when} failed: {run.error or 'no reason was kept'}",
                f"see to the reason, then `hindlake run {job}`: it goes on where it stopped",
            )  # fmt: skip
        elif run.status == "stopped":
            yield Finding(
                "budget-stopped", "doubtful", f"{when} stopped at its budget",
                f"run `hindlake run {job}` again to go on, or raise HINDLAKE_MODEL_BUDGET_TOKENS or _COST",
            )  # fmt: skip
        elif run.status == "running" and patient.clock.now() - run.started_at > _LONG and job not in alive:
            yield Finding(
                "run-unfinished", "doubtful", f"{when} never ended: it was killed",
                f"run `hindlake run {job}`: it finishes what was begun, nothing was lost",
            )  # fmt: skip


def leases(patient: Patient) -> Iterator[Finding]:
    """Leases that were not given back; the next run takes them over by itself."""
    for name, holder in sorted(holders(patient.lake).items()):
        if not holder.is_done and (holder.is_dead or patient.clock.now() - holder.since > _LONG):
            yield Finding(
                "lease-stale", "note", f"{name} is leased to {holder}, which did not give it back",
                f"nothing to do: the next run takes over, after {patient.settings.jobs.lease_seconds:.0f} s at most",
            )  # fmt: skip


def schedule(patient: Patient) -> Iterator[Finding]:
    """Whether what should run by itself does."""
    lake, now = patient.lake, patient.clock.now()
    events = scan_events(lake, patient.namespace, ["trace_id", "type", "at"])
    abandoned = timedelta(hours=patient.settings.gate.abandoned_hours)
    late = over(events, now - _DAY, abandoned) - looked_at(lake, patient.namespace).keys()
    if late:
        yield Finding(
            "reflect-late", "doubtful", f"{len(late)} traces that ended more than a day ago were not looked at",
            "run `hindlake run reflect` every hour, by cron or by the flow `hourly`",
        )  # fmt: skip
    done = [run for run in last_runs(lake, patient.namespace, _RUNS) if run.job in _NIGHTLY]
    everything = last_runs(lake, patient.namespace, _RUNS)
    if everything and everything[-1].started_at < now - _LATE and not any(now - run.started_at < _LATE for run in done):
        yield Finding(
            "nightly-late", "doubtful", "no night's work was done for two days: nothing is joined or forgotten",
            "run `hindlake run nightly` every night, by cron or by the flow `nightly`",
        )  # fmt: skip


def backups(patient: Patient) -> Iterator[Finding]:
    """Whether there is a backup of last night."""
    if not patient.settings.backup.to:
        yield Finding(
            "no-backup", "note", "no backups are made: HINDLAKE_BACKUP_TO is empty",
            "set it to a folder on another disk or to s3://bucket/prefix, and run `hindlake backup create` every night",
        )  # fmt: skip
        return
    try:
        kept = Backups(patient.settings)
        last = kept.manifest().ended_at if kept.names() else None
    except UsageError:
        last = None  # no place yet
    except LakeError as error:
        yield Finding("backup-unreadable", "broken", str(error), "see to it before the backup is needed")
        return
    if last is None or patient.clock.now() - last > _LATE:
        yield Finding(
            "backup-late", "broken",
            f"the newest backup is of {last:%Y-%m-%d %H:%M} UTC" if last else "there is no backup yet",
            "run `hindlake backup create` every night, by cron or by the flow `backup`",
        )  # fmt: skip
