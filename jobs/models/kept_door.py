"""A door to the model that asks no one: what is kept is answered, what is not is noted down to be asked later."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from ...memory_store.settings import ModelSettings
from .answers import Failure
from .budget import Budget
from .model import ModelDoor, Tally
from .questions import Question, Unanswered
from .replies import Reply, ReplyCache


class KeptDoor(ModelDoor):
    """For a forecast, and for the Batch API: `ask` raises `Unanswered` where another door would call the endpoint."""

    def __init__(
        self,
        settings: ModelSettings,
        replies: ReplyCache,
        budget: Budget,
        *,
        out: Set[str] = frozenset(),
        failed: Mapping[str, str] | None = None,
    ) -> None:
        """`out` are keys of questions that were asked already, `failed` says of others why they can't be answered."""
        super().__init__(settings, replies, budget)
        self._out, self._failed = out, failed or {}

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_out": self._out, "_failed": self._failed}

    def _pay(self, question: Question, tally: Tally) -> Reply | Failure:
        if reason := self._failed.get(question.key):
            return Failure(reason, "give_up")
        raise Unanswered(question, question.key in self._out)
