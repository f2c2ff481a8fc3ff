"""Histories as a user of hindlake would have logged them, in a home of their own: traces, their episodes, a store."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from ...jobs.evals.vector_cache import VectorCache
from ...memory_store.capture.episodes import episode_rows
from ...memory_store.capture.events import Event, group_traces
from ...memory_store.capture.traces import write_events
from ...memory_store.clock import SystemClock
from ...memory_store.embedders import Embedder, embedder_named
from ...memory_store.files.lake import Lake
from ...memory_store.history.inbox import Row, write_user_act
from ...memory_store.history.log import settle
from ...memory_store.ids import derive_id
from ...memory_store.settings import Settings
from ...memory_store.store.generations import ensure, fold_to_head, open_tables
from ...memory_store.store.passage_fold import fold_passages
from .histories import History

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

#: Acts of one file of the inbox, events of one write to the lake.
_ACTS, _EVENTS = 500, 20_000


class KeptEmbedder:
    """An embedder whose vectors of passages are kept in a folder, so that measuring twice embeds once."""

    def __init__(self, embedder: Embedder, folder: Path) -> None:
        self.name, self.dim = embedder.name, embedder.dim
        self.curve = embedder.curve
        self.queries = embedder.queries
        self.embed = embedder.embed
        self._cache = VectorCache(folder, embedder)

    def passages(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """As the embedder's; progress goes to standard error."""
        return self._cache.passages(texts, lambda done, total: progress("embedded", done, total))


def progress(what: str, done: int, total: int) -> None:
    """Say how far something is, on one line of standard error."""
    print(f"\r{what} {done} of {total}    ", end="\n" if done == total else "", file=sys.stderr, flush=True)


def log_histories(lake: Lake, settings: Settings, histories: Sequence[History], cache: Path | None) -> None:
    """Log every history, each the life of a subject of its own, and bring the store up to it.

    A session is a trace, in order; what the recorder does at the end of a task is done here: its episode is packed.
    """
    namespace, clock = settings.namespace, SystemClock()
    rows: list[Row] = []
    waiting: list[Event] = []
    for number, history in enumerate(histories):
        waiting += _events(namespace, number, history)
        if len(waiting) >= _EVENTS or number == len(histories) - 1:
            write_events(lake, waiting, derive_id(namespace, "histories", number))
            for trace in group_traces(waiting):
                rows += episode_rows(trace, clock.now())
            waiting = []
    for start in range(0, len(rows), _ACTS):
        write_user_act(lake, namespace, rows[start : start + _ACTS], derive_id(namespace, "episodes", start))
    generation = ensure(lake, settings, clock)
    embedder: Embedder = embedder_named(generation.embedder, settings)
    if cache is not None:
        embedder = KeptEmbedder(embedder, cache)
    tables = open_tables(settings, generation)
    settle(lake, namespace)
    fold_to_head(lake, tables, namespace, embedder)
    fold_passages(lake, tables, namespace, embedder)
    tables.index()


def subject_of(number: int) -> str:
    """The subject that a history is logged under."""
    return f"person-{number}"


def trace_of(number: int, session: str) -> str:
    """The trace that a session is logged as."""
    return f"{number}:{session}"


def event_of(number: int, session: str, turn: str) -> str:
    """The event that a turn is logged as."""
    return f"{number}:{session}:{turn}"


def _events(namespace: str, number: int, history: History) -> list[Event]:
    subject = subject_of(number)
    events = []
    for session in history.sessions:
        at: datetime = session.at
        for place, turn in enumerate(session.turns):
            at += timedelta(seconds=20)
            events.append(
                Event(
                    namespace, trace_of(number, session.id), event_of(number, session.id, turn.id), place, at,
                    "message", role=turn.role, content=turn.text, agent=turn.speaker, subject=subject,
                    conversation_id=subject if history.is_one_conversation else "",
                )
            )  # fmt: skip
    return events
