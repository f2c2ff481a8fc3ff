"""Any agent that OpenTelemetry instruments: one line sends its spans into the lake.

    instrument(Recorder(agent="shop"))

The instrumentation is the agent's: OpenTelemetry's GenAI conventions of any age, OpenInference, OpenLLMetry, Vercel's
and Google's are understood (`hindlake.memory_store.formats.genai`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...memory_store.errors import MissingExtra, UsageError
from ..otel import HindlakeSpanExporter

try:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
except ImportError as error:
    raise MissingExtra.needs("opentelemetry-sdk", "otel") from error

if TYPE_CHECKING:
    from ..recorder import Recorder


def instrument(recorder: Recorder | None = None, provider: trace.TracerProvider | None = None) -> TracerProvider:
    """Send the spans of a tracer provider into the lake too, and return it. What it does already, it goes on doing.

    `provider` None: the process's own, which is made and set where there is none. `recorder` None: one from the
    settings, closed with the provider. Raises `UsageError` for a provider that takes no span processors.
    """
    found = provider if provider is not None else trace.get_tracer_provider()
    if provider is None and not isinstance(found, TracerProvider) and _is_unset(found):
        found = TracerProvider()
        trace.set_tracer_provider(found)
    if not isinstance(found, TracerProvider):
        raise UsageError(
            f"{type(found).__name__} takes no span processors: give instrument a provider of opentelemetry-sdk"
        )
    found.add_span_processor(BatchSpanProcessor(HindlakeSpanExporter(recorder)))
    return found


def _is_unset(provider: trace.TracerProvider) -> bool:
    """Whether this is what the API hands out before a provider was set."""
    return isinstance(provider, trace.ProxyTracerProvider)
