"""What a timeline is made of: rows of the lake as entries, each at its time. Pure: rows in, entries out.

Rows are dicts with columns of their tables in `schema`. Texts are shortened; `explain` and `read_traces` have the rest.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from ..capture.episodes import shorten
from ..records.purged import Purge
from ..records.runs import Run

Row = Mapping[str, Any]

#: Kinds of entries. `trace`: tasks as they began, ended and were judged; `read`: what was asked, found and used;
#: `write`: what users and agents had remembered, changed and forgotten; `decision`: what runs decided; `reflection`:
#: what was reflected on; `run`: jobs as they began and ended; `review`: what people said of memories; `purge`;
#: `step`: the events of tasks in between.
KINDS: tuple[str, ...] = (
    "trace", "read", "write", "decision", "reflection", "run", "review", "purge", "step",
)  # fmt: skip
#: Kinds that a timeline has unless it is asked for others: there are many steps.
USUAL: tuple[str, ...] = tuple(kind for kind in KINDS if kind != "step")
#: Most characters of a text in an entry.
TEXT = 300
#: Decisions of a user's own act in the words of who took it; others are called what they are.
_OWN = {"add": "remember", "supersede": "update"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened."""

    at: datetime
    #: One of `KINDS`
    kind: str
    #: What happened: started, search, remember, supersede, …
    what: str
    #: What it was about: the goal, the query, the text of the memory
    text: str = ""
    #: How it went: accepted, refused, waiting; success, failure; done, failed
    verdict: str = ""
    #: Why, in the words of who did it
    reason: str = ""
    #: Figures: hits, tokens, counts
    note: str = ""
    #: Place in the log; None for what has none
    seq: int | None = None
    #: The act that a write or a decision is part of
    act: str = ""
    #: The run that did it
    run: str = ""
    #: The job of that run
    job: str = ""
    #: Traces that it is about, or rests on
    traces: tuple[str, ...] = ()
    #: Ids of their tasks
    tasks: tuple[str, ...] = ()
    #: Memories that it is about; of a read, best first
    memories: tuple[str, ...] = ()
    #: Whom it is about
    subjects: tuple[str, ...] = ()
    #: Memories that it named too and that were purged since
    purged: int = 0


@dataclass(slots=True)
class Task:
    """What a timeline knows of a trace so far."""

    task_id: str = ""
    subject: str = ""
    goal: str = ""
    events: int = 0
    calls: int = 0
    errors: int = 0


@dataclass(frozen=True, slots=True)
class Told:
    """What a memory, or a candidate that was refused, says."""

    kind: str = ""
    text: str = ""
    subject: str = ""
    task_id: str = ""
    #: Traces that it rests on
    traces: tuple[str, ...] = ()


@dataclass
class Known:
    """What entries are told with: memories, traces and jobs by id. Traces become known as their events are seen."""

    memory: Mapping[str, Told]
    #: Job of each run
    jobs: Mapping[str, str]
    #: Memories that were purged
    purged: frozenset[str] = frozenset()
    tasks: dict[str, Task] = field(default_factory=dict)
    #: What each read asked, and for whom
    queries: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)

    def about(self, traces: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Task ids and subjects of traces."""
        some = [task for trace in traces if (task := self.tasks.get(trace)) is not None]
        return _unique(task.task_id for task in some), _unique(task.subject for task in some)


def trace_entries(rows: Iterable[Row], known: Known, with_steps: bool) -> Iterator[Entry]:
    """Entries of events, each of which is given once, in the order of time.

    A trace whose beginning is not among the events that were ever given is told once, as one that went on.
    """
    for row in rows:
        task = known.tasks.get(row["trace_id"])
        is_first = task is None
        if task is None:
            task = known.tasks[row["trace_id"]] = Task()
        _learn(task, row)
        about = {
            "at": row["at"],
            "traces": (row["trace_id"],),
            "tasks": _unique([task.task_id]),
            "subjects": _unique([task.subject]),
        }
        if row["type"] == "task":
            yield Entry(kind="trace", what="started", text=task.goal, note=_joined(row, "task_type", "agent"), **about)
            continue
        if is_first:
            yield Entry(kind="trace", what="went on", text="it had begun before", **about)
        if row["type"] == "outcome":
            note = f"{task.events} events, {task.calls} tool calls, {task.errors} failed"
            reason, verdict = shorten(row["content"] or "", TEXT), row["outcome"] or "unknown"
            yield Entry(
                kind="trace", what="ended", text=task.goal, verdict=verdict, reason=reason, note=note, **about
            )  # fmt: skip
        elif row["type"] == "feedback":
            score = "" if row["score"] is None else f"score {row['score']:g}"
            yield Entry(kind="trace", what="feedback", text=shorten(row["content"] or "", TEXT), note=score, **about)
        elif with_steps:
            yield _step(row, about)


def _learn(task: Task, row: Row) -> None:
    task.task_id = task.task_id or row["task_id"] or ""
    task.subject = task.subject or row["subject"] or ""
    if row["content"] and (row["type"] == "task" or (not task.goal and row["role"] == "user")):
        task.goal = shorten(row["content"], TEXT)
    task.events += 1
    if row["type"] == "tool_call":
        task.calls += 1
        task.errors += bool(row["error_code"])


def _step(row: Row, about: dict[str, Any]) -> Entry:
    what: str = row["tool"] if row["type"] == "tool_call" else row["name"] or row["role"]
    said = row["content"] or row["error_message"] or row["result"] or ""
    text, asked = shorten(said, TEXT), shorten(row["arguments"] or "", TEXT)
    return Entry(kind="step", what=what or row["type"], text=text, verdict=row["error_code"] or "", note=asked, **about)


def read_entries(rows: Iterable[Row], known: Known) -> Iterator[Entry]:
    """Entries of rows of the read log: what was asked and returned, and what of it was put before a model."""
    for row in rows:
        traces = _unique([row["trace_id"] or ""])
        tasks, subjects = known.about(traces)
        if not row["injected"]:
            known.queries[row["read_id"]] = (row["query"] or "", _asked_for(row["filters"] or ""))
        query, whose = known.queries.get(row["read_id"], ("", ()))
        ids = tuple(row["ids"] or ())
        shown = tuple(id for id in ids if id not in known.purged)
        yield Entry(
            at=row["at"],
            kind="read",
            what="used" if row["injected"] else "search" if query else "list",
            text=shorten(query, TEXT),
            note=f"{len(ids)} memories" + (f", known to {row['seq']}" if row["seq"] else ""),
            traces=traces,
            tasks=tasks,
            memories=shown,
            subjects=_unique([*subjects, *whose, *_whose(shown, known)]),
            purged=len(ids) - len(shown),
        )


def _asked_for(filters: str) -> tuple[str, ...]:
    with contextlib.suppress(msgspec.DecodeError):
        said = msgspec.json.decode(filters)
        return _unique(str(name) for key in ("subjects", "own_subjects") for name in said.get(key) or ())
    return ()


def log_entries(rows: Iterable[Row], known: Known) -> Iterator[Entry]:
    """Entries of rows of the log and the inbox; what is about a purged memory is for the caller to leave out."""
    for row in rows:
        told = known.memory.get(row["id"], Told())
        run: str = row["run"] or ""
        decision: str = row["decision"]
        what = decision if run else _OWN.get(decision, decision)
        if what == "remember" and told.kind == "episode":
            what = "episode"
        successor = row["superseded_by"] or ""
        tasks, subjects = known.about(told.traces)
        yield Entry(
            at=row["at"],
            kind="decision" if run else "write",
            what=what,
            text=told.text,
            verdict=row["verdict"] or "waiting",
            reason=shorten(row["reason"] or "", TEXT),
            note=told.kind,
            seq=row["seq"],
            act=row["act"] or "",
            run=run,
            job=known.jobs.get(run, ""),
            traces=told.traces,
            tasks=_unique([told.task_id, *tasks]),
            memories=_unique([row["id"] or "", "" if successor in known.purged else successor]),
            subjects=_unique([told.subject, *subjects]),
            purged=int(successor in known.purged),
        )


def gate_entries(rows: Iterable[Row], known: Known) -> Iterator[Entry]:
    """Entries of rows of the gate: which traces were given to a reflector, and why."""
    for row in rows:
        tasks, subjects = known.about([row["trace_id"]])
        yield Entry(
            at=row["at"], kind="reflection", what="gate", text=_goal(row["trace_id"], known),
            verdict="reflected" if row["reflected"] else "passed over", reason=row["trigger"] or "",
            run=row["run"] or "", job=known.jobs.get(row["run"] or "", ""), traces=(row["trace_id"],), tasks=tasks,
            subjects=subjects,
        )  # fmt: skip


def reflection_entries(rows: Iterable[Row], known: Known) -> Iterator[Entry]:
    """Entries of reflections."""
    for row in rows:
        traces = _unique(row["traces"] or ())
        tasks, subjects = known.about(traces)
        tokens = (row["input_tokens"] or 0) + (row["output_tokens"] or 0)
        goals = [goal for trace in traces if (goal := _goal(trace, known))]
        yield Entry(
            at=row["at"], kind="reflection", what="reply", text=shorten(" · ".join(goals), TEXT),
            verdict="failed" if row["error"] else "done", reason=shorten(row["error"] or "", TEXT),
            note=f"{row['reflector'] or ''}, {len(traces)} traces" + (f", {tokens} tokens" if tokens else ""),
            run=row["run"] or "", job=known.jobs.get(row["run"] or "", ""), traces=traces, tasks=tasks,
            subjects=subjects,
        )  # fmt: skip


def review_entries(rows: Iterable[Row], known: Known) -> Iterator[Entry]:
    """Entries of reviews; what is about a purged memory is for the caller to leave out."""
    for row in rows:
        told = known.memory.get(row["memory_id"], Told())
        yield Entry(
            at=row["at"], kind="review", what="drawn" if row["verdict"] == "drawn" else "judged", text=told.text,
            verdict=row["verdict"] or "", reason=shorten(row["reason"] or "", TEXT), note=row["sample"] or "",
            traces=told.traces, tasks=_unique([told.task_id]), memories=(row["memory_id"],),
            subjects=_unique([told.subject]),
        )  # fmt: skip


def run_entries(runs: Iterable[Run]) -> Iterator[Entry]:
    """Entries of runs: when they began, and how they ended."""
    for run in runs:
        yield Entry(at=run.started_at, kind="run", what="started", text=run.job, run=run.run_id, job=run.job)
        if run.ended_at is not None:
            counts = [f"{count} {name}" for name, count in sorted(run.counts.items()) if count]
            tokens = run.input_tokens + run.output_tokens
            note = ", ".join([*counts, *([f"{tokens} tokens"] if tokens else [])])
            yield Entry(
                at=run.ended_at, kind="run", what="ended", text=run.job, verdict=run.status,
                reason=shorten(run.error, TEXT), note=note, run=run.run_id, job=run.job,
            )  # fmt: skip


def purge_entries(purges: Iterable[Purge]) -> Iterator[Entry]:
    """Entries of purges: how much went, never what."""
    for purge in purges:
        note = f"{len(purge.ids)} memories, {len(purge.events)} events, {len(purge.traces)} traces"
        verdict = "swept" if purge.swept_at is not None else "hidden, not swept yet"
        yield Entry(at=purge.asked_at, kind="purge", what="purge", verdict=verdict, note=note)


def _goal(trace: str, known: Known) -> str:
    task = known.tasks.get(trace)
    return "" if task is None else task.goal


def _whose(ids: Iterable[str], known: Known) -> Iterator[str]:
    return (known.memory[id].subject for id in ids if id in known.memory)


def _joined(row: Row, *names: str) -> str:
    return ", ".join(row[name] for name in names if row[name])


def _unique(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for value in values if value))
