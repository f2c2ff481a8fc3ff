"""The sets that `hindlake eval dedup` measures on, read from a folder of third-party data."""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

from ...memory_store.clock import END_OF_TIME
from ...memory_store.history.inbox import Row
from ..comparing.wording import normal_text
from ..reflecting.rules.sentences import sentences_of

_START = datetime(2026, 1, 1, tzinfo=UTC)
#: Pair sets: file, columns of the two texts and of the label, the label from which they are the same.
PAIR_SETS = {
    "lcqmc": ("zh_lcqmc_dev.txt.gz", 0, 1, 2, 1.0),
    "afqmc": ("zh_afqmc_dev.txt.gz", 0, 1, 2, 1.0),
    "stsb_zh": ("zh_stsb_dev.txt.gz", 0, 1, 2, 4.5),
    "stsb_en": ("en_stsb_dev.csv.gz", 5, 6, 4, 4.5),
    "pawsx": ("zh_pawsx_dev.tsv.gz", 1, 2, 3, 1.0),
}


@dataclass(frozen=True)
class Update:
    """Statements of one subject, of which a later one may change an earlier one."""

    #: What is written at a time, earliest first: rows with `id`
    batches: tuple[tuple[Row, ...], ...]
    #: Whether an earlier and a later text are the ones that are meant
    meant: Callable[[str, str], bool]


def is_reported(first: str, second: str) -> bool:
    """Whether a labelled pair is in the half that figures are given on. The other half is for fitting.

    >>> is_reported("a", "b") == is_reported("b", "a")
    True
    """
    pair = "\0".join(sorted((first, second))).encode("utf-8", "surrogatepass")
    return blake2b(pair, digest_size=1).digest()[0] % 2 == 1


def row_of(text: str, subject: str, at: datetime = _START, id: str = "") -> Row:
    """A memory that was just written: a pending fact of a subject, stated at a time."""
    return {
        "id": id or text, "seq": 1, "text": text, "kind": "fact", "subject": subject, "attribute": "", "value": "",
        "state": "pending", "valid_from": at, "valid_to": END_OF_TIME, "superseded_by": "",
    }  # fmt: skip


def day(number: int) -> datetime:
    """A day of the time in which what has no time of its own is said."""
    return _START + timedelta(days=number)


def _gz_json(path: Path) -> Any:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return json.load(file)


def labelled_pairs(path: Path, first: int, second: int, label: int, same_from: float) -> list[tuple[str, str, bool]]:
    """The pairs of a file, and whether their label says that they are the same; other lines are left out."""
    pairs = []
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            parts = line.rstrip("\n").split("\t")
            if len(parts) > max(first, second, label) and re.fullmatch(r"\d+(?:\.\d+)?", parts[label].strip()):
                pairs.append((parts[first], parts[second], float(parts[label]) >= same_from))
    return pairs


def locomo(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """What was observed of each person of each conversation: distinct facts of one subject."""
    for path in sorted(folder.glob("*.json.gz")):
        for conversation in _gz_json(path):
            facts: dict[str, list[str]] = defaultdict(list)
            for session in conversation.get("observation", {}).values():
                for person, some in session.items():
                    facts[person] += [str(fact[0]) for fact in some]
            for person, texts in facts.items():
                yield f"{conversation.get('sample_id')}|{person}", texts


def memdaily(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """The messages of one user of each history."""
    for path in sorted(folder.glob("*.json.gz")):
        for case in _gz_json(path):
            yield f"{path.name}|{case['tid']}", [message["message"] for message in case["message_list"]]


def _sentences(text: str) -> list[str]:
    return [part for part in sentences_of(text) if len(part) > 8]


_NUMBER_WORDS = dict(enumerate(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]))


def _has_answer(text: str, answer: str) -> bool:
    plain = text.casefold()
    words = [answer.casefold(), _NUMBER_WORDS.get(int(answer), "") if answer.isdigit() else ""]
    return any(word and re.search(rf"(?<![\w,]){re.escape(word)}(?!\w|[.,]\d)", plain) for word in words)


def _either_has(answer: str, one: str, two: str) -> bool:
    return _has_answer(one, answer) or _has_answer(two, answer)


def longmemeval(folder: Path) -> Iterator[Update]:
    """Questions about what changed: the sentences of the turns that hold the answer, of the first and the last day."""
    keys: dict[str, Any] = {}
    for path in sorted(folder.glob("*sessions.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            keys |= {one["key"]: one["turns"] for one in map(json.loads, file)}
    for path in sorted(folder.glob("*questions.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            questions = [json.loads(line) for line in file]
        for question in questions:
            if question["question_type"] != "knowledge-update" or question["question_id"].endswith("_abs"):
                continue
            days = []
            for session, key, date in zip(
                question["haystack_session_ids"],
                question["haystack_session_keys"],
                question["haystack_dates"],
                strict=True,
            ):
                if session in question["answer_session_ids"]:
                    turns = [turn["content"] for turn in keys[key] if turn["role"] == "user" and turn.get("has_answer")]
                    at = datetime.strptime(re.sub(r" \(\w+\)", "", date), "%Y/%m/%d %H:%M").replace(tzinfo=UTC)
                    days.append((at, [sentence for turn in turns for sentence in _sentences(turn)]))
            days.sort(key=lambda day: day[0])
            if len(days) < 2 or not days[0][1] or not days[-1][1]:
                continue
            batches = (
                tuple(row_of(text, "user", at, f"{place}.{number}") for number, text in enumerate(texts))
                for place, (at, texts) in enumerate((days[0], days[-1]))
            )
            yield Update(tuple(batches), partial(_either_has, str(question["answer"])))


def realmem(folder: Path) -> Iterator[Update]:
    """Memory points that are stated again, in other words, further down the list of a session or in a later one."""
    for path in sorted(folder.glob("*.json.gz")):
        seen: dict[str, tuple[str, datetime]] = {}
        for number, dialogue in enumerate(_gz_json(path)["dialogues"]):
            said = datetime.strptime(dialogue["current_time"][:10], "%Y-%m-%d").replace(tzinfo=UTC)
            for place, point in enumerate(dialogue.get("extracted_memory") or ()):
                text = re.sub(r"^【[^】]*】\s*", "", point["content"])
                at = said + timedelta(minutes=number, seconds=place)
                before = seen.get(point["index"])
                seen[point["index"]] = (text, at)
                if before is None or normal_text(before[0]) == normal_text(text):
                    continue
                older, newer = row_of(before[0], "user", before[1], "0"), row_of(text, "user", at, "1")
                yield Update(((older,), (newer,)), _any_two)


def _any_two(one: str, two: str) -> bool:
    return True


def beliefs(folder: Path) -> tuple[dict[str, Row], dict[str, str]]:
    """Beliefs by id, each of its own user and scope, and which one superseded which."""
    found = json.loads((folder / "beliefs.seed.json").read_text(encoding="utf-8"))
    rows = {
        one["_id"]: row_of(
            one["content"],
            f"{one['user_id']}|{'|'.join(one['scope'])}",
            datetime.fromisoformat(one["created_at"]),
            one["_id"],
        )
        for one in found
    }
    return rows, {one["_id"]: one["superseded_by"] for one in found if one["superseded_by"]}
