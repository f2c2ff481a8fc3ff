"""What the model is asked to say about a trace: small, flat, and read with patience.

Every field but what makes an item an item has a default, so that a missing or wrong one costs at most its item.
Descriptions are part of the prompt.
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from ..models.reading import ReplyModel


def _grade(value: Any) -> int:
    """1 to 5; what is on another scale is 3."""
    number = _number(value)
    return round(number) if number is not None and 1 <= number <= 5 else 3


def _share(value: Any) -> float:
    """0 to 1; what is on another scale is 0.5."""
    number = _number(value)
    return number if number is not None and 0 <= number <= 1 else 0.5


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _names(value: Any) -> Any:
    """Names as a list; a model that writes one string meant a list with commas."""
    if isinstance(value, str):
        value = re.split("[,;\uff0c\u3001\uff1b]", value)
    if not isinstance(value, list):
        return []
    return [str(item).strip() for item in value if isinstance(item, str | int | float) and str(item).strip()]


def _word(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


Grade = Annotated[int, BeforeValidator(_grade)]
Share = Annotated[float, BeforeValidator(_share)]
Names = Annotated[list[str], BeforeValidator(_names)]


class _Item(ReplyModel):
    event: str = Field("", description="label of the event that shows it, such as e7")
    quote: str = Field("", description="the words of that event that show it, copied exactly, at most 200 characters")
    useful: bool = Field(True, description="will a later task be done better with it?")
    lasting: bool = Field(True, description="will it still hold in a month?")
    known: bool = Field(False, description="can it be told from general knowledge or the agent's instructions anyway?")
    quality: Grade = Field(3, description="1 to 5")
    importance: Share = Field(0.5, description="0 to 1")
    confidence: Share = Field(0.5, description="0 to 1, how sure you are")
    entities: Names = Field(default_factory=list, description="names of things that it mentions")
    about: str = Field("", description="whom or what it is about, in a few words")
    need: str = Field("", description="the later need that it serves, in a few words")
    offer: str = Field("", description="what it offers there, in a few words")


class Statement(_Item):
    """Something that is so, that someone wants, or that always holds."""

    kind: Annotated[Literal["fact", "preference", "rule"], BeforeValidator(_word)]
    text: str = Field(min_length=1, description="one self-contained sentence in the language of the record")
    attribute: str = Field("", description="what it is about, one or two words, such as budget")
    value: str = Field("", description="what that is, such as 8000")


class Lesson(_Item):
    """What to do or to avoid in a situation that will come again."""

    text: str = Field("", description="the whole lesson in one line, at most 60 words, or 100 Chinese characters")
    trigger: str = Field("", description="the situation, without names, numbers and ids of this one task")
    action: str = Field("", description="what to do then")
    avoid: str = Field("", description="what not to do then")
    why: str = Field("", description="the reason, as the record shows it")
    not_when: str = Field("", description="where it does not apply")
    tool: str = Field("", description="tool that it is about")
    error_code: str = Field("", description="error that it is about")
    instance: bool = Field(False, description="does it help only with this one task, customer or order?")
    vague: bool = Field(False, description="is it a platitude that anyone would nod at and no one can act on?")


class Step(ReplyModel):
    """A decision that mattered."""

    event: str = Field("", description="label of the event")
    action: str = Field(min_length=1, description="what was decided")
    result: str = Field("", description="what came of it")


class ReflectReply(ReplyModel):
    """What one trace, or one part of it, says."""

    summary: str = Field("", description="what was to be done, what was done, how it ended: two or three sentences")
    decisions: list[Step] = Field(default_factory=list, description="at most 5")
    facts: list[Statement] = Field(default_factory=list, description="facts, preferences and rules; may be empty")
    experiences: list[Lesson] = Field(default_factory=list, description="lessons, at most 3; may be empty")
