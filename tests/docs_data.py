"""A little of each set that evals read, made up here, in the layouts of the real ones."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any


def write_sets(folder: Path) -> None:
    """Fill a folder as `--data` wants it."""
    said = [
        {"dia_id": "D1:1", "speaker": "Ida", "text": "I planted three plum trees"},
        {"dia_id": "D1:2", "speaker": "Ove", "text": "My kayak leaks"},
    ]
    facts = [["Ida planted three plum trees", "D1:1"], ["Ove has a kayak", "D1:2"]]
    _write(folder / "locomo" / "own.json.gz", [{
        "sample_id": "1", "observation": {"s1": {"Ida": facts}},
        "conversation": {"speaker_a": "Ida", "speaker_b": "Ove", "session_1": said,
                         "session_1_date_time": "1:56 pm on 8 May, 2023"},
        "qa": [{"question": "What did Ida plant?", "evidence": ["D1:1"], "category": 4}],
    }])  # fmt: skip
    belief = {"user_id": "u", "aliases": [], "scope": ["domain:x"], "confidence": 0.9, "pinned": False, "type": "x",
              "superseded_by": None, "created_at": "2026-01-01T00:00:00Z",
              "resolved_at": None, "canonical_name": "tea", "content": "Drinks oolong"}  # fmt: skip
    case = {"caseId": "a", "scope": ["domain:x"], "query": "which tea?", "userId": "u",
            "expect": {"relevantBeliefs": {"shouldOnlyInclude": ["new"]}}}  # fmt: skip
    _write(folder / "precisionmembench" / "beliefs.seed.json", [{**belief, "_id": "new"}])
    _write(folder / "precisionmembench" / "retrieval.cases.json", [case])
    turns = [{"role": "user", "content": "My budget is now 8000."}, {"role": "assistant", "content": "Noted."}]
    _write(folder / "longmemeval" / "own_sessions.jsonl.gz", {"key": "a", "turns": turns})
    ask = {"haystack_session_ids": ["s1"], "haystack_session_keys": ["a"], "question_type": "single",
           "haystack_dates": ["2023/05/20 (Sat) 02:21"], "question_date": "2023/06/01 (Thu) 10:00",
           "question_id": "q1", "question": "What is the budget?", "answer_session_ids": ["s1"]}  # fmt: skip
    _write(folder / "longmemeval" / "own_questions.jsonl.gz", ask)
    history = [{"role": "A", "name": "A", "content": f"line {n} of what was said"} for n in range(4)]
    _write(folder / "whowhen" / "own.json.gz", [{
        "question": "How many?", "ground_truth": "4", "is_correct": False, "question_ID": "q", "history": history,
        "mistake_step": "2", "mistake_agent": "A", "mistake_reason": "no",
    }])  # fmt: skip


def write_pairs(path: Path) -> None:
    """Labelled pairs of texts, as `hindlake calibrate` takes them: every other one says the same."""
    lines = []
    for thing in ("lamp", "kettle", "ladder", "canoe", "violin", "blanket", "drill", "tent", "mirror", "stove"):
        for place in ("attic", "cellar", "garage", "shed"):
            first = f"The {thing} is kept in the {place}"
            lines.append({"a": first, "b": f"the {thing} is kept in the {place} now", "label": "same"})
            lines.append({"a": first, "b": f"We sold an old {thing} to our neighbours", "label": "different"})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(value, ensure_ascii=False).encode() + b"\n"
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
