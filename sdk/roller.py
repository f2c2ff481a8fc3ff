"""The background thread that rolls a spool into the lake, so that the agent never does."""

from __future__ import annotations

import atexit
import logging
import os
import pickle
import queue
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from ..memory_store.capture.spool import Spool, home_label, roll_segments
from ..memory_store.errors import HindlakeError
from ..memory_store.settings import Settings

if TYPE_CHECKING:
    from ..memory_store.files.lake import Lake
    from ..memory_store.history.inbox import Row

#: Namespace, name and rows of a user act.
_Act: TypeAlias = "tuple[str, str, Sequence[Row]]"
_log = logging.getLogger("hindlake")

#: Seconds between two passes.
INTERVAL = 1.0
#: Seconds that the end of the process waits for the last pass.
EXIT_SECONDS = 5.0
#: Acts that wait for an object store in memory; an older one is left to the job that packs episodes.
_ACTS = 1_000


@dataclass
class _Request:
    """Someone waits for everything up to now to be in the lake."""

    done: threading.Event = field(default_factory=threading.Event)
    ok: bool = False


class Roller:
    """Rolls what a process logs into the lake, about once a second, and what dead processes left behind."""

    def __init__(self, settings: Settings, spool: Spool, interval: float = INTERVAL) -> None:
        """`interval`: seconds between two passes; `flush` and the end of the process don't wait for them."""
        self._settings = settings
        self._spool = spool
        self._interval = interval
        #: What went wrong last, in words; empty after a pass that worked
        self.last_error = ""
        self._reset()
        spool.on_open = self.start
        _alive.add(self)

    def _reset(self) -> None:
        self._lake: Lake | None = None
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._acts: deque[_Act] = deque(maxlen=_ACTS)
        self._pass_lock = threading.Lock()
        self._start_lock = threading.Lock()

    def lake(self) -> Lake:
        """The lake, opened at the first call. Raises `LakeError`."""
        if self._lake is None:
            from ..memory_store.files.lake import Lake

            self._lake = Lake.open(self._settings)
        return self._lake

    def start(self) -> None:
        """See that the thread runs. A fork and the end of the interpreter leave none; the spool is safe without."""
        if self._thread is not None or self._stopped:
            return
        with self._start_lock:
            if self._thread is None:
                # The thread holds the roller, never the recorder: a recorder that is let go must be collectable.
                thread = threading.Thread(target=self._run, name="hindlake-roller", daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:
                    self.last_error = f"no thread to roll events with ({error}): run `hindlake run collect`"
                    return
                self._thread = thread

    def put_act(self, namespace: str, name: str, rows: Sequence[Row]) -> None:
        """Write a user act to the inbox: at once into a local home, soon into an object store.

        Raises `LakeError` if a local home can't be written.
        """
        if self._settings.is_remote:
            self._acts.append((namespace, name, rows))
            return
        from ..memory_store.history.inbox import write_user_act

        write_user_act(self.lake(), namespace, rows, name=name)

    def flush(self, timeout: float | None) -> bool:
        """Whether everything that was appended before the call is in the lake, within `timeout` seconds."""
        self.start()
        if self._thread is None or self._stopped:
            # The interpreter is ending, or the recorder was closed. A folder answers at once, a network may not.
            if not self._settings.is_remote:
                return self._pass()
            self._spool.seal()
            return not self._spool.unrolled()
        request = _Request()
        self._requests.put(request)
        return request.done.wait(timeout) and request.ok

    def close(self, timeout: float | None) -> bool:
        """Roll a last time and stop. What is not in the lake in time stays in the spool, for whoever comes next."""
        end = None if timeout is None else time.monotonic() + timeout
        done = self.flush(timeout) if self._spool.appended or self._acts else True
        self.stop()
        if self._thread is not None:
            self._thread.join(None if end is None else max(0.0, end - time.monotonic()))
        return done

    def stop(self) -> None:
        """Let the thread roll a last time and end, without waiting for it."""
        if not self._stopped and self._thread is not None:
            self._requests.put(None)
        self._stopped = True
        if self._thread is None:
            self._spool.seal()

    def after_fork(self) -> None:
        """Begin anew in a child: threads, locks and connections are the parent's."""
        stopped = self._stopped
        self._reset()
        self._stopped = stopped
        self._spool.after_fork()

    def _run(self) -> None:
        ended = False
        while not ended:
            requests: list[_Request] = []
            try:
                item = self._requests.get(timeout=self._interval)
                while True:
                    if item is None:
                        ended = True
                    else:
                        requests.append(item)
                    item = self._requests.get_nowait()
            except queue.Empty:
                pass
            ok = self._pass()
            for request in requests:
                request.ok = ok
                request.done.set()

    def _pass(self) -> bool:
        """Seal and roll once. True if nothing of this process is left outside the lake."""
        with self._pass_lock:
            # The boundary of the thread: it must outlive whatever goes wrong in one pass.
            try:
                sealed = self._spool.seal()
                if self._settings.is_remote and _bucket_is_lost():
                    self._roll_elsewhere()
                else:
                    _roll(self._settings, self.lake(), self._acts)
                for _ in range(50):  # another process may be rolling a segment of ours right now
                    if not self._spool.unrolled(sealed):
                        self.last_error = ""
                        return True
                    time.sleep(0.02)
                self.last_error = "another process holds a segment of this one"
            except Exception as error:
                self.last_error = f"{type(error).__name__}: {error}"
                if not isinstance(error, (HindlakeError, OSError)):
                    _log.exception("hindlake: rolling failed; events are kept in %s", self._spool.folder)
            return False

    def _roll_elsewhere(self) -> None:
        """Let a fresh process roll: this one was forked from one that used the bucket, and can't (see `bucket`)."""
        acts = list(self._acts)
        if not acts and not self._spool.unrolled():
            return
        subprocess.run(
            [sys.executable, "-c", f"from {__name__} import roll_here; roll_here()"],
            input=pickle.dumps((self._settings, acts)),
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            check=True,
        )
        for _ in acts:
            self._acts.popleft()


def roll_here() -> None:
    """Roll what the process that started this one says on standard input: its settings and its acts."""
    settings, acts = pickle.load(sys.stdin.buffer)
    from ..memory_store.files.lake import Lake

    _roll(settings, Lake.open(settings), deque(acts))


def _roll(settings: Settings, lake: Lake, acts: deque[_Act]) -> None:
    """Put everything into the lake that lies in the spool folder and that no one holds, and acts that wait."""
    from ..memory_store.capture.reads import roll_reads
    from ..memory_store.history.inbox import write_user_act

    roll_segments(lake, settings.spool_folder, home_label(settings), fsync=settings.recorder.fsync)
    while acts:
        namespace, name, rows = acts[0]
        write_user_act(lake, namespace, rows, name=name)
        acts.popleft()
    roll_reads(lake, settings)


def _bucket_is_lost() -> bool:
    from ..memory_store.files.bucket import is_forked

    return is_forked()


_alive: weakref.WeakSet[Roller] = weakref.WeakSet()


def _each(act: Callable[[Roller], object]) -> None:
    for roller in list(_alive):
        act(roller)


def _at_exit() -> None:
    end = time.monotonic() + EXIT_SECONDS
    _each(lambda roller: roller.close(max(0.0, end - time.monotonic())))


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _each(Roller.after_fork))
