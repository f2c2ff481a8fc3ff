"""What the door to the model gives back, and how the body of a chat completion is read without trusting it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Generic, Literal

from .reading import Lost, M
from .repair import clean_text
from .replies import Reply

#: Ways to ask for structured output, the best first.
Mode = Literal["json_schema", "json_object", "text"]
MODES: tuple[Mode, ...] = ("json_schema", "json_object", "text")


@dataclass(frozen=True)
class Answer(Generic[M]):
    """What came of one question. Numbers say what was paid now: a kept reply costs nothing."""

    #: The answer, without what was lost; None when there is none
    value: M | None
    #: The last reply, verbatim
    raw: str = ""
    #: Every reply to this question, kept or new
    replies: tuple[Reply, ...] = ()
    #: Pieces of the reply that could not be used
    lost: tuple[Lost, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    #: Whether some of the tokens are estimated
    estimated: bool = False
    #: Micro-dollars
    cost: int = 0
    latency_us: int = 0
    #: Calls made now, failed ones included
    calls: int = 0
    #: Why there is no answer, or why it is not whole; empty when it is
    error: str = ""
    #: Whether the prompt was longer than the model can read
    too_long: bool = False


@dataclass(frozen=True)
class Failure:
    """Why a call gave no reply, and what is to be done about it."""

    #: What went wrong
    reason: str
    #: again: the same call may work later · weaker: ask for less structure · adapt: drop a parameter ·
    #: give_up: this question can't be answered · stop: no question can
    remedy: Literal["again", "weaker", "adapt", "give_up", "stop"]
    #: Seconds that the endpoint asked to wait
    wait: float = 0.0
    #: Whether the endpoint may have done the work all the same, and may charge for it
    may_cost: bool = False
    #: The parameter to drop
    parameter: str = ""
    #: Whether the prompt was longer than the model can read
    too_long: bool = False
    #: fails: it is the endpoint that fails, rather than this question · gone: it can't be reached at all
    endpoint: Literal["", "fails", "gone"] = ""
    #: Whether the endpoint said that it is the structure which it does not know
    sure: bool = False

    @property
    def kind(self) -> str:
        """What went wrong in one word that quotes no one: an HTTP status, unreachable, no_reply, or the remedy."""
        if status := _STATUS.search(self.reason):
            return status[1]
        return {"gone": "unreachable", "fails": "no_reply"}.get(self.endpoint, self.remedy)


_STATUS = re.compile(r"\bHTTP (\d{3})\b")
_STRUCTURE = re.compile(r"response_?format|json_?schema|json_?object|json mode|structured|grammar|schema", re.I)
_TOO_LONG = re.compile(
    r"context[_ ](?:length|window|size)|maximum context|too (?:long|large|many tokens)|exceeds? the (?:available )?"
    r"(?:context|limit|max)|(?:reduce|shorten) the (?:length|prompt|input)|prompt is longer",
    re.I,
)
_QUOTA = re.compile(r"insufficient_quota|exceeded your current quota|billing|credit balance|payment", re.I)
_FILTERED = re.compile(r"content[_ ](?:filter|management|policy)|moderation|flagged", re.I)
#: Statuses that say "later".
_LATER = (408, 409, 425, 429)
#: Longest message of an endpoint that is passed on.
_MESSAGE = 300


def failure_of_status(status: int, message: str, wait: float, mode: Mode, proven: bool) -> Failure:
    """What an HTTP status other than 200 means, asked in this mode.

    `proven` says whether the mode has worked before: an endpoint that never answered in it may fail because of it.
    """
    said = f"HTTP {status}: {' '.join(message.split())[:_MESSAGE]}"
    if status == 401 or status == 402 or (status == 429 and _QUOTA.search(message)):
        return Failure(f"{said} (check HINDLAKE_MODEL_API_KEY and the account)", "stop")
    if status == 404 and not _STRUCTURE.search(message):
        return Failure(f"{said} (check HINDLAKE_MODEL_BASE_URL and HINDLAKE_MODEL_NAME)", "stop")
    if status in _LATER:
        return Failure(said, "again", wait, endpoint="fails")
    if status in (400, 413, 422) and _TOO_LONG.search(message):
        return Failure(said, "give_up", too_long=True)
    if status in (400, 422) and "max_completion_tokens" in message:
        return Failure(said, "adapt", parameter="max_tokens")
    if status in (400, 422) and "temperature" in message:
        return Failure(said, "adapt", parameter="temperature")
    if status in (400, 403, 422) and _FILTERED.search(message):
        return Failure(f"the endpoint refused the question: {said}", "give_up")
    if mode != "text" and (_STRUCTURE.search(message) or status == 501):
        return Failure(said, "weaker", sure=True)
    if status >= 500:
        # Some servers fail with a 500 over a schema that they don't know.
        is_doubtful = status == 500 and not proven and mode != "text"
        return Failure(said, "weaker" if is_doubtful else "again", wait, endpoint="fails")
    if status in (400, 415, 422) and mode != "text" and not proven:
        return Failure(said, "weaker")
    return Failure(said, "give_up")


def reply_of_body(body: bytes, key: str, mode: Mode) -> Reply | Failure:
    """A reply from the body of a chat completion; tokens are 0 and estimated when the endpoint does not say."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        start = " ".join(body[:200].decode("utf-8", "replace").split())
        return Failure(f"the endpoint's reply is no JSON: {start!r}", "again", may_cost=True, endpoint="fails")
    data = data if isinstance(data, dict) else {}
    if error := data.get("error"):
        code = error.get("code") if isinstance(error, dict) else None
        said = f"the endpoint reports an error: {' '.join(str(error).split())[:_MESSAGE]}"
        return Failure(said, "give_up" if code in (400, 403, 413, 422) else "again", endpoint="fails")
    choices = data.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None
    message = choice.get("message") if choice else None
    if choice is None or not isinstance(message, dict):
        return Failure("the endpoint's reply holds no message", "again", may_cost=True, endpoint="fails")
    usage = data.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    tokens = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
    counted = all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in tokens) and tokens[0] != 0
    finish = str(choice.get("finish_reason") or "")
    refusal = str(message.get("refusal") or "")
    if finish == "content_filter" and not refusal:
        refusal = "stopped by the endpoint's content filter"
    return Reply(
        key=key,
        content=clean_text(_text(message.get("content"))),
        finish=finish,
        refusal=clean_text(refusal),
        model=clean_text(str(data.get("model") or "")),
        mode=mode,
        input_tokens=tokens[0] if counted else 0,  # type: ignore[arg-type]
        output_tokens=tokens[1] if counted else 0,  # type: ignore[arg-type]
        estimated=not counted,
    )


def _text(content: Any) -> str:
    """Content as text; some endpoints give it in parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    if isinstance(content, dict):
        return json.dumps(content, ensure_ascii=False)
    return content if isinstance(content, str) else ""
