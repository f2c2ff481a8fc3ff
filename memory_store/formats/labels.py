"""What an agent would not have had: annotations and answers that data sets carry beside a run.

They are not loaded: a memory learned from a label would know what no agent could. Rewards, verdicts and exit states
become the outcome of the trace.
"""

from __future__ import annotations

import re
from collections.abc import Container

from ..capture.events import Event
from .draft import event
from .loose import first, mapping, real, rest, text

_ANSWER = (
    r"(?:.*_)?(?:ground_?truth|true_answer|gold_(?:answer|label|patch)|expected_(?:answer|output|result)s?|"
    r"reference_(?:answer|output)s?|correct_answer|answer_key|annotator_?metadata)"
)
#: What is an answer wherever it stands.
_DEEP = re.compile(_ANSWER, re.I)
#: What is a label beside a run; inside of a run the same word may be anything, such as the labels of an issue.
_BESIDE = re.compile(
    rf"{_ANSWER}|(?:.*_)?(?:gold(?:en)?|gt(?:_\w+)?|annotations?|labels?|evaluations?|reward_info|root_cause|failures?|"
    r"failure_\w+|mistake_\w+|is_correct|solution|target_output|test_patch|fail_to_pass|pass_to_pass)",
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
    """Whether a key beside a run names something that only a judge of the run knows.

    >>> is_label("mistake_step"), is_label("Annotator Metadata"), is_label("answer")
    (True, True, False)
    """
    return _BESIDE.fullmatch(key.strip().replace(" ", "_")) is not None


def without_labels(value: object) -> object:
    """A value without the answers in it, at any depth."""
    if isinstance(value, dict):
        return {
            key: without_labels(inner)
            for key, inner in value.items()
            if not _DEEP.fullmatch(str(key).strip().replace(" ", "_"))
        }
    if isinstance(value, list):
        return [without_labels(inner) for inner in value]
    return value


def beside(record: dict[str, object], known: Container[str]) -> dict[str, object]:
    """What a record says beside its run, without the keys that are known, without labels and without what is empty."""
    left = {key: value for key, value in rest(record, known).items() if not is_label(key)}
    return mapping(without_labels(left))


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
