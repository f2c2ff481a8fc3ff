"""Values that an agent made up: it says so itself ("assuming …", "sample data"), and goes on with them."""

from __future__ import annotations

import re

from ....memory_store.capture.events import Trace
from .lessons import Lesson, asked

_MADE_UP = re.compile(
    r"\bassum(?:e|ed|ing) (?:that|the|a|an|we|it|for|this|these|each|all|you)\b|\b(?:my|an?|the|these|this|our|"
    r"following) "
    r"assumptions?\b|\bhypothetical(?:ly)?\b|\bplaceholders?\b|\b(?:mock|dummy|fictional|made[- ]up|fabricated) \w+|"
    r"\b(?:simulated?|sample|example) (?:data|values?|results?|output|numbers?|search)\b|\bsimulat(?:e|ing) (?:the|a|"
    r"an|some)\b|"
    r"\bfor (?:the sake|the purposes?|demonstration|illustration)\b|"
    r"假设(?!检验)|假定|模拟(?:数据|结果)|示例数据|占位|虚构|编造",
    re.I,
)


def assumption_of(trace: Trace, situation: str, chinese: bool) -> Lesson | None:
    """The first time that an agent went on with values that it made up, in a run that did not succeed; else None."""
    if trace.outcome == "success":
        return None
    begun = False
    for event in trace.events:
        if event.type == "message" and event.role == "agent" and begun and (match := _MADE_UP.search(event.content)):
            start = max(0, match.start() - 60)
            quote = event.content[start : match.end() + 90].strip()
            if chinese:
                trigger = asked(situation, True) if situation else "任务需要的数值手头没有"
                action, avoid = "用工具逐个查到数值，查不到就说明缺少", "用假设或编造的数值继续"
            else:
                trigger = asked(situation, False) if situation else "a value that the task needs is not at hand"
                action = "look each value up with a tool, or say which one is missing"
                avoid = "go on with assumed or made-up values"
            why = "这样做的一次没有成功" if chinese else "a run that did so did not succeed"
            return Lesson(
                "assumed",
                trigger,
                action,
                ((event, quote),),
                avoid=avoid,
                why=why,
                quality=3,
                importance=0.5,
                confidence=0.4,
            )
        begun = begun or event.type in ("message", "tool_call")
    return None
