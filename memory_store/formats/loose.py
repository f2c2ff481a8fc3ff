"""Reading JSON whose shape nobody promised: each function takes anything and never raises but where it says so."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Container
from datetime import UTC, datetime

import msgspec

_ENCODER = msgspec.json.Encoder()
_SORTED = msgspec.json.Encoder(order="sorted")
_FRACTION = re.compile(r"(\.\d{6})\d+")
#: Times outside of these years are not times of an agent.
_YEARS = (1990, 2200)


def parse_json(raw: bytes) -> object:
    """One JSON value. What Python and JavaScript write beside the standard is read too: NaN, lone surrogates.

    Raises `ValueError` that says what is wrong, also for values nested too deeply.
    """
    try:
        return msgspec.json.decode(raw)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except ValueError:
        pass
    try:
        return json.loads(raw.decode("utf-8-sig", "replace"), strict=False)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except json.JSONDecodeError as error:
        if not raw.strip(b" \t\r\n\0"):
            raise ValueError("empty") from None
        at_end = error.pos >= len(error.doc.rstrip()) - 1 or error.msg.startswith("Unterminated string")
        what = "cut off" if at_end else "not JSON"
        raise ValueError(f"{what}: {error.msg} at character {error.pos}") from None


def json_text(value: object) -> str:
    """A value as compact JSON; text stays as it is, nothing becomes empty."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    try:
        return _ENCODER.encode(value).decode()
    except (UnicodeEncodeError, TypeError, OverflowError, ValueError):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def canonical(value: object) -> str:
    """A value as JSON whose keys are sorted: equal values give equal text."""
    try:
        return _SORTED.encode(value).decode()
    except (UnicodeEncodeError, TypeError, OverflowError, ValueError):
        return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=str)


def mapping(value: object) -> dict[str, object]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def sequence(value: object) -> list[object]:
    """The value if it is an array, else an empty one."""
    return value if isinstance(value, list) else []


def text(value: object) -> str:
    """Text as it is; numbers and truth values as text; anything else empty."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return str(value)
    return ""


def whole(value: object) -> int | None:
    """A count: a number, or digits in text, that is not negative and fits a column."""
    if isinstance(value, str) and len(value) < 20 and value.strip().isdigit():
        value = int(value)
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63:
        return value
    return None


def real(value: object) -> float | None:
    """A finite number, also when it is a truth value."""
    if isinstance(value, bool | int | float):
        try:
            number = float(value)
        except OverflowError:
            return None
        return number if math.isfinite(number) else None
    return None


def first(value: dict[str, object], *names: str) -> object:
    """The first of several keys that holds something."""
    for name in names:
        found = value.get(name)
        if found is not None and found != "":
            return found
    return None


def rest(value: dict[str, object], known: Container[str]) -> dict[str, object]:
    """What is left of an object without the known keys and without what is empty."""
    return {key: left for key, left in value.items() if key not in known and left not in (None, "", [], {})}


def moment(value: object) -> datetime | None:
    """A time in UTC: ISO 8601, or a number of seconds, milli-, micro- or nanoseconds since 1970. Else None.

    A time without a zone is taken as UTC.

    >>> moment("2026-01-02T03:04:05.123456789Z").isoformat()
    '2026-01-02T03:04:05.123456+00:00'
    >>> moment(1767323045000) == moment("1767323045") == moment("2026-01-02T03:04:05")
    True
    """
    if isinstance(value, str):
        stripped = value.strip()
        try:
            if re.fullmatch(r"\d{9,19}(\.\d+)?", stripped):
                return moment(int(stripped) if "." not in stripped else float(stripped))
            if not re.match(r"\d{4}-\d\d-\d\d[T ]\d\d", stripped):
                return None
            found = datetime.fromisoformat(_FRACTION.sub(r"\1", stripped))
            found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
        except (ValueError, OverflowError):
            return None
        return found if _YEARS[0] <= found.year < _YEARS[1] else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # By magnitude: seconds until 1e11, then milli-, micro-, nanoseconds. Integers lose nothing on the way.
    for limit, per_second in ((10**11, 1), (10**14, 10**3), (10**17, 10**6), (10**20, 10**9)):
        if abs(value) < limit:
            try:
                micros = value * 10**6 // per_second
                found = datetime.fromtimestamp(int(micros) // 10**6, UTC).replace(microsecond=int(micros) % 10**6)
            except (ValueError, OverflowError, OSError):
                return None
            return found if _YEARS[0] <= found.year < _YEARS[1] else None
    return None
