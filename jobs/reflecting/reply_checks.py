"""From what a model proposed to candidates: every item is checked by code against the trace it speaks of.

The prompt asks for good behaviour, these checks don't rely on it: a quote that is not there, words of a tool taken for
the user's, an example of the prompt, a translation, a platitude or an instance is refused, each with its reason.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ...memory_store.capture.episodes import trace_language
from ...memory_store.capture.events import Event, Trace
from ...memory_store.text.entities import entities_of, find_entities, merge_entities
from ...memory_store.text.language import language_of
from .candidates import Candidate, Evidence, Refusal
from .rendering import neutral
from .reply import Lesson, Statement
from .rules.checks import holds_token, refusal_reason
from .rules.failures import commands
from .rules.generalise import instance_in
from .rules.purpose import with_purpose
from .speakers import Voice, voices

#: Most experiences of one trace.
EXPERIENCES = 3
#: Longest quote that is kept.
_QUOTE = 500
#: Longest answer of a memory to whom or what it is about, for which need, offering what.
_ANSWER = 200
_GAP = re.compile(r"[\s|]+")
_HAN = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_SCRIPTS = {
    "zh": "Hani", "ja": "Jpan", "ko": "Kore", "ru": "Cyrl", "uk": "Cyrl", "bg": "Cyrl", "sr": "Cyrl", "be": "Cyrl",
    "kk": "Cyrl", "ar": "Arab", "fa": "Arab", "ur": "Arab", "hi": "Deva", "mr": "Deva", "ne": "Deva", "th": "Thai",
    "he": "Hebr", "el": "Grek",
}  # fmt: skip
#: Share of an example's three-letter pieces that makes an item its echo.
_ECHO = 0.6
#: Share of the pieces of both that they have in common, from which two texts are the same one.
_SAME = 0.7
#: A name made of several words, and how much of one of them tells it.
_NAME = re.compile(r"[A-Za-z]+(?:_[A-Za-z]+)+")
_STEM = 4
_DIGITS = re.compile(r"\d+")
_PERSON = re.compile(
    r'"(?:first|last|full|given|family|customer|passenger|user|contact)_?name"\s*:\s*"([^"\\\n]{2,40})"', re.I
)


@dataclass(frozen=True)
class Source:
    """What a reply speaks of."""

    #: The trace that is reflected on
    trace: Trace
    #: Every event that could be cited, by label; those of another run of the task too
    events: Mapping[str, Event]
    #: Sentences of the prompt's examples
    examples: Sequence[str] = ()
    #: Memories that the prompt shows as reviewers judged them
    reviewed: Sequence[str] = ()


def checked_statement(item: Statement, source: Source) -> Candidate | Refusal:
    """A fact, preference or rule, or why it is refused."""
    found = _find(item.event, item.quote, source)
    draft = _draft(item, source, found, text=item.text.strip(), subject=source.trace.first("subject"))
    draft = replace(draft, kind=item.kind, attribute=item.attribute.strip(), value=item.value.strip())
    return _judged(draft, item, source, found)


def checked_lesson(item: Lesson, source: Source) -> Candidate | Refusal:
    """An experience, or why it is refused."""
    found = _find(item.event, item.quote, source)
    tools = {event.tool for event in source.trace.events if event.tool}
    codes = {event.error_code for event in source.events.values() if event.error_code}
    event = None if isinstance(found, str) else found[0]
    draft = replace(
        _draft(item, source, found, text=item.text.strip() or _composed(item), subject=""),
        kind="experience",
        trigger=item.trigger.strip(),
        action=item.action.strip(),
        avoid=item.avoid.strip(),
        why=item.why.strip(),
        not_when=item.not_when.strip(),
        tool=item.tool if item.tool in tools else (event.tool if event else ""),
        error_code=item.error_code if item.error_code in codes else (event.error_code if event else ""),
        said_by="reflection",
    )
    return _judged(draft, item, source, found)


def best_of(items: Iterable[Candidate | Refusal]) -> tuple[list[Candidate], list[Refusal]]:
    """What is kept and what is refused once all parts of a trace were read: no twins, at most three experiences."""
    kept: dict[tuple[str, str], Candidate] = {}
    refused: list[Refusal] = []
    for item in items:
        if isinstance(item, Refusal):
            refused.append(item)
            continue
        key = (item.kind, _plain(item.text))
        if key in kept:
            refused.append(Refusal(item, "it is said twice"))
            continue
        kept[key] = item
    lessons = [candidate for candidate in kept.values() if candidate.kind == "experience"]
    lessons.sort(key=lambda c: (-c.quality, -c.importance * c.confidence))
    over = lessons[EXPERIENCES:]
    refused += [Refusal(item, f"the trace has {EXPERIENCES} stronger experiences already") for item in over]
    return [candidate for candidate in kept.values() if not any(candidate is item for item in over)], refused


def names_in(source: Source) -> tuple[str, ...]:
    """Names that no lesson may hold: the subject's, people's in data, and those in what the user said."""
    people: set[str] = set()
    said: list[str] = []
    for event in source.events.values():
        for voice in voices(event):
            if voice.speaker == "user":
                said.append(voice.text[:20_000])
            people.update(match.strip() for match in _PERSON.findall(voice.text[:200_000]))
    entities = find_entities("\n".join(said), 100)
    people.update(entity.text for entity in entities if entity.kind == "name")
    tools = {event.tool for event in source.events.values()}
    return tuple(sorted({*people, *filter(None, (source.trace.first("subject"),))} - tools))


def _draft(
    item: Statement | Lesson, source: Source, found: tuple[Event, Voice, str] | str, text: str, subject: str
) -> Candidate:
    trace = source.trace
    event, voice, quote = (trace.events[-1], None, "") if isinstance(found, str) else found
    speaker = voice.speaker if voice else "reflection"
    return Candidate(
        kind="fact",
        text=text,
        evidence=(Evidence(event.trace_id, event.event_id, quote),) if voice else (),
        valid_from=event.at,
        subject=subject,
        entities=merge_entities([[name for name in item.entities if name in text], entities_of(text)]),
        task_type=trace.first("task_type"),
        task_id=trace.first("task_id"),
        outcome=trace.outcome,
        agent_role=trace.first("agent_role"),
        said_by="agent" if speaker == "operator" else speaker,
        language=trace_language(trace) or language_of(text),
        quality=item.quality,
        importance=item.importance,
        confidence=item.confidence,
    )


def _judged(
    draft: Candidate, item: Statement | Lesson, source: Source, found: tuple[Event, Voice, str] | str
) -> Candidate | Refusal:
    reason = found if isinstance(found, str) else _reason(draft, item, source, found[1])
    if "secret" in reason:
        draft = replace(
            draft, text=f"a {draft.kind} that is not kept", attribute="", value="", evidence=(), entities=(),
            trigger="", action="", avoid="", why="", not_when="",
        )  # fmt: skip
    return Refusal(draft, reason) if reason else with_purpose(_answered(draft, item, source))


def _reason(draft: Candidate, item: Statement | Lesson, source: Source, voice: Voice) -> str:
    """Why an item whose quote is there is refused all the same; empty if it is not."""
    if echo := _echo(draft, source):
        return f"it repeats an example of the prompt: {echo[:60]}"
    if again := _repeated(draft, source.reviewed):
        return f"it repeats a reviewed example of the prompt: {again[:60]}"
    if draft.kind != "experience":
        if voice.speaker == "operator":
            return "it stands in the agent's instructions, which it has anyway"
        if voice.speaker in ("tool", "web"):
            return f"a {draft.kind} must come from the user's own words, and a {voice.speaker} result said this"
    elif voice.speaker == "web" and not voice.is_error:
        return "it rests on what a page of the web says"
    elif voice.speaker in ("tool", "web") and commands(draft.evidence[0].quote):
        return "it rests on what reads like an instruction from a tool or a page"
    if reason := refusal_reason(draft, names_in(source) if draft.kind == "experience" else ()):
        return reason
    return _translated(draft, voice) or _second_look(item)


def _second_look(item: Statement | Lesson) -> str:
    """What the model itself holds against an item that passed every rule (R7, R3); empty if nothing."""
    if not item.useful:
        return "no later task will be done better with it, says the model"
    if not item.lasting:
        return "it will not hold in a month, says the model"
    if item.known:
        return "it can be told anyway, says the model"
    if isinstance(item, Lesson) and item.instance:
        return "it is an instance, says the model: it helps with this one task only"
    if isinstance(item, Lesson) and item.vague:
        return "it is a platitude, says the model"
    return ""


def _answered(draft: Candidate, item: Statement | Lesson, source: Source) -> Candidate:
    """With the model's answers to R7's questions; one that can't be kept is left empty, as if it were not given."""
    names = names_in(source) if draft.kind == "experience" else ()
    kept = {}
    for field in ("about", "need", "offer"):
        said = str(getattr(item, field)).strip()
        is_instance = draft.kind == "experience" and instance_in(said, names)
        own = language_of(said)
        is_translated = own and draft.language and _script(own) != _script(draft.language)
        is_bad = is_instance or is_translated or len(said) > _ANSWER or commands(said) or holds_token(said)
        kept[field] = "" if is_bad or _echo(replace(draft, text=said), source) else said
    return replace(draft, about=kept["about"], need=kept["need"], offer=kept["offer"])


def _find(label: str, quote: str, source: Source) -> tuple[Event, Voice, str] | str:
    """The event, the voice in it and the verbatim span that an item rests on, or why there is none.

    The quote must stand in the event that is named, white space and marks that the prompt changed apart.
    """
    event = source.events.get(label.strip().strip("[]").split(" ")[0])
    if event is None:
        return f"it names no event of the trace: {label[:40]!r}" if label.strip() else "it names no event"
    pieces = [re.escape(piece) for piece in _GAP.split(neutral(unicodedata.normalize("NFC", quote)).strip(' |\n"“”'))]
    pieces = [piece for piece in pieces if piece]
    if not pieces:
        return "it quotes nothing"
    length = sum(len(piece) for piece in pieces)
    pattern = re.compile(r"[\s|]+".join(pieces))
    for voice in voices(event):
        match = pattern.search(neutral(voice.text))
        if match is None:
            continue
        is_whole = len(match.group()) >= len(voice.text.strip()) - 2
        if length < (2 if _HAN.search(quote) else 4) and not is_whole:
            return f"its quote is too short to prove anything: {quote!r}"
        return event, voice, voice.text[match.start() : match.end()][:_QUOTE]
    return f"its quote is not in the event that it names: {quote[:80]!r}"


def _echo(draft: Candidate, source: Source) -> str:
    """The example of the prompt that an item repeats, whole or by what only its world has; empty if none.

    Words that any lesson may need, such as "is refused", make no echo.
    """
    for text in (draft.text, draft.trigger, draft.action):
        pieces = _pieces(text)
        for example in source.examples if pieces else ():
            theirs = _pieces(example)
            common = len(pieces & theirs)
            if common < _ECHO * min(len(pieces), len(theirs)) or len(theirs) < 8:
                continue
            if common >= _SAME * len(pieces | theirs) or _is_of_their_world(text, source):
                return example
    return ""


def _is_of_their_world(text: str, source: Source) -> bool:
    """Whether a text has part of a name (such as set_humidity) that the examples have and the trace has not.

    Examples without such names can't be told by them: then every text may be of their world.
    """
    parts = [part for name in _NAME.findall(" ".join(source.examples)) for part in name.casefold().split("_")]
    stems = {part[:_STEM] for part in parts if len(part) >= _STEM}
    own = " ".join(voice.text for event in source.events.values() for voice in voices(event)).casefold()
    foreign = [stem for stem in stems if stem not in own]
    return not stems or any(stem in text.casefold() for stem in foreign)


def _repeated(draft: Candidate, reviewed: Sequence[str]) -> str:
    """The reviewed memory that an item repeats nearly word for word; empty if none.

    Reviewed memories are of this very world, so only the whole of one counts: other advice on the same situation, the
    same with another number, or a statement that the quoted words make here too, is no echo.
    """
    said = _plain(draft.value or draft.text)
    quoted = "".join(_plain(item.quote) for item in draft.evidence)
    pieces, mine = _pieces(said), _pieces(draft.text)
    is_said_here = len(pieces & _pieces(quoted)) * 2 >= len(pieces) if pieces else said in quoted
    if not mine or (draft.kind != "experience" and is_said_here):
        return ""
    numbers = set(_DIGITS.findall(draft.text))
    for example in reviewed:
        theirs = _pieces(example)
        if numbers == set(_DIGITS.findall(example)) and len(mine & theirs) >= _SAME * len(mine | theirs):
            return example
    return ""


def _pieces(text: str) -> set[str]:
    plain = _plain(text)
    return {plain[place : place + 3] for place in range(len(plain) - 2)}


def _plain(text: str) -> str:
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", text).casefold())


def _translated(draft: Candidate, voice: Voice) -> str:
    """Why an item is no memory in the language of its trace, or of the words that it rests on, judged by the script."""
    own = language_of(draft.text)
    theirs = [language for language in (draft.language, language_of(voice.text)) if language]
    if own and theirs and _script(own) not in map(_script, theirs):
        return f"it is in another language ({own}) than its trace ({', '.join(dict.fromkeys(theirs))})"
    return ""


def _script(language: str) -> str:
    """The script that a language is written in.

    >>> _script("zh-CN"), _script("und-Cyrl"), _script("uk"), _script("fr")
    ('Hani', 'Cyrl', 'Cyrl', 'Latn')
    """
    if language.startswith("und-"):
        return language.removeprefix("und-")
    return _SCRIPTS.get(language.partition("-")[0].lower(), "Latn")


def _composed(item: Lesson) -> str:
    """A line of a lesson that came in parts only."""
    said = item.action or item.avoid
    if not (item.trigger and said):
        return ""
    if _HAN.search(said):
        return f"{item.trigger}时：{item.action or '不要' + item.avoid}。"
    return f"When {item.trigger}: {item.action or 'do not ' + item.avoid}."
