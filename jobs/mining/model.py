"""Patterns judged and worded by a language model: one question a pattern, and every answer checked by code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec
from pydantic import Field

from ...memory_store.capture.events import Trace
from ...memory_store.settings import Settings
from ..models.answers import Answer
from ..models.budget import Budget, estimate_tokens
from ..models.model import ModelDoor
from ..models.prompt_files import load_prompt, newest, prompt_names
from ..models.questions import Message
from ..models.reading import flat_schema
from ..models.replies import LakeReplies, ReplyCache
from ..reflecting.candidates import Candidate, Refusal
from ..reflecting.rendering import fenced, neutral, one_line, render
from ..reflecting.reply import Lesson
from ..reflecting.reply_checks import Source, checked_lesson
from ..reflecting.rules.checks import refusal_reason
from .support import Pattern

#: The prompt that judges patterns, whatever its version.
PROMPT = "patterns"
#: Tokens that are kept free for the words around the records, and the fewest that one record is given.
_AROUND, _LEAST_ROOM = 400, 200
#: Events around one that is cited, on either side.
_NEAR = 2
#: What is said of the number of distinct tasks, so that a question does not change with every task.
_BANDS = (1000, 300, 100, 30, 10, 3, 2)


class PatternReply(Lesson):
    """What the model makes of one pattern."""

    recurs: bool = Field(True, description="do the records show one and the same thing, and does the advice follow?")
    doubt: str = Field("", description="why it should not be kept; empty if it should")


@dataclass(frozen=True)
class Judgement:
    """What became of one question. Numbers say what was paid now."""

    #: The memory; None when there is none
    candidate: Candidate | None = None
    #: Why it is not kept
    refusal: str = ""
    #: Why there is no judgement at all; the next run asks again
    error: str = ""
    #: Every reply, verbatim, as JSON
    reply: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    #: Micro-dollars
    cost: int = 0
    latency_us: int = 0
    calls: int = 0


class PatternJudge:
    """Asks the model of the settings about patterns. Share one between threads."""

    def __init__(
        self,
        settings: Settings,
        budget: Budget | None = None,
        replies: ReplyCache | None = None,
        *,
        pause: float = 0.5,
    ) -> None:
        """`budget` is what the run may use, the settings' if none is given; `replies` are kept in the lake by default.

        Raises `MissingExtra` without the package openai.
        """
        folder = settings.model.prompts
        self._prompt = load_prompt(newest(prompt_names(folder), PROMPT), folder)
        self._door = ModelDoor(settings.model, replies or LakeReplies(settings), budget, pause=pause)
        shape = json.dumps(flat_schema(PatternReply))
        #: Hash of the prompt and of what is asked for
        self.prompt_hash = hashlib.sha256(f"{self._prompt.hash} {shape}".encode()).hexdigest()[:16]
        taken = estimate_tokens(self._prompt.text) + estimate_tokens(shape) + _AROUND
        self._room = settings.model.max_input_tokens - taken
        #: Model and prompt, such as "openai:gpt-4o-mini@patterns.v1"
        self.name = f"openai:{settings.model.name}@{self._prompt.name}"
        #: Questions that may be in flight at once
        self.concurrency = settings.model.concurrency

    def judge(self, pattern: Pattern, draft: Candidate, traces: Sequence[Trace]) -> Judgement:
        """Ask about one pattern. `draft` is the memory in the words of the rules, `traces` are those that it cites.

        Raises `BudgetExceeded` at the ceiling, and `ModelError` when no question can be answered.
        """
        if not traces:
            return Judgement(error="the traces that it rests on are gone")
        room = max(_LEAST_ROOM, self._room // max(1, len(traces)))
        parts = [
            render(_near(trace, draft), room, prefix=prefix, most_parts=1)
            for prefix, trace in zip("abcde", traces, strict=False)
        ]
        events = {label: event for part in parts for label, event in part.events.items()}
        said = "\n".join(
            [
                _about(pattern),
                "What the rules make of it:",
                fenced(neutral(draft.text)),
                "Where it was seen, one record a task:",
                *(fenced(part.parts[0].text) for part in parts if part.parts),
                "Now answer with the JSON object.",
            ]
        )
        messages: list[Message] = [
            {"role": "system", "content": self._prompt.text},
            {"role": "user", "content": said},
        ]
        namespace = traces[0].namespace
        answer = self._door.ask(
            messages, PatternReply, namespace=namespace, prompt_hash=self.prompt_hash, purpose="patterns"
        )
        paid = _paid(answer)
        if answer.value is None:
            return replace(paid, error=answer.error or "the reply holds no answer")
        cited = events.get(answer.value.event.strip().strip("[]").split(" ")[0])
        trace = next((trace for trace in traces if cited and trace.trace_id == cited.trace_id), traces[0])
        checked = self._checked(answer.value, draft, pattern, Source(trace, events, self._prompt.examples))
        if isinstance(checked, Refusal):
            return replace(paid, candidate=checked.candidate, refusal=checked.reason)
        return replace(paid, candidate=checked)

    def _checked(self, reply: PatternReply, draft: Candidate, pattern: Pattern, source: Source) -> Candidate | Refusal:
        """The memory in the model's words and with what was counted, or why there is none."""
        if not reply.recurs:
            doubt = " ".join(neutral(reply.doubt).split())[:200]
            return Refusal(draft, f"it is no pattern, says the model{f': {doubt}' if doubt else ''}")
        checked = checked_lesson(reply, source)
        if isinstance(checked, Refusal):
            return checked
        worded = replace(
            checked,
            evidence=tuple(dict.fromkeys((*draft.evidence, *checked.evidence))),
            valid_from=draft.valid_from,
            tags=draft.tags,
            task_type=draft.task_type,
            task_id="",
            agent_role=draft.agent_role,
            tool=draft.tool,
            error_code=draft.error_code,
            outcome=draft.outcome,
            language=draft.language,
            importance=draft.importance,
            confidence=draft.confidence,
        )
        reason = refusal_reason(worded, pattern.names)
        return Refusal(worded, reason) if reason else worded


def _near(trace: Trace, draft: Candidate) -> Trace:
    """The events of a trace around those that are cited, and what the task was."""
    cited = {item.event_id for item in draft.evidence if item.trace_id == trace.trace_id}
    places = [place for place, event in enumerate(trace.events) if event.event_id in cited]
    opening = next((i for i, e in enumerate(trace.events) if e.type == "task" or e.role == "user"), None)
    kept = {near for place in places for near in range(place - _NEAR, place + _NEAR + 1)}
    kept |= set() if opening is None else {opening}
    return replace(trace, events=tuple(event for place, event in enumerate(trace.events) if place in kept))


def _about(pattern: Pattern) -> str:
    """What may be said of a pattern outside the fence."""
    least = next((band for band in _BANDS if pattern.tasks >= band), pattern.tasks)
    kind = one_line(pattern.task_type)
    kinds = {
        "failure": "a failure that recurs",
        "argument": "a kind of argument that a tool fails for",
        "order": "an order of calls that tells success from failure",
        "correction": "something that users correct again and again",
    }
    said = f"Counted by rule: {kinds[pattern.sort]}, in at least {least} distinct tasks."
    return f"{said} Kind of task: {kind}." if kind else said


def _paid(answer: Answer[PatternReply]) -> Judgement:
    return Judgement(
        reply=json.dumps([msgspec.to_builtins(reply) for reply in answer.replies], ensure_ascii=False),
        input_tokens=answer.input_tokens,
        output_tokens=answer.output_tokens,
        cost=answer.cost,
        latency_us=answer.latency_us,
        calls=answer.calls,
    )
