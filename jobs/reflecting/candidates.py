"""What a reflector proposes: candidates and refusals, and the interface that every reflector has."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Protocol

from ...memory_store.capture.events import Trace

if TYPE_CHECKING:
    from ..models.questions import Question

Kind = Literal["experience", "fact", "preference", "rule"]


@dataclass(frozen=True)
class Evidence:
    """Where in a trace something was said or happened."""

    trace_id: str
    event_id: str
    #: The span of the event that says it, verbatim
    quote: str


@dataclass(frozen=True)
class Candidate:
    """A memory proposed by a reflection, not yet decided. Fields are those of the schema's CONTENT and STATE."""

    kind: Kind
    text: str
    evidence: tuple[Evidence, ...]
    #: When the statement began to hold, or the lesson was learned: the time of its evidence
    valid_from: datetime
    subject: str = ""
    entities: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    attribute: str = ""
    value: str = ""
    about: str = ""
    need: str = ""
    offer: str = ""
    trigger: str = ""
    action: str = ""
    avoid: str = ""
    why: str = ""
    not_when: str = ""
    task_type: str = ""
    task_id: str = ""
    tool: str = ""
    outcome: str = ""
    error_code: str = ""
    agent_role: str = ""
    said_by: str = "reflection"
    language: str = ""
    quality: int = 3
    importance: float = 0.5
    confidence: float = 0.5


@dataclass(frozen=True)
class Refusal:
    """Something that was proposed and is not kept, and why. It becomes a row of the log, with decision `refuse`."""

    candidate: Candidate
    reason: str


@dataclass(frozen=True)
class Reflection:
    """What one look at a group of traces gave."""

    candidates: tuple[Candidate, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    #: What was said, verbatim, as JSON
    reply: str = ""
    #: Why nothing could be made of it; empty when something could
    error: str = ""
    prompt_hash: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    #: Micro-dollars
    cost: int = 0
    latency_us: int = 0
    #: Calls to the model, failed ones included
    calls: int = 0
    #: Questions that have no answer yet and are to be asked; what the reflection says is not whole then
    waiting: tuple[Question, ...] = ()
    #: Tokens of the prompts that can only be asked once those are answered
    later: tuple[int, ...] = ()
    #: Questions that were asked already, and whose answers are awaited
    out: int = 0


@dataclass(frozen=True)
class TraceGroup:
    """Runs of one task. `fresh` is to be reflected on; `known` was before, and is here to be compared with."""

    #: What the runs have in common: their task_id, or the trace's own id
    key: str
    fresh: tuple[Trace, ...]
    known: tuple[Trace, ...] = field(default=())


class Reflector(Protocol):
    """Anything that makes lessons of traces. It must be picklable: workers of Ray call it."""

    @property
    def name(self) -> str:
        """Name and version, such as "rules@1"; a new version may reflect on the same traces again."""
        ...

    @property
    def concurrency(self) -> int:
        """Groups that it may be given at once."""
        ...

    def share(self, parts: int, calls: int = 0) -> Reflector:
        """The same reflector with its part of what a run may spend, for one of `parts` workers, and of the calls that
        may be in flight at once; 0: as many as without workers.
        """
        ...

    def reflect(self, group: TraceGroup) -> Reflection:
        """Lessons of the fresh traces of a group.

        Raises `BudgetExceeded` when the run's ceiling is reached, and `ModelError` when the model can't be asked at
        all; any other failure of one group is returned in `Reflection.error`.
        """
        ...
