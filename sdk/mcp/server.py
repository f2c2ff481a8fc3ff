"""The server: what the protocol asks, answered from the tools, the resources and the prompt."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from ...memory_store.clock import Clock, SystemClock
from ...memory_store.errors import HindlakeError, UsageError
from ...memory_store.settings import Settings
from ..arguments import stored
from . import resources, teaching
from .callers import Caller, Rate
from .desk import Desk, Opened, Places
from .doorstep import hindlake_version
from .parameters import meant
from .registry import Answer, Registry
from .tools import TOOLS
from .work import Workers

_log = logging.getLogger("hindlake.mcp")
_Context = ServerRequestContext[Any, Any]
#: Most characters of a prompt's argument.
_TASK = 4_000


class MemoryServer:
    """Serves the memories of the namespaces of its callers."""

    def __init__(
        self,
        settings: Settings,
        caller_of: Callable[[_Context], Caller],
        *,
        clock: Clock | None = None,
        tools: Registry = TOOLS,
    ) -> None:
        """`caller_of` tells who sent a request. Nothing is opened before the first call."""
        self._settings, self._caller_of, self._clock, self._tools = settings, caller_of, clock or SystemClock(), tools
        options = settings.mcp
        self._workers = Workers(options.threads)
        self._calls, self._writes = Rate(options.calls_per_minute), Rate(options.writes_per_minute)
        self._places = Places()
        self._opened: dict[str, Opened] = {}
        self._warmed: set[str] = set()
        self._lock = threading.Lock()
        #: The same in the words of the protocol
        self.protocol: Server[Any] = Server(
            "hindlake",
            version=hindlake_version(),
            instructions=teaching.INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
        )

    def close(self) -> None:
        """Finish the calls that are being worked on, and bring what was logged into the lake."""
        self._workers.close()
        with self._lock:
            for opened in self._opened.values():
                opened.close()

    def _warm(self, caller: Caller) -> None:
        """Make the first search of a caller quick, once a namespace: who lists tools is about to call them."""
        with self._lock:
            if caller.namespace in self._warmed:
                return
            self._warmed.add(caller.namespace)

        def work() -> None:
            try:
                self._desk(caller).opened.warm()
            except HindlakeError as error:  # the first call will say so, to whom it concerns
                _log.info("nothing was opened beforehand: %s", error)

        self._workers.begin(work)

    async def _list_tools(self, context: _Context, _: Any) -> types.ListToolsResult:
        caller = self._caller_of(context)
        can_write = caller.can_write
        self._warm(caller)
        shown = [
            types.Tool(
                name=tool.name,
                description=self._tools.description(tool),
                input_schema=tool.schema,
                annotations=types.ToolAnnotations(
                    read_only_hint=not tool.writes,
                    destructive_hint=tool.destructive,
                    idempotent_hint=tool.idempotent or not tool.writes,
                    open_world_hint=False,
                ),
                _meta=self._tools.meta(tool),
            )
            for tool in self._tools
            if can_write or not tool.writes
        ]
        return types.ListToolsResult(tools=shown)

    async def _call_tool(self, context: _Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        caller = self._caller_of(context)

        def work() -> types.CallToolResult:
            try:
                return _result(self._answer(caller, params.name, params.arguments or {}))
            except UsageError as error:
                return _refusal(str(error))
            except HindlakeError as error:  # it may name folders of this machine: that is for the log
                _log.error("%s for %s: %s", params.name[:64], caller.name, error)
                return _refusal("the memory can't be reached now: go on without it; the server's log says why")
            except Exception:  # one call's failure is its answer, and the connection lives on
                _log.exception("%s for %s failed", params.name[:64], caller.name)
                return _refusal("this call failed: go on without it; the server's log says why")

        try:
            return await self._workers.run(work)
        except UsageError as error:
            return _refusal(str(error))

    def _answer(self, caller: Caller, name: str, sent: Mapping[str, Any]) -> Answer:
        tool = self._tools.find(name)
        if tool.writes and not caller.can_write:
            raise UsageError(f"{name} writes, and this connection may only read")
        if not self._calls.take(caller.name) or (tool.writes and not self._writes.take(caller.name)):
            raise UsageError("too many calls: wait a minute, then call again")
        return tool.act(self._desk(caller), meant(tool.parameters, sent, self._settings.mcp.argument_characters))

    def _desk(self, caller: Caller) -> Desk:
        with self._lock:
            if caller.namespace not in self._opened:
                settings = self._settings.model_copy(update={"namespace": caller.namespace})
                self._opened[caller.namespace] = Opened(settings, self._clock)
            return Desk(caller, self._opened[caller.namespace], self._places)

    async def _list_resources(self, context: _Context, _: Any) -> types.ListResourcesResult:
        self._caller_of(context)
        shown = [
            types.Resource(uri=uri, name=name, description=what, mime_type="text/plain")
            for uri, (name, what) in resources.FIXED.items()
        ]
        return types.ListResourcesResult(resources=shown)

    async def _list_templates(self, context: _Context, _: Any) -> types.ListResourceTemplatesResult:
        self._caller_of(context)
        shown = [
            types.ResourceTemplate(uri_template=uri, name=name, description=what, mime_type="text/plain")
            for uri, (name, what) in resources.TEMPLATES.items()
        ]
        return types.ListResourceTemplatesResult(resource_templates=shown)

    async def _read_resource(self, context: _Context, params: types.ReadResourceRequestParams) -> Any:
        caller, uri = self._caller_of(context), stored(str(params.uri))

        def work() -> tuple[str, str]:
            if not self._calls.take(caller.name):
                raise UsageError("too many calls: wait a minute, then call again")
            return resources.read(self._desk(caller), uri)

        try:
            text, media = await self._workers.run(work)
        except UsageError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from None
        except HindlakeError as error:
            _log.error("reading a resource for %s: %s", caller.name, error)
            raise MCPError(types.INTERNAL_ERROR, "the memory can't be reached now; the server's log says why") from None
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, mime_type=media, text=text)])

    async def _list_prompts(self, context: _Context, _: Any) -> types.ListPromptsResult:
        self._caller_of(context)
        task = types.PromptArgument(name="task", description="What is about to be done.", required=False)
        shown = types.Prompt(name=teaching.PROMPT, description=teaching.DESCRIPTION, arguments=[task])
        return types.ListPromptsResult(prompts=[shown])

    async def _get_prompt(self, context: _Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        self._caller_of(context)
        if params.name != teaching.PROMPT:
            raise MCPError(types.INVALID_PARAMS, f"there is no prompt {params.name[:64]!r}: get {teaching.PROMPT}")
        text = teaching.prompt(stored((params.arguments or {}).get("task", ""))[:_TASK])
        said = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
        return types.GetPromptResult(description=teaching.DESCRIPTION, messages=[said])


def _result(answer: Answer) -> types.CallToolResult:
    text = types.TextContent(type="text", text=answer.text)
    return types.CallToolResult(content=[text], structured_content=json.loads(json.dumps(answer.data)))


def _refusal(told: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=told)], is_error=True)
