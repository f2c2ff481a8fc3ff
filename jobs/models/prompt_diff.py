"""What another version of a prompt changes: its text, and what it makes of a fixed sample of traces (R11).

Nothing is decided: no memory is written. Replies are kept as in any run, so comparing again costs nothing, and so does
a version that the traces were reflected on with.
"""

from __future__ import annotations

import difflib
import json
import re
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime

from ...memory_store.capture.traces import read_traces, scan_events
from ...memory_store.errors import BudgetExceeded
from ...memory_store.files.lake import Lake, namespace_path
from ...memory_store.ids import derive_id
from ...memory_store.settings import Settings
from ...memory_store.telemetry.events import in_this_run
from ..deciding.resolve import normal_text
from ..reflecting.candidates import Candidate, Reflection, TraceGroup
from ..reflecting.model_reflector import ModelReflector
from ..reflecting.plan import GROUP_TRACES
from .budget import Budget, Forecast
from .prompt_files import Prompt, check_reflects

#: Traces that are compared unless told otherwise.
SAMPLE = 20
#: Share of the words of both that two memories have in common, from which one is the other changed.
_CHANGED = 0.4
#: What quoting the same event adds to it.
_SAME_EVENT = 0.15
_WORD = re.compile(r"[a-z0-9_]+|[^\W\d_a-z]")


@dataclass(frozen=True)
class Change:
    """A memory that the two versions see differently. What a version does not have is empty."""

    trace_id: str
    kind: str
    before: str
    after: str


@dataclass
class Figures:
    """What one version made of the traces that were compared, and what that takes, kept replies included."""

    memories: int = 0
    refused: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    #: Micro-dollars
    cost: int = 0


@dataclass
class Comparison:
    """What the second version changes.

    traces = compared + failed + unpaid
    memories of the first = same + changed + lost, of the second = same + changed + gained
    """

    traces: int = 0
    compared: int = 0
    #: Traces of which nothing came with one version or both
    failed: int = 0
    #: Traces that the budget did not reach
    unpaid: int = 0
    first: Figures = field(default_factory=Figures)
    second: Figures = field(default_factory=Figures)
    same: int = 0
    gained: list[Change] = field(default_factory=list)
    lost: list[Change] = field(default_factory=list)
    changed: list[Change] = field(default_factory=list)
    #: What was paid now
    paid_tokens: int = 0
    #: Micro-dollars
    paid_cost: int = 0
    calls: int = 0


def text_diff(first: Prompt, second: Prompt) -> list[str]:
    """The lines that differ, as a unified diff.

    >>> text_diff(Prompt("p.v1", "a"), Prompt("p.v2", "b"))
    ['--- p.v1', '+++ p.v2', '@@ -1 +1 @@', '-a', '+b']
    """
    before, after = first.text.split("\n"), second.text.split("\n")
    return list(difflib.unified_diff(before, after, first.name, second.name, n=1, lineterm=""))


def sample_groups(lake: Lake, namespace: str, size: int) -> list[TraceGroup]:
    """Traces that the gate lets through, each with the other runs of its task: which ones depends on their ids only."""
    gated: set[str] = set()
    for _, rows in lake.read_tables(lake.names(namespace_path(namespace, "gate")), ["trace_id", "reflected"]):
        gated.update(row["trace_id"] for row in rows.to_pylist() if row["reflected"])
    order = sorted(gated, key=lambda id: derive_id(namespace, "prompt-sample", id))[:size]
    tasks, runs = _tasks(lake, namespace)
    beside = {id: [other for other in runs.get(tasks.get(id, ""), []) if other != id][-GROUP_TRACES:] for id in order}
    wanted = {id for trace_id in order for id in (trace_id, *beside[trace_id])}
    traces = {trace.trace_id: trace for trace in read_traces(lake, namespace, wanted)}
    return [
        TraceGroup(tasks.get(id, id), (traces[id],), tuple(traces[other] for other in beside[id] if other in traces))
        for id in order
        if id in traces
    ]


class PromptDiff:
    """Two versions over the same traces, within one budget."""

    def __init__(
        self, settings: Settings, first: str, second: str, groups: Sequence[TraceGroup], *, pause: float = 0.5
    ) -> None:
        """`pause` is the first wait between tries of a call, in seconds.

        Raises `SettingsError` without such a version, and `UsageError` for a prompt that does not reflect.
        """
        check_reflects(first, second)
        model = settings.model
        #: What both may use together, and have used
        self.budget = Budget(
            model.budget_tokens, model.budget_cost, input_price=model.input_price, output_price=model.output_price
        )
        self._pair = [ModelReflector(settings, self.budget, prompt=name, pause=pause) for name in (first, second)]
        self._groups = groups

    def forecast(self) -> Forecast:
        """What `compare` will use at most; kept replies cost nothing. Calls no one."""
        asked = [reflector.kept_only() for reflector in self._pair]
        return sum((reflector.forecast(group) for group in self._groups for reflector in asked), Forecast())

    def compare(self) -> Comparison:
        """Reflect on every trace with both versions. Stops cleanly at the budget; run again, it goes on from there.

        Raises `ModelError` when the endpoint can't be asked.
        """
        found = Comparison(traces=len(self._groups))
        with ThreadPoolExecutor(max(1, self._pair[0].concurrency)) as pool:
            for group, pair in zip(self._groups, pool.map(in_this_run(self._look), self._groups), strict=True):
                if pair is None:
                    found.unpaid += 1
                elif pair[0].error or pair[1].error:
                    found.failed += 1
                else:
                    _add(found, group.fresh[0].trace_id, *pair)
        found.paid_tokens, found.paid_cost, found.calls = self.budget.tokens, self.budget.cost, self.budget.calls
        return found

    def _look(self, group: TraceGroup) -> tuple[Reflection, Reflection] | None:
        """What both say of a trace; None where the budget does not reach."""
        try:
            first, second = (reflector.reflect(group) for reflector in self._pair)
        except BudgetExceeded:
            return None
        return first, second


def _tasks(lake: Lake, namespace: str) -> tuple[dict[str, str], dict[str, list[str]]]:
    """The task of each trace that has one, and the traces of each task, oldest first."""
    events = scan_events(lake, namespace, ["task_id", "at"])
    tasks: dict[str, str] = {}
    began: dict[str, datetime] = {}
    columns = (events.column(name).to_pylist() for name in ("trace_id", "task_id", "at"))
    for trace_id, task_id, at in zip(*columns, strict=True):
        if task_id:
            tasks.setdefault(trace_id, task_id)
            began[trace_id] = min(began.get(trace_id, at), at)
    runs: dict[str, list[str]] = defaultdict(list)
    for trace_id in sorted(tasks, key=lambda id: (began[id], id)):
        runs[tasks[trace_id]].append(trace_id)
    return tasks, runs


def _add(found: Comparison, trace_id: str, first: Reflection, second: Reflection) -> None:
    """Count a trace in: equal memories first, then the most alike as changed, the rest as lost and gained."""
    found.compared += 1
    for figures, said in ((found.first, first), (found.second, second)):
        figures.memories += len(said.candidates)
        figures.refused += len(said.refusals)
        for told in json.loads(said.reply)["traces"]:
            for reply in told["replies"]:
                figures.input_tokens += reply.get("input_tokens", 0)
                figures.output_tokens += reply.get("output_tokens", 0)
                figures.cost += reply.get("cost", 0)
    before, after = list(first.candidates), list(second.candidates)
    for mine in first.candidates:
        twin = next((theirs for theirs in after if _said(theirs) == _said(mine)), None)
        if twin is not None:
            before.remove(mine)
            after.remove(twin)
            found.same += 1
    pairs = sorted(
        ((-_alike(mine, theirs), i, j) for i, mine in enumerate(before) for j, theirs in enumerate(after)),
    )
    gone: set[int] = set()
    taken: set[int] = set()
    for likeness, i, j in pairs:
        if -likeness >= _CHANGED and i not in gone and j not in taken:
            found.changed.append(Change(trace_id, after[j].kind, before[i].text, after[j].text))
            gone.add(i)
            taken.add(j)
    found.lost += [Change(trace_id, c.kind, c.text, "") for i, c in enumerate(before) if i not in gone]
    found.gained += [Change(trace_id, c.kind, "", c.text) for j, c in enumerate(after) if j not in taken]


def _said(candidate: Candidate) -> tuple[str, str]:
    return candidate.kind, normal_text(candidate.text)


def _alike(first: Candidate, second: Candidate) -> float:
    """Share of their words that two memories have in common; a bonus if they are of one kind and quote one event."""
    mine, theirs = (set(_WORD.findall(candidate.text.casefold())) for candidate in (first, second))
    share = len(mine & theirs) / max(1, len(mine | theirs))
    quotes_same = {e.event_id for e in first.evidence} & {e.event_id for e in second.evidence}
    return share + _SAME_EVENT if quotes_same and first.kind == second.kind else share
