"""One line sends an instrumented agent's spans into the lake."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import NoOpTracerProvider

from hindlake.memory_store.errors import UsageError
from hindlake.sdk.integrations.opentelemetry import instrument
from hindlake.sdk.recorder import Recorder
from recorded_events import traces_of


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    with Recorder(home=tmp_path / "home") as one:
        yield one


def test_a_provider_sends_its_spans_into_the_lake_beside_what_it_did_before(recorder: Recorder) -> None:
    provider, before = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(before))
    assert instrument(recorder, provider) is provider
    with provider.get_tracer("t").start_as_current_span("invoke_agent shop") as span:
        span.set_attributes({"gen_ai.operation.name": "invoke_agent", "hindlake.outcome": "success"})
    provider.shutdown()
    [found] = traces_of(recorder)
    assert found.events[-1].outcome == "success"
    assert len(before.get_finished_spans()) == 1


def test_a_provider_that_takes_no_processors_is_refused(recorder: Recorder) -> None:
    with pytest.raises(UsageError, match="NoOpTracerProvider takes no span processors"):
        instrument(recorder, NoOpTracerProvider())


def test_without_a_provider_the_processes_own_is_made_once(tmp_path: Path) -> None:
    program = f"""
from opentelemetry import trace
from hindlake import Recorder
from hindlake.sdk.integrations.opentelemetry import instrument
with Recorder(home={str(tmp_path / "home")!r}) as recorder:
    provider = instrument(recorder)
    assert trace.get_tracer_provider() is provider
    assert instrument(recorder) is provider
    with trace.get_tracer("t").start_as_current_span("work"):
        pass
    provider.shutdown()
    print(recorder.status().logged)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) > 0
