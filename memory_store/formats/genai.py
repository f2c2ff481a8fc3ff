"""What the attributes of a span mean, in every generation of the conventions that is in use.

- OpenInference: `llm.input_messages.N.message.…` and `llm.output_messages.N.…`; tools are spans of kind TOOL with
  `input.value` and `output.value`.
- OpenLLMetry (traceloop): `gen_ai.prompt.N.…` and `gen_ai.completion.N.…`, of old `llm.prompts.N.…`; tools have
  `traceloop.entity.input` and `….output`.
- OpenTelemetry GenAI up to 1.36: span events `gen_ai.user.message`, `gen_ai.choice`, `gen_ai.content.prompt` …; tools
  are `execute_tool` spans.
- OpenTelemetry GenAI since 1.37: `gen_ai.input.messages` and `gen_ai.output.messages` as JSON; tools have
  `gen_ai.tool.call.arguments` and `….result`.
- Google ADK: `gcp.vertex.agent.llm_request`, `….llm_response`, `….tool_call_args`, `….tool_response`.
- Vercel AI SDK: `ai.prompt.messages`, `ai.response.text`, `ai.toolCall.…`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from .loose import first, mapping, parse_json, sequence, text, whole

Kind = Literal["llm", "tool", "agent", "step"]

#: Columns, and the attributes that fill them: the first that is there wins.
_COLUMNS = {
    "model": (
        "gen_ai.response.model", "gen_ai.request.model", "llm.model_name", "llm.response.model", "llm.request.model",
        "embedding.model_name", "ai.response.model", "ai.model.id",
    ),
    "agent": ("gen_ai.agent.name", "agent.name", "agent_name"),
    "agent_role": ("hindlake.agent_role",),
    "subject": (
        "hindlake.subject", "user.id", "enduser.id", "langfuse.user.id", "kagent.user_id",
        "traceloop.association.properties.user_id", "ai.telemetry.metadata.userId",
    ),
    "conversation_id": (
        "gen_ai.conversation.id", "session.id", "langfuse.session.id", "gcp.vertex.agent.session_id",
        "traceloop.association.properties.session_id", "ai.telemetry.metadata.sessionId",
    ),
    "task_type": ("hindlake.task_type",),
    "task_id": ("hindlake.task_id",),
}  # fmt: skip
_INPUT_TOKENS = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt",
                 "llm.usage.prompt_tokens", "ai.usage.promptTokens", "ai.usage.inputTokens")  # fmt: skip
_OUTPUT_TOKENS = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion",
                  "llm.usage.completion_tokens", "ai.usage.completionTokens", "ai.usage.outputTokens")  # fmt: skip
_TOOL_NAME = ("gen_ai.tool.name", "tool.name", "ai.toolCall.name", "tool_call.function.name", "mcp.tool.name")
_TOOL_ID = ("gen_ai.tool.call.id", "tool_call.id", "tool.id", "ai.toolCall.id")
_TOOL_ARGUMENTS = (
    "gen_ai.tool.call.arguments", "tool_call.function.arguments", "gcp.vertex.agent.tool_call_args",
    "ai.toolCall.args", "ai.toolCall.input", "tool_arguments", "input.value", "traceloop.entity.input",
    "mlflow.spanInputs",
)  # fmt: skip
_TOOL_RESULT = (
    "gen_ai.tool.call.result", "gcp.vertex.agent.tool_response", "ai.toolCall.result", "ai.toolCall.output",
    "tool_response", "output.value", "traceloop.entity.output", "mlflow.spanOutputs",
)  # fmt: skip
_INPUT = ("input.value", "traceloop.entity.input", "mlflow.spanInputs")
_OUTPUT = ("output.value", "traceloop.entity.output", "mlflow.spanOutputs")
_KIND = ("openinference.span.kind", "gen_ai.operation.name", "traceloop.span.kind", "mlflow.spanType")
_KINDS: dict[str, Kind] = {
    "llm": "llm", "chat": "llm", "chat_model": "llm", "completion": "llm", "text_completion": "llm",
    "generate_content": "llm", "tool": "tool", "execute_tool": "tool", "agent": "agent", "invoke_agent": "agent",
    "create_agent": "agent",
}  # fmt: skip
_PREFIXES_IN = ("llm.input_messages", "gen_ai.prompt", "llm.prompts")
_PREFIXES_OUT = ("llm.output_messages", "gen_ai.completion", "llm.completions")
_EVENT_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
#: Most messages of one call that are looked for by number.
_MOST = 100_000


@dataclass
class Meaning:
    """What a span was, by its attributes and events."""

    kind: Kind
    #: Text columns that the attributes fill
    columns: dict[str, str] = field(default_factory=dict)
    input_tokens: int | None = None
    output_tokens: int | None = None
    #: Messages that the model was given, and that it answered, in a shape that `Conversation.add` takes
    inputs: list[dict[str, object]] = field(default_factory=list)
    outputs: list[dict[str, object]] = field(default_factory=list)
    tool: str = ""
    call_id: str = ""
    #: Arguments and result of a tool, or what went into a step and came out of it
    arguments: object = None
    result: object = None
    #: Attributes and events that are said by the fields above
    used: set[str] = field(default_factory=set)
    used_events: set[int] = field(default_factory=set)


def meaning_of(
    name: str, attributes: dict[str, object], events: Iterable[tuple[str, dict[str, object]]] = ()
) -> Meaning:
    """What a span with this name, these attributes and these events was."""
    found = Meaning(_kind(name, attributes))
    for column, names in _COLUMNS.items():
        if value := text(_take(found, attributes, names)):
            found.columns[column] = value
    found.input_tokens = whole(_take(found, attributes, _INPUT_TOKENS))
    found.output_tokens = whole(_take(found, attributes, _OUTPUT_TOKENS))
    if found.kind == "tool":
        entity = ("traceloop.entity.name",) if "traceloop.entity.name" in attributes else ()
        found.tool = text(_take(found, attributes, (*_TOOL_NAME, *entity)))
        found.call_id = text(_take(found, attributes, _TOOL_ID))
        found.arguments = _take(found, attributes, _TOOL_ARGUMENTS)
        found.result = _take(found, attributes, _TOOL_RESULT)
        if not found.tool:
            found.tool = name.removeprefix("execute_tool ").removesuffix(".tool").strip()
        return found
    _messages(found, attributes)
    _event_messages(found, list(events))
    if found.kind == "step" and (found.inputs or found.outputs):
        found.kind = "llm"
    if found.inputs and "input.value" in attributes:
        _unrepeated(found, attributes)
    else:
        found.arguments = _take(found, attributes, _INPUT)
    if found.outputs and "output.value" in attributes:
        found.used.add("output.value")
    else:
        found.result = _take(found, attributes, _OUTPUT)
    return found


def _take(found: Meaning, attributes: dict[str, object], names: Iterable[str]) -> object:
    """The first of these attributes that is there; it, and others that say the same, count as used."""
    value = first(attributes, *names)
    if value is not None:
        found.used.update(name for name in names if attributes.get(name) == value)
    return value


def _kind(name: str, attributes: dict[str, object]) -> Kind:
    said = first(attributes, *_KIND)
    if isinstance(said, str) and (kind := _KINDS.get(said.strip().strip('"').lower())):
        return kind
    if attributes.get("mcp.method.name") == "tools/call" or "ai.toolCall.name" in attributes:
        return "tool"
    if "llm.request.type" in attributes or "gcp.vertex.agent.llm_request" in attributes:
        return "llm" if "gen_ai.tool.name" not in attributes else "tool"
    if said is None and "gen_ai.tool.name" in attributes:
        return "tool"
    return "step"


def _messages(found: Meaning, attributes: dict[str, object]) -> None:
    for prefixes, into in ((_PREFIXES_IN, found.inputs), (_PREFIXES_OUT, found.outputs)):
        for prefix in prefixes:
            if into:
                break
            numbered, used = _unflatten(attributes, prefix)
            into.extend(message for one in numbered if (message := _plain_message(one)))
            found.used |= used
    if system := decoded(attributes.get("gen_ai.system_instructions")):
        found.inputs.insert(0, {"role": "system", "parts": system} if isinstance(system, list)
                            else {"role": "system", "content": system})  # fmt: skip
        found.used.add("gen_ai.system_instructions")
    for names, into in (
        (("gen_ai.input.messages", "ai.prompt.messages"), found.inputs),
        (("gen_ai.output.messages",), found.outputs),
    ):
        for key in names:
            messages = [one for one in sequence(decoded(attributes.get(key))) if isinstance(one, dict)]
            if messages:
                into.extend(map(_vercel, messages))
                found.used.add(key)
    _adk(found, attributes)
    answer = text(attributes.get("ai.response.text"))
    calls = [mapping(one) for one in sequence(decoded(attributes.get("ai.response.toolCalls")))]
    if answer or calls:
        made = [{"id": one.get("toolCallId"), "function": {"name": one.get("toolName"),
                 "arguments": first(one, "args", "input")}} for one in calls]  # fmt: skip
        found.outputs.append({"role": "assistant", "content": answer, "tool_calls": made})
        found.used |= {"ai.response.text", "ai.response.toolCalls"}
    if not found.inputs and found.kind == "llm":
        inner = decoded(attributes.get("input.value"))
        found.inputs.extend(
            one for one in sequence(mapping(inner).get("messages") if isinstance(inner, dict) else inner)
            if isinstance(one, dict) and "role" in one
        )  # fmt: skip


def _event_messages(found: Meaning, events: list[tuple[str, dict[str, object]]]) -> None:
    """Messages that older GenAI conventions put on span events."""
    for number, (name, given) in enumerate(events):
        body = {**given, **mapping(decoded(given.get("body"))), **mapping(decoded(given.get("event_body")))}
        if role := _EVENT_ROLES.get(name):
            message = {**{k: decoded(v) for k, v in body.items()}, "role": text(body.get("role")) or role}
            if role == "tool":
                message["tool_call_id"] = body.get("id")
            found.inputs.append(message)
        elif name == "gen_ai.choice":
            inner = mapping(decoded(body.get("message"))) or {k: decoded(v) for k, v in body.items()}
            found.outputs.append({**inner, "role": "assistant"})
        elif name in ("gen_ai.content.prompt", "gen_ai.content.completion"):
            into = found.inputs if name.endswith("prompt") else found.outputs
            held = decoded(first(given, "gen_ai.prompt", "gen_ai.completion"))
            role = "user" if name.endswith("prompt") else "assistant"
            into.extend(
                one if isinstance(one, dict) else {"role": role, "content": text(one)}
                for one in (held if isinstance(held, list) else [held] if held else [])
            )
        elif name == "gen_ai.client.inference.operation.details":
            _messages(found, given)
        else:
            continue
        found.used_events.add(number)


def _unrepeated(found: Meaning, attributes: dict[str, object]) -> None:
    """`input.value` of a model call repeats its messages: keep what it says beside them."""
    found.used.add("input.value")
    inner = mapping(decoded(attributes["input.value"]))
    beside = {key: value for key, value in inner.items() if key != "messages" and value not in (None, "", [], {})}
    found.arguments = beside or None


def _adk(found: Meaning, attributes: dict[str, object]) -> None:
    request = mapping(decoded(attributes.get("gcp.vertex.agent.llm_request")))
    if system := mapping(request.get("config")).get("system_instruction"):
        found.inputs.append({"role": "system", "content": system})
    found.inputs.extend(map(_gemini, map(mapping, sequence(request.get("contents")))))
    response = mapping(decoded(attributes.get("gcp.vertex.agent.llm_response")))
    if isinstance(response.get("content"), dict):
        found.outputs.append(_gemini(mapping(response["content"])))
    if request or response:
        # What these hold beside the messages is the request's settings and usage, which have attributes of their own.
        found.used |= {"gcp.vertex.agent.llm_request", "gcp.vertex.agent.llm_response"}


def _gemini(content: dict[str, object]) -> dict[str, object]:
    parts: list[object] = []
    for part in map(mapping, sequence(content.get("parts"))):
        call = mapping(first(part, "function_call", "functionCall"))
        answer = mapping(first(part, "function_response", "functionResponse"))
        if call:
            parts.append({"type": "tool_call", "id": call.get("id"), "name": call.get("name"),
                          "arguments": first(call, "args", "arguments")})  # fmt: skip
        elif answer:
            parts.append({"type": "tool_call_response", "id": answer.get("id"), "result": answer.get("response")})
        elif "text" in part:
            parts.append({"type": "text", "text": part["text"]})
        else:
            parts.append(part)
    return {"role": text(content.get("role")) or "model", "parts": parts}


def _vercel(message: dict[str, object]) -> dict[str, object]:
    """Vercel's content blocks in the words of the others; other messages as they are."""
    content = message.get("content")
    if not isinstance(content, list):
        return message
    blocks: list[object] = []
    for block in content:
        part = mapping(block)
        if part.get("type") == "tool-call":
            blocks.append({"type": "tool_call", "id": part.get("toolCallId"), "name": part.get("toolName"),
                           "arguments": first(part, "args", "input")})  # fmt: skip
        elif part.get("type") == "tool-result":
            blocks.append({"type": "tool_call_response", "id": part.get("toolCallId"),
                           "result": first(part, "result", "output")})  # fmt: skip
        else:
            blocks.append(block)
    role = "assistant" if message.get("role") == "tool" else message.get("role")
    return {**message, "role": role, "content": blocks}


def _plain_message(tree: object) -> dict[str, object]:
    """A message rebuilt from numbered attributes, without OpenInference's wrappers."""
    message = dict(mapping(tree))
    message = dict(mapping(message.get("message"))) or message
    blocks = [mapping(mapping(one).get("message_content")) or one for one in sequence(message.pop("contents", None))]
    calls = [mapping(mapping(one).get("tool_call")) or one for one in sequence(message.get("tool_calls"))]
    if calls:
        message["tool_calls"] = calls
    content = message.get("content")
    if blocks and not content:
        message["content"] = blocks
    elif isinstance(content, str) and content.startswith('[{"type"'):
        message["content"] = decoded(content)
    message.setdefault("role", "assistant")
    return message


def _unflatten(attributes: dict[str, object], prefix: str) -> tuple[list[object], set[str]]:
    """`{prefix}.0.a.b` and so on as a list of objects; numbers in the middle make lists too."""
    root: dict[str, object] = {}
    used = set()
    start = prefix + "."
    for key, value in attributes.items():
        if not key.startswith(start) or not key[len(start) : len(start) + 1].isdigit():
            continue
        place = root
        *path, last = key[len(start) :].split(".")
        for step in path:
            inner = place.setdefault(step, {})
            if not isinstance(inner, dict):
                break
            place = inner
        else:
            place[last] = value
            used.add(key)
    return sequence(_listed(root)) if root else [], used


def _listed(tree: object) -> object:
    if not isinstance(tree, dict):
        return tree
    if tree and all(key.isdigit() and len(key) < 7 and int(key) < _MOST for key in tree):
        return [_listed(tree[key]) for key in sorted(tree, key=int)]
    return {key: _listed(value) for key, value in tree.items()}


def decoded(value: object) -> object:
    """JSON in text as the value that it says; other text and values as they are."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return parse_json(value.encode("utf-8", "surrogatepass"))
        except ValueError:
            return value
    return value
