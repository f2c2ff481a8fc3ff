"""Vectors of texts: made once per model, kept in the lake, found again by a keyed hash of the text.

`ns=<ns>/vectors/<embedder>/<name>.parquet` holds what a job had to embed, so that a rebuild embeds nothing twice.
The hash is keyed with a secret of the namespace, so that the cache can't be asked whether a text was ever seen.
"""

from __future__ import annotations

import hmac
import secrets
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..files.lake import Lake, namespace_path
from ..ids import derive_id

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from ..embedders import Embedder

#: An episode is embedded by how it begins, its task: the rest is found by its words.
EPISODE_HEAD = 240
#: Bytes of vectors that a cache keeps in memory.
_HELD_BYTES = 64 << 20


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
    """The vectors of one model in one namespace.

    Which file holds which text is read once, when first asked; of the vectors some are kept in memory, not all.
    """

    def __init__(self, lake: Lake, namespace: str, embedder: str) -> None:
        self._lake = lake
        self._namespace = namespace
        self._folder = namespace_path(namespace, "vectors", embedder.replace("/", "-"))
        self._key = b""
        self._index: _Index | None = None
        self._held: OrderedDict[str, tuple[int, dict[bytes, np.ndarray]]] = OrderedDict()

    def hashes(self, texts: Sequence[str]) -> list[bytes]:
        """What texts are kept under."""
        if not self._key:
            self._key = namespace_key(self._lake, self._namespace)
        return [text_hash(self._key, text) for text in texts]

    def holds(self, hashes: Sequence[bytes]) -> npt.NDArray[np.bool_]:
        """Whether there is a vector for each of these hashes."""
        return self._load().files_of(hashes) >= 0

    def get(self, texts: Sequence[str]) -> list[np.ndarray | None]:
        """The vector of each text, None for one that is not here."""
        hashes = self.hashes(texts)
        try:
            found = self._fetch(hashes)
        except FileNotFoundError:  # files were joined since they were listed
            self._index = None
            found = self._fetch(hashes)
        return [found.get(hash) for hash in hashes]

    def put(self, vectors: Mapping[str, np.ndarray]) -> str:
        """Keep vectors by text, as one file named for its content; return its path, empty if there are none."""
        return self.put_hashed(self.hashes(list(vectors)), list(vectors.values()))

    def put_hashed(self, hashes: Sequence[bytes], vectors: Sequence[np.ndarray]) -> str:
        """`put`, by what `hashes` gave."""
        import numpy as np
        import pyarrow as pa

        if not hashes:
            return ""
        matrix = np.asarray(vectors, dtype=np.float32)
        ends = np.arange(0, matrix.size + 1, matrix.shape[1], dtype=np.int32)
        lists = pa.ListArray.from_arrays(pa.array(ends), pa.array(matrix.ravel()))
        return self._write(pa.table({"text_hash": pa.array(hashes, pa.binary()), "vector": lists}))

    def join(self, paths: Sequence[str]) -> None:
        """Make one file of several and delete them. Who knew them looks again when they are gone."""
        import pyarrow as pa

        tables = [rows for _, rows in self._lake.read_tables(list(paths))]
        if len(tables) > 1:
            joined = self._write(pa.concat_tables(tables))
            self._lake.delete(path for path in paths if path != joined)

    def _write(self, rows: pa.Table) -> str:
        hashes = rows.column("text_hash").to_pylist()
        name = derive_id(self._namespace, "vectors", *(sorted(hash.hex() for hash in hashes)))
        path = f"{self._folder}/{name}.parquet"
        self._lake.create_table(path, rows)
        if self._index is not None:
            self._index.add(path, hashes)
        return path

    def _load(self) -> _Index:
        if self._index is None:
            index = _Index()
            for path, rows in self._lake.read_tables(self._lake.names(self._folder), ["text_hash"]):
                index.add(path, rows.column("text_hash").to_pylist())
            self._index = index
        return self._index

    def _fetch(self, hashes: Sequence[bytes]) -> dict[bytes, np.ndarray]:
        import numpy as np

        index = self._load()
        files = index.files_of(hashes)
        found: dict[bytes, np.ndarray] = {}
        for file in np.unique(files[files >= 0]).tolist():
            rows = self._rows(index.paths[file])
            # What was purged since is not there any more.
            wanted = (hashes[at] for at in np.flatnonzero(files == file).tolist())
            found |= {hash: rows[hash] for hash in wanted if hash in rows}
        return found

    def _rows(self, path: str) -> dict[bytes, np.ndarray]:
        """The vectors of a file by hash. Raises `FileNotFoundError`."""
        if path in self._held:
            self._held.move_to_end(path)
            return self._held[path][1]
        table = self._lake.read_table(path)
        rows = dict(zip(table.column("text_hash").to_pylist(), _vectors_of(table), strict=True))
        self._held[path] = table.nbytes, rows
        while len(self._held) > 1 and sum(size for size, _ in self._held.values()) > _HELD_BYTES:
            self._held.popitem(last=False)
        return rows


class _Index:
    """Which file holds which hash: 36 bytes a hash for those of whole files, however many there are."""

    def __init__(self) -> None:
        #: Files, by number
        self.paths: list[str] = []
        self._parts: list[tuple[npt.NDArray[Any], npt.NDArray[np.int32]]] = []

    def add(self, path: str, hashes: Sequence[bytes]) -> None:
        """Take in a file. Parts are merged as they grow, so that there are few to look into."""
        import numpy as np

        part = np.array(hashes, dtype="S32")
        part.sort()
        files = np.full(len(part), len(self.paths), dtype=np.int32)
        self.paths.append(path)
        while self._parts and len(self._parts[-1][0]) <= 2 * len(part):
            older, older_files = self._parts.pop()
            both = np.concatenate([older, part])
            order = np.argsort(both, kind="stable")
            part, files = both[order], np.concatenate([older_files, files])[order]
        self._parts.append((part, files))

    def files_of(self, hashes: Sequence[bytes]) -> npt.NDArray[np.int32]:
        """The number of the file of each hash, -1 for one that is in none."""
        import numpy as np

        wanted = np.array(hashes, dtype="S32")
        found = np.full(len(wanted), -1, dtype=np.int32)
        for part, files in self._parts:
            if len(part):
                at = np.minimum(np.searchsorted(part, wanted), len(part) - 1)
                is_here = part[at] == wanted
                found[is_here] = files[at][is_here]
        return found


def _vectors_of(rows: pa.Table) -> list[np.ndarray]:
    """The vectors of a file of the cache; they share one array."""
    import numpy as np

    lists = rows.column("vector").combine_chunks()
    ends = lists.offsets.to_numpy()
    numbers = np.asarray(lists.values.to_numpy(zero_copy_only=False), dtype=np.float32)
    return [numbers[start:end] for start, end in pairwise(ends.tolist())]


def text_hash(key: bytes, text: str) -> bytes:
    """What a text is kept under, with the key of its namespace."""
    return hmac.digest(key, text.encode("utf-8", "surrogatepass"), "sha256")


def namespace_key(lake: Lake, namespace: str) -> bytes:
    """The secret of a namespace, made when it is first asked for."""
    path = namespace_path(namespace, "key")
    try:
        return lake.get(path)
    except FileNotFoundError:
        lake.create(path, secrets.token_bytes(32))
        return lake.get(path)
