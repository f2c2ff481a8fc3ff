"""What the lines of a batch's files say, without trusting them: answers in any order, twice, or of no one's asking."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ...memory_store.records.batches import AskedQuestion
from .answers import Failure, Mode, failure_of_status, reply_of_body
from .budget import estimate_tokens
from .replies import Reply


@dataclass
class Results:
    """What came back for the questions of one batch."""

    #: Questions by their key
    asked: Mapping[str, AskedQuestion]
    #: How structure was asked for, where it was
    mode: Mode
    replies: dict[str, Reply] = field(default_factory=dict)
    #: Why others have no reply. A reply wins over a failure, whichever comes first
    failures: dict[str, Failure] = field(default_factory=dict)
    #: Lines that could not be understood, that no one asked for, or that came twice
    strange: int = 0

    def read(self, lines: Iterable[str]) -> None:
        """Take in the lines of a file: of answers first, of errors after."""
        for line in lines:
            if line.strip():
                self._read(line)

    def missing(self) -> list[AskedQuestion]:
        """Questions of which no line speaks."""
        return [one for key, one in self.asked.items() if key not in self.replies and key not in self.failures]

    def _read(self, line: str) -> None:
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            said = None
        key = said.get("custom_id") if isinstance(said, dict) else None
        if not isinstance(key, str) or key not in self.asked or key in self.replies:
            self.strange += 1
            return
        question = self.asked[key]
        mode: Mode = "text" if question.plain else self.mode
        got = _outcome(said, question, mode)
        if isinstance(got, Reply):
            self.replies[key] = got
            self.failures.pop(key, None)
        elif key in self.failures:
            self.strange += 1
        else:
            self.failures[key] = got


def _outcome(said: dict[str, Any], question: AskedQuestion, mode: Mode) -> Reply | Failure:
    response, error = said.get("response"), said.get("error")
    if not isinstance(response, dict):
        error = error if isinstance(error, dict) else {}
        said_why = f"{error.get('code') or ''} {error.get('message') or ''}".strip()
        return Failure(f"no answer in its batch: {said_why or 'no reason was given'}", "again")
    status, body = response.get("status_code"), response.get("body")
    if status != 200:
        code = status if isinstance(status, int) else 500
        # Only what says that it is the structure is taken for it: no one is there to ask again at once.
        return failure_of_status(code, _message(body), 0.0, mode, proven=True)
    got = reply_of_body(json.dumps(body).encode(), question.key, mode)
    if isinstance(got, Reply) and got.estimated:
        return msgspec.structs.replace(got, input_tokens=question.estimate, output_tokens=estimate_tokens(got.content))
    return got


def _message(body: Any) -> str:
    """The message of an error, as text."""
    error = body.get("error") if isinstance(body, dict) else body
    message = error.get("message") if isinstance(error, dict) else error
    return message if isinstance(message, str) else json.dumps(body)
