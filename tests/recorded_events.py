"""What a recorder logged, read back from the lake."""

from __future__ import annotations

from dataclasses import dataclass

from hindlake.memory_store.capture.events import Event
from hindlake.memory_store.capture.traces import read_traces, scan_events
from hindlake.memory_store.files.lake import Lake
from hindlake.sdk.recorder import Recorder


@dataclass(frozen=True)
class Told:
    """One trace."""

    events: list[Event]

    @property
    def outline(self) -> list[tuple[str, str, str]]:
        """Type, role, and what the event is about."""
        return [(one.type, one.role, one.content or one.tool or one.name or one.outcome) for one in self.events]


def traces_of(recorder: Recorder) -> list[Told]:
    """Every trace of the recorder's namespace, by its start."""
    assert recorder.flush()
    lake = Lake.open(recorder.settings)
    ids = scan_events(lake, recorder.namespace, []).column("trace_id").to_pylist()
    return [Told(list(trace.events)) for trace in read_traces(lake, recorder.namespace, ids)]


def told(recorder: Recorder, number: int = 0) -> Told:
    """One of them."""
    return traces_of(recorder)[number]
