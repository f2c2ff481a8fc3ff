"""What the tools do. Each takes the desk of its caller and the arguments as they were meant."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ...memory_store.capture.passages import episode_id
from ...memory_store.errors import UsageError
from ...memory_store.recall.conditions import where
from ...memory_store.records.requests import ask_for_reflection, request_of
from ...memory_store.text.language import language_of
from .desk import Desk
from .registry import Answer
from .told import NOTICE, block, explanation, hit_data, verdict

if TYPE_CHECKING:
    from ..hits import Hit, Page

Arguments = Mapping[str, Any]
#: A lesson is at most this long, in words, or in characters where it is Chinese (R3).
LESSON_WORDS, LESSON_CHARACTERS = 60, 100
#: Characters of a task that its episode has whole.
_GOAL = 320
#: Tag of what an agent proposes as a rule.
PROPOSED_RULE = "proposed_rule"


def memory_query(desk: Desk, sent: Arguments) -> Answer:
    """Find memories, a page at a time. Of episodes, a caller of one subject finds its own alone."""
    kind, subject = sent.get("memory_type"), desk.caller.subject_named(sent.get("subject", ""))
    cursor, since = "", None
    if days := sent.get("time_range_days"):
        since = desk.now - timedelta(days=days)
    if "cursor" in sent:
        cursor, since = desk.places.find(desk.caller, sent["cursor"])
    page = desk.memory.search_page(
        sent["query"], limit=sent.get("top_k"), cursor=cursor, kinds=[kind] if kind else None,
        subject=subject or None, since=since,
        where=where(subject=subject) if kind == "episode" and desk.caller.subject else None,
    )  # fmt: skip
    before: dict[str, list[Hit]] = defaultdict(list)
    for successor, hit in desk.memory.predecessors([hit.id for hit in page.hits], subject or None, None):
        before[successor].append(hit)
    for hits in before.values():
        hits.sort(key=lambda hit: hit.valid_from)
    return _found(desk, sent["query"], page, before, desk.places.keep(desk.caller, page.cursor, since), "memory_query")


def retrieve_experience(desk: Desk, sent: Arguments) -> Answer:
    """Find lessons of tasks of a kind."""
    cursor, since = desk.places.find(desk.caller, sent["cursor"]) if "cursor" in sent else ("", None)
    page = desk.memory.search_page(
        sent["query"], limit=sent.get("top_k"), cursor=cursor, kinds=["experience"],
        task_type=sent.get("task_type") or None, tool=sent.get("tool") or None, outcome=sent.get("outcome"),
        subject=desk.caller.subject or None,
    )  # fmt: skip
    return _found(
        desk, sent["query"], page, {}, desk.places.keep(desk.caller, page.cursor, since), "retrieve_experience"
    )  # fmt: skip


def _found(
    desk: Desk, query: str, page: Page, before: Mapping[str, list[Hit]], cursor: str, tool: str
) -> Answer:  # fmt: skip
    data = {"notice": NOTICE, "memories": [hit_data(hit) for hit in page.hits], "cursor": cursor}
    if not page.hits:
        return Answer("Nothing is known about this. Fewer conditions or other words may find more.", data)
    text = block(query, page.hits, before, desk.now)
    return Answer(f'{text}\nThere is more: call {tool} again with cursor "{cursor}".' if cursor else text, data)


def memory_write(desk: Desk, sent: Arguments) -> Answer:
    """Write a memory, said by the agent. A rule is kept as a fact that proposes one: a person makes it a rule."""
    kind, content = sent.get("memory_type", "fact"), sent["content"]
    subject = desk.caller.subject_named(sent.get("subject", ""))
    if kind == "episode":
        return _episode(desk, content, subject)
    is_rule = kind == "rule"
    given = {name: sent[name] for name in ("importance", "entities") if name in sent}
    id = desk.memory.remember(
        content, "fact" if is_rule else kind, subject=subject, tags=[PROPOSED_RULE] if is_rule else (),
        said_by="agent", **given,
    )  # fmt: skip
    told = f"Kept as memory {id}, not checked yet; it can be found at once."
    if is_rule:
        told += " It is a proposed rule: a person makes it one with `hindlake remember --kind rule`."
    return Answer(told, {"id": id, "state": "pending", "memory_type": "fact" if is_rule else kind})


def _episode(desk: Desk, content: str, subject: str) -> Answer:
    """Log what happened as a trace, so that it is an episode now and is reflected on later."""
    with desk.opened.recorder.task(content, subject=subject, durable="remote") as task:
        if len(content) > _GOAL:
            task.agent(content)  # so that all of it becomes passages
    id = episode_id(desk.caller.namespace, task.trace_id)
    data = {"id": id, "state": "active", "memory_type": "episode", "trace_id": task.trace_id}
    return Answer(f"Kept as episode {id}; the next reflection learns from it.", data)


def memory_update(desk: Desk, sent: Arguments) -> Answer:
    """Say what a memory should say now."""
    id = sent["id"].strip()
    _check_may_change(desk, id)
    new = desk.memory.update(id, sent["content"], said_by="agent")
    return Answer(f"Memory {new} takes the place of {id}.", {"id": new, "superseded": id, "state": "pending"})


def memory_forget(desk: Desk, sent: Arguments) -> Answer:
    """Stop returning a memory."""
    id = sent["id"].strip()
    _check_may_change(desk, id)
    desk.memory.forget(id, sent.get("reason", ""))
    return Answer(f"Memory {id} is not returned any more; a person can restore it.", {"id": id, "state": "deleted"})


def _check_may_change(desk: Desk, id: str) -> None:
    memory = desk.explained(id).memory
    desk.caller.check_may_change(id, memory["subject"] or "", memory["kind"] or "")


def memory_explain(desk: Desk, sent: Arguments) -> Answer:
    """Tell why a memory is there and, with a query, why a search finds it or does not."""
    id = sent["id"].strip()
    found = desk.explained(id)
    text, data = explanation(found, desk.may_quote(found.memory["subject"] or ""))
    if query := sent.get("query"):
        subject = desk.caller.subject_named(sent.get("subject", "")) or found.memory["subject"]
        told = desk.memory.explain(query=query, expected=id, subject=subject or None).expected
        if told is not None:
            why, data["search"] = verdict(told)
            text += f"\nFor this query: {why}"
    return Answer(text, data)


def memory_reflect(desk: Desk, sent: Arguments) -> Answer:
    """Ask for a reflection, or tell how a request stands."""
    lake, namespace = desk.opened.lake, desk.caller.namespace
    asked = sent.get("request_id", "").strip()
    request = request_of(lake, namespace, asked or ask_for_reflection(lake, namespace, desk.opened.clock))
    data = {
        "request_id": request.id, "state": request.state, "since": request.since.isoformat(), "run": request.run,
        "counts": request.counts,
    }  # fmt: skip
    told = f"Request {request.id} is {request.state} since {request.since:%Y-%m-%d %H:%M} UTC."
    if request.state == "waiting":
        told += " The next run takes it up: by schedule, or `hindlake run reflect`."
    if request.state == "failed":
        told += f" The run failed ({request.error}); the next one tries again."
    if request.counts:
        told += " It did: " + ", ".join(f"{count} {name}" for name, count in request.counts.items()) + "."
    if request.stopped:
        told += " It stopped at its budget; the next run goes on."
    return Answer(told, data)


def store_experience(desk: Desk, sent: Arguments) -> Answer:
    """Keep a lesson for every agent of the namespace."""
    pattern = sent["pattern"]
    is_chinese = language_of(pattern).startswith("zh")
    length, most = (len(pattern), LESSON_CHARACTERS) if is_chinese else (len(pattern.split()), LESSON_WORDS)
    if length > most:
        what = "characters" if is_chinese else "words"
        raise UsageError(f'pattern has {length} {what}: send one lesson of at most {most}, as "in situation S, do X"')
    id = desk.memory.remember(
        pattern, "experience", task_type=sent["task_type"], outcome=sent["outcome"], tool=sent.get("tool", ""),
        said_by="agent",
    )  # fmt: skip
    told = f"Kept as experience {id}, not checked yet; it can be found at once."
    return Answer(told, {"id": id, "state": "pending", "memory_type": "experience"})
