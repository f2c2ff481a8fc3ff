"""An S3 bucket as a store of files, through obstore: its one door.

obstore works with threads and connections of its own. A forked process has neither, and what it tries disturbs its
parent; so a child of a process that used a bucket is refused here instead of left hanging.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotSupportedError, PermissionDeniedError
from obstore.store import S3Store

from ..errors import LakeError, UnsafeStore

_is_used = False
_is_forked = False


def is_forked() -> bool:
    """Whether this process was forked from one that had used a bucket, so that it can't."""
    return _is_forked


def _after_fork() -> None:
    global _is_forked
    _is_forked = _is_forked or _is_used


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Bucket:
    """Files under one prefix of a bucket. Safe to share between threads.

    Every call raises `PermissionError` when it is not allowed, and `ConnectionError` when another try may help.
    """

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        """`options` as `lake.s3_options` has them."""
        config = dict(options)
        allow_http = bool(config.pop("allow_http", ""))
        self._store = S3Store.from_url(url, config=cast(Any, config), client_options={"allow_http": allow_http})
        self._url = url

    def put(self, path: str, data: bytes) -> None:
        """Write a file, whole, in place of what may be there."""
        with self._ready() as store:
            obstore.put(store, path, data)

    def create(self, path: str, data: bytes) -> None:
        """Write a file, whole. Raises `FileExistsError` if the name is taken."""
        with self._ready() as store:
            obstore.put(store, path, data, mode="create")

    def get(self, path: str) -> bytes:
        """The bytes of a file. Raises `FileNotFoundError`."""
        with self._ready() as store:
            return bytes(obstore.get(store, path).bytes())

    def size(self, path: str) -> int:
        """Bytes of a file. Raises `FileNotFoundError`."""
        with self._ready() as store:
            return obstore.head(store, path)["size"]

    def open(self, path: str) -> BinaryIO:
        """A file that fetches only the bytes that are asked for. Raises `FileNotFoundError`."""
        with self._ready() as store:
            return cast(BinaryIO, _Ranges(store, path))

    def names(self, prefix: str, after: str) -> list[str]:
        """Paths below a folder that come after a name, in no order."""
        found: list[str] = []
        with self._ready() as store:
            for chunk in obstore.list(store, prefix=prefix, offset=after or None):
                found.extend(entry["path"] for entry in chunk)
        return found

    def entries(self, prefix: str) -> list[tuple[str, int, float, str]]:
        """Path, bytes, time of change (Unix seconds) and ETag of each file below a folder, in no order."""
        found: list[tuple[str, int, float, str]] = []
        with self._ready() as store:
            for chunk in obstore.list(store, prefix=prefix):
                found.extend(
                    (entry["path"], entry["size"], entry["last_modified"].timestamp(), entry["e_tag"] or "")
                    for entry in chunk
                )
        return found

    def folders(self, prefix: str) -> list[str]:
        """Paths of the folders directly below a folder, in no order."""
        with self._ready() as store:
            return [str(path) for path in obstore.list_with_delimiter(store, prefix=prefix or None)["common_prefixes"]]

    def delete(self, path: str) -> None:
        """Remove a file."""
        with self._ready() as store:
            obstore.delete(store, path)

    def sync(self, paths: list[str]) -> None:
        """Nothing: what a bucket has acknowledged is durable."""

    @contextmanager
    def _ready(self) -> Iterator[S3Store]:
        """The client, with its errors in words that a folder has too."""
        global _is_used
        if _is_forked:
            raise LakeError(
                f"{self._url} can't be used here: this process was forked from one that used it. Start processes with "
                "spawn (multiprocessing.set_start_method('spawn')), or fork before the first use"
            )
        _is_used = True
        try:
            yield self._store
        except AlreadyExistsError as error:
            raise FileExistsError(str(error)) from error
        except PermissionDeniedError as error:
            raise PermissionError(str(error)) from error
        except NotSupportedError as error:
            raise UnsafeStore(f"{self._url} does not support conditional writes: {error}") from error
        except BaseError as error:
            raise ConnectionError(str(error)) from error


class _Ranges(io.RawIOBase):
    def __init__(self, store: S3Store, path: str) -> None:
        self._path = path
        self._reader = obstore.open_reader(store, path)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._reader.seek(offset, whence)

    def tell(self) -> int:
        return self._reader.tell()

    def read(self, size: int = -1) -> bytes:
        try:
            return bytes(self._reader.read(None if size < 0 else size))
        except FileNotFoundError:
            raise
        except (BaseError, OSError) as error:  # whoever parses the file would take it for a damaged one
            raise LakeError(f"can't read {self._path}, which the store broke off: {error}") from error
