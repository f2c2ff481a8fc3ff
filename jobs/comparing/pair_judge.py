"""The judge of pairs with a language model: several pairs a question, replies kept, each verdict checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from ...memory_store.errors import BudgetExceeded, ModelError
from ..models.budget import Usage
from ..models.model import ModelDoor
from ..models.prompt_files import load_prompt
from ..models.questions import Message, Unanswered
from ..models.reading import ReplyModel
from ..reflecting.rendering import fenced, neutral, one_line
from .pairs import Pair, PairType, Verdict

if TYPE_CHECKING:
    from ..models.paid import PaidReflector

#: The version of the prompt that is used.
PROMPT = "pairs.v1"
#: Pairs of one question.
BATCH = 8
#: Characters of a memory that the model is shown.
_MOST = 600


class PairReply(ReplyModel):
    """What the model says of one pair."""

    pair: int = Field(description="number of the pair")
    type: Literal["same", "refines", "complements", "supersedes", "conflicts", "distinct"]
    fuller: Literal["a", "b", ""] = Field(default="", description="of refines: the note that says more")
    reason: str = Field(default="", description="one short sentence")


class PairsReply(ReplyModel):
    """What the model says of the pairs of one question."""

    verdicts: list[PairReply] = Field(default_factory=list)


class ModelJudge:
    """Asks the model behind a door. Pairs that it says nothing usable about are left to the rule."""

    def __init__(self, door: ModelDoor, namespace: str, *, prompt: str = PROMPT) -> None:
        """`namespace` is the one that the pairs are from: replies are kept by it. Raises `SettingsError` when there is
        no such prompt.
        """
        self._door = door
        self._namespace = namespace
        self._prompt = load_prompt(prompt)

    def judge(self, pairs: Sequence[Pair]) -> list[Verdict | None]:
        """One verdict a pair; None where the budget has nothing left, or where a dry run may not ask. Raises
        `ModelError` as `ModelDoor.ask` does.
        """
        verdicts: list[Verdict | None] = []
        for start in range(0, len(pairs), BATCH):
            some = pairs[start : start + BATCH]
            try:
                verdicts += self._ask(some)
            except (BudgetExceeded, Unanswered):
                verdicts += [None] * len(some)
        return verdicts

    def _ask(self, pairs: Sequence[Pair]) -> list[Verdict | None]:
        messages: list[Message] = [
            {"role": "system", "content": self._prompt.text},
            {"role": "user", "content": fenced(neutral("\n".join(map(_shown, range(1, len(pairs) + 1), pairs))))},
        ]
        answer = self._door.ask(
            messages, PairsReply, namespace=self._namespace, prompt_hash=self._prompt.hash, purpose="judge"
        )
        found: list[Verdict | None] = [None] * len(pairs)
        for said in answer.value.verdicts if answer.value else ():
            if 1 <= said.pair <= len(pairs) and found[said.pair - 1] is None:
                found[said.pair - 1] = _verdict(said)
        return found


class RunJudge:
    """The judge of a run whose model is for something else, within the budget of that run. What the model does not
    judge, because it fails or because the budget has nothing left, the rule decides; the run goes on.
    """

    def __init__(self, reflector: PaidReflector, namespace: str) -> None:
        """`reflector` is what the run asks the model by: with one of `kept_only`, no one is asked."""
        #: Whose model and budget are used; another one may be put in its place between two calls
        self.reflector = reflector
        self._namespace = namespace
        self._is_down = False
        self._used = Usage()
        self._counts: Counter[str] = Counter()

    def judge(self, pairs: Sequence[Pair]) -> list[Verdict | None]:
        """One verdict a pair; None where there is none. An endpoint that is down is not asked again. Never raises
        `ModelError`.
        """
        verdicts: list[Verdict | None] = []
        before = self.reflector.usage
        judge = self.reflector.pair_judge(self._namespace)
        for start in range(0, len(pairs), BATCH):
            some = pairs[start : start + BATCH]
            try:
                verdicts += [None] * len(some) if self._is_down else judge.judge(some)
            except ModelError:
                self._is_down = True
                verdicts += [None] * len(some)
        self._used += self.reflector.usage - before
        unjudged = verdicts.count(None)
        self._counts.update(judged=len(verdicts) - unjudged, unjudged=unjudged)
        return verdicts

    def taken(self) -> tuple[Usage, Counter[str]]:
        """What was used since the last time, and how many pairs were judged and left unjudged."""
        taken = self._used, self._counts
        self._used, self._counts = Usage(), Counter()
        return taken


def _shown(number: int, pair: Pair) -> str:
    """One pair as the model sees it."""
    lines = [f"pair {number}"]
    for name, row in (("a", pair.first), ("b", pair.second)):
        since = row.get("valid_from")
        when = f" ({since:%Y-%m-%d})" if since is not None else ""
        lines.append(f"  {name}{when}: {one_line(str(row['text']))[:_MOST]}")
    return "\n".join(lines)


def _verdict(said: PairReply) -> Verdict | None:
    kind: PairType = said.type
    reason = f"judged: {one_line(said.reason)[:200] or kind}"
    if kind == "refines":
        return Verdict(kind, reason, 0 if said.fuller == "a" else 1) if said.fuller else None
    return Verdict(kind, reason, 0 if kind == "same" else None)
