"""`hindlake costs` says every call that a provider was asked, whatever asked it."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hindlake.flows.maintenance import run_step
from hindlake.jobs.models.prompt_files import load_prompt
from hindlake.jobs.models.scripted_model import Request, ScriptedModel, Turn, say, status
from hindlake.memory_store.clock import SystemClock
from hindlake.memory_store.embedders import embedder_of
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings
from hindlake.memory_store.text.calibration import Fit, keep
from hindlake.sdk.memory import Memory
from patterns_home import log
from shell import Shell

NOTES = ("The deploy needs a tag", "A tag has to be set for deploys")


def answers(request: Request) -> Turn:
    """What the model says to each kind of question; to one about a sick server, that it is sick."""
    if "sick server" in request.prompt:
        return status(500)
    name = request.body["response_format"]["json_schema"]["name"]
    said: dict[str, Any] = {
        "ReflectReply": {"summary": "s", "facts": [], "experiences": []},
        "PairsReply": {"verdicts": [{"pair": 1, "type": "distinct"}]},
    }
    return say(said.get(name, {"recurs": False, "doubt": "no"}), usage=(100, 10))


@pytest.fixture
def noted(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A home with traces, a failure that recurs in them, and two notes about one thing, whatever their vectors."""
    monkeypatch.setenv("HINDLAKE_EMBEDDER", "wordllama")
    settings = Settings.load(home=settings.home)
    log(settings, "abc", at=datetime.now(UTC) - timedelta(days=1))
    fit = Fit(((-1.0, 0.5), (1.0, 0.51)), ((-1.0, 0.97), (1.0, 0.98)))
    keep(Lake.open(settings), embedder_of(settings).name, {"en": fit}, datetime.now(UTC))
    with Memory(settings) as memory:
        for text in NOTES:
            memory.remember(text, subject="u1")
    return settings


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_call_of_every_job_is_there_by_run_purpose_and_model(
    shell: Shell, noted: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "reflect.v2.md").write_text(load_prompt("reflect.v1").text + "\nBe brief.\n")
    monkeypatch.setenv("HINDLAKE_MODEL_PROMPTS", str(tmp_path))
    with ScriptedModel(answers) as model:
        monkeypatch.setenv("HINDLAKE_MODEL_BASE_URL", model.url)
        monkeypatch.setenv("HINDLAKE_MODEL_NAME", "scripted")
        monkeypatch.setenv("HINDLAKE_MODEL_RETRIES", "0")
        settings = Settings.load(home=noted.home)
        assert shell("run", "reflect", "--dry-run", "--ask").code == 0
        run_step("resolve", settings, SystemClock(), version="t", reflector="rules")
        other = settings.model_copy(update={"model": settings.model.model_copy(update={"name": "other"})})
        run_step("dedup", other, SystemClock(), version="t", engine="loop")
        for command in (("run", "reflect"), ("run", "patterns"), ("prompts", "diff", "reflect.v1", "reflect.v2")):
            assert shell(*command).code == 0
        monkeypatch.setenv("HINDLAKE_MODEL_MAX_OUTPUT_TOKENS", "999")
        assert shell("rereflect", "--reflector", "openai").code == 0
        with Memory(settings) as memory:
            memory.remember("Deploys of a sick server want a tag of their own", subject="u1")
        run_step("resolve", settings, SystemClock(), version="t")
    found = shell("costs", "--json").json
    whole = found["whole"]
    assert (whole["calls"], whole["failed_calls"]) == (len(model.requests), 1)
    assert (whole["input_tokens"], whole["output_tokens"]) >= (100 * whole["calls"] - 100, 10 * whole["calls"] - 10)
    names = Counter(one.body["response_format"]["json_schema"]["name"] for one in model.requests)
    kinds = {"reflect": "ReflectReply", "judge": "PairsReply", "patterns": "PatternReply"}
    assert {name: cost["calls"] for name, cost in found["by_purpose"].items()} == {
        name: names[kind] for name, kind in kinds.items()
    }
    assert {name: cost["calls"] for name, cost in found["by_model"].items()} == {
        "scripted": len(model.requests) - 1, "other": 1,
    }  # fmt: skip
    assert set(found["by_job"]) == {
        "reflect-dry-run", "dedup", "patterns", "prompts-diff", "rereflect", "resolve",
    }  # fmt: skip
    for name in ("by_job", "by_day", "by_namespace", "by_run"):
        assert sum(cost["calls"] for cost in found[name].values()) == len(model.requests)
    shown = shell("costs", "--runs").out
    assert "purpose    judge" in shown and "model      scripted" in shown
    assert sum(line.startswith("run ") for line in shown.splitlines()) == len(found["by_run"])
