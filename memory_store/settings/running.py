"""Settings of how jobs run, and of backups."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr

from .section import Section


class JobSettings(Section):
    """How jobs run."""

    #: Traces of one shard
    shard_traces: int = Field(200, ge=1)
    #: Work of fewer traces than this runs in a plain loop, unless Ray is asked for
    ray_from_traces: int = Field(5_000, ge=1)
    #: The same of memories that a job compares
    ray_from_memories: int = Field(200_000, ge=1)
    #: Local Ray workers; 0: one a core
    ray_workers: int = Field(0, ge=0)
    #: Seconds after which a run that says nothing is taken to be dead, and another may do its work; 0: no leases
    lease_seconds: float = Field(60, ge=0)
    #: Days back that patterns are mined from; 0: everything that the lake holds (R6)
    pattern_days: int = Field(30, ge=0)
    #: Distinct tasks that must show a pattern
    pattern_tasks: int = Field(3, ge=2)
    #: Distinct traces that must show a memory before it counts as confirmed (R19)
    promote_traces: int = Field(2, ge=1)
    #: Megabytes of the files that small trace files are joined into, at most; half of it is big enough to stay
    compact_target_mb: int = Field(64, ge=1)
    #: Minutes that a trace file is left alone after it was written
    compact_min_age_minutes: int = Field(10, ge=0)
    #: Minutes that small files are kept beside the bigger one that replaces them, for readers that know only them
    compact_grace_minutes: int = Field(60, ge=0)
    #: Days that a generation is kept, and folded, after readers were switched away from it
    generation_days: float = Field(7, ge=0)
    #: Minutes that old generations of the store are kept after a purge, for searches that hold them
    purge_grace_minutes: int = Field(60, ge=0)
    #: Hours after which a purge is swept once more: no job may take longer
    purge_sweep_hours: int = Field(24, ge=0)


class LogSettings(Section):
    """Lines about hindlake's own runs on standard error."""

    #: "json": one object a line; "text": for people; "off": none
    format: Literal["off", "json", "text"] = "off"
    #: Least level that is shown
    level: Literal["debug", "info", "warning", "error"] = "info"


class BackupSettings(Section):
    """Where backups go, and how long they are kept (R21)."""

    #: Folder or s3://bucket/prefix for backups; empty: none are made by night
    to: str = ""
    #: Nights that are kept, the newest backup of each
    keep: int = Field(7, ge=1)
    #: "full": every file of a new backup is read back; "new": those that were copied now, the others by their sizes
    verify: Literal["full", "new"] = "full"
    #: Hours that a file which no backup needs any more is kept; one backup must not take longer than half of it
    grace_hours: float = Field(24, ge=0)
    #: Address of the bucket's server; like what follows, that of `s3` if it is left empty
    endpoint: str = ""
    #: Region to sign requests for
    region: str = ""
    #: Access key
    access_key_id: str = ""
    #: Secret key
    secret_access_key: SecretStr = SecretStr("")
