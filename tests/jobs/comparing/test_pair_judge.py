"""A model's verdicts on pairs, scripted: what is taken, what a guard overrules, what a rule decides."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from hindlake.jobs.comparing.pair_judge import BATCH, ModelJudge, RunJudge
from hindlake.jobs.comparing.pairs import Pair, type_pairs
from hindlake.jobs.models.budget import Budget, Usage
from hindlake.jobs.models.model import ModelDoor
from hindlake.jobs.models.scripted_model import ScriptedModel, Turn, body, say, status
from hindlake.jobs.reflect import ReflectReport, reflect
from hindlake.jobs.reflecting.model_reflector import ModelReflector
from hindlake.jobs.resolve_pending import resolve_pending
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.embedders import embedder_of
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.records.runs import last_runs
from hindlake.memory_store.settings import ModelSettings, Settings
from hindlake.memory_store.text.calibration import Fit, keep
from hindlake.sdk.memory import Memory

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


NOTES = ("The deploy needs a tag", "A tag has to be set for deploys")


@pytest.fixture
def noted(settings: Settings) -> Settings:
    """A home with two notes that wait; whatever their vectors, they are about one thing."""
    settings = settings.model_copy(update={"embedder": "wordllama"})
    clock = ManualClock(LATE)
    fit = Fit(((-1.0, 0.5), (1.0, 0.51)), ((-1.0, 0.97), (1.0, 0.98)))
    keep(Lake.open(settings), embedder_of(settings).name, {"en": fit}, clock.now())
    with Memory(settings, clock=clock) as memory:
        for text in NOTES:
            memory.remember(text, subject="u1")
    return settings


def reflected(noted: Settings, model: ScriptedModel, **chosen: Any) -> tuple[ReflectReport, ModelReflector]:
    endpoint = ModelSettings(base_url=model.url, calls="off", timeout_seconds=5, retries=1, **chosen)
    settings = noted.model_copy(update={"model": endpoint})
    reflector = ModelReflector(settings, pause=0.001)
    report = reflect(Lake.open(settings), settings, ManualClock(LATE), reflector, version="test", engine="loop")
    return report, reflector


def test_what_a_run_of_reflect_finds_waiting_is_judged_and_paid_for(noted: Settings) -> None:
    with ScriptedModel([verdicts({"pair": 1, "type": "same", "reason": "one rule"})]) as model:
        report, reflector = reflected(noted, model)
        assert len(model.requests) == 1
    counts = report.counts
    assert (counts["pending"], counts["activated"], counts["pending_merged"]) == (2, 1, 1)
    assert (counts["judged"], counts["unjudged"], counts["calls"]) == (1, 0, 1)
    assert report.input_tokens + report.output_tokens == reflector.budget.tokens > 0


def test_what_judging_pairs_costs_is_in_the_run_of_the_job_that_asked_for_it(noted: Settings) -> None:
    lake, clock = Lake.open(noted), ManualClock(LATE)
    with ScriptedModel([status(500), verdicts({"pair": 1, "type": "same", "reason": "one rule"})]) as model:
        chosen = ModelSettings(base_url=model.url, name="m", calls="off", timeout_seconds=5)
        door = ModelDoor(chosen, None, pause=0.001)
        resolve_pending(lake, noted, clock, version="t", judges=lambda namespace: ModelJudge(door, namespace))
        assert len(model.requests) == 2
    run = last_runs(lake, "default")[0]
    (spent,) = run.spent
    assert (run.job, run.status, spent.purpose, spent.model) == ("resolve", "done", "judge", "m")
    assert (spent.calls, spent.failed_calls) == (2, 1)
    assert (spent.input_tokens, spent.output_tokens, spent.cost) == (run.input_tokens, run.output_tokens, run.cost)
    assert door.budget.cost == run.cost > 0


@pytest.mark.parametrize(
    "turns",
    [
        pytest.param([status(500)] * 9, id="it fails"),
        pytest.param([status(401)] * 9, id="it refuses the key"),
        pytest.param([body("no json")] * 9, id="no JSON"),
        pytest.param([say("I would rather not.")] * 9, id="other words"),
        pytest.param([say({"verdicts": [{"pair": 9, "type": "same"}]})] * 9, id="no such pair"),
        pytest.param([say({"verdicts": [{"pair": 1, "type": "twins"}]})] * 9, id="no such type"),
    ],
)
def test_what_the_model_does_not_judge_stands_and_the_run_goes_on(noted: Settings, turns: list[Turn]) -> None:
    with ScriptedModel(turns) as model:
        report, _ = reflected(noted, model)
    assert (report.counts["pending"], report.counts["activated"]) == (2, 2)
    assert (report.counts["judged"], report.counts["unjudged"]) == (0, 1)


def test_without_budget_nothing_is_asked_and_all_stands(noted: Settings) -> None:
    with ScriptedModel([verdicts({"pair": 1, "type": "same"})]) as model:
        report, reflector = reflected(noted, model, budget_tokens=10)
        assert model.requests == []
    assert (report.counts["activated"], report.counts["unjudged"], reflector.budget.tokens) == (2, 1, 0)


def test_a_dry_run_and_the_batch_mode_ask_no_one(noted: Settings) -> None:
    with ScriptedModel([verdicts({"pair": 1, "type": "same"})]) as model:
        endpoint = ModelSettings(base_url=model.url, calls="off", timeout_seconds=5)
        settings = noted.model_copy(update={"model": endpoint})
        lake, clock = Lake.open(settings), ManualClock(LATE)
        report = reflect(lake, settings, clock, ModelReflector(settings), version="test", engine="loop", dry_run=True)
        assert report.counts["unjudged"] == 1
        batched = settings.model_copy(update={"model": endpoint.model_copy(update={"mode": "batch"})})
        report = reflect(lake, batched, clock, ModelReflector(batched), version="test", engine="loop")
        assert report.counts["activated"] == 2
        assert model.calls == []


def test_a_judge_stays_below_its_share_of_the_ceiling_and_a_dead_endpoint_is_asked_once(settings: Settings) -> None:
    every = verdicts(*({"pair": number + 1, "type": "distinct"} for number in range(BATCH)))
    with ScriptedModel(lambda request: every) as model:
        endpoint = ModelSettings(base_url=model.url, calls="off", timeout_seconds=5, budget_tokens=20_000)
        share = ModelReflector(settings.model_copy(update={"model": endpoint}), pause=0.001).share(2)
        judge = RunJudge(share, "default")
        open_pairs = [pair(f"The deploy needs a tag {name}", OPEN.second["text"]) for name in "abcdefghijklmnopq" * 8]
        said = judge.judge(open_pairs)
        used, counts = judge.taken()
        assert 0 < used.input_tokens + used.output_tokens <= 10_000
        assert counts == {"judged": len(said) - said.count(None), "unjudged": said.count(None)}
        assert counts["judged"] and counts["unjudged"]
        assert judge.taken() == (Usage(), {})
    before = share.usage
    judge = RunJudge(share.kept_only(), "nowhere")
    assert judge.judge([OPEN]) == [None]
    gone = ModelReflector(settings.model_copy(update={"model": endpoint.model_copy(update={"retries": 0})}))
    judge = RunJudge(gone, "default")
    assert judge.judge([OPEN] * (BATCH + 1)) == [None] * (BATCH + 1)
    assert (gone.usage.calls, share.usage) == (1, before)
