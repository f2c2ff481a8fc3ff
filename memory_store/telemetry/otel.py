"""OpenTelemetry's spans and figures of hindlake's own runs: the second door to the package, beside `sdk/otel.py`.

Commands, flows and servers call `start`, which sets up exporters of its own where the standard variables name an
endpoint (OTLP over HTTP). Elsewhere hindlake is a library: what it tells goes to the providers that the application
has set up, and to no one where OpenTelemetry was never loaded. No attribute holds a text or a subject.
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from ..errors import MissingExtra
from ..settings import Settings
from .events import error_fields, tell

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter
    from opentelemetry.trace import Span as OtelSpan
    from opentelemetry.trace import Tracer

#: What spans and figures are told by; the exporter of `sdk/otel.py` leaves them out.
SCOPE = "hindlake"
_ENDPOINTS = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
)
#: Seconds that an export may take, where no variable says more: a collector that is down must not hold up a run.
_SECONDS = 5.0
#: Seconds between two exports of figures; the last one is at the end of the process.
_EVERY = 60.0

Attribute = str | int | float | bool


@dataclass(frozen=True)
class Figure:
    """One instrument."""

    kind: Literal["counter", "histogram", "gauge"]
    unit: str
    #: What it counts, for docs/observability.md
    says: str
    attributes: tuple[str, ...]


#: Every figure, by name. Those of `gen_ai` are OpenTelemetry's own conventions.
FIGURES = {
    "hindlake.run.duration": Figure("histogram", "s", "how long runs take", ("job", "status")),
    "hindlake.run.errors": Figure("counter", "{error}", "runs that failed", ("job", "error.type")),
    "hindlake.run.tokens": Figure("counter", "{token}", "tokens that runs used", ("job", "gen_ai.token.type")),
    "hindlake.run.cost": Figure("counter", "{microdollar}", "what runs cost, in micro-dollars", ("job",)),
    "hindlake.decisions": Figure(
        "counter", "{act}", "acts that were given their place in the log, or refused", ("verdict",)
    ),
    "hindlake.memories": Figure(
        "gauge", "{memory}", "memories, after the last run of the process", ("namespace", "state")
    ),
    "hindlake.waiting": Figure(
        "gauge",
        "{item}",
        "what waits: traces to reflect on, files of the inbox, rows of the log to fold, questions out in batches",
        ("namespace", "queue"),
    ),
    "hindlake.search.duration": Figure("histogram", "s", "how long searches take", ("error.type",)),
    "hindlake.shard.losses": Figure("counter", "{shard}", "shards whose worker was lost", ("error.type",)),
    "gen_ai.client.operation.duration": Figure(
        "histogram",
        "s",
        "how long a call to a model takes",
        ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "server.address", "error.type"),
    ),
    "gen_ai.client.token.usage": Figure(
        "histogram",
        "{token}",
        "tokens of a call to a model",
        ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.token.type"),
    ),
}

#: Every span, by the beginning of its name, and what it covers.
SPANS = {
    "run": "a run of a job, or of a whole night; steps are its children",
    "shard": "a shard of it, in the worker that did it",
    "chat": "a call to a chat model, each try one",
    "embeddings": "a call to an embedder's endpoint, each try one",
}
#: Bounds of the histograms of seconds: a search takes milliseconds, a night hours.
_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800, 7_200)


class _Told:
    """Where spans and figures go."""

    def __init__(self, tracer: Tracer, meter: Meter, providers: tuple[Any, ...] = ()) -> None:
        self.tracer = tracer
        self.providers = providers
        self._meter = meter
        self._made: dict[str, Any] = {}

    def figure(self, name: str) -> Any:
        """The instrument of a figure."""
        if name not in self._made:
            figure = FIGURES[name]
            make = getattr(self._meter, f"create_{figure.kind}")
            more = {"explicit_bucket_boundaries_advisory": _BOUNDS} if figure.unit == "s" else {}
            self._made[name] = make(name, unit=figure.unit, description=figure.says, **more)
        return self._made[name]


#: Exporters of this process's own, once `start` has made them.
_own: _Told | None = None
#: The application's providers, once they were asked for.
_others: _Told | None = None


def start(settings: Settings) -> None:
    """Export from now on, where settings and variables ask for it; see `wanted`. Any number of times.

    Raises `MissingExtra` where the setting `otel` is "on" and the exporter is not installed.
    """
    global _own
    if _own is not None or not wanted(settings):
        return
    if reason := _why_not():
        if settings.otel == "on":
            raise MissingExtra.needs("opentelemetry-exporter-otlp-proto-http", "otel")
        tell("telemetry_off", reason=reason)
        return
    if not _application_has_providers():
        _own = _exporting()


def wanted(settings: Settings) -> bool:
    """Whether a process of hindlake's own exports: "on", or "auto" and a variable names an endpoint."""
    if settings.otel == "off" or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    return settings.otel == "on" or any(os.environ.get(name) for name in _ENDPOINTS)


def _why_not() -> str:
    """Why nothing can be exported; empty if it can."""
    if os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf") != "http/protobuf":
        return "OTEL_EXPORTER_OTLP_PROTOCOL is not http/protobuf, which is the one that is spoken here"
    for package in ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"):
        try:
            found = find_spec(package)
        except ModuleNotFoundError:
            found = None
        if found is None:
            return f"{package} is not installed: run pip install 'hindlake[otel]'"
    return ""


def _application_has_providers() -> bool:
    """Whether the application exports itself: what is told then goes there."""
    if "opentelemetry.sdk.trace" not in sys.modules:
        return False
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    return isinstance(trace.get_tracer_provider(), TracerProvider)


def _exporting() -> _Told:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    # Each process counts from zero, so each is an instance.
    about = {"service.name": "hindlake", "service.instance.id": str(uuid.uuid4())}
    if os.environ.get("OTEL_SERVICE_NAME"):
        del about["service.name"]
    resource = Resource.create(about)
    seconds = None if "OTEL_EXPORTER_OTLP_TIMEOUT" in os.environ else _SECONDS
    tracers, readers = TracerProvider(resource=resource), []
    if os.environ.get("OTEL_TRACES_EXPORTER", "otlp") != "none":
        tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(timeout=seconds)))
    if os.environ.get("OTEL_METRICS_EXPORTER", "otlp") != "none":
        every = None if "OTEL_METRIC_EXPORT_INTERVAL" in os.environ else _EVERY * 1_000
        readers.append(PeriodicExportingMetricReader(OTLPMetricExporter(timeout=seconds), every))
    meters = MeterProvider(readers, resource)
    return _Told(tracers.get_tracer(SCOPE), meters.get_meter(SCOPE), (tracers, meters))


def flush(seconds: float = _SECONDS) -> None:
    """Export what was told so far, as far as this process exports itself."""
    for provider in _own.providers if _own is not None else ():
        provider.force_flush(int(seconds * 1_000))


def stop() -> None:
    """Export what was told, and end; `start` begins anew."""
    global _own
    for provider in _own.providers if _own is not None else ():
        provider.shutdown()
    _own = None


def _told() -> _Told | None:
    """Where spans and figures go; None where no one listens."""
    global _others
    if _own is not None:
        return _own
    if _others is None and "opentelemetry.trace" in sys.modules:
        from opentelemetry import metrics, trace

        _others = _Told(trace.get_tracer(SCOPE), metrics.get_meter(SCOPE))
    return _others


class Span:
    """A span that goes on, or nothing where no one listens."""

    def __init__(self, span: OtelSpan | None = None) -> None:
        self._span = span

    def set(self, attributes: Mapping[str, Attribute | None]) -> None:
        """Say more of it. None is left out."""
        if self._span is not None:
            for name, value in attributes.items():
                if value is not None:
                    self._span.set_attribute(name, value)

    def fail(self, kind: str, says: str = "") -> None:
        """It failed, by an error of this class."""
        if self._span is not None:
            from opentelemetry.trace import StatusCode

            self._span.set_attribute("error.type", kind)
            self._span.set_status(StatusCode.ERROR, says or kind)


@contextmanager
def span(name: str, attributes: Mapping[str, Attribute | None], *, is_client: bool = False) -> Iterator[Span]:
    """A span around a block. An error that passes is told by its class; never with a traceback, which may quote."""
    told = _told()
    if told is None:
        yield Span()
        return
    from opentelemetry.trace import SpanKind

    kind = SpanKind.CLIENT if is_client else SpanKind.INTERNAL
    with told.tracer.start_as_current_span(
        name, kind=kind, record_exception=False, set_status_on_exception=False
    ) as made:
        current = Span(made)
        current.set(attributes)
        try:
            yield current
        except BaseException as error:
            fields = error_fields(error)
            current.fail(str(fields["error"]), str(fields["says"]))
            raise


def count(name: str, value: int, attributes: Mapping[str, Attribute]) -> None:
    """Add to a counter."""
    if value and (told := _told()) is not None:
        told.figure(name).add(value, dict(attributes))


def measure(name: str, value: float, attributes: Mapping[str, Attribute]) -> None:
    """Put a value into a histogram."""
    if (told := _told()) is not None:
        told.figure(name).record(value, dict(attributes))


def show(name: str, value: float, attributes: Mapping[str, Attribute]) -> None:
    """Set a gauge."""
    if (told := _told()) is not None:
        told.figure(name).set(value, dict(attributes))


@contextmanager
def timed(name: str) -> Iterator[None]:
    """Put the seconds of a block into a histogram, with the class of an error that passes."""
    if _told() is None:
        yield
        return
    began = time.monotonic()
    try:
        yield
    except Exception as error:
        measure(name, time.monotonic() - began, {"error.type": type(error).__name__})
        raise
    measure(name, time.monotonic() - began, {})


def is_heard() -> bool:
    """Whether this process exports itself, so that figures that cost a look are worth it."""
    return _own is not None


def ids() -> dict[str, str]:
    """Trace and span that go on, for log lines."""
    if "opentelemetry.trace" not in sys.modules:
        return {}
    from opentelemetry import trace

    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}


def carried() -> dict[str, str]:
    """What a worker needs to join the trace that goes on here; empty where no one listens."""
    if _told() is None:
        return {}
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    variables = {name: value for name, value in os.environ.items() if name.startswith("OTEL_")}
    return carrier | (variables if _own is not None else {})


@contextmanager
def joined(settings: Settings, carrier: Mapping[str, str]) -> Iterator[None]:
    """Join the trace of another process, and export what this one tells of it before the block ends."""
    if not carrier:
        yield
        return
    os.environ.update({name: value for name, value in carrier.items() if name.startswith("OTEL_")})
    start(settings)
    if _told() is None:
        yield
        return
    from opentelemetry.context import attach, detach
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    token = attach(TraceContextTextMapPropagator().extract(carrier))
    try:
        yield
    finally:
        detach(token)
        flush()
