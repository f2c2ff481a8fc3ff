"""The format of a lake: `format.json` at its root says who made it, and whether this version may touch it.

It is written with the first file, and looked at before anything else is read or written. A lake without one is of
format 1. What a later version of the same format adds (columns, folders) an older one passes over; a change that an
older one would misread raises the number, and `hindlake migrate` brings a lake up to it.
"""

from __future__ import annotations

import msgspec

from ..errors import DamagedFile, LakeError
from ..ids import sortable_id

#: The format that this version writes, and the newest that it can read.
FORMAT = 1
#: Where a lake says its format.
MARKER = "format.json"


class LakeFormat(msgspec.Struct, kw_only=True):
    """What `format.json` says."""

    #: Number of the format
    format: int = FORMAT
    #: Id of the lake, by which its backups are told from those of another
    lake: str = ""
    #: Version of hindlake that wrote it
    version: str = ""
    #: The restore that is filling this lake, as the arguments of its command; empty once it is whole
    restoring: str = ""


def new_format(restoring: str = "") -> LakeFormat:
    """What a new lake says of itself."""
    return LakeFormat(lake=sortable_id(), version=own_version(), restoring=restoring)


def own_version() -> str:
    """The version of this hindlake; "unknown" for a checkout that is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("hindlake")
    except PackageNotFoundError:
        return "unknown"


def read_format(data: bytes | None, url: str) -> LakeFormat:
    """What a lake says of itself; `data` is its marker, None if it has none. Raises `DamagedFile` for one cut short."""
    if data is None:
        return LakeFormat()
    try:
        return msgspec.json.decode(data, type=LakeFormat)
    except msgspec.DecodeError as error:
        raise DamagedFile(
            f"{url}/{MARKER} is damaged ({error}): bring it back with `hindlake backup restore`, or delete it if you "
            f"are sure that no newer version than {own_version()} wrote this lake"
        ) from error


def check_format(found: LakeFormat, url: str) -> None:
    """Raise `LakeError` for a lake that this version must not touch: a newer one, or one that is half restored."""
    if found.format > FORMAT:
        raise LakeError(
            f"{url} is a lake of format {found.format}, written by hindlake {found.version}; this is hindlake "
            f"{own_version()}, which knows formats up to {FORMAT}: run pip install -U 'hindlake>={found.version}'. "
            "Nothing was changed"
        )
    if found.restoring:
        raise LakeError(
            f"{url} is being restored, or a restore of it was stopped: finish it with `hindlake backup restore "
            f"{found.restoring}`"
        )
