"""Passages: what was said and done in an episode, turn by turn, as rows that a search can find and cite.

Pure: a trace and its episode in, rows of the schema PASSAGES out. `passage_fold` keeps them in the store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..clock import END_OF_TIME
from ..ids import derive_id
from ..text.entities import entities_of
from .episodes import shorten
from .events import Event, Trace

#: Columns that a passage has from its episode, so that one filter fits both.
INHERITED = ("namespace", "state", "seq", "subject", "task_type", "task_id", "outcome", "language", "importance")
#: Most characters of a passage; the event has the rest.
PASSAGE_CHARACTERS = 8_000
#: A turn is embedded by how it begins. What an agent or a tool says at greater length has no vector: it is found by
#: its words, and by the question before it.
EMBEDDED_CHARACTERS = 480
#: Types of events that can be passages; what the system prompt says is not part of what happened.
TYPES = ("message", "tool_call", "step", "feedback")
_CALL_CHARACTERS = 1_000


def is_telling(type: str, role: str) -> bool:
    """Whether an event of a type and role can be a passage."""
    return type in TYPES and role != "system"


def episode_id(namespace: str, trace_id: str) -> str:
    """The id of a trace's episode."""
    return derive_id(namespace, "mem", "episode", trace_id)


def passages_of(trace: Trace, episode: Mapping[str, Any], conversation: str, start: int) -> list[dict[str, Any]]:
    """The passages of a trace, from place `start` of its conversation on; events that say nothing have none.

    `episode` is the row of its episode, with the columns `INHERITED` and `id`.
    """
    inherited = {name: episode[name] for name in INHERITED}
    rows: list[dict[str, Any]] = []
    for event, speaker, text in _said(trace):
        named = ((speaker,) if speaker else ()) + entities_of(text)
        rows.append(
            {
                **inherited,
                "id": derive_id(event.namespace, "passage", event.trace_id, event.event_id),
                "kind": "passage",
                "text": text,
                "entities": list(dict.fromkeys(named)),
                "tool": event.tool,
                "error_code": event.error_code,
                "agent_role": event.agent_role or episode["agent_role"],
                "said_by": {"user": "user", "tool": "tool"}.get("tool" if event.tool else event.role, "agent"),
                "evidence": [{"trace_id": event.trace_id, "event_id": event.event_id, "quote": ""}],
                "valid_from": event.at,
                "valid_to": END_OF_TIME,
                "added_at": event.at,
                "episode": episode["id"],
                "conversation": conversation,
                "place": start + len(rows),
                "role": "tool" if event.tool else event.role,
            }
        )
    return rows


def texts_to_embed(trace: Trace) -> list[str]:
    """What the vectors of a trace's passages stand for."""
    rows = ({"text": text, "role": "tool" if event.tool else event.role} for event, _, text in _said(trace))
    return [text for row in rows if (text := text_to_embed(row))]


def text_to_embed(row: Mapping[str, Any]) -> str:
    """The part of a passage that its vector stands for; empty for one that has no vector."""
    text: str = row["text"]
    if row["role"] == "tool" or (row["role"] != "user" and len(text) > EMBEDDED_CHARACTERS):
        return ""
    return text[:EMBEDDED_CHARACTERS]


def _said(trace: Trace) -> Iterator[tuple[Event, str, str]]:
    """Events that say something, each with its speaker, if there are several, and its text."""
    telling = [event for event in trace.events if is_telling(event.type, event.role)]
    speakers = {event.agent for event in telling if event.type == "message" and event.agent}
    for event in telling:
        speaker = event.agent if len(speakers) > 1 and event.type == "message" else ""
        if text := _text(event, speaker):
            yield event, speaker, text


def _text(event: Event, speaker: str) -> str:
    """What an event says, in the words of who said it."""
    if event.type == "tool_call":
        parts = (event.arguments, event.error_code, event.error_message or event.result)
        return " · ".join(part for part in (event.tool, *(shorten(p, _CALL_CHARACTERS) for p in parts)) if part)
    said = event.content[:PASSAGE_CHARACTERS].encode("utf-8", "ignore").decode().replace("\0", "").strip()
    if event.type == "step" and event.name and said:
        return f"{event.name}: {said}"
    return f"{speaker}: {said}" if speaker and said else said
