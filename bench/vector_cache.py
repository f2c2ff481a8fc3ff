"""An embedder that keeps what it made in a file, so that measuring twice embeds once."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hindlake.memory_store.embedders import Embedded, Embedder

if TYPE_CHECKING:
    import numpy.typing as npt


class CachedEmbedder:
    """Wraps an embedder; vectors lie in one SQLite file a model. Progress goes to standard error."""

    def __init__(self, embedder: Embedder, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name, self.dim = embedder.name, embedder.dim
        self._embedder = embedder
        self.curve = embedder.curve
        self._db = sqlite3.connect(folder / f"{embedder.name.replace('/', '_').replace(':', '_')}.sqlite", timeout=60)
        self._db.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB)")

    def passages(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """As the embedder's."""
        return self.embed(texts).vectors

    def queries(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """As the embedder's."""
        return self.embed(texts, query=True).vectors

    def embed(self, texts: Sequence[str], query: bool = False) -> Embedded:
        """As the embedder's, reasons of failures left out."""
        keys = [blake2b(f"{query}\0{t}".encode("utf-8", "replace"), digest_size=16).digest() for t in texts]
        known = {key: self._get(key) for key in set(keys)}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if known[key] is None}
        todo = list(missing.items())
        for start in range(0, len(todo), 64):
            some = todo[start : start + 64]
            vectors = self._embedder.embed([text for _, text in some], query).vectors
            for (key, _), vector in zip(some, vectors, strict=True):
                known[key] = vector
                self._db.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?)", (key, vector.tobytes()))
            self._db.commit()
            if len(todo) > 64:
                print(f"\rembedded {start + len(some)} of {len(todo)}", end="", file=sys.stderr, flush=True)
        if len(todo) > 64:
            print(file=sys.stderr)
        return Embedded(np.array([known[key] for key in keys], dtype=np.float32).reshape(-1, self.dim))

    def _get(self, key: bytes) -> npt.NDArray[np.float32] | None:
        row = self._db.execute("SELECT vector FROM vectors WHERE key = ?", (key,)).fetchone()
        return None if row is None else np.frombuffer(row[0], dtype=np.float32)
