"""`hindlake run reflect` with a model behind an endpoint, from the settings to the money."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hindlake.jobs.models.scripted_batches import ScriptedBatches
from hindlake.jobs.models.scripted_model import ScriptedModel, say, status
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings
from shell import Shell
from story_home import log_story

REPLY = {
    "summary": "The card was refused.",
    "facts": [],
    "experiences": [
        {
            "event": "e2", "quote": "the card on file has expired", "quality": 4,
            "trigger": "pay is refused with card_expired",
            "action": "ask for another payment method before calling pay again",
            "text": "When pay is refused with card_expired, ask for another payment method before calling pay again.",
        }
    ],
}  # fmt: skip


@pytest.fixture
def told(home: Path) -> Settings:
    settings = Settings.load(home=str(home))
    log_story(settings)
    return settings


def test_a_run_with_a_model_costs_what_it_says_and_a_rerun_costs_nothing(
    shell: Shell, told: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedModel(lambda request: say(REPLY, usage=(1000, 100))) as model:
        monkeypatch.setenv("HINDLAKE_MODEL_BASE_URL", model.url)
        monkeypatch.setenv("HINDLAKE_MODEL_NAME", "scripted")
        done = shell("run", "reflect", "--json")
    assert done.code == 0, done.err
    value = done.json
    asked = len(model.requests)
    assert (value["input_tokens"], value["output_tokens"]) == (1000 * asked, 100 * asked)
    assert value["cost"] == asked * (1000 * 150_000 + 100 * 600_000) // 1_000_000
    assert value["counts"]["reflected"] >= 7
    (hit,) = shell("search", "card expired", "--kind", "experience", "--json").json["hits"]
    explained = shell("explain", hit["id"], "--json").json
    assert explained["reflector"] == "openai:scripted@reflect.v1"
    assert explained["prompt_hash"]
    lake = Lake.open(told)
    lake.delete(lake.names("ns=default/gate"))  # as if the run had died before it could say that it was done
    again = shell("run", "reflect", "--json").json
    assert (again["cost"], again["counts"]["added"]) == (0, 0)


def test_a_key_that_is_refused_fails_the_run_and_the_traces_wait_for_the_next(
    shell: Shell, told: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedModel(lambda request: status(401, "bad key")) as model:
        monkeypatch.setenv("HINDLAKE_MODEL_BASE_URL", model.url)
        done = shell("run", "reflect")
    assert (done.code, done.out) == (1, "")
    assert "HINDLAKE_MODEL_API_KEY" in done.err
    monkeypatch.delenv("HINDLAKE_MODEL_BASE_URL")
    assert shell("run", "reflect", "--json").json["counts"]["reflected"] >= 7


def test_a_run_stops_at_its_budget_and_says_so(shell: Shell, told: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedModel(lambda request: say(REPLY, usage=(1000, 100))) as model:
        monkeypatch.setenv("HINDLAKE_MODEL_BASE_URL", model.url)
        monkeypatch.setenv("HINDLAKE_MODEL_BUDGET_TOKENS", "9000")
        value = shell("run", "reflect", "--json").json
        assert value["stopped"]
        assert value["input_tokens"] + value["output_tokens"] <= 9000
        monkeypatch.delenv("HINDLAKE_MODEL_BUDGET_TOKENS")
        assert not shell("run", "reflect", "--json").json["stopped"]
    assert os.environ["HINDLAKE_MODEL_CALLS"] == "off"  # loopback only


def test_a_dry_run_says_what_a_model_would_cost_and_calls_it_only_when_told_to(
    shell: Shell, told: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedModel(lambda request: say(REPLY, usage=(1000, 100))) as model:
        monkeypatch.setenv("HINDLAKE_MODEL_BASE_URL", model.url)
        value = shell("run", "reflect", "--dry-run", "--json").json
        assert (len(model.requests), value["counts"]["calls"]) == (0, 0)
        forecast, counts = value["forecast"], value["counts"]
        assert forecast["calls"] == counts["waiting"] > 0
        shown = shell("run", "reflect", "--dry-run", "--ask")
        assert f"forecast, at most: {forecast['calls']} calls" in shown.err
        assert f"model       {len(model.requests)} calls (0 failed, 0 repeated calls)" in shown.out
        assert "% of the model's calls, by the gate" in shown.out
        real = shell("run", "reflect", "--json").json
        assert (real["forecast"]["calls"], real["counts"]["calls"]) == (0, 0), "what was asked is kept"
        assert (real["counts"]["reflected"], len(model.requests)) == (forecast["calls"], forecast["calls"])
        assert forecast["input_tokens"] + forecast["output_tokens"] > 1100 * len(model.requests)


def test_a_forecast_beyond_the_budget_is_said_at_once_and_what_fits_is_done(
    shell: Shell, told: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedModel(lambda request: say(REPLY, usage=(1000, 100))) as model:
        monkeypatch.setenv("HINDLAKE_MODEL_BASE_URL", model.url)
        monkeypatch.setenv("HINDLAKE_MODEL_BUDGET_TOKENS", "9000")
        done = shell("run", "reflect")
        assert "more than the budget has left" in done.err
        assert "stopped at its budget" in done.out
        assert len(model.requests) >= 1


def test_a_run_in_batch_mode_says_what_waits_and_a_later_one_collects_it(
    shell: Shell, told: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedBatches([say(REPLY, usage=(1000, 100))]) as model:
        monkeypatch.setenv("HINDLAKE_MODEL_BASE_URL", model.url)
        monkeypatch.setenv("HINDLAKE_MODEL_MODE", "batch")
        first = shell("run", "reflect", "--json").json
        counts = first["counts"]
        assert counts["asked"] == counts["waiting"] == len(model.asked) > 0
        assert counts["traces"] == counts["reflected"] + counts["skipped"] + counts["failed"] + counts["waiting"]
        assert f"{counts['asked']} questions are with the model's provider" in shell("status").out
        again = shell("run", "reflect")
        assert f"0 questions were sent now, {counts['asked']} before" in again.out
        model.finish()
        last = shell("run", "reflect", "--json").json
        assert (last["counts"]["collected"], last["counts"]["waiting"]) == (counts["asked"], 0)
        assert last["cost"] == counts["asked"] * 105  # half of 1000 tokens in and 100 out
        assert last["forecast_of_collected"]["calls"] == counts["asked"]
        assert model.calls == []
        assert "questions are with" not in shell("status").out
        assert shell("search", "card expired", "--kind", "experience", "--json").json["hits"]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_direct_run_collects_the_batches_that_were_sent_before_it(
    shell: Shell, told: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedBatches([say(REPLY, usage=(1000, 100))]) as model:
        monkeypatch.setenv("HINDLAKE_MODEL_BASE_URL", model.url)
        monkeypatch.setenv("HINDLAKE_MODEL_MODE", "batch")
        asked = shell("run", "reflect", "--json").json["counts"]["asked"]
        model.finish()
        monkeypatch.setenv("HINDLAKE_MODEL_MODE", "direct")
        value = shell("run", "reflect", "--json").json
        assert (value["counts"]["collected"], value["counts"]["reflected"], model.calls) == (asked, asked, [])
