"""An S3 bucket as a store of files, through obstore: its one door.

obstore works with threads and connections of its own. A forked process has neither, and what it tries disturbs its
parent; so a child of a process that used a bucket is refused here instead of left hanging.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotSupportedError, PermissionDeniedError
from obstore.store import S3Store

from ..errors import LakeError, UnsafeStore
from .tries import tried

if TYPE_CHECKING:
    from obstore import ReadableFile

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
        """`options` as `s3_options` has them. Nothing is tried again here: `tried` is the one layer that does."""
        config = dict(options)
        allow_http = bool(config.pop("allow_http", ""))
        self._store = S3Store.from_url(
            url, config=cast(Any, config), client_options={"allow_http": allow_http}, retry_config={"max_retries": 0}
        )
        self.url = url

    def put(self, path: str, data: bytes) -> None:
        """Write a file, whole, in place of what may be there."""
        with self.ready() as store:
            obstore.put(store, path, data)

    def create(self, path: str, data: bytes) -> None:
        """Write a file, whole. Raises `FileExistsError` if the name is taken."""
        with self.ready() as store:
            obstore.put(store, path, data, mode="create")

    def get(self, path: str) -> bytes:
        """The bytes of a file. Raises `FileNotFoundError`."""
        with self.ready() as store:
            return bytes(obstore.get(store, path).bytes())

    def fetch(self, path: str, to: Path) -> None:
        """Write the bytes of a file into a file of this machine, some at a time. Raises `FileNotFoundError`, and what
        writing raises.
        """
        with open(to, "wb") as file, self.ready() as store:
            chunks = iter(obstore.get(store, path).stream())
            while True:
                try:
                    chunk = next(chunks, None)
                except OSError as error:  # what a stream that breaks off raises
                    raise ConnectionError(str(error)) from error
                if chunk is None:
                    return
                file.write(chunk)

    def size(self, path: str) -> int:
        """Bytes of a file. Raises `FileNotFoundError`."""
        with self.ready() as store:
            return obstore.head(store, path)["size"]

    def open(self, path: str) -> BinaryIO:
        """A file that fetches only the bytes that are asked for. Raises `FileNotFoundError`."""
        return cast(BinaryIO, _Ranges(self, path))

    def names(self, prefix: str, after: str) -> list[str]:
        """Paths below a folder that come after a name, in no order."""
        found: list[str] = []
        with self.ready() as store:
            for chunk in obstore.list(store, prefix=prefix, offset=after or None):
                found.extend(entry["path"] for entry in chunk)
        return found

    def entries(self, prefix: str) -> list[tuple[str, int, float, str]]:
        """Path, bytes, time of change (Unix seconds) and ETag of each file below a folder, in no order."""
        found: list[tuple[str, int, float, str]] = []
        with self.ready() as store:
            for chunk in obstore.list(store, prefix=prefix):
                found.extend(
                    (entry["path"], entry["size"], entry["last_modified"].timestamp(), entry["e_tag"] or "")
                    for entry in chunk
                )
        return found

    def folders(self, prefix: str) -> list[str]:
        """Paths of the folders directly below a folder, in no order."""
        with self.ready() as store:
            return [str(path) for path in obstore.list_with_delimiter(store, prefix=prefix or None)["common_prefixes"]]

    def delete(self, path: str) -> None:
        """Remove a file."""
        with self.ready() as store:
            obstore.delete(store, path)

    def sync(self, paths: list[str]) -> None:
        """Nothing: what a bucket has acknowledged is durable."""

    @contextmanager
    def ready(self) -> Iterator[S3Store]:
        """The client, with its errors in words that a folder has too."""
        global _is_used
        if _is_forked:
            raise LakeError(
                f"{self.url} can't be used here: this process was forked from one that used it. Start processes with "
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
            raise UnsafeStore(f"{self.url} does not support conditional writes: {error}") from error
        except BaseError as error:
            raise ConnectionError(str(error)) from error


class _Ranges(io.RawIOBase):
    """A file that is read piece by piece; a piece that the store broke off is asked for again."""

    def __init__(self, bucket: Bucket, path: str) -> None:
        self._bucket, self._path = bucket, path
        self._at = 0
        self._reader: ReadableFile | None = None
        self._open()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = tried(lambda: self._open().seek(offset, whence), f"read {self._path}", self._bucket.url)
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        # Whoever parses the file would take an error of the store for a damaged file: this one is a `LakeError`.
        data = tried(lambda: self._read(size), f"read {self._path}", self._bucket.url)
        self._at += len(data)
        return data

    def _read(self, size: int) -> bytes:
        reader = self._open()
        try:
            with self._bucket.ready():
                return bytes(reader.read(None if size < 0 else size))
        except (FileNotFoundError, PermissionError):
            raise
        except OSError as error:  # what a stream that breaks off raises
            self._reader = None  # how far it got is not known
            raise ConnectionError(str(error)) from error

    def _open(self) -> ReadableFile:
        if self._reader is None:
            with self._bucket.ready() as store:
                self._reader = obstore.open_reader(store, self._path)
                self._reader.seek(self._at)
        return self._reader
