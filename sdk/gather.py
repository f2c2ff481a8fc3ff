"""Asking memory, working memory and other sources for what goes into the context of a task."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from ..memory_store.errors import UsageError
from ..memory_store.text.tokens import count_tokens
from .context import Context, Found, Source, assemble, experiences_for
from .hits import Hit
from .working import Turn

if TYPE_CHECKING:
    from .searching import Searching

#: Memories and documents that are asked for: more than mostly fit, so that the room is used.
_LIMIT = 5
_LATELY = 3


def gather(
    memory: Searching,
    task: str,
    *,
    budget_tokens: int,
    working: Sequence[Turn] | str,
    subject: str,
    knowledge: Mapping[str, Source],
    count: Callable[[str], int] | None,
    now: datetime,
    filters: Mapping[str, Any],
) -> tuple[Context, list[Hit]]:
    """The context of a task, and the hits that are in it.

    What working memory and the task take of `budget_tokens` is not there for the block (R26).
    """
    if not task.strip():
        raise UsageError("a context needs a task: what is about to be done?")
    if budget_tokens < 1:
        raise UsageError(f"budget_tokens is {budget_tokens}: give the tokens that the prompt may have")
    counted = count or count_tokens
    said = working if isinstance(working, str) else "\n".join(f"{turn.role}: {turn.content}" for turn in working)
    turns = None if isinstance(working, str) or not working else len(working)
    room = budget_tokens - counted(task) - (counted(said) if said else 0)
    options = {"subject": subject or None, "log_read": False, **filters}
    known = memory.search(task, kinds=["fact", "preference", "rule"], limit=_LIMIT, **options)
    experiences = memory.search(task, kinds=["experience"], limit=experiences_for(turns), **options)
    lately = memory.recent(subject, limit=_LATELY, log_read=False) if subject else []
    before: dict[str, list[Hit]] = defaultdict(list)
    for successor, hit in memory.predecessors([hit.id for hit in known], options["subject"], options.get("tags")):
        before[successor].append(hit)
    for hits in before.values():
        hits.sort(key=lambda hit: hit.valid_from)
    documents = {name: list(source(task)) for name, source in knowledge.items()}
    found = Found(known, experiences, lately, before, documents)
    context = assemble(task, found, max(room, 0), counted, token_hex(4), now)
    inside = set(context.ids)
    return context, [hit for hit in (*known, *experiences, *lately) if hit.id in inside]
