"""A receiver of OpenTelemetry's protocol on loopback: what comes in is decoded as a collector would."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Span:
    """A span as it came in."""

    name: str
    id: str
    parent: str
    trace: str
    kind: int
    failed: bool
    status: str
    attributes: dict[str, Any]
    resource: dict[str, Any]


@dataclass
class Received:
    """Everything that came in so far."""

    #: Address for OTEL_EXPORTER_OTLP_ENDPOINT
    endpoint: str = ""
    spans: list[Span] = field(default_factory=list)
    #: The last value of each figure, by name and attributes: a sum, a gauge, or (count, sum) of a histogram
    figures: dict[str, dict[tuple[tuple[str, Any], ...], Any]] = field(default_factory=dict)
    #: The bytes, to look for what must not be in them
    raw: list[bytes] = field(default_factory=list)

    def named(self, name: str) -> list[Span]:
        """The spans of a name, in the order in which they ended."""
        return [span for span in self.spans if span.name == name]


@contextmanager
def otlp_receiver() -> Iterator[Received]:
    """A receiver, as long as the block lasts."""
    received = Received()
    handler = type("Handler", (_Handler,), {"received": received, "lock": threading.Lock()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    received.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    received: Received
    lock: threading.Lock
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
        with self.lock:
            self.received.raw.append(body)
            if self.path == "/v1/traces":
                self.received.spans += _spans(ExportTraceServiceRequest.FromString(body))
            elif self.path == "/v1/metrics":
                _figures(ExportMetricsServiceRequest.FromString(body), self.received.figures)
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()


def _spans(request: Any) -> Iterator[Span]:
    for resource in request.resource_spans:
        about = _attributes(resource.resource.attributes)
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield Span(
                    span.name, span.span_id.hex(), span.parent_span_id.hex(), span.trace_id.hex(), span.kind,
                    span.status.code == 2, span.status.message, _attributes(span.attributes), about,
                )  # fmt: skip


def _figures(request: Any, found: dict[str, dict[tuple[tuple[str, Any], ...], Any]]) -> None:
    metrics = (
        metric for resource in request.resource_metrics for scope in resource.scope_metrics for metric in scope.metrics
    )
    for metric in metrics:
        kind = metric.WhichOneof("data")
        values = found.setdefault(metric.name, {})
        for point in getattr(metric, kind).data_points:
            key = tuple(sorted(_attributes(point.attributes).items()))
            values[key] = (point.count, point.sum) if kind == "histogram" else getattr(point, point.WhichOneof("value"))


def _attributes(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}
