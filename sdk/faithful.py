"""Any value as text: faithfully where text can say it, marked where it can't.

| value | stored as |
|---|---|
| str, int, float, bool, None, list, tuple, dict | JSON |
| bytes, bytearray, memoryview | `{"$bytes": "<base64>"}` |
| NaN, inf, -inf | `{"$float": "nan"}` |
| an integer of more than 4,000 digits | `{"$int": "0x…"}` |
| set, frozenset | `{"$set": […]}` |
| a dict with keys that are no text and would collide | `{"$pairs": [[key, value], …]}` |
| datetime, date, time | ISO 8601; one without a zone stays without |
| dataclass, pydantic model, msgspec struct, attrs class, named tuple | their fields |
| Enum, numpy scalar or array, Decimal, UUID, Path | their value |
| something that contains itself | `{"$cycle": true}` there |
| anything else | `{"$type": "module.Name", "$repr": "…"}` |
| a lone surrogate in text | the six characters `\\ud83d` |
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import json
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import PurePath
from typing import Any
from uuid import UUID

import msgspec

from ..memory_store.capture.limits import visible

#: What sits deeper than this is stored as its repr.
_DEPTH = 64
#: Most characters of a repr.
_REPR_CHARACTERS = 10_000
_INT64 = 1 << 63
_SIMPLE = frozenset({str, int, bool, type(None)})
_encode = msgspec.json.Encoder().encode


def as_text(value: object) -> str:
    """A value as what was said: text as it is, bytes decoded if they are UTF-8, None as empty, others as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return str.__str__(value.value if isinstance(value, enum.Enum) else value)
    if isinstance(value, (bytes, bytearray)):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return as_json(value)
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {_own_text(value)}"
    return as_json(value)


def as_json(value: object) -> str:
    """A value as JSON text. Never raises; what JSON can't say is marked as the module's table has it."""
    try:
        if _is_plain(value, 0):
            return _encode(value).decode()
    except (ValueError, OverflowError, RecursionError):  # a lone surrogate, or a number past the encoder's limits
        pass
    return json.dumps(_clean(value, (), 0), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def as_int(value: object) -> int | None:
    """A number as a 64-bit integer, clamped; None if it is no number."""
    try:
        number = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        return None
    return max(-_INT64, min(_INT64 - 1, int(number)))


def as_real(value: object) -> float | None:
    """A number as a float; None if it is no number."""
    if isinstance(value, (str, bytes)):
        return None
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None


def _is_plain(value: object, depth: int) -> bool:
    """Whether the fast encoder says this faithfully. It has no word for NaN, and takes bytes for text."""
    kind = type(value)
    if kind in _SIMPLE:
        return True
    if kind is float:
        return bool(value - value == 0)  # type: ignore[operator]
    if depth > 20:
        return False
    items: Any = value
    if kind is dict:
        for key in items:
            if type(key) is not str:
                return False
        items = items.values()
    elif kind is not list and kind is not tuple:
        return False
    # A plain loop: this is the hot path, and most items are simple.
    for item in items:  # noqa: SIM110
        if type(item) not in _SIMPLE and not _is_plain(item, depth + 1):
            return False
    return True


def _clean(value: Any, above: tuple[int, ...], depth: int) -> Any:
    """The value in words of JSON. `above` are the ids of what it is inside of."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, enum.Enum):
        return _clean(value.value, above, depth + 1)
    if isinstance(value, str):
        return visible(str.__str__(value))
    if isinstance(value, int):
        return int(value) if value.bit_length() < 13_000 else {"$int": hex(value)}
    if isinstance(value, float):
        number = float(value)
        return number if number - number == 0 else {"$float": repr(number)}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"$bytes": base64.b64encode(bytes(value)).decode()}
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, (Decimal, UUID, PurePath, timedelta)):
        return str(value)
    if id(value) in above:
        return {"$cycle": True}
    if depth > _DEPTH:
        return _shown(value)
    above = (*above, id(value))
    # Here code of the agent's own objects is run, and it may raise anything: that costs one value, not the event.
    try:
        return _clean_composite(value, above, depth + 1)
    except Exception:
        return _shown(value)


def _clean_composite(value: Any, above: tuple[int, ...], depth: int) -> Any:
    if isinstance(value, Mapping):
        keys = [_key(key) for key in value]
        if len(set(keys)) < len(keys):
            return {"$pairs": [[_clean(k, above, depth), _clean(v, above, depth)] for k, v in value.items()]}
        return {key: _clean(item, above, depth) for key, item in zip(keys, value.values(), strict=True)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return _clean(value._asdict(), above, depth)
    if isinstance(value, (list, tuple)):
        return [_clean(item, above, depth) for item in value]
    if isinstance(value, (set, frozenset)):
        return {"$set": [_clean(item, above, depth) for item in value]}
    if isinstance(value, type):
        return _shown(value)
    if dataclasses.is_dataclass(value):
        return {f.name: _clean(getattr(value, f.name), above, depth) for f in dataclasses.fields(value)}
    if isinstance(value, msgspec.Struct):
        return {name: _clean(getattr(value, name), above, depth) for name in value.__struct_fields__}
    if hasattr(type(value), "model_fields") and hasattr(value, "__dict__"):
        extra = getattr(value, "__pydantic_extra__", None) or {}
        return {name: _clean(item, above, depth) for name, item in {**value.__dict__, **extra}.items()}
    if hasattr(type(value), "__attrs_attrs__"):
        return {a.name: _clean(getattr(value, a.name), above, depth) for a in type(value).__attrs_attrs__}
    if hasattr(value, "dtype") and hasattr(value, "tolist"):
        listed = value.tolist()
        return _shown(value) if listed is value else _clean(listed, above, depth)
    return _shown(value)


def _key(key: object) -> str:
    if isinstance(key, str):
        return visible(str.__str__(key.value if isinstance(key, enum.Enum) else key))
    if key is None or isinstance(key, (bool, int, float)):
        return str(key)
    return as_text(key)


def _shown(value: object) -> dict[str, str]:
    kind = type(value)
    return {"$type": f"{kind.__module__}.{kind.__qualname__}", "$repr": _own_text(value, repr)[:_REPR_CHARACTERS]}


def _own_text(value: object, words: Any = str) -> str:
    try:
        return visible(words(value))
    except Exception:
        return "(no text: it raises when asked)"
