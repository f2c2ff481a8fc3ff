"""What one worker does with one shard of traces: pack episodes, gate, reflect, embed. Tables in, rows out."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime

from ..memory_store.clock import END_OF_TIME
from ..memory_store.embedders import Embedder, embedder_named
from ..memory_store.episodes import episode_rows
from ..memory_store.errors import BudgetExceeded
from ..memory_store.events import Trace
from ..memory_store.ids import derive_id
from ..memory_store.inbox import Row
from ..memory_store.lake import Lake
from ..memory_store.settings import Settings
from ..memory_store.traces import read_traces
from ..memory_store.vectors import embed_rows
from .candidates import Candidate, Reflection, Reflector, TraceGroup
from .gate import gate
from .plan import GroupPlan
from .resolve import normal_text


@dataclass(frozen=True)
class ShardTask:
    """Everything that a worker needs to know."""

    settings: Settings
    namespace: str
    groups: tuple[GroupPlan, ...]
    reflector: Reflector
    #: Name of the embedder of the generation in use
    embedder: str
    now: datetime
    run_id: str


@dataclass
class ShardResult:
    """What a shard gave: rows of the tables named, none of them written yet."""

    gate: list[Row] = field(default_factory=list)
    reflections: list[Row] = field(default_factory=list)
    candidates: list[Row] = field(default_factory=list)
    refusals: list[Row] = field(default_factory=list)
    episodes: list[Row] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    #: Whether the budget was reached; groups from there on have no gate row
    stopped: bool = False


def reflect_shard(task: ShardTask) -> ShardResult:
    """Work on one shard, in whatever process this is."""
    lake = Lake.open(task.settings)
    result = ShardResult()
    for group in task.groups:
        traces = {
            trace.trace_id: trace
            for trace in read_traces(lake, task.namespace, (*group.fresh, *group.known), group.paths)
        }
        fresh = [traces[id] for id in group.fresh if id in traces]
        known = [traces[id] for id in group.known if id in traces]
        try:
            _reflect_group(task, group.key, fresh, known, result)
        except BudgetExceeded:
            result.stopped = True
            break
    embedder: Embedder = embedder_named(task.embedder, task.settings)
    embed_rows(embedder, result.candidates)
    embed_rows(embedder, result.episodes)
    return result


def _reflect_group(task: ShardTask, key: str, fresh: list[Trace], known: list[Trace], result: ShardResult) -> None:
    rows = gate(fresh, task.settings.gate, at=task.now, run=task.run_id)
    chosen = {row["trace_id"] for row in rows if row["reflected"]}
    if chosen:
        others = [trace for trace in fresh if trace.trace_id not in chosen]
        some = tuple(trace for trace in fresh if trace.trace_id in chosen)
        reflection = _reflect(task.reflector, TraceGroup(key, some, (*known, *others)))
        result.reflections.append(_reflection_row(task, some, reflection))
        result.candidates += [_candidate_row(task, item, reflection) for item in reflection.candidates]
        for refusal in reflection.refusals:
            row = _candidate_row(task, refusal.candidate, reflection)
            result.refusals.append({**row, "decision": "refuse", "reason": refusal.reason})
        result.counts["failed"] += len(some) if reflection.error else 0
        result.counts["reflected"] += 0 if reflection.error else len(some)
    result.gate += rows
    result.counts.update(traces=len(fresh), skipped=len(fresh) - len(chosen))
    for trace in fresh:
        result.episodes += episode_rows(trace, task.now)


def _reflect(reflector: Reflector, group: TraceGroup) -> Reflection:
    try:
        return reflector.reflect(group)
    except BudgetExceeded:
        raise
    except Exception as error:  # the boundary where one group's failure becomes a row
        return Reflection(error=f"{type(error).__name__}: {error}")


def _reflection_row(task: ShardTask, traces: tuple[Trace, ...], reflection: Reflection) -> Row:
    ids = [trace.trace_id for trace in traces]
    kept = {name: getattr(reflection, name) for name in _REFLECTION_FIELDS}
    parts: list[str | int] = [task.reflector.name, reflection.prompt_hash, *ids]
    parts += [len(trace.events) for trace in traces]
    return {
        "namespace": task.namespace,
        "reflection_id": derive_id(task.namespace, "reflection", *parts),
        "at": task.now,
        "run": task.run_id,
        "traces": ids,
        "reflector": task.reflector.name,
        **kept,
    }


_REFLECTION_FIELDS = tuple(item.name for item in fields(Reflection) if item.name not in ("candidates", "refusals"))


def _candidate_row(task: ShardTask, candidate: Candidate, reflection: Reflection) -> Row:
    """The row that adds a candidate: its id is derived from what it says and which traces it rests on."""
    evidence = [asdict(item) for item in candidate.evidence]
    origin = sorted({item.trace_id for item in candidate.evidence})
    said = normal_text(candidate.text) or candidate.text
    return {
        **{item.name: getattr(candidate, item.name) for item in fields(Candidate)},
        "entities": list(candidate.entities),
        "tags": list(candidate.tags),
        "evidence": evidence,
        "derived_from": [],
        "decision": "add",
        "id": derive_id(task.namespace, "mem", candidate.kind, candidate.subject, said, *origin),
        "reason": f"proposed by {task.reflector.name}",
        "reflector": task.reflector.name,
        "prompt_hash": reflection.prompt_hash,
        "state": "pending",
        "strength": 1.0,
        "valid_to": END_OF_TIME,
        "superseded_by": "",
    }
