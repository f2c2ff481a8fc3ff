"""OTLP JSON, as collectors and Tempo export it: `resourceSpans`, or `batches` of the same.

Ids may be hexadecimal or base64, `scopeSpans` may be called `instrumentationLibrarySpans`, numbers may be text, and
the whole may lie in a `trace` or `data` object: all of these are in use.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections import defaultdict
from collections.abc import Iterator

from .draft import Draft, RecordError
from .loose import first, mapping, rest, sequence, text, whole
from .records import Record
from .spans import Span, SpanEvent, spans_draft

_HEX = re.compile(r"(?:[0-9a-fA-F]{2}){1,16}")
_KNOWN = {"traceId", "spanId", "parentSpanId", "name", "startTimeUnixNano", "endTimeUnixNano", "attributes", "events",
          "status"}  # fmt: skip


class OTLP:
    """OTLP JSON and Tempo."""

    name = "otlp"
    about = "OpenTelemetry OTLP JSON, Tempo exports"

    def matches(self, value: object) -> bool:
        """Whether the value has resource spans."""
        return bool(_batches(value))

    def split(self, record: Record) -> Iterator[tuple[str, object]]:
        """The spans of a batch, by trace."""
        by_trace: defaultdict[str, list[Span]] = defaultdict(list)
        for batch in _batches(record.value):
            resource = attributes_of(mapping(batch.get("resource")).get("attributes"))
            scopes = first(batch, "scopeSpans", "instrumentationLibrarySpans", "scope_spans")
            for scoped in map(mapping, sequence(scopes)):
                scope = rest(mapping(first(scoped, "scope", "instrumentationLibrary")), ())
                for raw in map(mapping, sequence(scoped.get("spans"))):
                    span = _span(raw, resource, scope)
                    by_trace[span.trace_id].append(span)
        if not by_trace:
            raise RecordError("its resource spans hold no span")
        yield from by_trace.items()

    def join(self, key: str, parts: list[object]) -> Draft:
        """The trace of all batches that had spans of it."""
        return spans_draft(key, [span for part in parts for span in part])  # type: ignore[attr-defined]


def _batches(value: object) -> list[dict[str, object]]:
    record = mapping(value)
    for holder in (record, mapping(record.get("trace")), mapping(record.get("data"))):
        held = first(holder, "resourceSpans", "resource_spans", "batches")
        if isinstance(held, list) and any(
            mapping(one).keys() & {"scopeSpans", "instrumentationLibrarySpans", "scope_spans"} for one in held
        ):
            return [mapping(one) for one in held]
    return []


def _span(raw: dict[str, object], resource: dict[str, object], scope: dict[str, object]) -> Span:
    status = mapping(raw.get("status"))
    trace_id, span_id = _id(raw.get("traceId")), _id(raw.get("spanId"))
    if not trace_id or not span_id:
        raise RecordError(f"span {text(raw.get('name'))!r} has no trace id or no span id")
    more: dict[str, object] = {key: value for key, value in rest(raw, _KNOWN).items() if value not in (0, "0")}
    if scope:
        more["scope"] = scope
    return Span(
        trace_id, span_id, text(raw.get("name")), _id(raw.get("parentSpanId")),
        whole(raw.get("startTimeUnixNano")) or 0, whole(raw.get("endTimeUnixNano")) or 0,
        attributes_of(raw.get("attributes")),
        [SpanEvent(text(one.get("name")), attributes_of(one.get("attributes")), whole(one.get("timeUnixNano")) or 0)
         for one in map(mapping, sequence(raw.get("events")))],
        failed=status.get("code") in (2, "2", "STATUS_CODE_ERROR", "ERROR", "Error"),
        status_message=text(status.get("message")), resource=resource, more=more,
    )  # fmt: skip


def attributes_of(listed: object) -> dict[str, object]:
    """OTLP's list of keys and typed values as an object; one that is an object already is taken as it is."""
    if isinstance(listed, dict):
        return listed
    return {text(one.get("key")): _value(one.get("value")) for one in map(mapping, sequence(listed))}


def _value(typed: object) -> object:
    """A typed value: the one key says the type."""
    if not isinstance(typed, dict):
        return typed
    for kind in ("stringValue", "boolValue", "doubleValue", "bytesValue"):
        if kind in typed:
            return typed[kind]
    if "intValue" in typed:
        number = typed["intValue"]
        if isinstance(number, str) and re.fullmatch(r"-?\d{1,20}", number):
            return int(number)
        return number
    if "arrayValue" in typed:
        return [_value(one) for one in sequence(mapping(typed["arrayValue"]).get("values"))]
    if "kvlistValue" in typed:
        return attributes_of(mapping(typed["kvlistValue"]).get("values"))
    return typed or None


def _id(value: object) -> str:
    """An id in lower-case hexadecimal; all zeros are none."""
    given = text(value).strip()
    if not _HEX.fullmatch(given) or len(given) not in (16, 32):
        try:
            raw = base64.b64decode(given, validate=True)
        except (binascii.Error, ValueError):
            raw = b""
        given = raw.hex() if len(raw) in (8, 16) else given
    return given.lower() if given.strip("0") else ""
