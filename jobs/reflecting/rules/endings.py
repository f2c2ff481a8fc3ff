"""How a failed run ended, and what its user objected to: weaker lessons, where no error and no contrast shows."""

from __future__ import annotations

import re

from ....memory_store.capture.events import Event, Trace
from .calls import arguments_of, is_handover, is_thought, is_write, leaves
from .corrections import corrections_of
from .failures import commands, failures_of
from .generalise import content_words, generalise
from .lessons import NO_VERB, Lesson, asked

_CLAIMS = re.compile(
    r"\b(?:success\w*|has been|have been|is (?:now )?(?:done|complete|booked|cancell?ed|updated)|completed|all set|"
    r"confirmed)\b|已(?:经)?(?:成功|完成|为您|取消|更新|预订)|成功",
    re.I,
)
#: A wish for something to be changed, and not only for an answer.
_CHANGES = re.compile(
    r"\b(?:cancel|change|book|update|modify|move|add|remove|delete|exchange|return|refund|create|send|order|pay|upgrade|"
    r"rebook|reschedule|transfer|make)\w*\b|取消|改|订|换|退|删|加|发|付|创建|更新|转",
    re.I,
)
_POLITE = re.compile(
    r"^(?:no|nope|not that|wait|sorry|actually|that'?s (?:wrong|not right|incorrect)|wrong|不对|不是|错了|不行|"
    r"重新来)[\s,.!:，。！-]+",
    re.I,
)
_MEANT = re.compile(
    r"\b(?:i (?:said|meant|asked for|wanted|want|need)|it should(?: be| have been)?|should(?:n't| not)? (?:be|"
    r"have been))\b\s*(?P<what>[^.!?\n]{3,160})|"
    r"(?:我(?:说|要|想要|指)的是|我的意思是|应该(?:是)?|我要)(?P<what2>[^。！？\n]{2,60})",
    re.I,
)


def objections_of(trace: Trace, situation: str, chinese: bool) -> list[Lesson]:
    """What the user objected to, as what to do in this situation: their own words, without particulars."""
    lessons = []
    for correction in corrections_of(trace):
        words = correction.event.content.strip()
        match = _MEANT.search(words[:400])
        said = (match["what"] or match["what2"]) if match else _POLITE.sub("", words[:300])
        said = generalise(re.split(r"(?<=[.!?。！？])\s*", said.strip())[0]).strip(" .,!，。！")
        if len(content_words(said)) < 3 or not situation or len(said.split()) > 22 or len(said) > 160:
            continue
        about = correction.about
        evidence: list[tuple[Event, str]] = [(correction.event, words[:160])]
        avoid = tool = ""
        if about is not None and (about.content or about.tool):
            evidence.append((about, (about.content or about.arguments or about.tool)[:120]))
            if about.type == "tool_call" and is_write(about.tool):
                tool = about.tool
                avoid = f"没问清就调用 {tool}" if chinese else f"call {tool} before this is settled"
        action = f"按用户的更正去做：“{said}”" if chinese else f"mind what a user had to correct: “{said}”"
        trigger = asked(situation, chinese)
        lessons.append(
            Lesson(
                "user_correction",
                trigger,
                action,
                tuple(evidence),
                avoid=avoid,
                tool=tool,
                quality=4 if match else 3,
                importance=0.7,
                confidence=0.6 if match else 0.45,
            )
        )
    return lessons[:2]


def ending_of(trace: Trace, situation: str, chinese: bool) -> Lesson | None:
    """How a failed run ended, if that says something: a change never read back, given away, or never made."""
    if trace.outcome not in ("failure", "partial") or not situation:
        return None
    failed = {failure.event.event_id for failure in failures_of(trace)}
    calls = [call for call in trace.tool_calls if not is_thought(call.tool)]
    done = [call for call in calls if call.event_id not in failed]
    writes = [call for call in done if is_write(call.tool)]
    trigger = asked(situation, chinese)
    why = _reason(trace, chinese)
    answer = next((e for e in reversed(trace.events) if e.type == "message" and e.role == "agent" and e.content), None)
    if handover := next((call for call in done if is_handover(call.tool)), None):
        before = list(
            dict.fromkeys(call.tool for call in calls if call.seq < handover.seq and call.tool != handover.tool)
        )[-2:]
        if chinese:
            avoid = (
                f"只做了 {'、'.join(before)} 就用 {handover.tool} 转出"
                if before
                else f"一上来就用 {handover.tool} 转出"
            )
        else:
            avoid = f"hand over with {handover.tool} " + (f"after only {' and '.join(before)}" if before else "at once")
        return Lesson(
            "handed_over",
            trigger,
            "",
            ((handover, (handover.arguments or handover.tool)[:120]),),
            avoid=avoid,
            why=why,
            tool=handover.tool,
            quality=3,
            importance=0.5,
            confidence=0.3,
        )
    if writes:
        return _after_writes(writes, done, answer, trigger, why, chinese)
    if not _wants_change(situation):
        return None
    if done:
        last = done[-1]
        avoid = f"查完 {last.tool} 就结束、不做改动" if chinese else f"stop after {last.tool} without making the change"
        evidence = ((last, (last.arguments or last.tool)[:120]),)
        return Lesson(
            "nothing_done",
            trigger,
            "",
            evidence,
            avoid=avoid,
            why=why,
            tool=last.tool,
            quality=3,
            importance=0.5,
            confidence=0.3,
        )
    if answer is not None and not calls:
        avoid = "一个工具也不调用就答复" if chinese else "answer without calling a single tool"
        return Lesson(
            "nothing_done",
            trigger,
            "",
            ((answer, answer.content[:120]),),
            avoid=avoid,
            why=why,
            quality=3,
            importance=0.5,
            confidence=0.3,
        )
    return None


def _after_writes(
    writes: list[Event], done: list[Event], answer: Event | None, trigger: str, why: str, chinese: bool
) -> Lesson:
    """A change was made and the task failed all the same: it was the wrong one, or not all of it."""
    last = writes[-1]
    values = {text for text in leaves(arguments_of(last)) if re.search(r"(?=.*\d)(?=.*[A-Za-z_]).{4}", text)}
    readers = [
        call.tool
        for call in done
        if call.seq < last.seq and not is_write(call.tool) and values & set(leaves(arguments_of(call)))
    ]
    read_back = any(not is_write(call.tool) for call in done if call.seq > last.seq)
    claimed = answer is not None and answer.seq > last.seq and _CLAIMS.search(answer.content) is not None
    evidence = [(last, (last.arguments or last.tool)[:120])]
    if claimed and answer is not None:
        evidence.append((answer, answer.content[:120]))
        why = why or ("有一次宣称成功，任务却失败了" if chinese else "a run said it was done and had failed")
    action = (
        f"调用 {last.tool} 前逐条对照用户的要求"
        if chinese
        else f"hold every argument of {last.tool} against the request"
    )
    if readers and not read_back:
        action += (
            f"，之后用 {readers[-1]} 读回核对再答复"
            if chinese
            else f", and read the result back with {readers[-1]} before you say it is done"
        )
    return Lesson(
        "unverified",
        trigger,
        action,
        tuple(evidence),
        why=why,
        tool=last.tool,
        quality=3,
        importance=0.5,
        confidence=0.35 if claimed and not read_back else 0.3,
    )


def _wants_change(situation: str) -> bool:
    """Whether a wish is for a change: one of its first words says so, and it is no question."""
    words = situation.split()
    if words[0].lower() in NO_VERB:
        return False
    return _CHANGES.search(situation if len(words) == 1 else " ".join(words[:4])) is not None


def _reason(trace: Trace, chinese: bool) -> str:
    """What whoever judged the outcome gave as the reason, without particulars; empty if nothing."""
    said = next((e.content for e in reversed(trace.events) if e.type == "outcome" and e.content), "")
    if not said or commands(said):
        return ""
    text = generalise(said.split("\n")[0])[: 40 if chinese else 160].strip(" .。")
    return text if len(text.split()) <= 20 else ""
