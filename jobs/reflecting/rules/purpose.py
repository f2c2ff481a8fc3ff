"""The three answers that every memory must be able to give, where no one gave them: by rule (R7)."""

from __future__ import annotations

from dataclasses import replace

from ....memory_store.text.language import is_cjk
from ..candidates import Candidate


def with_purpose(candidate: Candidate) -> Candidate:
    """The candidate with `about`, `need` and `offer`: what it has is kept, what is empty is filled from its columns.

    About whom or what, for which need, offering what: of a statement its subject, the tasks that turn on its attribute
    and its value; of an experience its tool, kind of task or error, its trigger and its action.
    """
    chinese = is_cjk(candidate.text)
    about, need, offer = (_of_lesson if candidate.kind == "experience" else _of_statement)(candidate, chinese)
    return replace(
        candidate,
        about=candidate.about or about,
        need=candidate.need or need,
        offer=candidate.offer or offer,
    )


def _of_lesson(candidate: Candidate, chinese: bool) -> tuple[str, str, str]:
    of = candidate.tool or candidate.task_type or candidate.error_code or candidate.trigger
    if candidate.tool and candidate.error_code:
        of = f"{candidate.tool}, {candidate.error_code}"
    offer = candidate.action or (f"不要{candidate.avoid}" if chinese else f"do not {candidate.avoid}")
    return of, candidate.trigger, offer


def _of_statement(candidate: Candidate, chinese: bool) -> tuple[str, str, str]:
    who = candidate.subject or ("用户" if chinese else "the user")
    what = candidate.attribute
    about = f"{who}, {what}" if what else who
    if chinese:
        need = {"preference": "按用户的喜好做事", "rule": "今后的任务都按此办理"}.get(candidate.kind, "")
        need = need or (f"需要知道{what}的任务" if what else "需要了解用户的任务")
        return about, need, candidate.value or "不必再问一遍"
    need = {"preference": "doing a task as they like it", "rule": "keeping to it in later tasks"}.get(
        candidate.kind, ""
    )
    need = need or (f"a task that turns on the {what}" if what else "a task that turns on who they are")
    return about, need, candidate.value or "nobody has to ask again"
