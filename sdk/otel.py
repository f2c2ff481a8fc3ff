"""Spans of a live agent into the lake: an OpenTelemetry exporter that writes through the recorder's spool.

    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(HindlakeSpanExporter(Recorder())))

A span means what it means in a file that is ingested, and has the same ids: exporting live and ingesting the export
of a collector is once. What a root span says in `hindlake.outcome`, `hindlake.score`, `hindlake.subject`,
`hindlake.task_id`, `hindlake.task_type` and `hindlake.agent_role` fills these columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..memory_store.errors import MissingExtra
from ..memory_store.formats.spans import Span, SpanEvent
from ..memory_store.telemetry.otel import SCOPE
from .recorder import Recorder
from .span_log import SpanLog

try:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
except ImportError as error:
    raise MissingExtra.needs("opentelemetry-sdk", "otel") from error


class HindlakeSpanExporter(SpanExporter):
    """Sends finished spans into the lake. Safe to share between threads; never raises into the agent."""

    def __init__(self, recorder: Recorder | None = None) -> None:
        """`recorder` None: one of its own, from the settings, closed at `shutdown`."""
        self._log = SpanLog(recorder, "otel")

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Keep the spans; FAILURE if an event could not be kept, which the recorder counts."""
        agents = (span for span in spans if not _is_own(span))
        return SpanExportResult.SUCCESS if self._log.keep(map(_span, agents)) else SpanExportResult.FAILURE

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Whether everything that was exported is in the lake now."""
        return self._log.recorder.flush(timeout_millis / 1_000)

    def shutdown(self) -> None:
        """Keep the calls that still waited for a result, and close a recorder of its own."""
        self._log.close()


def _is_own(span: ReadableSpan) -> bool:
    """Whether it is of a run of hindlake, which is no trace of the agent."""
    return span.instrumentation_scope is not None and span.instrumentation_scope.name == SCOPE


def _span(span: ReadableSpan) -> Span:
    context, parent = span.context, span.parent
    more: dict[str, object] = {"span_kind": span.kind.name}
    if span.instrumentation_scope is not None:
        more["scope"] = {"name": span.instrumentation_scope.name, "version": span.instrumentation_scope.version}
    if span.links:
        more["links"] = [
            {"trace_id": f"{link.context.trace_id:032x}", "span_id": f"{link.context.span_id:016x}",
             **({"attributes": _plain(link.attributes)} if link.attributes else {})}
            for link in span.links
        ]  # fmt: skip
    for name in ("dropped_attributes", "dropped_events", "dropped_links"):
        if count := getattr(span, name, 0):
            more[name] = count
    return Span(
        f"{context.trace_id:032x}", f"{context.span_id:016x}", span.name,
        f"{parent.span_id:016x}" if parent else "", span.start_time or 0, span.end_time or 0, _plain(span.attributes),
        [SpanEvent(one.name, _plain(one.attributes), one.timestamp) for one in span.events],
        is_local_root=parent is not None and parent.is_remote, failed=span.status.status_code.name == "ERROR",
        status_message=span.status.description or "", resource=_plain(span.resource.attributes), more=more,
    )  # fmt: skip


def _plain(attributes: Mapping[str, object] | None) -> dict[str, object]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in (attributes or {}).items()}
