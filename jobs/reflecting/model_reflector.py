"""The reflector with a language model: one question a trace, or a part of one, and every answer checked by code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ...memory_store.capture.events import Trace
from ...memory_store.clock import Clock
from ...memory_store.files.lake import Lake
from ...memory_store.settings import Settings
from ..comparing.pair_judge import ModelJudge
from ..models.answers import Answer
from ..models.batch_desk import BatchDesk
from ..models.budget import Budget, Forecast, Usage, estimate_tokens
from ..models.kept_door import KeptDoor
from ..models.model import ModelDoor
from ..models.prompt_files import load_prompt, newest, packaged_prompts
from ..models.questions import Message, Question, Unanswered
from ..models.reading import Lost, flat_schema
from ..models.replies import LakeReplies, ReplyCache
from .candidates import Candidate, Kind, Reflection, Refusal, TraceGroup
from .rendering import Rendering, fenced, neutral, one_line, render
from .reply import ReflectReply
from .reply_checks import Source, best_of, checked_lesson, checked_statement

#: Tokens that are kept free for the words around a record.
_AROUND = 400
#: Fewest tokens that a part of a trace is given.
_LEAST_ROOM = 400
#: Characters of the summaries of earlier parts that a later part is told.
_SO_FAR = 1_200


class ModelReflector:
    """Asks the model of the settings about each fresh trace. Share one between threads; it can be sent to workers."""

    def __init__(
        self,
        settings: Settings,
        budget: Budget | None = None,
        replies: ReplyCache | None = None,
        *,
        prompt: str = "",
        pause: float = 0.5,
    ) -> None:
        """`budget` is what the run may use, the settings' if none is given; `replies` are kept in the lake by default.

        `prompt` is the version that is asked with: that of the settings if none is given, else the newest that comes
        with hindlake.

        Raises `MissingExtra` without the package openai, `SettingsError` when there is no such prompt.
        """
        self._settings = settings.model
        chosen = prompt or settings.model.prompt or newest(packaged_prompts())
        self._prompt = load_prompt(chosen, settings.model.prompts)
        self._door = ModelDoor(settings.model, replies or LakeReplies(settings), budget, pause=pause)
        shape = json.dumps(flat_schema(ReflectReply))
        self._prompt_hash = hashlib.sha256(
            f"{self._prompt.hash} {shape} {settings.model.max_output_tokens}".encode()
        ).hexdigest()[:16]
        taken = estimate_tokens(self._prompt.text) + estimate_tokens(shape) + _AROUND
        self._room = max(_LEAST_ROOM, settings.model.max_input_tokens - taken)
        #: Model and prompt, such as "openai:gpt-4o-mini@reflect.v1"
        self.name = f"openai:{settings.model.name}@{self._prompt.name}"

    @property
    def budget(self) -> Budget:
        """What the run may use and has used."""
        return self._door.budget

    @property
    def concurrency(self) -> int:
        """As many groups at once as requests may be in flight."""
        return self._settings.concurrency

    def share(self, parts: int, calls: int = 0) -> ModelReflector:
        """This reflector with one of so many equal parts of what is left of the budget, for another process; with
        `calls`, no more than these are in flight at once.
        """
        copy = ModelReflector.__new__(ModelReflector)
        copy.__dict__.update(self.__dict__)
        copy._door = self._door.part(self.budget.share(parts), calls)
        copy._settings = copy._door.settings
        return copy

    @property
    def usage(self) -> Usage:
        """What was used so far."""
        return self.budget.usage

    @property
    def is_batched(self) -> bool:
        """Whether questions go through the Batch API."""
        return self._settings.mode == "batch"

    def kept_only(self, out: Set[str] = frozenset(), failed: Mapping[str, str] | None = None) -> ModelReflector:
        """This reflector without calls: what it would ask is in `Reflection.waiting`.

        `out` are keys of questions that were asked in a batch, `failed` says why others can't be answered.
        """
        copy = ModelReflector.__new__(ModelReflector)
        copy.__dict__.update(self.__dict__)
        copy._door = KeptDoor(self._settings, self._door.replies, self.budget, out=out, failed=failed)
        return copy

    def forecast(self, group: TraceGroup) -> Forecast:
        """What `reflect` would use at most; kept replies cost nothing. Calls no one."""
        said = self.reflect(group)
        estimates = [question.estimate for question in said.waiting] + list(said.later)
        return self.budget.forecast(estimates, self._settings.max_output_tokens) + Forecast(out=said.out)

    def desk(self, lake: Lake, namespace: str, run_id: str, clock: Clock) -> BatchDesk:
        """Where the batches of a namespace are sent and collected."""
        return BatchDesk(lake, namespace, self._door, run_id, clock)

    def pair_judge(self, namespace: str) -> ModelJudge:
        """What judges pairs of memories of a namespace, by the same model and from the same budget."""
        return ModelJudge(self._door, namespace)

    def reflect(self, group: TraceGroup) -> Reflection:
        """Lessons and statements of the fresh traces of a group, each compared with a run that ended otherwise.

        Raises `BudgetExceeded` at the ceiling, and `ModelError` when no question can be answered; what was paid for is
        kept either way, and the next run goes on from there.
        """
        work = _Work()
        for trace in group.fresh:
            try:
                kept, refused = best_of(self._trace(trace, _other(trace, group), work))
            except Unanswered as unanswered:
                work.wait(unanswered)
                continue
            work.kept += kept
            work.refused += refused
        return Reflection(
            candidates=tuple(work.kept),
            refusals=tuple(work.refused),
            reply=json.dumps({"traces": work.said}, ensure_ascii=False),
            error="; ".join(dict.fromkeys(work.failed.values())) if len(work.failed) == len(group.fresh) else "",
            prompt_hash=self._prompt_hash,
            input_tokens=work.input_tokens,
            output_tokens=work.output_tokens,
            cost=work.cost,
            latency_us=work.latency_us,
            calls=work.calls,
            waiting=tuple(work.waiting),
            later=tuple(work.later),
            out=work.out,
        )

    def _trace(self, trace: Trace, other: Trace | None, work: _Work) -> list[Candidate | Refusal]:
        """Everything that is said about one trace. One that is too long for the model is told more briefly."""
        room = self._room
        while True:
            told = render(trace, room * 2 // 3 if other else room)
            beside = render(other, room // 3, prefix="x", most_parts=1) if other else None
            events = {**told.events, **(beside.events if beside else {})}
            source = Source(trace, events, self._prompt.examples, self._prompt.reviewed)
            items, is_too_long = self._parts(source, told, beside, other, work)
            if not is_too_long:
                return items
            if room <= _LEAST_ROOM:
                work.failed[trace.trace_id] = error = work.said[-1]["error"]
                return [*items, _failed(trace, error)]
            room = max(_LEAST_ROOM, room // 2)

    def _parts(
        self, source: Source, told: Rendering, beside: Rendering | None, other: Trace | None, work: _Work
    ) -> tuple[list[Candidate | Refusal], bool]:
        """The items of every part, and whether the model found a part too long."""
        items: list[Candidate | Refusal] = []
        trace, count = source.trace, len(told.parts)
        so_far, errors = "", []
        for number, part in enumerate(told.parts, 1):
            said = _about(trace, number, count)
            if so_far:
                said += "\nWhat the earlier parts were about, as you noted it:\n" + fenced(neutral(so_far))
            said += "\n" + fenced(part.text)
            if beside and other:
                said += f"\nAnother run of the same task, which ended in {other.outcome}:\n"
                said += fenced(beside.parts[0].text)
            messages: list[Message] = [
                {"role": "system", "content": self._prompt.text},
                {"role": "user", "content": said + "\nNow answer with the JSON object."},
            ]
            try:
                answer = self._door.ask(
                    messages, ReflectReply, namespace=trace.namespace, prompt_hash=self._prompt_hash, purpose="reflect"
                )
            except Unanswered as unanswered:
                around = unanswered.question.estimate - estimate_tokens(part.text)
                unanswered.later = [around + estimate_tokens(later.text) for later in told.parts[number:]]
                raise
            work.take(trace, answer, number, count, told.left_out)
            if answer.too_long:
                return items, True
            items += [_lost(trace, piece) for piece in answer.lost if piece.field != "decisions"]
            if answer.value is None:
                errors.append(answer.error)
                continue
            so_far = f"{so_far} {answer.value.summary}".strip()[-_SO_FAR:]
            items += [checked_statement(item, source) for item in answer.value.facts]
            items += [checked_lesson(item, source) for item in answer.value.experiences]
        if len(errors) == count:
            work.failed[trace.trace_id] = errors[0]
        items += [_failed(trace, error) for error in errors]
        return items, False


@dataclass
class _Work:
    """What the traces of one group gave so far."""

    kept: list[Candidate] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    #: What the model said, by trace and part
    said: list[dict[str, Any]] = field(default_factory=list)
    #: Why nothing came of a trace
    failed: dict[str, str] = field(default_factory=dict)
    input_tokens: int = 0
    output_tokens: int = 0
    cost: int = 0
    latency_us: int = 0
    calls: int = 0
    waiting: list[Question] = field(default_factory=list)
    later: list[int] = field(default_factory=list)
    out: int = 0

    def wait(self, unanswered: Unanswered) -> None:
        """Note a question whose answer is not there yet."""
        if unanswered.is_out:
            self.out += 1
        else:
            self.waiting.append(unanswered.question)
        self.later += unanswered.later

    def take(self, trace: Trace, answer: Answer[ReflectReply], part: int, parts: int, left_out: int) -> None:
        """Add what one answer cost, and keep what was said."""
        self.input_tokens += answer.input_tokens
        self.output_tokens += answer.output_tokens
        self.cost += answer.cost
        self.latency_us += answer.latency_us
        self.calls += answer.calls
        said = {"trace_id": trace.trace_id, "part": part, "parts": parts, "events_left_out": left_out}
        replies = [msgspec.to_builtins(reply) for reply in answer.replies]
        self.said.append({**said, "error": answer.error, "replies": replies})


def _other(trace: Trace, group: TraceGroup) -> Trace | None:
    """A run of the same task that ended otherwise. A pair is compared once: by the failed run, if that is fresh."""
    if trace.outcome in ("failure", "partial"):
        return next((run for run in (*group.fresh, *group.known) if run.outcome == "success"), None)
    if trace.outcome == "success" and not any(run.outcome == "failure" for run in group.fresh):
        return next((run for run in group.known if run.outcome == "failure"), None)
    return None


def _about(trace: Trace, part: int, parts: int) -> str:
    """What may be said of a trace outside the fence."""
    said = [f"The task ended in {trace.outcome}." if trace.outcome != "unknown" else "No one said how the task ended."]
    if kind := one_line(trace.first("task_type")):
        said.append(f"Kind of task: {kind}.")
    if parts > 1:
        said.append(f"The record is long: this is part {part} of {parts}.")
    return " ".join(said)


def _row(trace: Trace, kind: Kind, text: str) -> Candidate:
    last = trace.events[-1]
    return Candidate(
        kind=kind, text=text, evidence=(), valid_from=last.at, subject=trace.first("subject"), outcome=trace.outcome
    )


def _lost(trace: Trace, lost: Lost) -> Refusal:
    """The row of a piece of a reply that could not be read."""
    kind: Kind = "fact" if lost.field == "facts" else "experience"
    return Refusal(_row(trace, kind, lost.piece), f"not readable: {lost.reason}")


def _failed(trace: Trace, error: str) -> Refusal:
    """The row of a part of a trace that nothing could be made of."""
    return Refusal(_row(trace, "experience", f"reflection on trace {trace.trace_id}"), f"nothing came of it: {error}")
