"""What callers give, checked and made what the store can keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..memory_store.errors import UsageError


def given(**values: Any) -> dict[str, Any]:
    """The values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def stored(text: str) -> str:
    """A text as Parquet and Arrow can keep it: no NUL, no half of a surrogate pair."""
    if not isinstance(text, str):
        raise UsageError(f"{text!r} is no text")
    return text.replace("\0", "").encode("utf-8", "backslashreplace").decode()


def many(value: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """One value or several, as a filter takes them. Raises `UsageError` on what is no text."""
    if value is None:
        return None
    values = (value,) if isinstance(value, str) else tuple(value)
    for item in values:
        if not isinstance(item, str):
            raise UsageError(f"a filter takes text, not {item!r}")
    return values


def known(values: tuple[str, ...] | None, allowed: tuple[str, ...], what: str) -> tuple[str, ...] | None:
    """The same values. Raises `UsageError` on one that is not allowed, and names those that are."""
    for value in values or ():
        if value not in allowed:
            raise UsageError(f"there is no {what} {value!r}: take one of {', '.join(allowed)}")
    return values
