"""Replies of the model, kept verbatim, so that asking the same again costs nothing (N1, N7).

ns=<namespace>/replies/<id>.json     one reply
ns=<namespace>/replies/<id>.open     a call that has begun; without a reply beside it, it is in flight or was killed
"""

from __future__ import annotations

import os
from typing import Protocol

import msgspec

from ...memory_store.errors import LakeError
from ...memory_store.files.lake import Lake, namespace_path
from ...memory_store.ids import derive_id
from ...memory_store.settings import Settings

#: `finish` of what stands for a reply to a question that is longer than the model reads: asking again is in vain.
TOO_LONG = "too_long"


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the model said to one question, and what it cost when it was paid for."""

    #: The question: a hash of model, parameters, prompt and messages
    key: str
    #: The text of the answer, verbatim
    content: str
    #: Why the model ended: stop · length · content_filter · …
    finish: str = ""
    #: Why it would not answer, in its own words; empty when it did
    refusal: str = ""
    #: Model as the endpoint names it
    model: str = ""
    #: How the answer was asked for: json_schema · json_object · text
    mode: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    #: Whether the tokens are estimated, because the endpoint did not say
    estimated: bool = False
    #: Micro-dollars
    cost: int = 0
    latency_us: int = 0


class ReplyCache(Protocol):
    """Where replies are kept. Safe to share between threads, and picklable."""

    def get(self, namespace: str, key: str) -> Reply | None:
        """The reply to a question, None if there is none."""
        ...

    def begin(self, namespace: str, key: str) -> bool:
        """Note that a question is about to be asked; False if it was before and no reply was kept."""
        ...

    def put(self, namespace: str, reply: Reply) -> Reply:
        """Keep a reply, and return the one that is kept: another process may have been first."""
        ...

    def give_up(self, namespace: str, key: str) -> None:
        """Note that a question came back without a reply."""
        ...


class MemoryReplies:
    """Replies kept in this process only."""

    def __init__(self) -> None:
        self._replies: dict[tuple[str, str], Reply] = {}

    def get(self, namespace: str, key: str) -> Reply | None:
        """The reply to a question, None if there is none."""
        return self._replies.get((namespace, key))

    def begin(self, namespace: str, key: str) -> bool:
        """True: what this process forgets, no one can ask again."""
        return True

    def put(self, namespace: str, reply: Reply) -> Reply:
        """Keep a reply, and return the one that was first."""
        return self._replies.setdefault((namespace, reply.key), reply)

    def give_up(self, namespace: str, key: str) -> None:
        """Nothing is to be done."""


class LakeReplies:
    """Replies kept in the lake, one file each, under names that no one can tell the question from."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._opened: tuple[int, Lake] | None = None

    @property
    def _lake(self) -> Lake:
        if self._opened is None or self._opened[0] != os.getpid():
            self._opened = (os.getpid(), Lake.open(self._settings))
        return self._opened[1]

    def get(self, namespace: str, key: str) -> Reply | None:
        """The reply to a question, None if there is none. Raises `LakeError` if its file can't be read."""
        path = _path(namespace, key, "json")
        try:
            return msgspec.json.decode(self._lake.get(path), type=Reply)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as error:
            raise LakeError(f"{path} is no reply ({error}): delete it, and the question is asked again") from error

    def begin(self, namespace: str, key: str) -> bool:
        """Leave a mark in the lake that the question is about to be asked; False if there is one already."""
        mark = f"{os.getpid()} {os.urandom(8).hex()}".encode()
        return self._lake.create(_path(namespace, key, "open"), mark)

    def put(self, namespace: str, reply: Reply) -> Reply:
        """Keep a reply, take the mark away, and return the reply that is kept."""
        was_first = self._lake.create(_path(namespace, reply.key, "json"), msgspec.json.encode(reply))
        kept = reply if was_first else self.get(namespace, reply.key)
        self.give_up(namespace, reply.key)
        return kept or reply

    def give_up(self, namespace: str, key: str) -> None:
        """Take the mark away."""
        self._lake.delete([_path(namespace, key, "open")])

    def unanswered(self, namespace: str) -> int:
        """Calls that have begun and have no reply: in flight now, or lost with their process and to be paid again."""
        names = self._lake.names(namespace_path(namespace, "replies"))
        answered = {name.removesuffix(".json") for name in names if name.endswith(".json")}
        return sum(name.endswith(".open") and name.removesuffix(".open") not in answered for name in names)

    def __getstate__(self) -> dict[str, object]:
        return {"_settings": self._settings, "_opened": None}


def _path(namespace: str, key: str, suffix: str) -> str:
    return namespace_path(namespace, "replies", f"{derive_id(namespace, 'reply', key)}.{suffix}")
