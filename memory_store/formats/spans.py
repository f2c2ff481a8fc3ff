"""Spans of a trace as events: what OTLP, Jaeger, Tempo and OpenInference files and the live exporter share.

Each span is one event: a tool call, or a step with the step that it is a part of. A model call is a step, and the
messages that it was given and answered are events below it; a message that an earlier call of the trace had already
is not repeated. A call that the model asked for and the tool's span are one event.

`seq` of these events is a time, in nanoseconds since 1970: spans of one trace may come in any order and in many
files, and still fall into place.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b

from ..capture.events import Event
from ..capture.tool_errors import error_slug, tool_error
from .conversation import Conversation, add_attributes, is_users_word, set_error
from .draft import Draft, RecordError, event
from .genai import Meaning, decoded, meaning_of
from .labels import without_labels
from .loose import canonical, first, json_text, mapping, moment, real, text

#: Deeper ancestors than this are not looked at: a broken file may have a cycle.
_DEEP = 200
_OUTCOMES = {"success", "failure", "partial", "unknown"}


@dataclass
class SpanEvent:
    """Something that happened inside a span."""

    name: str
    attributes: dict[str, object] = field(default_factory=dict)
    #: Nanoseconds since 1970; 0: unknown
    at_ns: int = 0


@dataclass
class Span:
    """A span, whatever file it was in."""

    trace_id: str
    span_id: str
    name: str = ""
    #: Empty: it is a root
    parent_id: str = ""
    #: Nanoseconds since 1970; 0: unknown
    start_ns: int = 0
    end_ns: int = 0
    attributes: dict[str, object] = field(default_factory=dict)
    events: list[SpanEvent] = field(default_factory=list)
    #: Its parent is in another process
    is_local_root: bool = False
    failed: bool = False
    status_message: str = ""
    #: What produced it
    resource: dict[str, object] = field(default_factory=dict)
    #: What the format says that has no place above
    more: dict[str, object] = field(default_factory=dict)


@dataclass
class Said:
    """What is known of a trace whose spans come in several lots, so that nothing is told twice."""

    #: When answers were given and by which span, by what they say
    answered: defaultdict[str, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    #: How often something was said to a model, by what it says
    came_in: Counter[str] = field(default_factory=Counter)
    #: Calls by the id that the agent gave them
    calls: dict[str, Event] = field(default_factory=dict)
    #: Calls whose span or result has not come yet
    pending: dict[str, Event] = field(default_factory=dict)
    #: The first thing that the user said, with its place; None: nothing yet
    asked: tuple[int, str] | None = None


def spans_draft(trace_id: str, spans: Iterable[Span], said: Said | None = None) -> Draft:
    """The spans of one trace as a draft; a span that is there twice counts once.

    Without `said` these are all spans that there are, and the earliest stands in for a root that is missing. With it
    they are a lot of a trace that goes on: its task and outcome are made when the root comes, and a call without a
    result waits for one until then.
    """
    unique = {span.span_id: span for span in spans}
    ordered = sorted(unique.values(), key=lambda span: (span.start_ns, -span.end_ns, span.span_id))
    if not ordered:
        raise RecordError("it has no span")
    events = _Builder(ordered, said or Said()).build(whole=said is None)
    count = unanswered(events)
    return Draft(("otel", trace_id), events, notes=[f"{count} tool calls without a result"] if count else [])


class _Builder:
    """Builds the events of a lot of spans of one trace."""

    def __init__(self, spans: list[Span], said: Said) -> None:
        self._spans = spans
        self._said = said
        self._by_id = {span.span_id: span for span in spans}
        self._meanings = {
            span.span_id: meaning_of(span.name, span.attributes, ((one.name, one.attributes) for one in span.events))
            for span in spans
        }
        self._primary: dict[str, Event] = {}
        self._messages: list[Event] = []
        # Tool spans whose call has no id, by the name of their tool.
        self._unclaimed: defaultdict[str, list[Event]] = defaultdict(list)

    def build(self, whole: bool) -> list[Event]:
        """All events, in order."""
        resources = set()
        for span in self._spans:
            said = canonical(span.resource)
            self._primary[span.span_id] = self._span_event(span, said not in resources)
            resources.add(said)
        # From the inside out: of nested calls that say the same the innermost is the one that spoke.
        for span in sorted(self._spans, key=lambda one: (one.end_ns, -one.start_ns, one.span_id)):
            self._outputs(span)
        for span in self._spans:
            self._inputs(span)
        root = next((span for span in self._spans if not span.parent_id or span.is_local_root), None)
        if root is None and whole:
            root = next((span for span in self._spans if span.parent_id not in self._by_id), self._spans[0])
        pending = self._said.pending
        # A tool's span may say no result, which is in what the model is sent next.
        pending.update((name, one) for name, one in self._primary.items() if one.type == "tool_call" and one.call_id)
        ready = [name for name, one in pending.items() if root is not None or one.result or one.error_code]
        told = [one for name, one in self._primary.items() if name not in pending]
        made = [*told, *self._messages, *(pending.pop(name) for name in ready)]
        made.sort(key=lambda one: (one.seq, one.event_id))
        asked = next(((one.seq, one.content) for one in made if is_users_word(one)), None)
        if asked is not None:
            self._said.asked = min(self._said.asked or asked, asked)
        if root is not None:
            made.insert(0, self._task(root))
            if ended := self._outcome(root):
                made.append(ended)
        self._inherit(made)
        return made

    def _span_event(self, span: Span, with_resource: bool) -> Event:
        meaning = self._meanings[span.span_id]
        duration = span.end_ns - span.start_ns
        made = event(
            "tool_call" if meaning.kind == "tool" else "step", span.span_id,
            role="agent" if meaning.kind in ("tool", "llm") else "",
            name=span.name, tool=meaning.tool, call_id=meaning.call_id, parent_event_id=span.parent_id,
            arguments=json_text(without_labels(meaning.arguments)), result=json_text(without_labels(meaning.result)),
            latency_us=duration // 1_000 if span.start_ns and duration >= 0 else None,
            input_tokens=meaning.input_tokens, output_tokens=meaning.output_tokens,
        )  # fmt: skip
        _time(made, span.start_ns)
        if meaning.kind == "tool":
            set_error(made, meaning.result)
            if meaning.call_id:
                self._claim(meaning.call_id, made)
            else:
                self._unclaimed[meaning.tool].append(made)
        if span.failed:
            made.error_code, made.error_message = _status_error(span)
        made.attributes = json_text(self._attributes(span, meaning, with_resource))
        return made

    def _attributes(self, span: Span, meaning: Meaning, with_resource: bool) -> dict[str, object]:
        left = {key: value for key, value in span.attributes.items() if key not in meaning.used}
        said: dict[str, object] = {"span_id": span.span_id, "kind": meaning.kind, **mapping(without_labels(left))}
        events = [
            {"name": one.name, **({"at": str(moment(one.at_ns))} if one.at_ns else {}), **one.attributes}
            for number, one in enumerate(span.events)
            if number not in meaning.used_events
        ]
        if events:
            said["events"] = without_labels(events)
        if with_resource and span.resource:
            said["resource"] = span.resource
        return {**said, **mapping(without_labels(span.more))}

    def _outputs(self, span: Span) -> None:
        at = span.end_ns or span.start_ns
        for number, message in enumerate(self._meanings[span.span_id].outputs):
            parts = Conversation().add(message)
            said = _essence(parts)
            if not any(self._is_inside(inner, when, span) for when, inner in self._said.answered[said]):
                self._place(parts, span, at, number, "out")
            self._said.answered[said].append((at, span.span_id))

    def _inputs(self, span: Span) -> None:
        here: Counter[str] = Counter()
        for number, message in enumerate(self._meanings[span.span_id].inputs):
            parts = Conversation().add(message)
            said = _essence(parts)
            here[said] += 1
            before = sum(1 for at, _ in self._said.answered[said] if at <= span.start_ns) + self._said.came_in[said]
            if here[said] > before:
                self._said.came_in[said] += 1
                self._place(parts, span, span.start_ns, number, "in")

    def _place(self, parts: list[Event], span: Span, at_ns: int, number: int, side: str) -> None:
        """Make a message's parts events of the trace: what was said, and calls and results that no span has."""
        for place, one in enumerate(parts):
            if one.type == "tool_call" and self._is_known_call(one):
                continue
            one.event_id = f"{span.span_id}/{side}{number}.{place}"
            one.parent_event_id = span.span_id
            _time(one, at_ns, 1 + number * 16 + min(place, 15))
            if one.type == "tool_call" and one.role == "agent":
                self._said.calls.setdefault(one.call_id or one.event_id, one)
                self._said.pending[one.event_id] = one
            else:
                self._messages.append(one)

    def _claim(self, call_id: str, made: Event) -> None:
        """A tool's span takes the place of the call that a message spoke of."""
        spoken = self._said.calls.get(call_id)
        if spoken is not None and spoken.event_id in self._said.pending:
            del self._said.pending[spoken.event_id]
            made.arguments = made.arguments or spoken.arguments
        self._said.calls[call_id] = made

    def _is_known_call(self, one: Event) -> bool:
        """Whether a call or a result in a message belongs to a call that has an event; fills what that one lacks."""
        known = self._said.calls.get(one.call_id) if one.call_id else None
        if known is None and one.role == "agent" and self._unclaimed[one.tool]:
            known = self._unclaimed[one.tool].pop(0)
            known.call_id = one.call_id
            self._claim(one.call_id or known.event_id, known)
        if known is None:
            return False
        known.arguments = known.arguments or one.arguments
        if one.role == "tool" and not known.result:
            known.result = one.result
            if not known.error_code:
                known.error_code, known.error_message = one.error_code, one.error_message
        return True

    def _is_inside(self, inner: str, when: int, span: Span) -> bool:
        """Whether an answer was given by a span below this one; of an earlier lot only the time is known."""
        if inner not in self._by_id:
            return span.start_ns <= when <= span.end_ns
        return any(above.span_id == span.span_id for above in self._ancestors(inner))

    def _ancestors(self, span_id: str) -> Iterator[Span]:
        at = self._by_id.get(span_id)
        for _ in range(_DEEP):
            at = self._by_id.get(at.parent_id) if at else None
            if at is None:
                return
            yield at

    def _task(self, root: Span) -> Event:
        meaning = self._meanings[root.span_id]
        goal = _asked(meaning.arguments) or (self._said.asked[1] if self._said.asked is not None else "")
        task = event("task", "task" if not root.parent_id else f"{root.span_id}/task", content=goal)
        _time(task, min(span.start_ns for span in self._spans), -1)
        return task

    def _outcome(self, root: Span) -> Event | None:
        """How the root ended: what it says itself, or that it failed. That nothing failed is no success."""
        if not root.end_ns:
            return None
        said = text(root.attributes.get("hindlake.outcome")).lower()
        outcome = said if said in _OUTCOMES else "failure" if root.failed else "unknown"
        name = "outcome" if not root.parent_id else f"{root.span_id}/outcome"
        ended = event("outcome", name, outcome=outcome, score=real(root.attributes.get("hindlake.score")))
        if root.failed:
            ended.error_code, ended.error_message = _status_error(root)
        _time(ended, max(span.end_ns for span in self._spans), 1 << 20)
        return ended

    def _inherit(self, made: list[Event]) -> None:
        """Columns that a span says hold below it; a subject and a conversation hold for the whole trace."""
        whole: dict[str, str] = {}
        for span in self._spans:
            for name in ("subject", "conversation_id", "task_id", "task_type"):
                if value := self._meanings[span.span_id].columns.get(name):
                    whole.setdefault(name, value)
        near: dict[str, dict[str, str]] = {}
        for span in self._spans:
            columns = dict(self._meanings[span.span_id].columns)
            for above in self._ancestors(span.span_id):
                for name in ("agent", "agent_role"):
                    if value := self._meanings[above.span_id].columns.get(name):
                        columns.setdefault(name, value)
            near[span.span_id] = columns
        for one in made:
            columns = near.get(one.event_id) or near.get(one.parent_event_id if one.type == "message" else "", {})
            for name, value in {**whole, **columns}.items():
                if not getattr(one, name):
                    setattr(one, name, value)


def _time(one: Event, at_ns: int, after: int = 0) -> None:
    """Give an event a time and a place in the order, `after` so many nanoseconds."""
    if (at := moment(at_ns)) is not None:
        one.at, one.seq = at, at_ns + after


def _essence(parts: list[Event]) -> str:
    """What a message says, whatever its shape."""
    said = [(one.type, one.role, one.content, one.tool, one.call_id, one.arguments, one.result) for one in parts]
    return blake2b(canonical(said).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _asked(arguments: object) -> str:
    """The task in what went into a root: text, or the field of an object that is one."""
    value = decoded(arguments)
    if isinstance(value, dict):
        return text(first(value, "task", "question", "query", "input", "prompt", "goal", "message"))
    return value if isinstance(value, str) else ""


def _status_error(span: Span) -> tuple[str, str]:
    """Code and message of a span that failed: its exception, its error type, its HTTP status, its message."""
    raised = next((one.attributes for one in span.events if one.name == "exception"), {})
    message = span.status_message or text(raised.get("exception.message"))
    code = text(first(raised, "exception.type")) or text(first(span.attributes, "error.type", "exception.type"))
    if not code:
        status = first(span.attributes, "http.response.status_code", "http.status_code", "rpc.grpc.status_code")
        code = text(status) if text(status) not in ("", "0", "200") else ""
    if not code:
        seen = tool_error(message)
        code = seen.code if seen else error_slug(message)
    return code.rsplit(".", 1)[-1] or "error", message


def unanswered(events: Iterable[Event]) -> int:
    """Say of calls that only a message knows and no result came for that this is so; returns how many."""
    count = 0
    for one in events:
        if one.type == "tool_call" and "/" in one.event_id and one.role == "agent" and not one.result:
            add_attributes(one, {"unmatched": "call without a result"})
            count += 1
    return count
