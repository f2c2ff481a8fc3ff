"""What one worker does with one shard of traces: pack episodes, gate, reflect, embed. Tables in, rows out."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime

from ...memory_store.capture.episodes import episode_rows
from ...memory_store.capture.events import Trace
from ...memory_store.capture.traces import read_traces
from ...memory_store.clock import END_OF_TIME
from ...memory_store.embedders import Embedder, embedder_named
from ...memory_store.errors import BudgetExceeded, ModelError
from ...memory_store.files.lake import Lake
from ...memory_store.history.inbox import Row
from ...memory_store.ids import derive_id
from ...memory_store.records.vectors import embed_rows
from ...memory_store.settings import Settings
from ...memory_store.telemetry.events import in_this_run
from ..deciding.resolve import normal_text
from ..models.budget import Forecast, Usage
from ..models.paid import PaidReflector
from ..models.questions import Question
from .candidates import Candidate, Reflection, Reflector, TraceGroup
from .gate import gate
from .plan import GroupPlan


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
    #: Whether the traces have no episodes yet
    episodes: bool = True
    #: Whether they were asked for by their ids, so that the gate lets them through
    asked: bool = False


@dataclass
class ShardResult:
    """What a shard gave: rows of the tables named, none of them written yet."""

    gate: list[Row] = field(default_factory=list)
    reflections: list[Row] = field(default_factory=list)
    candidates: list[Row] = field(default_factory=list)
    refusals: list[Row] = field(default_factory=list)
    episodes: list[Row] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    #: Whether the budget was reached; groups that could not be paid for have no gate row
    stopped: bool = False
    #: Why the model can't be asked at all; empty if it can
    failure: str = ""
    #: What asking the model has used
    usage: Usage = field(default_factory=Usage)
    #: What is to be asked before the rest can be reflected on
    questions: list[Question] = field(default_factory=list)


def reflect_shard(task: ShardTask) -> ShardResult:
    """Work on one shard, in whatever process this is.

    Groups are reflected on side by side, as many as the reflector bears; the result does not depend on it.
    """
    looks = _looks(task)
    before = task.reflector.usage if isinstance(task.reflector, PaidReflector) else None
    with ThreadPoolExecutor(max(1, task.reflector.concurrency)) as pool:
        reflections = list(pool.map(in_this_run(lambda look: _reflect(task.reflector, look)), looks))
    result = ShardResult()
    for look, reflection in zip(looks, reflections, strict=True):
        _add(task, look, reflection, result)
    if isinstance(task.reflector, PaidReflector) and before is not None:
        result.usage = task.reflector.usage - before
    else:
        sums = {name: sum(row[name] for row in result.reflections) for name in _USED}
        result.usage = Usage(**sums)
    embedder: Embedder = embedder_named(task.embedder, task.settings)
    embed_rows(embedder, result.candidates)
    embed_rows(embedder, result.episodes)
    return result


def forecast_shard(task: ShardTask) -> Forecast:
    """What reflecting on one shard would use, by the same gate and the same prompts. Calls no one, writes nothing."""
    reflector = task.reflector
    if not isinstance(reflector, PaidReflector):
        return Forecast()
    groups = [look.group for look in _looks(task) if look.group is not None]
    return sum((reflector.forecast(group) for group in groups), Forecast())


def _looks(task: ShardTask) -> list[_Look]:
    lake = Lake.open(task.settings)
    ids = [id for group in task.groups for id in (*group.fresh, *group.known)]
    paths = sorted({path for group in task.groups for path in group.paths})
    traces = {trace.trace_id: trace for trace in read_traces(lake, task.namespace, ids, paths)}
    return [_look(task, group, traces) for group in task.groups]


@dataclass(frozen=True)
class _Look:
    """A group as the gate saw it."""

    fresh: list[Trace]
    gate: list[Row]
    #: What is reflected on; None if the gate let nothing through
    group: TraceGroup | None


def _look(task: ShardTask, plan: GroupPlan, traces: dict[str, Trace]) -> _Look:
    fresh = [traces[id] for id in plan.fresh if id in traces]
    known = [traces[id] for id in plan.known if id in traces]
    rows = gate(fresh, task.settings.gate, at=task.now, run=task.run_id, asked=task.asked)
    chosen = {row["trace_id"] for row in rows if row["reflected"]}
    if not chosen:
        return _Look(fresh, rows, None)
    others = [trace for trace in fresh if trace.trace_id not in chosen]
    some = tuple(trace for trace in fresh if trace.trace_id in chosen)
    return _Look(fresh, rows, TraceGroup(plan.key, some, (*known, *others)))


def _reflect(reflector: Reflector, look: _Look) -> Reflection | ModelError | None:
    """What the reflector says, None where it was not asked, or why it can't be asked any more."""
    if look.group is None:
        return None
    try:
        return reflector.reflect(look.group)
    except ModelError as error:
        return error
    except Exception as error:  # the boundary where one group's failure becomes a row
        return Reflection(error=f"{type(error).__name__}: {error}")


def _add(task: ShardTask, look: _Look, said: Reflection | ModelError | None, result: ShardResult) -> None:
    """Count a group in. Traces that nothing could be said of get no gate row, so that the next run tries again."""
    if isinstance(said, ModelError):
        result.stopped |= isinstance(said, BudgetExceeded)
        if not isinstance(said, BudgetExceeded):
            result.failure = result.failure or str(said)
        return
    if said is not None and (said.waiting or said.out):
        _wait(task, look, said, result)
        return
    chosen = look.group.fresh if look.group is not None else ()
    failed = said is not None and bool(said.error)
    result.gate += [row for row in look.gate if not (failed and row["reflected"])]
    result.counts["failed" if failed else "reflected"] += len(chosen)
    result.counts.update(traces=len(look.fresh), skipped=len(look.fresh) - len(chosen))
    for trace in look.fresh if task.episodes else ():
        result.episodes += episode_rows(trace, task.now)
    if said is None:
        return
    result.reflections.append(_reflection_row(task, chosen, said))
    result.candidates += [_candidate_row(task, item, said) for item in said.candidates]
    for refusal in said.refusals:
        row = _candidate_row(task, refusal.candidate, said)
        result.refusals.append({**row, "decision": "refuse", "reason": refusal.reason})


def _wait(task: ShardTask, look: _Look, said: Reflection, result: ShardResult) -> None:
    """A group whose answers are not all there has no gate row: a later run finds it, and the answers, again."""
    result.counts.update(traces=len(look.fresh), waiting=len(look.fresh))
    result.questions += said.waiting
    if said.waiting and task.episodes:  # else the run that asked has packed them
        for trace in look.fresh:
            result.episodes += episode_rows(trace, task.now)


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


#: What a reflector that has no budget says of each reflection.
_USED = ("calls", "input_tokens", "output_tokens", "cost")
_UNWRITTEN = ("candidates", "refusals", "waiting", "later", "out")
_REFLECTION_FIELDS = tuple(item.name for item in fields(Reflection) if item.name not in _UNWRITTEN)


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
