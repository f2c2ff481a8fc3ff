"""The read log's writer: what this process asked and was given, kept on its disk at once and in the lake soon after."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Sequence

from ..memory_store.capture.masking import Mask
from ..memory_store.capture.reads import Read, encode_read, new_read_id, reads_folder
from ..memory_store.capture.spool import Spool, home_label
from ..memory_store.clock import Clock, as_utc
from ..memory_store.recall.predicates import Filter, filter_json
from ..memory_store.settings import Settings
from .recorder import running_trace
from .roller import EXIT_SECONDS, Roller

_log = logging.getLogger("hindlake")

#: Seconds between two files of reads that a busy process leaves in the lake: jobs look at them once a day.
INTERVAL = 60.0
#: Most characters of a query that are kept.
QUERY_CHARACTERS = 8_000


class ReadLog:
    """Logs reads. No call raises, waits for a network, or opens a file before there is something to log."""

    def __init__(self, settings: Settings, clock: Clock, mask: Mask) -> None:
        self._settings, self._clock, self._mask = settings, clock, mask
        self._spool = Spool(reads_folder(settings), home_label(settings), fsync=settings.recorder.fsync)
        self._roller = Roller(settings, self._spool, INTERVAL)
        #: Reads that could not be kept
        self.failed = 0
        self._finalizer = weakref.finalize(self, Roller.stop, self._roller)
        self._finalizer.atexit = False  # the roller's own exit waits for the last pass

    def returned(
        self, query: str, where: Filter, ids: Sequence[str], *, trace: str, generation: str, seq: int, injected: bool
    ) -> str:
        """Log a read, and return its id; empty if it could not be kept."""
        at = as_utc(self._clock.now())
        read = Read(
            namespace=where.namespaces[0],
            read_id=new_read_id(at),
            at=at,
            trace_id=trace or running_trace(self._settings),
            query=self._mask.text(query[:QUERY_CHARACTERS])[0],
            filters=self._mask.json(filter_json(where))[0],
            generation=generation,
            seq=seq,
            ids=list(ids),
            injected=injected,
        )
        return read.read_id if self._keep(read) else ""

    def used(self, read_id: str, ids: Sequence[str], *, trace: str) -> None:
        """Log that memories of a read were put before a model; without a read, they are one of their own."""
        at = as_utc(self._clock.now())
        trace = trace or running_trace(self._settings)
        self._keep(Read(self._settings.namespace, read_id or new_read_id(at), at, trace, ids=list(ids), injected=True))

    def close(self) -> bool:
        """Bring what was logged into the lake; False: it waits on this disk for whoever collects next."""
        return self._roller.close(EXIT_SECONDS)

    def _keep(self, read: Read) -> bool:
        try:
            self._spool.append(encode_read(read))
        except OSError as error:
            self.failed += 1
            if self.failed == 1:
                _log.warning("hindlake could not log a read in %s (%s)", self._spool.folder, error)
            return False
        return True
