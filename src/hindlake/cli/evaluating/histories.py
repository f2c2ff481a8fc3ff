"""Labelled sets as what they are labels of: histories of conversations, and questions with the turns that answer them.

The sets are third-party data: they are read from the folder given, never copied.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

#: Where a set gives no times.
_START = datetime(2024, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Turn:
    """One message."""

    id: str
    #: user · agent
    role: str
    text: str
    #: Name of who said it; empty: the role says it all
    speaker: str = ""


@dataclass(frozen=True)
class Session:
    """Turns that were said one after the other."""

    id: str
    at: datetime
    turns: tuple[Turn, ...]


@dataclass(frozen=True)
class Question:
    """A query, and what answers it."""

    text: str
    #: When it was asked: "last week" is before that
    at: datetime
    #: Ids of the turns that hold the answer
    turns: frozenset[str]
    #: Ids of the sessions that hold the answer
    sessions: frozenset[str]


@dataclass(frozen=True)
class History:
    """What one person lived through, searched by itself."""

    name: str
    sessions: tuple[Session, ...]
    questions: tuple[Question, ...]
    #: Whether the sessions are one conversation
    is_one_conversation: bool = False


def locomo(data: Path) -> Iterator[History]:
    """LoCoMo: conversations of two people over many sessions; questions of categories 1 to 4."""
    for path in sorted((data / "locomo").glob("*.json*")):
        for item in _load(path):
            talk = item["conversation"]
            sessions = []
            for number in range(1, 1 + sum(re.fullmatch(r"session_\d+", key) is not None for key in talk)):
                at = _when(talk.get(f"session_{number}_date_time", ""), "%I:%M %p on %d %B, %Y")
                said = [_locomo_turn(turn, talk["speaker_a"]) for turn in talk.get(f"session_{number}") or ()]
                if said:
                    sessions.append(Session(f"D{number}", at, tuple(said)))
            known = {turn.id for session in sessions for turn in session.turns}
            now = max(session.at for session in sessions) + timedelta(days=1)
            questions = []
            for asked in item["qa"]:
                ids = [part for each in asked.get("evidence", ()) for part in each.replace(";", " ").split()]
                gold = frozenset(id for id in ids if id in known)
                if asked["category"] != 5 and gold:
                    of = frozenset(id.split(":")[0] for id in gold)
                    questions.append(Question(asked["question"], now, gold, of))
            yield History(item["sample_id"], tuple(sessions), tuple(questions), is_one_conversation=True)


def _locomo_turn(turn: dict[str, Any], first: str) -> Turn:
    image = f" [shares image: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
    role = "user" if turn["speaker"] == first else "agent"
    return Turn(turn["dia_id"], role, f"{turn['text']}{image}", turn["speaker"])


def longmemeval(data: Path) -> Iterator[History]:
    """LongMemEval_S: a haystack of sessions a question, abstention questions left out."""
    folder = data / "longmemeval"
    sessions: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(folder.glob("*sessions*.jsonl*")):
        sessions |= {item["key"]: item["turns"] for item in _lines(path)}
    for path in sorted(folder.glob("*questions*.jsonl*")):
        for item in _lines(path):
            if item["question_id"].endswith("_abs"):
                continue
            keys = zip(item["haystack_session_ids"], item["haystack_session_keys"], item["haystack_dates"], strict=True)
            told = [
                Session(
                    id,
                    _when(date, "%Y/%m/%d %H:%M"),
                    tuple(
                        Turn(f"{id}:{n}", "user" if turn["role"] == "user" else "agent", turn["content"])
                        for n, turn in enumerate(sessions[key])
                    ),
                )
                for id, key, date in keys
            ]
            asked = Question(
                item["question"], _when(item["question_date"], "%Y/%m/%d %H:%M"), frozenset(),
                frozenset(item["answer_session_ids"]),
            )  # fmt: skip
            yield History(item["question_id"], tuple(told), (asked,))


def memdaily(data: Path) -> Iterator[History]:
    """MemDaily: a Chinese user's messages; each trajectory is a history of its own."""
    for path in sorted((data / "memdaily").glob("*.json*")):
        for item in _load(path):
            said = item["message_list"]
            at = _when(said[0].get("time", ""), "%Y年%m月%d日 %H:%M") if said else _START
            turns = tuple(Turn(str(message["mid"]), "user", message["message"]) for message in said)
            questions = tuple(
                Question(
                    asked["question"], _when(asked.get("time", ""), "%Y年%m月%d日 %H:%M"),
                    frozenset(map(str, asked["target_step_id"])), frozenset(),
                )
                for asked in item["question_list"]
                if asked["target_step_id"]
            )  # fmt: skip
            yield History(f"{path.name}:{item['tid']}", (Session("day", at, turns),), questions)


def _load(path: Path) -> Any:
    with _open(path) as file:
        return json.load(file)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with _open(path) as file:
        yield from map(json.loads, file)


def _open(path: Path) -> Any:
    return gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8")


def _when(text: str, form: str) -> datetime:
    """A time as a set writes it, the name of the weekday left out."""
    plain = re.sub(r"\s*\(?(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\)?|\s*(?:周|星期)[一二三四五六日天]", "", text)
    try:
        return datetime.strptime(" ".join(plain.replace("am ", "AM ").replace("pm ", "PM ").split()), form).replace(
            tzinfo=UTC
        )
    except ValueError:
        return _START
