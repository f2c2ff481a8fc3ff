"""A home in which everything happens that can happen to memories: writes, jobs, kills, undos, two writers at once."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial, wraps
from pathlib import Path
from typing import Any

import pytest

from hindlake.jobs.compact import compact
from hindlake.jobs.cool import cool
from hindlake.jobs.credit import credit
from hindlake.jobs.decay import decay
from hindlake.jobs.dedup import dedup
from hindlake.jobs.merge import merge
from hindlake.jobs.promote import promote
from hindlake.jobs.reflect import reflect
from hindlake.jobs.reflecting.rules.attributes import holds_many
from hindlake.jobs.reflecting.rules_reflector import RulesReflector
from hindlake.jobs.resolve_pending import resolve_pending
from hindlake.jobs.settle import settle_and_fold
from hindlake.jobs.undo import undo
from hindlake.memory_store.capture.events import Event
from hindlake.memory_store.capture.reads import Read, new_read_id, write_reads
from hindlake.memory_store.capture.traces import write_events
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.files.folder import Folder
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.history.inbox import inbox_paths
from hindlake.memory_store.history.log import read_log
from hindlake.memory_store.recall.predicates import Filter
from hindlake.memory_store.records.runs import last_runs
from hindlake.memory_store.schema import conform
from hindlake.memory_store.settings import Settings
from hindlake.memory_store.store.generations import Generation, build, current, open_tables
from hindlake.memory_store.store.tables import Tables
from hindlake.sdk.memory import Memory

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
NAMESPACES = ("east", "west")

#: Things to remember: text, kind, and columns. Many of them say the same, more, or otherwise.
SAYINGS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("likes e-mail", "preference", {"subject": "ann", "entities": ["e-mail"]}),
    ("Likes e-mail.", "preference", {"subject": "ann"}),
    ("no phone calls", "preference", {"subject": "ann", "entities": ["calls"]}),
    ("wants fast replies", "preference", {"subject": "ann"}),
    ("likes tea", "preference", {"subject": "bo"}),
    ("no longer likes tea", "preference", {"subject": "bo"}),
    ("The budget is 5000.", "fact", {"subject": "ann", "attribute": "budget", "value": "5000"}),
    ("The budget is 8000.", "fact", {"subject": "ann", "attribute": "budget", "value": "8000"}),
    ("Budget: 5000", "fact", {"subject": "ann", "attribute": "budget", "value": "5000"}),
    ("Ann's favourite colour is blue.", "fact", {"subject": "ann"}),
    ("Ann's favourite color is blue!", "fact", {"subject": "ann"}),
    ("Always run migrations.", "rule", {"importance": 0.15}),
    ("Never run migrations.", "rule", {"importance": 0.15}),
    ("payment API times out, retry", "experience", {"task_type": "pay"}),
    ("支付API超时应重试三次", "experience", {"task_type": "pay"}),
)

#: What a user says in a task that is logged.
TASKS = ("My budget is now 8000.", "I prefer e-mail.", "No, that is wrong, do it again.", "我的预算是5000。")

#: Jobs that decide about memories, by name.
JOBS: dict[str, Callable[..., Any]] = {
    "resolve": partial(resolve_pending, holds_many=holds_many),
    "dedup": partial(dedup, holds_many=holds_many, engine="loop"),
    "merge": partial(merge, holds_many=holds_many, engine="loop"),
    "decay": decay,
    "cool": cool,
    "credit": credit,
    "promote": promote,
    "reflect": lambda *args, **options: reflect(*args, RulesReflector(), engine="loop", **options),
}


class Killed(BaseException):
    """The process is gone."""


class Home:
    """A lake and its store, two writers of each namespace, and every job."""

    def __init__(self, path: Path) -> None:
        self.settings = Settings.load(home=str(path), embedder="wordllama")
        self.clock = ManualClock(START)
        self.lake = Lake.open(self.settings)
        self.writers = {
            (name, number): Memory(self.settings, namespace=name, clock=self.clock)
            for name in NAMESPACES
            for number in range(2)
        }
        self._traces = itertools.count(1)
        #: Each job over one namespace
        self.jobs: dict[str, Callable[[str], Any]] = {name: partial(self._job, job) for name, job in JOBS.items()}

    def _job(self, job: Callable[..., Any], namespace: str) -> Any:
        return job(self.lake, self.settings, self.clock, version="test", namespaces=[namespace])

    def say(self, namespace: str, writer: int, saying: int, days_ago: int) -> str:
        text, kind, columns = SAYINGS[saying]
        at = self.clock.now() - timedelta(days=days_ago)
        return self.writers[namespace, writer].remember(text, kind, valid_from=at, **columns)

    def task(self, namespace: str, said: str, outcome: str, shown: list[str]) -> None:
        """Log a task in which a user says something, with the memories that were put before its agent."""
        trace, at = f"{namespace}-{next(self._traces)}", self.clock.now()
        event = partial(Event, namespace, trace, at=at, subject="ann", task_type="pay")
        events = [
            event(event_id=f"{trace}-0", seq=0, type="task", content="plan a trip"),
            event(event_id=f"{trace}-1", seq=1, type="message", role="agent", content="Here is a plan."),
            event(event_id=f"{trace}-2", seq=2, type="message", role="user", content=said),
            event(event_id=f"{trace}-3", seq=3, type="outcome", outcome=outcome),
        ]
        write_events(self.lake, events)
        if shown:
            write_reads(self.lake, [Read(namespace, new_read_id(at), at, trace, ids=shown)], trace)

    def settle(self, namespace: str) -> Any:
        return settle_and_fold(self.lake, self.settings, self.clock, namespaces=[namespace])

    def undo(self, namespace: str, run: str) -> Any:
        return undo(self.lake, self.settings, self.clock, run, version="test", namespaces=[namespace])

    def compact(self) -> None:
        compact(self.lake, self.settings, self.clock, version="test")

    def rebuild(self) -> Generation:
        return build(self.lake, self.settings, self.clock)

    # What there is.

    def runs(self, namespace: str) -> list[str]:
        """Every run, newest first."""
        return [run.run_id for run in last_runs(self.lake, namespace, 1000)]

    def log(self, namespace: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = read_log(self.lake, namespace).to_pylist()
        return rows

    def said(self, namespace: str) -> list[dict[str, Any]]:
        """Acts of users that wait for their place in the log, in order: first what adds, as one act may name both."""
        paths = inbox_paths(self.lake, namespace, user_only=True)
        rows = [row for _, table in self.lake.read_tables(paths) for row in conform(table, "log").to_pylist()]
        return sorted(rows, key=lambda row: row["decision"] != "add")

    def store(self, namespace: str, generation: Generation | None = None) -> tuple[dict[str, dict[str, Any]], int]:
        """Rows of the store by id, and the place in the log that it was folded to."""
        tables = open_tables(self.settings, generation or current(self.lake))
        rows = tables.scan(Filter((namespace,), states=None)).to_pylist()
        found = {row["id"]: row for row in rows}
        assert len(found) == len(rows)
        return found, tables.folded_to(namespace)


_WRITES = (
    (Folder, "put"), (Folder, "create"), (Folder, "delete"), (Tables, "upsert"), (Tables, "set_folded_to"),
    (Tables, "cool"),
)  # fmt: skip


@contextmanager
def interrupted(number: int, act: Callable[[], object], *, after: bool = False) -> Iterator[list[str]]:
    """Do something right before, or right after, the n-th write of what runs inside; what is done is not counted.

    Yields a list that then holds the name of that write.
    """
    count, hit, lock = itertools.count(1), list[str](), threading.Lock()

    def wrap(write: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(write)
        def writing(*args: Any, **options: Any) -> Any:
            with lock:
                is_it = not hit and next(count) == number
                if is_it:
                    hit.append(write.__qualname__)
            if is_it and not after:
                act()
            result = write(*args, **options)
            if is_it and after:
                act()
            return result

        return writing

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in _WRITES:
            patch.setattr(owner, name, wrap(getattr(owner, name)))
        yield hit


def die() -> None:
    raise Killed


def at_once(*acts: Callable[[], object]) -> None:
    """Do things in threads, all at once; raises what the first of them raised."""
    failures: list[BaseException] = []

    def attempt(act: Callable[[], object]) -> None:
        try:
            act()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=attempt, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
