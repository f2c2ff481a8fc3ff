"""Jaeger's JSON, as its interface and API export it: `{"data": [{"traceID": …, "spans": […], "processes": …}]}`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from .draft import Draft, RecordError
from .loose import first, mapping, parse_json, rest, sequence, text, whole
from .records import Record
from .spans import Span, SpanEvent, spans_draft

_KNOWN = {"traceID", "spanID", "parentSpanID", "operationName", "references", "startTime", "duration", "tags", "logs",
          "processID", "process"}  # fmt: skip


class Jaeger:
    """Jaeger exports."""

    name = "jaeger"
    about = "Jaeger JSON exports"

    def matches(self, value: object) -> bool:
        """Whether the value holds Jaeger traces, or is one."""
        return bool(_traces(value))

    def split(self, record: Record) -> Iterator[tuple[str, object]]:
        """Each trace of an export."""
        for trace in _traces(record.value):
            processes = mapping(trace.get("processes"))
            trace_id = text(trace.get("traceID"))
            spans = [_span(mapping(one), trace_id, processes) for one in sequence(trace.get("spans"))]
            yield spans[0].trace_id, spans

    def join(self, key: str, parts: list[object]) -> Draft:
        """The trace of all parts that had spans of it."""
        return spans_draft(key, [span for part in parts for span in part])  # type: ignore[attr-defined]


def _traces(value: object) -> list[dict[str, object]]:
    record = mapping(value)
    traces = [mapping(one) for one in sequence(record.get("data"))] or [record]
    return [one for one in traces if any("spanID" in mapping(span) for span in sequence(one.get("spans")))]


def _tags(listed: object) -> dict[str, object]:
    tags = {}
    for one in map(mapping, sequence(listed)):
        value = one.get("value")
        if one.get("type") in ("int64", "float64") and isinstance(value, str):
            with contextlib.suppress(ValueError):
                value = parse_json(value.encode())
        tags[text(one.get("key"))] = value
    return tags


def _span(raw: dict[str, object], trace_id: str, processes: dict[str, object]) -> Span:
    trace_id = text(raw.get("traceID")) or trace_id
    span_id = text(raw.get("spanID"))
    if not trace_id or not span_id:
        raise RecordError(f"span {text(raw.get('operationName'))!r} has no trace id or no span id")
    references = [mapping(one) for one in sequence(raw.get("references"))]
    parents = [text(one.get("spanID")) for one in references if text(one.get("traceID")) in ("", trace_id)]
    start = (whole(raw.get("startTime")) or 0) * 1_000
    attributes = _tags(raw.get("tags"))
    process = mapping(processes.get(text(raw.get("processID")))) or mapping(raw.get("process"))
    status = attributes.pop("otel.status_code", None)
    message = attributes.pop("otel.status_description", None)
    failed = attributes.pop("error", None)
    more = rest(raw, _KNOWN)
    if len(references) > 1:
        more["references"] = references
    if status is not None:
        more["status"] = status
    return Span(
        trace_id, span_id, text(raw.get("operationName")), parents[0] if parents else text(raw.get("parentSpanID")),
        start, start + (whole(raw.get("duration")) or 0) * 1_000, attributes,
        [_event(mapping(one)) for one in sequence(raw.get("logs"))],
        failed=status == "ERROR" or (status is None and failed in (True, "true")),
        status_message=text(message) or (text(failed) if isinstance(failed, str) and failed != "true" else ""),
        resource={"service.name": process.get("serviceName"), **_tags(process.get("tags"))} if process else {},
        more=more,
    )  # fmt: skip


def _event(log: dict[str, object]) -> SpanEvent:
    fields = _tags(log.get("fields"))
    name = text(first(fields, "event", "message", "name"))
    return SpanEvent(name, {key: value for key, value in fields.items() if key != "event"},
                     (whole(log.get("timestamp")) or 0) * 1_000)  # fmt: skip
