"""What a hook of Claude Code does once it has time: the session's log becomes a trace, and its prompt gets a block."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Any

from ..memory_store.capture.events import Event
from ..memory_store.capture.traces import write_events
from ..memory_store.clock import SystemClock
from ..memory_store.errors import HindlakeError
from ..memory_store.files.lake import Lake
from ..memory_store.ids import derive_id
from ..memory_store.records.requests import ask_for_reflection
from ..memory_store.settings import Settings
from ..sdk.integrations.claude_code import (
    END,
    LOGGED,
    Given,
    HookInput,
    answer,
    block_for,
    hook_input,
    session_logs,
    session_trace,
)

#: The log is still being written when the session ends: it counts as whole when it was quiet for so long, in seconds.
_QUIET, _PATIENCE = 0.3, 5.0
#: Bytes of the hooks' own log; past this it begins anew.
_LOG = 1_000_000


def serve(raw: bytes, subject: str, home: str | None, namespace: str | None) -> dict[str, Any] | None:
    """Do what an event asks for, and return what the hook prints; None: nothing. What went wrong is logged and raised.

    Raises `HindlakeError`, and `OSError` for a log that can't be read.
    """
    settings = Settings.load(home=home, namespace=namespace)
    hook = hook_input(raw)
    try:
        if hook.event == "UserPromptSubmit":
            return _block(hook, settings, subject)
        if hook.event == "SessionStart" and hook.source in ("clear", "compact"):
            Given(settings, hook.session_id).forget()
        if hook.event in LOGGED:
            _note(settings, hook, _log_session(hook, settings, subject))
    except (HindlakeError, OSError) as error:
        _note(settings, hook, f"failed: {error}")
        raise
    return None


def _block(hook: HookInput, settings: Settings, subject: str) -> dict[str, Any] | None:
    from ..sdk.memory import Memory

    with Memory(settings) as memory:
        block = block_for(hook, memory, subject=subject)
    return answer(hook, block) if block else None


def _log_session(hook: HookInput, settings: Settings, subject: str) -> str:
    """Log session and subagents as far as they have come, ask for a reflection at the end, and tell what was done."""
    from ..jobs.ingest import ingest

    logs = session_logs(hook)
    _quiet(logs[0])
    clock, lake = SystemClock(), Lake.open(settings)
    report = ingest(lake, logs, settings, clock, namespace=settings.namespace, format="claude-code", subject=subject)
    told = f"{report.events} events, {len(report.rejected)} lines rejected"
    if hook.event == END:
        Given(settings, hook.session_id).forget()
        if report.loaded or report.known:
            write_events(lake, [_ended(hook, settings.namespace, clock.now())])
            told += f", reflection {ask_for_reflection(lake, settings.namespace, clock)}"
    return told


def _ended(hook: HookInput, namespace: str, at: datetime) -> Event:
    """That the session is over, so that it is reflected on without waiting for more; how it went nobody said.

    A session that is resumed and ends again has it once: its place is after all that a log numbers.
    """
    trace_id = session_trace(namespace, hook.session_id)
    return Event(
        namespace, trace_id, derive_id(namespace, "event", trace_id, "session-end"), int(at.timestamp() * 1_000_000),
        at, "outcome", outcome="unknown", agent="claude-code", conversation_id=hook.session_id, source="recorder",
    )  # fmt: skip


def _quiet(path: Path) -> None:
    until = time.monotonic() + _PATIENCE
    size = -1
    while time.monotonic() < until and size != (size := path.stat().st_size):
        time.sleep(_QUIET)


def _note(settings: Settings, hook: HookInput, told: str) -> None:
    """Write a line into the hooks' own log, since a hook's words reach no one."""
    path = settings.spool_folder / "hooks" / "claude-code.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    is_full = path.exists() and path.stat().st_size > _LOG
    with path.open("w" if is_full else "a", encoding="utf-8", errors="backslashreplace") as log:
        log.write(f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S%z} {hook.event} {hook.session_id[:80]}: {told}\n")
