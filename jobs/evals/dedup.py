"""Would deduplication merge what differs, and miss what is the same? Pairs are typed by the function that the jobs use.

Each set is read from a folder of its name below `data`; a set that is not there is left out.

| set | right means |
|---|---|
| locomo, memdaily | no two facts of one person, no two messages of one user are merged, unless their words are the same |
| pairs | precision and recall of what is merged (same or refines), a set; of PAWS-X, pairs that differ and are merged |
| longmemeval, realmem | the newer statement supersedes the older one, and stays |
| precisionmembench | what was superseded is superseded by its successor; nobody's belief meets another user's |
"""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...memory_store.calibration import Calibration, language_of_pair
from ...memory_store.errors import UsageError
from ...memory_store.inbox import Row
from ..pairs import Pair, Verdict, type_pairs
from ..rules.attributes import holds_many
from ..wording import normal_text
from .vector_cache import VectorCache

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Matrix = npt.NDArray[np.float32]

#: One set's figures, by name.
Figures = dict[str, float | int]
#: Told what is being done: set, done, all.
Progress = Callable[[str, int, int], None]
#: Pairs that are less likely than this to be about one thing are not typed, as the jobs only meet neighbours.
_NEAR = 0.05
_START = datetime(2026, 1, 1, tzinfo=UTC)
#: Pair sets: file, columns of the two texts and of the label, the label from which they are the same.
_PAIR_SETS = {
    "lcqmc": ("zh_lcqmc_dev.txt.gz", 0, 1, 2, 1.0),
    "afqmc": ("zh_afqmc_dev.txt.gz", 0, 1, 2, 1.0),
    "stsb_zh": ("zh_stsb_dev.txt.gz", 0, 1, 2, 4.5),
    "stsb_en": ("en_stsb_dev.csv.gz", 5, 6, 4, 4.5),
    "pawsx": ("zh_pawsx_dev.tsv.gz", 1, 2, 3, 1.0),
}


class DedupEval:
    """The sets of one folder, measured with one embedder and its calibration."""

    def __init__(self, data: Path, vectors: VectorCache, embedder: str, progress: Progress | None = None) -> None:
        """Raises `UsageError` when the folder holds none of the sets."""
        self._data, self._vectors, self._embedder = data, vectors, embedder
        self._progress = progress or (lambda name, done, count: None)
        self._sets: dict[str, Callable[[], Figures]] = {
            "locomo": lambda: self._facts("locomo", list(_locomo(data / "locomo"))),
            "memdaily": lambda: self._facts("memdaily", list(_memdaily(data / "memdaily"))),
            "longmemeval": lambda: self._updates("longmemeval", list(_longmemeval(data / "longmemeval"))),
            "realmem": lambda: self._updates("realmem", list(_realmem(data / "realmem"))),
            "precisionmembench": lambda: self._beliefs(data / "precisionmembench"),
        }
        if not any((data / name).is_dir() for name in (*self._sets, "pairs")):
            raise UsageError(f"{data} holds none of the folders {', '.join((*self._sets, 'pairs'))}: give theirs")

    def evaluate(self) -> dict[str, Any]:
        """Figures of every set that is there, and the totals that matter most at the top."""
        found: dict[str, Any] = {name: run() for name, run in self._sets.items() if (self._data / name).is_dir()}
        folder = self._data / "pairs"
        for name, (file, *columns) in _PAIR_SETS.items():
            if (folder / file).is_file():
                found[name] = self._labelled(name, _pair_file(folder / file, *columns))  # type: ignore[arg-type]
        updates = [found[name] for name in ("longmemeval", "realmem") if name in found]
        return {
            "false_merges": sum(found[name]["false_merges"] for name in ("locomo", "memdaily") if name in found),
            "pawsx_merged": found.get("pawsx", {}).get("wrong", 0),
            "updates_right": sum(one["updates_right"] for one in updates),
            "n": sum(one["n"] for one in updates),
            **found,
        }

    def _typed(self, name: str, pairs: Sequence[tuple[Row, Row]]) -> list[Verdict]:
        """The verdict on each pair, with probabilities from the calibration."""
        texts = list(dict.fromkeys(str(row["text"]) for pair in pairs for row in pair))
        matrix = self._vectors.passages(texts, lambda done, count: self._progress(name, done, count))
        place = {text: number for number, text in enumerate(texts)}
        ready = []
        for first, second in pairs:
            cosine = float(matrix[place[first["text"]]] @ matrix[place[second["text"]]])
            means = Calibration.of(self._embedder, language_of_pair(first["text"], second["text"]))
            ready.append(Pair(first, second, float(means.same(cosine)), float(means.same_topic(cosine))))
        return type_pairs(ready, holds_many=holds_many)

    def _facts(self, name: str, groups: Sequence[tuple[str, list[str]]]) -> Figures:
        """Distinct facts of one subject: every pair of neighbours is typed."""
        import numpy as np

        figures: Figures = {"false_merges": 0, "superseded": 0, "groups": len(groups), "pairs": 0, "typed": 0}
        texts = list(dict.fromkeys(text for _, some in groups for text in some))
        self._vectors.passages(texts, lambda done, count: self._progress(name, done, count))
        done: set[tuple[str, str]] = set()
        pairs: list[tuple[Row, Row]] = []
        for subject, some in groups:
            own = list({normal_text(text): text for text in some}.values())
            matrix = self._vectors.passages(own)
            cosines = matrix @ matrix.T
            figures["pairs"] += len(own) * (len(own) - 1) // 2
            lowest = min(self._nearest(language) for language in ("en", "zh", "any"))
            for one, two in zip(*np.nonzero(np.triu(cosines >= lowest, 1)), strict=True):
                key = (own[one], own[two])
                if key not in done:
                    done.add(key)
                    pairs.append((_row(own[one], subject, int(one)), _row(own[two], subject, int(two))))
        figures["typed"] = len(pairs)
        for verdict in self._typed(name, pairs):
            figures["false_merges"] += verdict.joins
            figures["superseded"] += verdict.type in ("supersedes", "conflicts")
        return figures

    def _nearest(self, language: str) -> float:
        """The lowest cosine at which two texts may be about one thing."""
        topic = Calibration.of(self._embedder, language).fit.topic
        return next((cosine for cosine, probability in topic if probability >= _NEAR), 1.0)

    def _labelled(self, name: str, pairs: Sequence[tuple[str, str, bool]]) -> Figures:
        """Pairs with a label; those of the same words in both are counted apart: no rule could tell them apart."""
        rows = [(_row(first, "someone", 0), _row(second, "someone", 0)) for first, second, _ in pairs]
        merged = [verdict.joins for verdict in self._typed(name, rows)]
        alike = [normal_text(first) == normal_text(second) for first, second, _ in pairs]
        right = sum(join and same for join, (_, _, same) in zip(merged, pairs, strict=True))
        wrong = sum(
            join and not same and not equal for join, equal, (_, _, same) in zip(merged, alike, pairs, strict=True)
        )
        positive = sum(same for _, _, same in pairs)
        return {
            "precision": round(right / (right + wrong), 4) if right + wrong else 0.0,
            "recall": round(right / positive, 4) if positive else 0.0,
            "right": right,
            "wrong": wrong,
            "n": len(pairs),
            "positive": positive,
            "same_words_called_different": sum(
                equal and not same for equal, (_, _, same) in zip(alike, pairs, strict=True)
            ),
        }

    def _updates(self, name: str, cases: Sequence[tuple[list[Row], list[Row], Callable[[str, str], bool]]]) -> Figures:
        """Statements of an earlier and of a later time: right when one of the later supersedes (or refines) the earlier
        one that it updates, and when none of the later ones is retired by an earlier one.
        """
        pairs: list[tuple[Row, Row]] = []
        spans = []
        for older, newer, _ in cases:
            spans.append(len(pairs))
            pairs += [(one, two) for one in older for two in newer]
        verdicts = self._typed(name, pairs)
        figures: Figures = {"updates_right": 0, "n": len(cases), "wrongly_retired": 0}
        for start, (older, newer, meant) in zip(spans, cases, strict=True):
            count = len(older) * len(newer)
            hit = False
            for (one, two), verdict in zip(pairs[start : start + count], verdicts[start : start + count], strict=True):
                retires = verdict.type in ("supersedes", "refines", "same")
                if retires and meant(one["text"], two["text"]) and (verdict.stands == 1 or verdict.type == "same"):
                    hit = True
                elif retires and verdict.type != "same":
                    figures["wrongly_retired"] += 1
            figures["updates_right"] += hit
        return figures

    def _beliefs(self, folder: Path) -> Figures:
        beliefs = json.loads((folder / "beliefs.seed.json").read_text(encoding="utf-8"))
        rows = {
            one["_id"]: {
                **_row(one["content"], f"{one['user_id']}|{'|'.join(one['scope'])}", 0),
                "valid_from": datetime.fromisoformat(one["created_at"]),
            }
            for one in beliefs
        }
        chain = {one["_id"]: one["superseded_by"] for one in beliefs if one["superseded_by"]}
        ids = list(rows)
        pairs = [(one, two) for place, one in enumerate(ids) for two in ids[place + 1 :]]
        verdicts = dict(
            zip(pairs, self._typed("precisionmembench", [(rows[one], rows[two]) for one, two in pairs]), strict=True)
        )
        figures: Figures = {"superseded_right": 0, "n": len(chain), "isolation_broken": 0, "wrongly_joined": 0}
        for (one, two), verdict in verdicts.items():
            meant = chain.get(one) == two or chain.get(two) == one
            if verdict.type == "supersedes" and meant:
                figures["superseded_right"] += 1
            elif verdict.joins or verdict.type == "supersedes":
                figures["wrongly_joined"] += 1
                figures["isolation_broken"] += rows[one]["subject"] != rows[two]["subject"]
        return figures


def _row(text: str, subject: str, day: int) -> Row:
    return {"text": text, "kind": "fact", "subject": subject, "valid_from": _START + timedelta(days=day)}


def _gz_json(path: Path) -> Any:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return json.load(file)


def _pair_file(path: Path, first: int, second: int, label: int, same_from: float) -> list[tuple[str, str, bool]]:
    pairs = []
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            parts = line.rstrip("\n").split("\t")
            if len(parts) > max(first, second, label) and re.fullmatch(r"\d+(?:\.\d+)?", parts[label].strip()):
                pairs.append((parts[first], parts[second], float(parts[label]) >= same_from))
    return pairs


def _locomo(folder: Path) -> Iterator[tuple[str, list[str]]]:
    for path in sorted(folder.glob("*.json.gz")):
        for conversation in _gz_json(path):
            facts: dict[str, list[str]] = defaultdict(list)
            for session in conversation.get("observation", {}).values():
                for person, some in session.items():
                    facts[person] += [str(fact[0]) for fact in some]
            for person, texts in facts.items():
                yield f"{conversation.get('sample_id')}|{person}", texts


def _memdaily(folder: Path) -> Iterator[tuple[str, list[str]]]:
    for path in sorted(folder.glob("*.json.gz")):
        for case in _gz_json(path):
            yield f"{path.name}|{case['tid']}", [message["message"] for message in case["message_list"]]


def _sentences(text: str) -> list[str]:
    return [part.strip() for part in re.split(r"(?<=[.!?。！？])\s+", text) if len(part.strip()) > 8]


_NUMBER_WORDS = dict(enumerate(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]))


def _has_answer(text: str, answer: str) -> bool:
    plain = text.casefold()
    words = [answer.casefold(), _NUMBER_WORDS.get(int(answer), "") if answer.isdigit() else ""]
    return any(word and re.search(rf"(?<![\w,]){re.escape(word)}(?![\w,])", plain) for word in words)


def _either_has(answer: str, one: str, two: str) -> bool:
    return _has_answer(one, answer) or _has_answer(two, answer)


def _longmemeval(folder: Path) -> Iterator[tuple[list[Row], list[Row], Callable[[str, str], bool]]]:
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
            older, newer = (
                [{**_row(text, "user", 0), "valid_from": at} for text in texts] for at, texts in (days[0], days[-1])
            )
            yield older, newer, partial(_either_has, str(question["answer"]))


def _realmem(folder: Path) -> Iterator[tuple[list[Row], list[Row], Callable[[str, str], bool]]]:
    """Memory points that a later session states anew: the same index, another text."""
    for path in sorted(folder.glob("*.json.gz")):
        seen: dict[str, tuple[str, datetime]] = {}
        for dialogue in _gz_json(path)["dialogues"]:
            at = datetime.strptime(dialogue["current_time"][:10], "%Y-%m-%d").replace(tzinfo=UTC)
            for point in dialogue.get("extracted_memory") or ():
                text = re.sub(r"^【[^】]*】\s*", "", point["content"])
                before = seen.get(point["index"])
                seen[point["index"]] = (text, at)
                if before is None or before[1] >= at or normal_text(before[0]) == normal_text(text):
                    continue
                older, newer = ({**_row(said, "user", 0), "valid_from": when} for said, when in (before, (text, at)))
                yield [older], [newer], lambda one, two: True
