"""Spans of a live agent on their way into the lake, whatever framework made them.

A span means what it means in a file that is ingested, and has the same ids: logging live and ingesting the export of a
collector is once.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from collections.abc import Iterable

from ..memory_store.formats import Draft, RecordError, Stamp, finish, trace_id_of
from ..memory_store.formats.spans import Said, Span, spans_draft
from .recorder import Recorder

#: Traces that are remembered while they go on; past this the one that was quiet longest is closed.
_TRACES = 1_000


class SpanLog:
    """Keeps finished spans through a recorder's spool. Safe to share between threads; never raises into the agent."""

    def __init__(self, recorder: Recorder | None, source: str) -> None:
        """`recorder` None: one of its own, from the settings, closed at `close`. `source` is that of its events."""
        self.recorder = recorder if recorder is not None else Recorder()
        self._owns = recorder is None
        self._source = source
        self._lock = threading.Lock()
        self._going_on: OrderedDict[str, Said] = OrderedDict()

    def trace_id(self, trace_id: str) -> str:
        """The id that a trace of the framework has in the lake."""
        return trace_id_of(self.recorder.namespace, Draft(("otel", trace_id), []))

    def keep(self, spans: Iterable[Span]) -> bool:
        """Keep spans; False if an event could not be kept, which the recorder counts."""
        by_trace: defaultdict[str, list[Span]] = defaultdict(list)
        for span in spans:
            by_trace[span.trace_id].append(span)
        kept = True
        with self._lock:
            for trace_id, some in by_trace.items():
                kept &= self._keep(trace_id, some)
            while len(self._going_on) > _TRACES:
                oldest, said = self._going_on.popitem(last=False)
                kept &= self._end(oldest, said)
        return kept

    def close(self) -> None:
        """Keep the calls that still waited for a result, and close a recorder of its own."""
        with self._lock:
            while self._going_on:
                self._end(*self._going_on.popitem(last=False))
        if self._owns:
            self.recorder.close()
        else:
            self.recorder.flush(5)

    def _keep(self, trace_id: str, spans: list[Span]) -> bool:
        said = self._going_on.setdefault(trace_id, Said())
        self._going_on.move_to_end(trace_id)
        try:
            draft = spans_draft(trace_id, spans, said)
        except (RecordError, RecursionError) as error:
            self.recorder.failed(error)
            return False
        if any(not span.parent_id for span in spans):
            del self._going_on[trace_id]
        return self._write(draft)

    def _end(self, trace_id: str, said: Said) -> bool:
        return self._write(Draft(("otel", trace_id), list(said.pending.values())))

    def _write(self, draft: Draft) -> bool:
        stamp = Stamp(self.recorder.namespace, self.recorder.now())
        kept = True
        for event in finish(draft, stamp, self._source):
            # The boundary of the promise that no failure of ours reaches the agent.
            try:
                self.recorder.append(event)
            except Exception as error:
                self.recorder.failed(error)
                kept = False
        return kept
