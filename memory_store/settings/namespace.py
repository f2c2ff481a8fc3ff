"""What a namespace may be called."""

from __future__ import annotations

import re

from ..errors import SettingsError

_NAMESPACE = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}")


def check_namespace(name: str) -> str:
    """Return the namespace, or raise `SettingsError`: it is a folder's name on every system, so its alphabet is small.

    >>> check_namespace("acme-eu")
    'acme-eu'
    """
    if not isinstance(name, str) or not _NAMESPACE.fullmatch(name):
        raise SettingsError(
            f"namespace {name!r} can't be used: take 1 to 128 of a-z, 0-9, '.', '_' and '-', "
            "beginning with a letter or digit"
        )
    return name
