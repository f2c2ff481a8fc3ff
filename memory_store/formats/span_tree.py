"""Spans as trees or flat lists with words for keys: OpenInference exports (Phoenix, Patronus), TRAIL, SDK consoles.

    {"trace_id": …, "spans": [{"span_id": …, "span_name": …, "timestamp": …, "duration": "PT1.5S",
     "span_attributes": {…}, "child_spans": […]}]}

One span a line works too: `{"name": …, "context": {"trace_id": …, "span_id": …}, "parent_id": …}`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime

from .draft import Draft, RecordError
from .labels import beside
from .loose import first, mapping, moment, rest, sequence, text
from .otlp import attributes_of
from .records import Record
from .spans import Span, SpanEvent, spans_draft

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DURATION = re.compile(r"P(?:(\d+)D)?T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?")
_KNOWN = {"timestamp", "start_time", "startTime", "end_time", "endTime", "duration", "trace_id", "traceId", "span_id",
          "spanId", "parent_span_id", "parentSpanId", "parent_id", "parentId", "span_name", "name", "span_attributes",
          "attributes", "status_code", "statusCode", "status_message", "statusMessage", "status", "events",
          "child_spans", "children", "context", "resource_attributes", "resource", "span_kind"}  # fmt: skip
#: Deeper trees than this are broken.
_DEEP = 400


class SpanTree:
    """Span trees and flat spans."""

    name = "openinference"
    about = "OpenInference span trees and flat spans (Phoenix, TRAIL, console exporters)"

    def matches(self, value: object) -> bool:
        """Whether the value is a span, or holds some."""
        record = mapping(value)
        return _is_span(record) or any(_is_span(mapping(one)) for one in sequence(record.get("spans")))

    def split(self, record: Record) -> Iterator[tuple[str, object]]:
        """The spans of a record, by trace."""
        holder = mapping(record.value)
        trace_id = text(first(holder, "trace_id", "traceId"))
        tops = [holder] if _is_span(holder) else [mapping(one) for one in sequence(holder.get("spans"))]
        by_trace: defaultdict[str, list[Span]] = defaultdict(list)
        waiting = [(one, "", 0) for one in reversed(tops)]
        while waiting:
            raw, parent, depth = waiting.pop()
            if depth > _DEEP:
                raise RecordError("its spans are nested too deeply")
            span = _span(raw, trace_id, parent)
            by_trace[span.trace_id].append(span)
            children = sequence(first(raw, "child_spans", "children"))
            waiting.extend((mapping(one), span.span_id, depth + 1) for one in reversed(children))
        yield from by_trace.items()

    def join(self, key: str, parts: list[object]) -> Draft:
        """The trace of all records that had spans of it."""
        return spans_draft(key, [span for part in parts for span in part])  # type: ignore[attr-defined]


def _is_span(value: dict[str, object]) -> bool:
    context = mapping(value.get("context"))
    named = "span_name" in value or "name" in value
    return named and bool(first(value, "span_id", "spanId") or first(context, "span_id", "spanId"))


def _span(raw: dict[str, object], trace_id: str, parent: str) -> Span:
    context = mapping(raw.get("context"))
    name = text(first(raw, "span_name", "name"))
    span_id = _bare(first(raw, "span_id", "spanId") or first(context, "span_id", "spanId"))
    trace_id = _bare(first(raw, "trace_id", "traceId") or first(context, "trace_id", "traceId")) or trace_id
    if not span_id or not trace_id:
        raise RecordError(f"span {name!r} has no trace id or no span id")
    status = raw.get("status")
    code = first(raw, "status_code", "statusCode") or (mapping(status).get("status_code") or mapping(status).get("code")
                                                       or text(status))  # fmt: skip
    start = _nanoseconds(first(raw, "timestamp", "start_time", "startTime"))
    end = _nanoseconds(first(raw, "end_time", "endTime")) or (start and start + _lasted(raw.get("duration")))
    resource = first(raw, "resource_attributes", "resource")
    more = beside(raw, _KNOWN)
    attributes = attributes_of(first(raw, "span_attributes", "attributes"))
    logs = [mapping(one) for one in sequence(more.pop("logs", None))]
    _calls_in_logs(logs, attributes)
    if logs:
        # What the logs repeat of their span is left out.
        more["logs"] = [rest(one, ("resource_attributes", "trace_id", "span_id", "service_name")) for one in logs]
    return Span(
        trace_id, span_id, name, _bare(first(raw, "parent_span_id", "parentSpanId", "parent_id", "parentId")) or parent,
        start, end, attributes,
        [SpanEvent(text(first(one, "name", "Name")), attributes_of(first(one, "attributes", "Attributes")),
                   _nanoseconds(first(one, "timestamp", "Timestamp")))
         for one in map(mapping, sequence(raw.get("events")))],
        failed=text(code).strip().upper().removeprefix("STATUSCODE.").removeprefix("STATUS_CODE_") in ("ERROR", "2"),
        status_message=text(first(raw, "status_message", "statusMessage") or mapping(status).get("message")
                            or mapping(status).get("description")),
        resource=attributes_of(mapping(resource).get("attributes") or resource), more=more,
    )  # fmt: skip


def _calls_in_logs(logs: list[dict[str, object]], attributes: dict[str, object]) -> None:
    """A log that tells a function's arguments and output is what went in and came out."""
    if attributes.keys() & {"input.value", "output.value"}:
        return
    for log in logs:
        body = log.get("body")
        if isinstance(body, dict) and "function.name" in body:
            attributes["input.value"] = body.pop("function.arguments", None)
            attributes["output.value"] = body.pop("function.output", None)


def _nanoseconds(value: object) -> int:
    """A time as nanoseconds since 1970; 0: none."""
    if isinstance(value, int) and moment(value) and value > 10**17:
        return value
    found = moment(value)
    return int((found - _EPOCH).total_seconds()) * 10**9 + found.microsecond * 1_000 if found else 0


def _lasted(value: object) -> int:
    """A duration as nanoseconds: ISO 8601, or a number of them."""
    if isinstance(value, str) and (match := _DURATION.fullmatch(value)):
        days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
        return round((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1e9)
    return int(value) if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**18 else 0


def _bare(value: object) -> str:
    return text(value).removeprefix("0x")
