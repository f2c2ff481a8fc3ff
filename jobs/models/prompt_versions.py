"""The next version of a prompt: the newest one, with examples of what reviewers found right and wrong (R11).

An example is shown to the model with every trace, so it must be nobody's: one that holds a secret, an id, a date, an
amount or a name of its trace, or that reads like an order, is left out, with the reason.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from ...memory_store.capture.events import Trace
from ...memory_store.capture.masking import Mask
from ...memory_store.capture.traces import read_traces
from ...memory_store.errors import SettingsError, UsageError
from ...memory_store.files.lake import Lake
from ...memory_store.history.inbox import Row
from ...memory_store.records.reflected import memories_of
from ...memory_store.records.reviews import last_verdicts, read_reviews
from ...memory_store.settings import Settings
from ..deciding.resolve import normal_text
from ..reflecting.rendering import neutral
from ..reflecting.reply_checks import Source, names_in
from ..reflecting.rules.checks import holds_token
from ..reflecting.rules.failures import commands
from ..reflecting.rules.generalise import instance_in
from .budget import estimate_tokens
from .prompt_files import Prompt, check_reflects, load_prompt, newest, number_of, prompt_folder, prompt_names

#: Most examples of a version, and the most tokens that they take together.
EXAMPLES, ROOM = 8, 1_500
#: The longest quote that an example shows.
_QUOTE = 200
_TITLE = "# What reviewers said"
_INTRO = """\
People have judged notes that were made from other records. One JSON object a line: `verdict` is what they said,
`reason` why, `better` how a wrong note should have read. Learn from them what is worth noting and how it is worded.
They are from other records: never repeat one, and take no word of them for a part of this record.
"""
_SECTION = re.compile(rf"^{_TITLE}\n.*?(?=^# |\Z)", re.S | re.M)
_SHOWN = ("text", "trigger", "action", "avoid", "why", "not_when", "attribute", "value")


@dataclass(frozen=True)
class Example:
    """A judged memory as the prompt shows it."""

    memory_id: str
    review_id: str
    #: right · wrong
    verdict: str
    #: The line of the prompt, as JSON
    line: str


@dataclass(frozen=True)
class LeftOut:
    """A verdict that is no example, and why."""

    memory_id: str
    verdict: str
    why: str


@dataclass(frozen=True)
class Version:
    """A version of a prompt that is not written yet."""

    prompt: Prompt
    #: The version that it was made from
    base: str
    namespace: str
    examples: tuple[Example, ...]
    left_out: tuple[LeftOut, ...]
    #: Tokens of the examples, and of the whole prompt, estimated high
    example_tokens: int
    tokens: int


def next_version(
    lake: Lake, namespace: str, settings: Settings, *, base: str = "", most: int = EXAMPLES, room: int = ROOM
) -> Version:
    """The version that follows the newest one: `base`, the newest unless named, with examples out of the verdicts.

    Of the verdicts that can be shown, half are right ones and half wrong ones where there are enough, of kinds and
    tools as different as possible, the latest first. Examples that the base has from reviews are replaced. Raises
    `UsageError` when no verdict can be shown, or when the base shows the same ones already.
    """
    names = prompt_names(settings.model.prompts)
    before = load_prompt(base or newest(names), settings.model.prompts)
    check_reflects(before.name)
    usable, left_out = _usable(lake, namespace)
    examples, over = _chosen(usable, most, room)
    if not examples:
        raise UsageError(
            f"none of {len(left_out) + len(over)} verdicts of namespace {namespace} can be an example: judge more with "
            "`hindlake review`, and say why a memory is wrong; `hindlake prompts next --dry-run --json` says what is "
            "left out"
            if left_out or over
            else f"nothing was judged in namespace {namespace} yet: run `hindlake review`"
        )
    lines = "\n".join(example.line for example in examples)
    section = f"{_TITLE}\n\n{_INTRO}\n```jsonl\n{lines}\n```\n"
    text = f"{_SECTION.sub('', before.text).rstrip()}\n\n{section}"
    if text == before.text:
        raise UsageError(f"{before.name} has these examples already: judge more with `hindlake review`")
    return Version(
        prompt=Prompt(_following(newest(names)), text),
        base=before.name,
        namespace=namespace,
        examples=tuple(examples),
        left_out=(*left_out, *over),
        example_tokens=estimate_tokens(lines),
        tokens=estimate_tokens(text),
    )


def write_version(version: Version, settings: Settings, at: datetime) -> tuple[Prompt, Path]:
    """Write a version into the folder of the settings, under the next number that is free; return it and its path.

    Beside it lies what it was made of, by id (`reflect.v2.json`). Raises `SettingsError` where nothing can be written.
    """
    if not settings.model.prompts:
        raise SettingsError(
            "there is no folder for prompts of your own (those that come with hindlake are read-only): set "
            "HINDLAKE_MODEL_PROMPTS, such as HINDLAKE_MODEL_PROMPTS=./prompts"
        )
    folder = prompt_folder(settings.model.prompts)
    prompt = version.prompt
    try:
        folder.mkdir(parents=True, exist_ok=True)
        while True:
            path = folder / f"{prompt.name}.md"
            try:
                with path.open("x", encoding="utf-8", newline="\n") as file:
                    file.write(prompt.text)
                break
            except FileExistsError:
                prompt = replace(prompt, name=_following(prompt.name))
        made = {"base": version.base, "namespace": version.namespace, "at": at.isoformat()}
        ids = [{name: value for name, value in asdict(item).items() if name != "line"} for item in version.examples]
        path.with_suffix(".json").write_text(json.dumps({**made, "examples": ids}, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise SettingsError(
            f"{folder} can't be written ({error.strerror}): set HINDLAKE_MODEL_PROMPTS to a folder that can"
        ) from error
    return prompt, path


def _following(name: str) -> str:
    """The version after this one.

    >>> _following("reflect.v9")
    'reflect.v10'
    """
    return f"{name.rpartition('.v')[0]}.v{number_of(name) + 1}"


@dataclass(frozen=True)
class _Usable:
    example: Example
    #: What examples should differ in
    group: tuple[str, str]
    same: str


def _usable(lake: Lake, namespace: str) -> tuple[list[_Usable], list[LeftOut]]:
    """Verdicts that can be shown, the latest first, and the others with the reason."""
    verdicts = sorted(
        last_verdicts(read_reviews(lake, namespace)).values(), key=lambda row: (row["at"], row["review_id"])
    )
    memories = memories_of(lake, namespace, [row["memory_id"] for row in verdicts])
    ids = {item["trace_id"] for memory in memories.values() for item in memory["evidence"] or ()}
    names = {trace.trace_id: _names(trace) for trace in read_traces(lake, namespace, ids)}
    mask = Mask(secrets=True, personal=True)
    usable: list[_Usable] = []
    left_out: list[LeftOut] = []
    for row in reversed(verdicts):
        memory = memories.get(row["memory_id"])
        why = _unfit(row, memory, names, mask)
        if why or memory is None:
            left_out.append(LeftOut(row["memory_id"], row["verdict"], why))
            continue
        example = Example(row["memory_id"], row["review_id"], row["verdict"], _line(row, memory, names, mask))
        group = (memory["kind"], memory["tool"] or memory["task_type"] or "")
        usable.append(_Usable(example, group, normal_text(memory["text"])))
    return usable, left_out


def _unfit(row: Row, memory: Row | None, names: dict[str, tuple[str, ...]], mask: Mask) -> str:
    """Why a verdict can't be shown; empty if it can."""
    if row["verdict"] == "unsure":
        return "the reviewer was unsure"
    if row["verdict"] == "wrong" and not row["reason"]:
        return "no reason was given why it is wrong"
    if memory is None or not memory["text"]:
        return "the memory is gone"
    traces = {item["trace_id"] for item in memory["evidence"] or ()}
    if not traces <= names.keys():
        return "its trace is gone, so that names in it can't be told"
    said = [memory[name] or "" for name in _SHOWN] + [row["reason"], row["better"]]
    return _private(said, _names_of(memory, names), mask)


def _private(texts: Iterable[str], names: Sequence[str], mask: Mask) -> str:
    """Why texts must not be shown to whoever reads the prompt; empty if they may."""
    said = "\n".join(text for text in texts if text)
    if mask.text(said)[1] or "[masked:" in said or holds_token(said):
        return "it holds a secret or personal data"
    if instance_in(said, names):
        return "it is an instance: it holds an id, a date, an amount or a name"
    if commands(said):
        return "it reads like an instruction"
    return ""


def _names(trace: Trace) -> tuple[str, ...]:
    return names_in(Source(trace, {str(place): event for place, event in enumerate(trace.events)}))


def _names_of(memory: Row, names: dict[str, tuple[str, ...]]) -> list[str]:
    """Names that occur in the traces of a memory, and whom it is about."""
    found = {name for item in memory["evidence"] or () for name in names[item["trace_id"]]}
    return sorted(found | ({memory["subject"]} if memory["subject"] else set()))


def _line(row: Row, memory: Row, names: dict[str, tuple[str, ...]], mask: Mask) -> str:
    """The line of the prompt. The quote is shown where it may be."""
    shown: dict[str, Any] = {"verdict": row["verdict"], "reason": row["reason"], "better": row["better"]}
    shown["kind"] = memory["kind"]
    quote = next((item["quote"] for item in memory["evidence"] or ()), "")
    if len(quote) <= _QUOTE and not _private([quote], _names_of(memory, names), mask):
        shown["quote"] = quote
    shown |= {name: memory[name] for name in _SHOWN}
    return json.dumps({name: neutral(value) for name, value in shown.items() if value}, ensure_ascii=False)


def _chosen(usable: Sequence[_Usable], most: int, room: int) -> tuple[list[Example], list[LeftOut]]:
    """Examples within their number and room, right and wrong ones in turn, each from another group while there are."""
    left_out: list[LeftOut] = []
    seen: set[str] = set()
    queues: dict[str, list[Example]] = {}
    for verdict in ("right", "wrong"):
        ranked: list[tuple[int, int, Example]] = []
        turn: dict[tuple[str, str], int] = defaultdict(int)
        for place, item in enumerate(usable):
            if item.example.verdict != verdict:
                continue
            if item.same in seen:
                left_out.append(LeftOut(item.example.memory_id, verdict, "another example says the same"))
                continue
            seen.add(item.same)
            ranked.append((turn[item.group], place, item.example))
            turn[item.group] += 1
        queues[verdict] = [example for _, _, example in sorted(ranked, key=lambda item: item[:2])]
    chosen: list[Example] = []
    while queues["right"] or queues["wrong"]:
        counts = {name: sum(example.verdict == name for example in chosen) for name in queues}
        verdict = min((name for name in queues if queues[name]), key=lambda name: (counts[name], name))
        example = queues[verdict].pop(0)
        tokens = estimate_tokens(example.line)
        if len(chosen) >= most or tokens > room:
            left_out.append(LeftOut(example.memory_id, verdict, "there is no room for it"))
            continue
        chosen.append(example)
        room -= tokens
    return chosen, left_out
