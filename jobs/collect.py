"""The job `collect`: events and reads that were acknowledged, and that no one rolled yet, go into the lake."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ..memory_store.capture.reads import roll_reads
from ..memory_store.capture.spool import home_label, roll_segments, waiting
from ..memory_store.clock import Clock, as_utc
from ..memory_store.files.lake import Lake
from ..memory_store.settings import Settings


@dataclass(frozen=True)
class CollectReport:
    """What was collected, and what still waits."""

    #: When the job ran, UTC
    at: datetime
    #: Segments that were rolled into the lake
    segments: int
    #: Events in them
    events: int
    #: Files of the lake that hold them
    files: int
    #: Rows of the read log that were rolled into the lake
    reads: int
    #: Segments left alone because a live process appends to them or rolls them itself
    held: int
    #: Segments left alone because they belong to another home
    foreign: int
    #: Bytes of unfinished last frames: events that were never acknowledged
    torn_bytes: int
    #: Frames that can't be read; their segments are kept in the spool folder as `.damaged`
    damaged: int
    #: Events that wait after the job, in segments that are held
    waiting: int


def collect(lake: Lake, settings: Settings, clock: Clock) -> CollectReport:
    """Roll the sealed segments of this machine's spool folder into the lake: those of dead processes, and those that
    live ones have sealed. Doing it twice, or being killed and done again, changes nothing.

    Raises `LakeError` if the lake can't be written; what was not rolled is still in the spool.
    """
    folder = settings.spool_folder
    rolled = roll_segments(lake, folder, home_label(settings), fsync=settings.recorder.fsync)
    reads = roll_reads(lake, settings)
    return CollectReport(
        at=as_utc(clock.now()),
        segments=rolled.segments,
        events=rolled.events,
        files=rolled.files,
        reads=reads.events,
        held=rolled.held,
        foreign=rolled.foreign,
        torn_bytes=rolled.torn_bytes,
        damaged=rolled.damaged,
        waiting=waiting(folder).events,
    )
