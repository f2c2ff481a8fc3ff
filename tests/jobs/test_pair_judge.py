"""A model's verdicts on pairs, scripted: what is taken, what a guard overrules, what a rule decides."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hindlake.jobs.budget import Budget
from hindlake.jobs.model import ModelDoor
from hindlake.jobs.pair_judge import BATCH, ModelJudge
from hindlake.jobs.pairs import Pair, type_pairs
from hindlake.jobs.scripted_model import ScriptedModel, body, say
from hindlake.memory_store.settings import ModelSettings

EARLY, LATE = datetime(2026, 1, 10, tzinfo=UTC), datetime(2026, 1, 15, tzinfo=UTC)


def pair(first: str, second: str) -> Pair:
    """Two notes about one thing that no guard decides, the second one later."""
    row = {"kind": "fact", "subject": "u1"}
    return Pair({**row, "text": first, "valid_from": EARLY}, {**row, "text": second, "valid_from": LATE}, 0.5, 0.97)


OPEN = pair("The deploy needs a tag", "A tag has to be set for deploys")


def judge_of(model: ScriptedModel, budget: Budget | None = None) -> ModelJudge:
    chosen = ModelSettings(base_url=model.url, calls="off", timeout_seconds=5)
    return ModelJudge(ModelDoor(chosen, None, budget, pause=0.001), "default")


def verdicts(*said: dict[str, Any]) -> Any:
    return say({"verdicts": list(said)})


def test_a_verdict_of_the_model_is_taken() -> None:
    with ScriptedModel([verdicts({"pair": 1, "type": "same", "reason": "one rule"})]) as model:
        [verdict] = type_pairs([OPEN], judge_of(model))
    assert (verdict.type, verdict.stands, verdict.reason) == ("same", 0, "judged: one rule")


def test_the_fuller_note_stands_and_without_one_the_rule_decides() -> None:
    fuller = {"pair": 1, "type": "refines", "fuller": "b"}
    unknown = {"pair": 2, "type": "refines", "fuller": ""}
    with ScriptedModel([verdicts(fuller, unknown)]) as model:
        first, second = type_pairs([OPEN, OPEN], judge_of(model))
    assert (first.type, first.stands) == ("refines", 1)
    assert second == type_pairs([OPEN])[0]


def test_an_update_stands_by_its_time_whatever_the_order() -> None:
    turned = Pair(OPEN.second, OPEN.first, OPEN.same, OPEN.topic)
    said = verdicts({"pair": 1, "type": "supersedes"}, {"pair": 2, "type": "supersedes"})
    with ScriptedModel([said]) as model:
        assert [verdict.stands for verdict in type_pairs([OPEN, turned], judge_of(model))] == [1, 0]


def test_a_guard_overrules_the_model() -> None:
    apart = pair("Order ORD-1 is late", "Order ORD-2 is late")
    with ScriptedModel([verdicts({"pair": 1, "type": "same"})]) as model:
        [verdict] = type_pairs([apart], judge_of(model))
    assert verdict.type == "distinct"
    assert "judged same, but" in verdict.reason


def test_a_broken_reply_leaves_the_pair_to_the_rule() -> None:
    with ScriptedModel([say("I would rather not."), say("{"), body("no json")]) as model:
        assert judge_of(model).judge([OPEN]) == [None]
    with ScriptedModel([verdicts({"pair": 7, "type": "same"})]) as model:
        assert type_pairs([OPEN], judge_of(model)) == type_pairs([OPEN])


def test_without_budget_the_rule_decides_what_is_left() -> None:
    every = [{"pair": number + 1, "type": "same"} for number in range(BATCH)]
    with ScriptedModel([verdicts(*every)]) as model:
        judge = judge_of(model, Budget(tokens=1))
        assert judge.judge([OPEN] * (BATCH + 1)) == [None] * (BATCH + 1)
        assert model.requests == []
