"""Vectors of texts: made once per model, kept in the lake, found again by a keyed hash of the text.

`ns=<ns>/vectors/<embedder>/<name>.parquet` holds what a job had to embed, so that a rebuild embeds nothing twice.
The hash is keyed with a secret of the namespace, so that the cache can't be asked whether a text was ever seen.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .ids import derive_id
from .lake import Lake, namespace_path

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from .embedders import Embedder

#: An episode is embedded by how it begins, its task: the rest is found by its words.
EPISODE_HEAD = 240


def text_to_embed(kind: str, text: str) -> str:
    """The part of a memory's text that its vector stands for.

    >>> len(text_to_embed("episode", "x" * 1000))
    240
    """
    return text[:EPISODE_HEAD] if kind == "episode" else text


def embed_texts(embedder: Embedder, texts: Sequence[str]) -> list[np.ndarray | None]:
    """The vector of each text; None for one that the embedder refuses, which is then found by its words alone."""
    import numpy as np

    if not texts:
        return []
    return [None if np.isnan(vector[0]) else vector for vector in embedder.passages(texts)]


def embed_rows(embedder: Embedder, rows: Sequence[dict[str, Any]]) -> None:
    """Give rows that add a memory, and have no vector yet, the vector of their text."""
    bare = [row for row in rows if row.get("decision") == "add" and row.get("vector") is None]
    texts = [text_to_embed(row["kind"], row["text"]) for row in bare]
    for row, vector in zip(bare, embed_texts(embedder, texts), strict=True):
        if vector is not None:
            row["embedder"], row["vector"] = embedder.name, vector.tolist()


class VectorCache:
    """The vectors of one model in one namespace, read once when first asked."""

    def __init__(self, lake: Lake, namespace: str, embedder: str) -> None:
        self._lake = lake
        self._namespace = namespace
        self._folder = namespace_path(namespace, "vectors", embedder.replace("/", "-"))
        self._known: dict[bytes, np.ndarray] | None = None
        self._key = b""

    def get(self, texts: Sequence[str]) -> list[np.ndarray | None]:
        """The vector of each text, None for one that is not here."""
        known = self._load()
        return [known.get(self._hash(text)) for text in texts]

    def put(self, vectors: Mapping[str, np.ndarray]) -> None:
        """Keep vectors by text, as one file named for its content."""
        import pyarrow as pa

        if not vectors:
            return
        known = self._load()
        hashes = {self._hash(text): vector for text, vector in vectors.items()}
        known.update(hashes)
        rows = pa.table(
            {
                "text_hash": pa.array(list(hashes), pa.binary()),
                "vector": pa.array([vector.tolist() for vector in hashes.values()], pa.list_(pa.float32())),
            }
        )
        name = derive_id(self._namespace, "vectors", *(sorted(key.hex() for key in hashes)))
        self._lake.create_table(f"{self._folder}/{name}.parquet", rows)

    def _load(self) -> dict[bytes, np.ndarray]:
        if self._known is None:
            self._key = namespace_key(self._lake, self._namespace)
            self._known = {}
            for _, rows in self._lake.read_tables(self._lake.names(self._folder)):
                self._known.update(zip(rows.column("text_hash").to_pylist(), _rows_of(rows), strict=True))
        return self._known

    def _hash(self, text: str) -> bytes:
        return text_hash(self._key, text)


def text_hash(key: bytes, text: str) -> bytes:
    """What a text is kept under, with the key of its namespace."""
    return hmac.digest(key, text.encode("utf-8", "surrogatepass"), "sha256")


def _rows_of(rows: pa.Table) -> list[np.ndarray]:
    import numpy as np

    return [np.asarray(vector, dtype=np.float32) for vector in rows.column("vector").to_pylist()]


def namespace_key(lake: Lake, namespace: str) -> bytes:
    """The secret of a namespace, made when it is first asked for."""
    path = namespace_path(namespace, "key")
    try:
        return lake.get(path)
    except FileNotFoundError:
        lake.create(path, secrets.token_bytes(32))
        return lake.get(path)
