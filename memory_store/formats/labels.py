"""What an agent would not have had: annotations and answers that data sets carry beside a run.

They are not loaded: a memory learned from a label would know what no agent could. Rewards, verdicts and exit states
become the outcome of the trace.
"""

from __future__ import annotations

import re

from ..events import Event
from .draft import event
from .loose import first, mapping, real, text

_LABEL = re.compile(
    r"(?:.*_)?(?:ground_?truth|gold(?:en)?|gt|true_answer|expected(?:_\w+)?|reference_(?:answer|output)s?|"
    r"annotations?|annotator_?metadata|labels?|evaluations?|reward_info|root_cause|failures?|failure_\w+|"
    r"mistake_\w+|is_correct|solution|correct_answer|answer_key|target_output|patch_gold|test_patch|fail_to_pass|"
    r"pass_to_pass)(?:_data_hash)?",
    re.I,
)
_VERDICTS = ("success", "resolved", "passed", "is_correct", "solved", "correct")
_WORDS = {
    "success": "success", "succeeded": "success", "successful": "success", "pass": "success", "passed": "success",
    "resolved": "success", "solved": "success", "completed": "success", "成功": "success",
    "failure": "failure", "failed": "failure", "fail": "failure", "error": "failure", "unresolved": "failure",
    "失败": "failure", "partial": "partial", "部分成功": "partial",
}  # fmt: skip


def is_label(key: str) -> bool:
    """Whether a key names something that only a judge of the run knows.

    >>> is_label("true_answer"), is_label("Annotator Metadata"), is_label("answer")
    (True, True, False)
    """
    return _LABEL.fullmatch(key.strip().replace(" ", "_")) is not None


def without_labels(value: object) -> object:
    """A value without the keys of labels, at any depth."""
    if isinstance(value, dict):
        return {key: without_labels(inner) for key, inner in value.items() if not is_label(str(key))}
    if isinstance(value, list):
        return [without_labels(inner) for inner in value]
    return value


def outcome_of_score(score: float) -> str:
    """A reward as an outcome: 1 success, 0 or less failure, between partial; more than 1 is on an unknown scale.

    >>> [outcome_of_score(x) for x in (1, 0, 0.5, 7)]
    ['success', 'failure', 'partial', 'unknown']
    """
    if score <= 0:
        return "failure"
    return "partial" if score < 1 else "success" if score == 1 else "unknown"


def outcome_event(record: dict[str, object]) -> Event | None:
    """The outcome that a record states: `reward`, `score`, a verdict such as `resolved`, or the word itself."""
    score = real(first(record, "reward", "score"))
    if score is None:
        score = real(mapping(record.get("reward_info")).get("reward"))
    said = next((record[name] for name in _VERDICTS if isinstance(record.get(name), bool)), None)
    word = _WORDS.get(text(first(record, "outcome", "verdict")).strip().lower(), "")
    if score is None and said is None and not word:
        return None
    outcome = word or (outcome_of_score(score) if score is not None else "success" if said else "failure")
    return event("outcome", "outcome", outcome=outcome, score=score)


#: Keys by which `outcome_event` reads an outcome.
OUTCOME_KEYS = ("reward", "score", "outcome", "verdict", "reward_info", *_VERDICTS)
