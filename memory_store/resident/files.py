"""Writing the rows of a table for searching: one pass over the table, and the vectors sorted into their cells.

A folder appears whole, under the version of the table that it is of; readers take the newest, and those that have an
older one mapped keep it.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec

from ..errors import StoreError
from ..recall.predicates import Predicate, addresses_from
from ..store.stored import PACKED, unpacked
from .cells import cell_count, centres_of, nearest_cell, sample_of
from .columns import READ, Coder, save_columns
from .rows import Meta, lengths_of, matrix_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from ..store.lance import Snapshot

    Vectors = npt.NDArray[np.float32]

FORMAT = 1
#: Rows that are read at once.
_BATCH = 8_192
#: The same where only addresses are wanted.
_MANY = 1_000_000
#: Tables of fewer numbers in vectors have one cell: all are compared.
_ONE_CELL = 8_000_000
#: Seconds after which a folder that is not finished was left by a process that died.
_DEAD = 6 * 3600


def folder_of(url: str, table: str) -> Path:
    """Where the copies of a table lie."""
    return Path(url) / f"{table}.resident"


def newest_copy(url: str, table: str) -> Path | None:
    """The newest copy that is whole."""
    try:
        names = [path for path in folder_of(url, table).iterdir() if path.name.startswith("v")]
    except FileNotFoundError:
        return None
    return max(names, key=lambda path: path.name, default=None)


async def write_copy(snapshot: Snapshot, url: str, table: str, dim: int, centres: Vectors | None = None) -> None:
    """Copy a version of a table, and remove older copies. `centres`: those of an older copy, used if they still fit.

    Raises `StoreError` where the files can't be written.
    """
    home = folder_of(url, table)
    made = home / f".{uuid4().hex}"
    done = home / f"v{snapshot.version:012d}-{time.time_ns():020d}"
    try:
        made.mkdir(parents=True)
        await _fill(snapshot, made, dim, centres)
        made.rename(done)
    except OSError as error:
        raise StoreError(f"{home} can't be written ({error}): make room, or set index.resident_mb to 0") from error
    finally:
        shutil.rmtree(made, ignore_errors=True)
    remove_copies(url, table, done.name)


def remove_copies(url: str, table: str, before: str = "w") -> None:
    """Remove copies whose names come before one, and what processes that died left; unless given, all."""
    home = folder_of(url, table)
    for path in home.iterdir() if home.is_dir() else ():
        with suppress(OSError):
            is_dead = path.name.startswith(".") and time.time() - path.stat().st_mtime > _DEAD
            if is_dead or (path.name.startswith("v") and path.name < before):
                shutil.rmtree(path, ignore_errors=True)


def copied(url: str) -> Iterator[tuple[str, pa.Table]]:
    """All texts of every copy beside the tables of a folder, those of processes that died included: name and rows."""
    import numpy as np
    import pyarrow as pa

    for folder in sorted(Path(url).glob("*.resident/*")):
        try:
            ends, packed = np.load(folder / "packed_ends.npy"), (folder / "packed").read_bytes()
        except (OSError, ValueError):
            continue  # being made, or removed just now
        starts = [0, *ends.tolist()]
        rows = list(unpacked((packed[start:end] for start, end in pairwise(starts)), ("id",)))
        texts = ["\n".join(_texts(row)) for row in rows]
        yield (
            f"{folder.parent.name}/{folder.name}",
            pa.table({"id": pa.array([row["id"] for row in rows], pa.string()), PACKED: texts}),
        )


def _texts(value: Any) -> Iterator[str]:
    """The texts inside a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


async def addresses_of(snapshot: Snapshot, condition: Predicate) -> npt.NDArray[np.uint64]:
    """Addresses of the rows of a version that pass a predicate, in order."""
    import numpy as np

    query = snapshot.table.query().where(condition).select([]).with_row_id()
    batches = [batch async for batch in await query.to_batches(max_batch_length=_MANY)]
    parts = [batch.column("_rowid").to_numpy() for batch in batches]
    return np.sort(np.concatenate(parts)) if parts else np.zeros(0, np.uint64)


async def _fill(snapshot: Snapshot, folder: Path, dim: int, centres: Vectors | None) -> None:
    import numpy as np

    coder, addresses, ends, has = Coder(), [], [], []
    every = await addresses_of(snapshot, addresses_from(0))
    with open(folder / "packed", "wb") as packed, open(folder / "unsorted", "wb") as unsorted:
        # A scan would read far ahead, and hold some gigabytes of what it has read.
        for at in range(0, len(every), _BATCH):
            some = snapshot.table.take_row_ids(every[at : at + _BATCH].tolist())
            batch = (await some.select([*READ, PACKED, "vector"]).with_row_id().to_arrow()).combine_chunks()
            coder.add(batch)
            addresses.append(batch.column("_rowid").to_numpy())
            pieces = batch.column(PACKED).to_pylist()
            packed.write(b"".join(pieces))
            ends.append(np.fromiter(map(len, pieces), np.int64, len(pieces)))
            matrix, valid = matrix_of(batch.column("vector"), dim)
            unsorted.write(matrix.data)
            has.append(valid)
    numbers = np.concatenate(addresses) if addresses else np.zeros(0, np.uint64)
    np.save(folder / "addresses.npy", numbers)
    np.save(folder / "by_address.npy", np.argsort(numbers).astype(np.int32))
    np.save(folder / "packed_ends.npy", np.cumsum(np.concatenate(ends or [np.zeros(0, np.int64)])))
    save_columns(coder.columns(), folder)
    rows = np.flatnonzero(np.concatenate(has or [np.zeros(0, bool)])).astype(np.int32)
    _sort(folder, rows, dim, centres)
    meta = Meta(FORMAT, snapshot.version, len(numbers), len(rows), dim)
    (folder / "meta.json").write_bytes(msgspec.json.encode(meta))


def _sort(folder: Path, rows: npt.NDArray[np.int32], dim: int, centres: Vectors | None) -> None:
    """Sort vectors into their cells."""
    import numpy as np

    count = len(rows)
    if count * dim <= _ONE_CELL:
        centres = np.zeros((1, dim), np.float32)
    elif centres is None or not 0.5 <= len(centres) / cell_count(count) <= 2 or centres.shape[1] != dim:
        wanted = sample_of(count)
        parts = [block[wanted[(wanted >= at) & (wanted < at + len(block))] - at] for at, block in _blocks(folder, dim)]
        centres = centres_of(_unit(np.concatenate(parts)), cell_count(count))
    cells = np.concatenate(
        [nearest_cell(_unit(block), centres) for _, block in _blocks(folder, dim)] or [np.zeros(0, np.int64)]
    )
    order = np.argsort(cells, kind="stable")
    place = np.empty(count, np.int64)
    place[order] = np.arange(count)
    norms = np.zeros(count, np.float32)
    # Written row by row at its place: mapping the file would count as memory of this process.
    with open(folder / "vectors", "wb", buffering=0) as file:
        for at, block in _blocks(folder, dim):
            some = place[at : at + len(block)]
            norms[some] = lengths_of(block)
            for to, vector in zip((some * dim * 4).tolist(), block, strict=True):
                file.seek(to)
                file.write(vector)
        if not count:
            file.write(bytes(4))  # an empty file can't be mapped
    (folder / "unsorted").unlink()
    np.save(folder / "norms.npy", norms)
    np.save(folder / "row_of.npy", rows[order])
    np.save(folder / "starts.npy", np.searchsorted(cells[order], np.arange(len(centres) + 1)))
    np.save(folder / "centres.npy", centres)


def _blocks(folder: Path, dim: int) -> Iterator[tuple[int, Any]]:
    """The vectors as they were read, some at a time, with the number of the first."""
    import numpy as np

    at = 0
    with open(folder / "unsorted", "rb") as file:
        while data := file.read(_BATCH * dim * 4):
            block = np.frombuffer(data, np.float32).reshape(-1, dim)
            yield at, block
            at += len(block)


def _unit(matrix: Vectors) -> Vectors:
    import numpy as np

    return np.asarray(matrix / lengths_of(matrix)[:, None], np.float32)
