"""The folders of the generations below `store/`: which there are, all that they hold, and removing one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import StoreError
from ..settings import Settings
from .lake import Lake
from .later import CATALOGUES, leave_for_later
from .s3 import s3_options

if TYPE_CHECKING:
    import pyarrow as pa


def generation_folders(settings: Settings) -> list[str]:
    """Names of the generations that have files, those that were never finished included."""
    if settings.is_remote:
        # Some servers go on listing a folder whose files are gone.
        return sorted({path.partition("/")[0] for path in _bucket(settings).names("")})
    root = Path(settings.home) / "store"
    return sorted(path.name for path in root.iterdir() if path.is_dir()) if root.is_dir() else []


def remove_generation(settings: Settings, name: str) -> None:
    """Delete every file of a generation. One that is gone already is fine."""
    if settings.is_remote:
        store = _bucket(settings)
        store.delete(store.names(name))
    else:
        shutil.rmtree(Path(settings.home) / "store" / name, ignore_errors=True)


def every_version(settings: Settings, name: str) -> Iterator[tuple[str, int, pa.Table]]:
    """All rows of every version of every table of a generation: the table's name, the version, the rows.

    A version whose files were cleaned up can't be read by anyone and is left out.
    """
    leave_for_later(CATALOGUES)
    import lancedb

    options = s3_options(settings) if settings.is_remote else None
    database = lancedb.connect(f"{settings.home}/store/{name}", storage_options=options)
    for table_name in database.list_tables().tables:
        table = database.open_table(table_name)
        for version in sorted(int(known["version"]) for known in table.list_versions()):
            try:
                table.checkout(version)
                rows = table.to_arrow()
            except (RuntimeError, ValueError, OSError) as error:
                if "not found" not in str(error).lower():
                    raise StoreError(f"{table_name} of {name} can't be read: {error}") from error
                continue
            yield table_name, version, rows


def _bucket(settings: Settings) -> Lake:
    from .bucket import Bucket

    url = f"{settings.home}/store"
    return Lake(Bucket(url, s3_options(settings)), url)
