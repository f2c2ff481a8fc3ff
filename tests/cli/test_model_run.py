"""`hindlake run reflect` with a model behind an endpoint, from the settings to the money."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hindlake.jobs.scripted_model import ScriptedModel, say, status
from hindlake.memory_store.lake import Lake
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
