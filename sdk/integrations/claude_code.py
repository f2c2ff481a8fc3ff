"""Claude Code's hooks: what one is told on standard input, and the block that it answers with.

A session is a trace. Its id is known from the session's, so what is read for it counts for it before it is logged.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ...memory_store.errors import UsageError
from ...memory_store.formats.loose import mapping, parse_json, text

if TYPE_CHECKING:
    from ...memory_store.settings import Settings
    from ..memory import Memory

#: Events at which the session is logged, and the one at which it is over.
LOGGED = ("Stop", "SubagentStop", "PreCompact", "SessionEnd")
END = "SessionEnd"
#: Tokens of a block: Claude Code hands on 10,000 characters whole.
BLOCK_TOKENS = 2_000
#: Characters of a prompt that are searched for.
_PROMPT = 4_000


@dataclass(frozen=True)
class HookInput:
    """What Claude Code tells a hook."""

    #: Which event this is: SessionEnd, UserPromptSubmit, …
    event: str
    session_id: str
    #: The session's log; None: it was not named
    transcript: Path | None = None
    #: What the user is about to say, of UserPromptSubmit
    prompt: str = ""
    #: How a session began, of SessionStart: startup · resume · clear · compact
    source: str = ""


def hook_input(raw: bytes) -> HookInput:
    """Read what a hook was told. Raises `UsageError` for what is no hook's input."""
    try:
        told = mapping(parse_json(raw))
    except ValueError as error:
        raise UsageError(f"standard input holds no hook's JSON ({error}): let Claude Code start this") from None
    event, session = text(told.get("hook_event_name")), text(told.get("session_id"))
    if not event or not session:
        raise UsageError("standard input names no hook_event_name and session_id: let Claude Code start this")
    path = text(told.get("transcript_path"))
    return HookInput(
        event, session, Path(path).expanduser() if path else None, text(told.get("prompt")), text(told.get("source"))
    )


def session_trace(namespace: str, session_id: str) -> str:
    """The id of the trace that a session is, or will be."""
    from ...memory_store.formats import Draft, trace_id_of

    return trace_id_of(namespace, Draft(("claude-code", session_id), []))


def session_logs(hook: HookInput) -> list[Path]:
    """The session's log and those of its subagents, which lie in a folder of the session's or, of old, beside its log.

    Raises `UsageError` where the session has no log.
    """
    log = hook.transcript
    if log is None or not log.is_file():
        raise UsageError(f"the session's log {log or ''} is not there: Claude Code names it in the input")
    own = sorted((log.with_suffix("") / "subagents").glob("agent-*.jsonl"))
    beside = [path for path in sorted(log.parent.glob("agent-*.jsonl")) if _session_of(path) == hook.session_id]
    return [log, *own, *beside]


def _session_of(log: Path) -> str:
    """The session that the first entry of a log names."""
    try:
        with log.open("rb") as lines:
            return text(mapping(parse_json(lines.readline())).get("sessionId"))
    except (OSError, ValueError):
        return ""


class Given:
    """Which memories a session was given: one that stands in its context is not given again."""

    def __init__(self, settings: Settings, session_id: str) -> None:
        name = hashlib.blake2b(session_id.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        self._path = settings.spool_folder / "hooks" / f"{name}.json"

    def ids(self) -> set[str]:
        """Their ids; none where that can't be read."""
        try:
            return set(msgspec.json.decode(self._path.read_bytes(), type=list[str]))
        except (OSError, msgspec.DecodeError):
            return set()

    def add(self, ids: set[str]) -> None:
        """Note that these were given."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_bytes(msgspec.json.encode(sorted(self.ids() | ids)))

    def forget(self) -> None:
        """The context was emptied, or the session is over."""
        with suppress(OSError):
            self._path.unlink()


def block_for(hook: HookInput, memory: Memory, *, subject: str = "", budget_tokens: int = BLOCK_TOKENS) -> str:
    """The context block for a prompt, which counts as read by the session; empty where it would tell nothing new."""
    prompt = hook.prompt[:_PROMPT]
    if not prompt.strip():
        return ""
    from ...memory_store.text.tokens import count_tokens

    trace, given = session_trace(memory.namespace, hook.session_id), Given(memory.settings, hook.session_id)
    room = budget_tokens + count_tokens(prompt)  # the prompt is not part of the block
    found = memory.context(prompt, subject=subject, budget_tokens=room, trace=trace, log_read=False)
    if set(found.ids) <= given.ids():
        return ""
    memory.used(found.ids, trace=trace)
    given.add(set(found.ids))
    return found.text


def answer(hook: HookInput, block: str) -> dict[str, Any]:
    """What a hook prints, so that a block stands before the model."""
    return {"hookSpecificOutput": {"hookEventName": hook.event, "additionalContext": block}}


def hooks_settings(command: str) -> dict[str, Any]:
    """What Claude Code's settings.json has to say, for hooks that run this command.

    The end of a session waits a second and a half for its hooks unless one asks for more.
    """

    def entry(timeout: int) -> list[dict[str, Any]]:
        return [{"hooks": [{"type": "command", "command": command, "timeout": timeout}]}]

    return {
        "hooks": {
            "SessionStart": [{"matcher": "clear|compact", **entry(10)[0]}],
            "UserPromptSubmit": entry(20),
            "SessionEnd": entry(10),
        }
    }
