"""The OpenAI Agents SDK: its runs as traces, and tools that give its agents the memory.

    add_trace_processor(HindlakeProcessor(recorder))
    agent = Agent("shop", tools=[*memory_tools(memory, subject="ann"), refund_order])

A trace of the SDK is one trace: agents and turns are steps, function calls are tool calls, model calls are steps with
the messages that they were given and answered. Guardrails that tripped and handoffs are steps too.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from ...memory_store.clock import SystemClock
from ...memory_store.errors import HindlakeError, MissingExtra, UsageError
from ...memory_store.formats import Draft, trace_id_of
from ...memory_store.formats.conversation import Conversation
from ...memory_store.formats.loose import mapping, moment, parse_json, sequence, text
from ...memory_store.formats.spans import Span
from ..faithful import as_json
from ..mcp.callers import Caller
from ..mcp.desk import Desk, Opened, Places
from ..mcp.parameters import meant
from ..mcp.registry import Tool
from ..mcp.tools import TOOLS
from ..recorder import Recorder
from ..span_log import SpanLog
from .replies import plain
from .talk import is_users, items_of, words_of

try:
    from agents import FunctionTool
    from agents.tracing import Span as AgentsSpan
    from agents.tracing import Trace, TracingProcessor, get_current_trace
except ImportError as error:
    raise MissingExtra.needs("openai-agents", "openai-agents") from error

if TYPE_CHECKING:
    from ..memory import Memory

_log = logging.getLogger("hindlake")
#: What a trace's metadata may say that holds for each of its events.
_EVERYWHERE = ("hindlake.subject", "hindlake.task_type", "hindlake.task_id", "hindlake.agent_role", "user.id")
#: Spans of a whole run and of its turns: what they hold says it all.
_HOLLOW = ("task", "turn")
#: What a tool of the SDK answers when it raised, and what stands before the exception's words where it tells them.
_HIDDEN, _RAISED = "An error occurred while running the tool", "Error: "
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class _Run:
    """A trace that goes on."""

    began_ns: int
    #: What its metadata says of every event: whose it is, of which conversation
    columns: dict[str, object]
    #: What the user asked first
    goal: str = ""
    #: Calls that a model asked for and no span was seen of: tool, arguments and id
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    #: Why the agent that ran last failed; empty: it did not
    error: str = ""
    #: Spans that only hold others, and what holds them
    hollow: dict[str, str] = field(default_factory=dict)


class HindlakeProcessor(TracingProcessor):
    """Sends finished spans of the Agents SDK into the lake. Safe to share between threads; never raises into a run.

    `trace(…, group_id=…)` names the conversation; its metadata may say `hindlake.subject`, `hindlake.task_type`,
    `hindlake.outcome` and the others that `HindlakeSpanExporter` knows.
    """

    def __init__(self, recorder: Recorder | None = None) -> None:
        """`recorder` None: one of its own, from the settings, closed at `shutdown`."""
        self._log = SpanLog(recorder, "openai-agents")
        self._lock = threading.Lock()
        self._runs: dict[str, _Run] = {}

    def on_trace_start(self, trace: Trace) -> None:
        """Note what holds for the whole trace."""
        try:
            with self._lock:
                self._runs[trace.trace_id] = _Run(time.time_ns(), _columns(trace))
        except Exception as error:  # here and below: no failure of ours reaches the agent
            self._log.recorder.failed(error)

    def on_trace_end(self, trace: Trace) -> None:
        """Keep the trace's task and outcome."""
        try:
            with self._lock:
                run = self._runs.pop(trace.trace_id, None) or _Run(time.time_ns(), _columns(trace))
            attributes = {**_metadata(trace), **run.columns, "input.value": run.goal}
            self._log.keep([
                Span(
                    trace.trace_id, trace.trace_id, trace.name, "", run.began_ns, time.time_ns(), attributes,
                    failed=bool(run.error), status_message=run.error,
                )
            ])  # fmt: skip
        except Exception as error:
            self._log.recorder.failed(error)

    def on_span_start(self, span: AgentsSpan[Any]) -> None:
        """Note what holds the spans inside of one that says nothing itself."""
        try:
            with self._lock:
                run = self._runs.get(span.trace_id)
                if run is not None and span.span_data.type in _HOLLOW:
                    run.hollow[span.span_id] = run.hollow.get(span.parent_id or "", span.parent_id or span.trace_id)
        except Exception as error:
            self._log.recorder.failed(error)

    def on_span_end(self, span: AgentsSpan[Any]) -> None:
        """Keep a span."""
        try:
            with self._lock:
                run = self._runs.get(span.trace_id) or _Run(0, {})
                kept = _span(span, run)
            if span.span_id not in run.hollow:
                self._log.keep([kept])
        except Exception as error:
            self._log.recorder.failed(error)

    def force_flush(self) -> None:
        """Wait until everything that was kept is in the lake."""
        self._log.recorder.flush(30)

    def shutdown(self) -> None:
        """Keep the calls that still waited for a result, and close a recorder of its own."""
        self._log.close()


def _span(span: AgentsSpan[Any], run: _Run) -> Span:
    kind, said = _meaning(span.span_data, run)
    error = mapping(span.error)
    message = text(mapping(error.get("data")).get("error")) or text(error.get("message"))
    if kind == "function" and error:  # the SDK hides what was raised, but for tools that tell it themselves
        output = text(span.span_data.output)
        message = (output.partition(_RAISED)[2] if output.startswith(_HIDDEN) else output) or message
    if kind == "agent":
        run.error = message
    parent = span.parent_id or span.trace_id
    return Span(
        span.trace_id, span.span_id, span.span_data.name if kind in ("agent", "custom", "function") else kind,
        run.hollow.get(parent, parent), _ns(span.started_at), _ns(span.ended_at), {**said, **run.columns},
        failed=bool(error), status_message=message, more={"error": error} if error else {},
    )  # fmt: skip


def _columns(trace: Trace) -> dict[str, object]:
    group = getattr(trace, "group_id", None)
    named = {name: value for name, value in _metadata(trace).items() if name in _EVERYWHERE}
    return {**named, "gen_ai.conversation.id": group} if group else named


def _metadata(trace: Trace) -> dict[str, object]:
    return dict(mapping(getattr(trace, "metadata", None)))


def _meaning(data: Any, run: _Run) -> tuple[str, dict[str, object]]:
    """The kind of a span, and what it says in the words of the GenAI conventions."""
    kind = text(data.type)
    if kind == "function":
        return kind, {
            "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": data.name,
            "gen_ai.tool.call.id": _call_id(run, text(data.name), text(data.input)),
            "gen_ai.tool.call.arguments": data.input, "gen_ai.tool.call.result": _jsonable(data.output),
        }  # fmt: skip
    if kind in ("generation", "response"):
        return kind, _model_call(data, run)
    if kind == "agent":
        said = {"tools": data.tools, "handoffs": data.handoffs}
        known = {name: value for name, value in said.items() if value}
        return kind, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": data.name, **known}
    exported = mapping(data.export())
    told = {name: value for name, value in exported.items() if name not in ("type", "name") and value is not None}
    return kind, told


def _model_call(data: Any, run: _Run) -> dict[str, object]:
    response = plain(getattr(data, "response", None))
    sent = [{"role": "user", "content": data.input}] if isinstance(data.input, str) else list(data.input or ())
    if instructions := response.get("instructions"):
        sent.insert(0, {"role": "system", "content": instructions})
    answered: list[Any] = [plain(one) for one in getattr(data, "output", None) or ()]
    if response:
        answered = sequence(response.get("output"))
    # A streamed chat completion is told as the response that it was made into.
    answered = [item for one in answered for item in (sequence(mapping(one).get("output")) or [one])]
    inputs = [item for one in sent for item in items_of(plain(one))]
    outputs = [item for one in answered for item in items_of(mapping(one))]
    if not run.goal:
        run.goal = next((words for one in inputs if is_users(one) and (words := words_of(one))), "")
    talk = Conversation()
    for message in outputs:
        talk.add(message)
    run.asked += [(one.tool, one.arguments, one.call_id) for one in talk.events if one.type == "tool_call"]
    usage = mapping(data.usage)
    return {
        "gen_ai.operation.name": "chat", "gen_ai.input.messages": inputs, "gen_ai.output.messages": outputs,
        "gen_ai.request.model": response.get("model") or getattr(data, "model", None),
        "gen_ai.usage.input_tokens": usage.get("input_tokens"),
        "gen_ai.usage.output_tokens": usage.get("output_tokens"),
    }  # fmt: skip


def _call_id(run: _Run, tool: str, arguments: str) -> str:
    """The id of the call that a tool's span is: spans have none, so it is the oldest that asked for the same."""
    found = next((one for one in run.asked if one[:2] == (tool, arguments)), None)
    found = found or next((one for one in run.asked if one[0] == tool), None)
    if found is None:
        return ""
    run.asked.remove(found)
    return found[2]


def _jsonable(value: object) -> object:
    return value if value is None or isinstance(value, str) else parse_json(as_json(value).encode())


def _ns(time: str | None) -> int:
    at = moment(time)
    return (at - _EPOCH) // timedelta(microseconds=1) * 1_000 if at is not None else 0


def memory_tools(memory: Memory, *, subject: str = "", can_write: bool = True) -> list[FunctionTool]:
    """The tools of the MCP server as tools of an agent in this process: `memory_query`, `memory_write`, ….

    They do the same, with the same limits on what an agent may change. `subject`: the one subject whose memories are
    open to it, beside what is shared; empty: its calls name the subject. What they find counts as read by the trace
    that runs, so that how it ends is credited to it.
    """
    caller = Caller("openai-agents", memory.namespace, subject, can_write)
    opened, places = Opened(memory.settings, SystemClock()), Places()

    def made(tool: Tool) -> FunctionTool:
        return FunctionTool(
            name=tool.name, description=TOOLS.description(tool), params_json_schema=tool.schema,
            on_invoke_tool=_invoked(tool, lambda: _Desk(caller, opened, places, memory, _running(memory))),
            strict_json_schema=False,
        )  # fmt: skip

    return [made(tool) for tool in TOOLS if TOOLS.newest(tool) is tool and (can_write or not tool.writes)]


def _invoked(tool: Tool, desk_of: Callable[[], Desk]) -> Callable[[Any, str], Awaitable[str]]:
    async def invoke(_: Any, arguments: str) -> str:
        desk = desk_of()

        def work() -> str:
            try:
                sent = mapping(json.loads(arguments or "{}"))
                return tool.act(desk, meant(tool.parameters, sent, desk.opened.settings.mcp.argument_characters)).text
            except (UsageError, json.JSONDecodeError) as error:  # the model is told what to send instead
                return str(error)
            except HindlakeError as error:
                _log.error("%s: %s", tool.name, error)
                return "The memory can't be reached now: go on without it."

        return await asyncio.to_thread(work)

    return invoke


def _running(memory: Memory) -> str:
    """The id that the SDK's running trace has in the lake; empty outside of one."""
    trace = get_current_trace()
    return "" if trace is None else trace_id_of(memory.namespace, Draft(("otel", trace.trace_id), []))


@dataclass(frozen=True)
class _Desk(Desk):
    """A desk whose searches are read for a trace."""

    searched: Memory
    trace: str

    @property
    def memory(self) -> Memory:
        """The memory that the tools were made for."""
        return cast("Memory", _ReadFor(self.searched, self.trace))


class _ReadFor:
    """A memory whose pages are logged as read by a trace."""

    def __init__(self, memory: Memory, trace: str) -> None:
        self._memory, self._trace = memory, trace

    def __getattr__(self, name: str) -> Any:
        return getattr(self._memory, name)

    def search_page(self, *args: Any, **kwargs: Any) -> Any:
        """`Memory.search_page`, for the trace."""
        return self._memory.search_page(*args, **{"trace": self._trace, **kwargs})
