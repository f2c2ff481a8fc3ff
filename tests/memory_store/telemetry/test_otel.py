"""Spans and figures, as a receiver of OpenTelemetry's protocol on loopback decodes them."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from hindlake.memory_store.clock import SystemClock
from hindlake.memory_store.errors import LakeError
from hindlake.memory_store.settings import Settings
from hindlake.memory_store.telemetry import otel
from hindlake.memory_store.telemetry.calls import model_call
from hindlake.memory_store.telemetry.observing import observed
from hindlake.sdk.memory import Memory
from servers.otlp import Received, otlp_receiver


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> Iterator[Received]:
    """A receiver that the standard variable names."""
    with otlp_receiver() as one:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", one.endpoint)
        yield one
        otel.stop()


def test_a_run_its_steps_and_its_calls_are_spans_of_one_trace(settings: Settings, received: Received) -> None:
    with observed(settings, "nightly") as night, observed(settings, "dedup"):
        with model_call("chat", "small", "http://127.0.0.1:8080/v1", 200) as call:
            call.used(12, 3, "stop")
        with model_call("chat", "small", "http://127.0.0.1:99999/v1") as call:
            call.fail("503")
    otel.stop()
    (whole,), (step,) = received.named("run nightly"), received.named("run dedup")
    good, bad = received.named("chat small")
    assert (whole.parent, step.parent, good.parent, bad.parent) == ("", whole.id, step.id, step.id)
    assert {whole.trace, step.trace, good.trace} == {whole.trace}
    assert whole.attributes["hindlake.run"] == night.run and whole.attributes["hindlake.status"] == "done"
    assert good.kind == 3  # client
    assert good.attributes == {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "small",
        "gen_ai.request.max_tokens": 200, "server.address": "127.0.0.1", "server.port": 8080,
        "gen_ai.usage.input_tokens": 12, "gen_ai.usage.output_tokens": 3, "gen_ai.response.finish_reasons": "stop",
    }  # fmt: skip
    assert bad.failed and bad.attributes["error.type"] == "503"
    assert good.resource["service.name"] == "hindlake" and good.resource["service.instance.id"]


def test_figures_have_what_was_counted(settings: Settings, received: Received) -> None:
    with observed(settings, "reflect") as seen:
        seen.input_tokens, seen.cost = 100, 15
        with model_call("chat", "small", "http://m/v1") as call:
            call.used(100)
    with pytest.raises(LakeError), observed(settings, "decay"):
        raise LakeError("the bucket is gone")
    otel.stop()
    figures = received.figures
    assert figures["hindlake.run.tokens"] == {(("gen_ai.token.type", "input"), ("job", "reflect")): 100}
    assert figures["hindlake.run.cost"] == {(("job", "reflect"),): 15}
    assert figures["hindlake.run.errors"] == {(("error.type", "LakeError"), ("job", "decay")): 1}
    runs = {tuple(dict(key).values()): count for key, (count, _) in figures["hindlake.run.duration"].items()}
    assert runs == {("reflect", "done"): 1, ("decay", "failed"): 1}
    (usage,) = figures["gen_ai.client.token.usage"].values()
    assert usage == (1, 100)
    (failed,) = received.named("run decay")
    assert (failed.failed, failed.status) == (True, "the bucket is gone")
    assert figures.keys() <= otel.FIGURES.keys()


def test_searches_are_timed_and_memories_counted(settings: Settings, received: Received) -> None:
    settings = Settings.load(home=settings.home, embedder="wordllama")
    with Memory(settings) as memory:
        memory.remember("the lift is out of order")
        memory.search("lift")
        otel.start(settings)
        memory.search("lift")
    from hindlake.flows.maintenance import run_step

    run_step("settle", settings, SystemClock(), version="test")
    otel.stop()
    ((searched, seconds),) = received.figures["hindlake.search.duration"].values()
    assert searched == 1 and seconds > 0
    assert received.figures["hindlake.memories"] == {(("namespace", "default"), ("state", "pending")): 1}
    waiting = {dict(key)["queue"]: value for key, value in received.figures["hindlake.waiting"].items()}
    assert waiting == {"traces": 0, "inbox": 0, "log": 0, "questions": 0}
    assert received.figures["hindlake.decisions"] == {(("verdict", "accepted"),): 1}
    assert not any(b"lift" in raw for raw in received.raw)


def test_a_collector_that_is_down_fails_no_run(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    for name in ("opentelemetry.exporter", "opentelemetry.sdk"):
        monkeypatch.setattr(logging.getLogger(name), "disabled", True)
    with observed(settings, "decay") as seen:
        pass
    otel.stop()
    assert seen.status == "done"


def test_it_is_off_unless_a_variable_or_the_setting_asks_for_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    on = settings.model_copy(update={"otel": "on"})
    off = settings.model_copy(update={"otel": "off"})
    assert [otel.wanted(one) for one in (settings, on, off)] == [False, True, False]
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://127.0.0.1:4318/v1/metrics")
    assert [otel.wanted(one) for one in (settings, on, off)] == [True, True, False]
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert [otel.wanted(one) for one in (settings, on, off)] == [False, False, False]


def test_another_protocol_is_told_and_nothing_is_exported(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with observed(settings, "decay"):
        pass
    assert not otel.is_heard()
    assert "http/protobuf" in next(record.hindlake["reason"] for record in caplog.records)  # type: ignore[attr-defined]


_AS_A_LIBRARY = """
import sys
from hindlake.memory_store.settings import Settings
from hindlake.memory_store.telemetry.observing import observed
settings = Settings.load(home=sys.argv[1])
with observed(settings, "decay"):
    pass
assert "opentelemetry" not in sys.modules
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from hindlake.sdk.otel import HindlakeSpanExporter
mine, ours = InMemorySpanExporter(), HindlakeSpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(mine))
provider.add_span_processor(SimpleSpanProcessor(ours))
trace.set_tracer_provider(provider)
with trace.get_tracer("agent").start_as_current_span("refund"), observed(settings, "decay"):
    pass
ours.force_flush()
print(sorted(span.name for span in mine.get_finished_spans()))
"""


def test_as_a_library_it_tells_the_applications_providers_and_nothing_comes_into_the_lake(
    settings: Settings, lake: Any
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _AS_A_LIBRARY, settings.home], capture_output=True, text=True,
        env={**os.environ, "HINDLAKE_HOME": settings.home},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['refund', 'run decay']\n"
    names = [name for name in lake.names("ns=default/traces") if name.endswith(".parquet")]
    said = [row["name"] for name in names for row in lake.read_table(name).to_pylist()]
    assert said and "run decay" not in said
