"""Vectors that an eval needs again and again, kept in a folder: embedding is what takes its time."""

from __future__ import annotations

import contextlib
import os
import re
import uuid
import zipfile
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from ...memory_store.embedders import Embedder

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Matrix = npt.NDArray[np.float32]

#: Texts that are embedded, and kept, at a time: what an interruption costs.
_BATCH = 512


class VectorCache:
    """Vectors of one embedder by hash of the text; no text is written."""

    def __init__(self, folder: Path, embedder: Embedder) -> None:
        """`folder` is made when there is something to keep."""
        self._embedder = embedder
        self._folder = folder / re.sub(r"[^\w@.-]", "_", embedder.name)
        self._known: dict[bytes, Matrix] = {}
        self._load()

    def passages(self, texts: Sequence[str], progress: Callable[[int, int], None] | None = None) -> Matrix:
        """Vectors of texts as passages: float32 [texts, dim], NaN where a text has none.

        `progress` is told how many texts of those that had to be embedded are done. Raises `EmbedderError`.
        """
        import numpy as np

        missing = [text for text in dict.fromkeys(texts) if _key(text) not in self._known]
        for start in range(0, len(missing), _BATCH):
            some = missing[start : start + _BATCH]
            rows = self._embedder.passages(some)
            self._keep(some, rows)
            if progress is not None:
                progress(start + len(some), len(missing))
        if not texts:
            return np.empty((0, self._embedder.dim), dtype=np.float32)
        return np.stack([self._known[_key(text)] for text in texts])

    def _keep(self, texts: Iterable[str], rows: Matrix) -> None:
        import numpy as np

        keys = np.frombuffer(b"".join(map(_key, texts)), dtype=np.uint8).reshape(-1, 16)
        self._take(keys, rows)
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{uuid.uuid4().hex}.npz"
        part = path.with_suffix(".part")
        with part.open("wb") as file:
            np.savez(file, keys=keys, vectors=rows)
        os.replace(part, path)

    def _load(self) -> None:
        import numpy as np

        for path in sorted(self._folder.glob("*.npz")):
            # A file that can't be read costs the time to embed its texts again, no more.
            with contextlib.suppress(OSError, ValueError, KeyError, zipfile.BadZipFile), np.load(path) as kept:
                if kept["vectors"].shape[1:] == (self._embedder.dim,):
                    self._take(kept["keys"], kept["vectors"])

    def _take(self, keys: npt.NDArray[np.uint8], rows: Matrix) -> None:
        for key, row in zip(keys, rows, strict=True):
            self._known[key.tobytes()] = row


def _key(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
