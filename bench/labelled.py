"""Labelled sets for measuring recall, read where they lie, as plain questions over documents.

The sets are third-party data: they are read from the folder given, never copied.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Document:
    """Something to be found."""

    id: str
    text: str
    #: Who said it, where that is known
    speaker: str = ""


@dataclass(frozen=True)
class Question:
    """A query with the documents that answer it."""

    text: str
    #: Ids of the documents that hold the answer
    gold: tuple[str, ...]
    #: The set's own kind of question
    kind: str = ""


@dataclass(frozen=True)
class Case:
    """One history, searched by itself: documents in order of time, and questions about them."""

    name: str
    documents: tuple[Document, ...]
    questions: tuple[Question, ...]


def _load(path: Path) -> object:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return json.load(file)


def locomo(data: Path, level: str = "turn") -> Iterator[Case]:
    """LoCoMo, categories 1 to 4; one document a turn, or a session."""
    for conversation in _load(data / "locomo" / "dev_4_conversations.json.gz"):  # type: ignore[attr-defined]
        turns = []
        for number in range(1, 100):
            for turn in conversation["conversation"].get(f"session_{number}", ()):
                image = f" [shares image: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
                turns.append(Document(turn["dia_id"], f"{turn['speaker']}: {turn['text']}{image}", turn["speaker"]))
        if level == "session":
            sessions: dict[str, list[str]] = {}
            for turn in turns:
                sessions.setdefault(turn.id.split(":")[0], []).append(turn.text)
            turns = [Document(name, "\n".join(texts)) for name, texts in sessions.items()]
        known = {turn.id for turn in turns}
        questions = []
        for item in conversation["qa"]:
            if item["category"] == 5:
                continue
            ids = [part for each in item["evidence"] for part in each.replace(";", " ").split()]
            if level == "session":
                ids = [name.split(":")[0] for name in ids]
            if gold := tuple(dict.fromkeys(name for name in ids if name in known)):
                questions.append(Question(item["question"], gold, str(item["category"])))
        yield Case(conversation["sample_id"], tuple(turns), tuple(questions))


def memdaily(data: Path) -> Iterator[Case]:
    """MemDaily: a Chinese user's messages; each trajectory is a history of its own."""
    for path in sorted((data / "memdaily").glob("*.json.gz")):
        for item in _load(path):  # type: ignore[attr-defined]
            documents = tuple(Document(str(m["mid"]), m["message"]) for m in item["message_list"])
            questions = tuple(
                Question(q["question"], tuple(map(str, q["target_step_id"])), path.name.split("_")[0])
                for q in item["question_list"]
                if q["target_step_id"]
            )
            yield Case(f"{path.name}:{item['tid']}", documents, questions)


def longmemeval(data: Path) -> Iterator[Case]:
    """LongMemEval_S, one document a session (the user's turns, then all), abstention questions left out."""
    folder = data / "longmemeval"
    with gzip.open(folder / "dev66_sessions.jsonl.gz", "rt", encoding="utf-8") as file:
        sessions = {item["key"]: item["turns"] for item in map(json.loads, file)}
    with gzip.open(folder / "dev66_questions.jsonl.gz", "rt", encoding="utf-8") as file:
        for item in map(json.loads, file):
            if item["question_id"].endswith("_abs"):
                continue
            documents = tuple(
                Document(name, "\n".join(f"{turn['role']}: {turn['content']}" for turn in sessions[key]))
                for name, key in zip(item["haystack_session_ids"], item["haystack_session_keys"], strict=True)
            )
            yield Case(
                item["question_id"],
                documents,
                (Question(item["question"], tuple(item["answer_session_ids"]), item["question_type"]),),
            )


def longmemeval_turns(data: Path) -> dict[str, list[str]]:
    """The user's turns of every session of LongMemEval, by session id of its question and session: key → texts."""
    with gzip.open(data / "longmemeval" / "dev66_sessions.jsonl.gz", "rt", encoding="utf-8") as file:
        return {
            item["key"]: [turn["content"] for turn in item["turns"] if turn["role"] == "user"]
            for item in map(json.loads, file)
        }
