"""Who calls, what that opens to them, and how often they may call."""

from __future__ import annotations

import hmac
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from secrets import token_urlsafe

from ...memory_store.errors import UnknownMemory, UsageError
from ...memory_store.settings import McpToken, Settings
from ..arguments import ANY_SUBJECT


@dataclass(frozen=True)
class Caller:
    """Who calls. The namespace is never an argument of a call."""

    #: Name of the token; "stdio" for the process at the other end of the pipe
    name: str
    #: The namespace that is read and written
    namespace: str
    #: The one subject whose memories are open, beside what is shared; empty: calls name the subject
    subject: str = ""
    #: Whether tools that write are open
    can_write: bool = True

    def subject_named(self, named: str) -> str:
        """Whose memories a call is about. Raises `UsageError` for everyone's, and for another one than the caller's."""
        if named.strip() == ANY_SUBJECT:
            raise UsageError('subject is "*": send one subject, or leave it out for what is shared')
        if self.subject and named not in ("", self.subject):
            raise UsageError("this connection serves one subject: leave out subject")
        return self.subject or named

    def check_may_see(self, id: str, subject: str, kind: str) -> None:
        """Raise `UnknownMemory` for a memory about someone else than the caller's one subject.

        What is about no one is shared, but for episodes: those are of someone that was not named.
        """
        if self.subject and subject != self.subject and (subject or kind == "episode"):
            raise UnknownMemory(unknown(id, self.namespace))

    def check_may_change(self, id: str, subject: str, kind: str) -> None:
        """Raise `UsageError` for a memory that a tool must leave alone: rules, and of one subject what is shared."""
        self.check_may_see(id, subject, kind)
        if kind == "rule":
            raise UsageError(f"memory {id} is a rule: only a person changes rules, with `hindlake update` or `forget`")
        if self.subject and not subject:
            raise UsageError(f"memory {id} is shared: this connection changes only memories about its own subject")


def unknown(id: str, namespace: str) -> str:
    """What is said of an id that is no memory's, and of one that is not for the caller: the same."""
    shown = id if len(id) <= 60 else f"{id[:59]}…"
    return f"no memory {shown!r} in namespace {namespace}: send an id as memory_query shows it"


def stdio_caller(settings: Settings) -> Caller:
    """The process at the other end of standard input and output."""
    return Caller("stdio", settings.namespace, settings.mcp.subject, settings.mcp.writes)


def new_token() -> tuple[str, str]:
    """A new bearer token of 256 random bits, and its hash for the settings."""
    token = f"hl_{token_urlsafe(32)}"
    return token, sha256(token.encode()).hexdigest()


def caller_of(token: str, tokens: Mapping[str, McpToken], can_write: bool) -> Caller | None:
    """Whose token this is, None for nobody's. Every hash is compared, each in the same time whatever differs."""
    asked = sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
    found: Caller | None = None
    for name, known in tokens.items():
        if hmac.compare_digest(asked, known.sha256):
            found = Caller(name, known.namespace, known.subject, can_write and not known.read_only)
    return found


class Rate:
    """How often each key may do something: so many times at once, refilled evenly over a minute."""

    def __init__(self, per_minute: int) -> None:
        self.per_minute = per_minute
        self._left: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def take(self, key: str) -> bool:
        """Take one; False when there is none left now."""
        now = time.monotonic()
        with self._lock:
            left, at = self._left.pop(key, (float(self.per_minute), now))
            left = min(float(self.per_minute), left + (now - at) * self.per_minute / 60)
            self._left[key] = (left - 1 if left >= 1 else left, now)
            if len(self._left) > _KEYS:
                self._left.pop(next(iter(self._left)))
            return left >= 1


#: Keys that are remembered: the one that was quiet longest is forgotten first.
_KEYS = 10_000
