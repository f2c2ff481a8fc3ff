"""A store of synthetic memories for measuring: seeded vectors and words, the shares that filters let through."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hindlake import Memory
from hindlake.memory_store.embedders import Curve
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.schema import arrow_schema
from hindlake.memory_store.settings import Settings
from hindlake.memory_store.store.generations import Generation, store_url
from hindlake.memory_store.store.tables import Tables

NAMESPACE = "bench"
GENERATION = "g000001-bench"
#: Share of the rows that a filter lets through → the tool that it asks for; None: no filter but those of every search.
SHARES: dict[str, str | None] = {"100%": None, "10%": "t10", "1%": "t1", "0.1%": "t01"}
#: Rows that are made and written at once.
SLICE = 20_000
#: Words of English that an index leaves out: the head of Zipf's law, as in real text.
_HEAD = "the of and a to in is it that was for on are as with his they at be this from have or by one had not but"
_STOP = _HEAD.split()
_VOCABULARY = 200_000
_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class Synthetic:
    """Stands where an embedder would; it knows the vectors of the queries that are asked."""

    def __init__(self, name: str, dim: int, known: dict[str, npt.NDArray[np.float32]]) -> None:
        self.name, self.dim, self._known = name, dim, known

    def queries(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Their vectors, at no cost."""
        return np.stack([self._known[text] for text in texts])

    def passages(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Unit vectors that the texts alone decide."""
        made = [np.random.default_rng(list(text.encode())).normal(size=self.dim) for text in texts]
        return np.stack([vector / np.linalg.norm(vector) for vector in made]).astype(np.float32)

    def curve(self, query: str) -> Curve:
        """Where the made vectors lie: .3 between topics, .9 for what a query was made of."""
        return Curve(0.3, 0.9)


class World:
    """Topics of uneven size, each a place in the space of vectors and some words of its own.

    As with vectors of real texts, all share a direction, variances fall along the axes, and topics lie in groups.
    """

    def __init__(self, rows: int, dim: int, seed: int = 7) -> None:
        rng = np.random.default_rng(seed)
        topics = max(rows // 100, 20)
        self._rotation = np.linalg.qr(rng.normal(size=(dim, dim)))[0].astype(np.float32)
        self._spectrum = ((1 + np.arange(dim)) ** -0.4).astype(np.float32)
        self._spectrum /= np.linalg.norm(self._spectrum)
        groups = self._noise(rng, max(topics // 20, 2)) * 0.6
        self._centres = groups[rng.integers(len(groups), size=topics)] + self._noise(rng, topics) * 0.6
        self._common = np.zeros(dim, np.float32)
        self._common[0] = 0.55
        sizes = (1.0 + np.arange(topics)) ** -0.5
        self._shares = np.cumsum(sizes / sizes.sum())
        self._words = rng.integers(500, _VOCABULARY, size=(topics, 30))
        ranks = 1 / (np.arange(_VOCABULARY) + 2.7)
        self._zipf = np.cumsum(ranks / ranks.sum())

    def _noise(self, rng: np.random.Generator, count: int) -> npt.NDArray[np.float32]:
        """Rows of about unit length."""
        return rng.standard_normal((count, len(self._spectrum)), np.float32) * self._spectrum

    def slice(self, rng: np.random.Generator, count: int) -> tuple[npt.NDArray[np.float32], list[str]]:
        """Vectors and texts of some memories."""
        topics = np.searchsorted(self._shares, rng.random(count)).clip(max=len(self._shares) - 1)
        vectors = self._common + self._centres[topics] + self._noise(rng, count) * 0.45
        lengths = rng.integers(8, 40, size=count)
        drawn = np.searchsorted(self._zipf, rng.random(int(lengths.sum()))).clip(max=_VOCABULARY - 1)
        own = rng.random(len(drawn)) < 0.3
        owners = np.repeat(topics, lengths)
        drawn[own] = self._words[owners[own], rng.integers(30, size=int(own.sum()))]
        texts = [" ".join(map(_word, some)) for some in np.split(drawn, np.cumsum(lengths)[:-1])]
        return self._unit(vectors) @ self._rotation, texts

    def asked(self, rng: np.random.Generator, vectors: Any, texts: Sequence[str]) -> tuple[Any, list[str]]:
        """A question about each of some memories: close to it in meaning, and of some of its words."""
        near = self._unit(vectors + self._noise(rng, len(vectors)) @ self._rotation * 0.35)
        said = []
        for number, text in enumerate(texts):
            words = text.split()
            some = rng.choice(len(words), size=min(len(words), 7), replace=False)
            said.append(" ".join([*(words[place] for place in sorted(some)), f"q{number}"]))
        return near, said

    @staticmethod
    def _unit(vectors: Any) -> Any:
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@cache
def _word(rank: int) -> str:
    if rank < len(_STOP):
        return _STOP[rank]
    letters = ""
    while rank:
        rank, syllable = divmod(rank, 85)
        letters += "bcdfghjklmnprstvz"[syllable % 17] + "aeiou"[syllable // 17]
    return letters


@dataclass(frozen=True)
class Built:
    """A store, and what is asked of it. All of it lies in the home, so that other processes can ask too."""

    settings: Settings
    rows: int
    dim: int
    queries: list[str]
    vectors: npt.NDArray[np.float32]

    @property
    def embedder(self) -> Synthetic:
        """The store's embedder."""
        return Synthetic(_name(self.dim), self.dim, dict(zip(self.queries, self.vectors, strict=True)))

    def matrix(self) -> npt.NDArray[np.float32]:
        """Every vector, in the order of rows; mapped, not loaded."""
        return np.load(_beside(self.settings) / "matrix.npy", mmap_mode="r")

    def best(self, share: str, number: int, count: int = 10) -> set[str]:
        """Ids of the nearest to a query that pass a filter, found by comparing it with every row."""
        return set(self._best[share][number][:count])

    @property
    def _best(self) -> dict[str, list[list[str]]]:
        found: dict[str, list[list[str]]] = json.loads((_beside(self.settings) / "best.json").read_text())
        return found

    def memory(self) -> Memory:
        """The memory of the store, as an agent has it; queries are embedded by what knows their vectors."""
        from hindlake.memory_store.recall import reader

        embedder = self.embedder
        reader.embedder_named = lambda name, settings: embedder  # type: ignore[assignment]
        return Memory(self.settings)


def _name(dim: int) -> str:
    return f"synthetic-{dim}"


def _beside(settings: Settings) -> Path:
    """Where queries and what an exact search finds lie."""
    return Path(settings.spool_folder).parent / "bench"


def tool_of(number: int) -> str:
    """The tool of a row: one in a thousand, one in a hundred, one in ten, or another."""
    if number % 1000 == 0:
        return "t01"
    return "t1" if number % 100 == 1 else "t10" if number % 10 == 2 else f"other{number % 7}"


def passing(rows: int, share: str) -> npt.NDArray[np.int64]:
    """Numbers of the rows that a filter lets through."""
    numbers = np.arange(rows)
    return {
        "100%": numbers,
        "10%": numbers[numbers % 10 == 2],
        "1%": numbers[numbers % 100 == 1],
        "0.1%": numbers[numbers % 1000 == 0],
    }[share]


def memories(first: int, vectors: Any, texts: Sequence[str], embedder: str) -> pa.Table:
    """Rows of the schema `memories`, numbered onward from `first`."""
    schema = arrow_schema("memories")
    numbers = range(first, first + len(texts))
    count = len(texts)
    columns: dict[str, Any] = {
        "namespace": [NAMESPACE] * count, "id": [f"m{n:08d}" for n in numbers], "seq": [n + 1 for n in numbers],
        "kind": ["experience" if n % 3 else "rule" for n in numbers], "state": ["active"] * count,
        "text": list(texts), "trigger": [text[:40] for text in texts], "tool": [tool_of(n) for n in numbers],
        "subject": [""] * count, "task_type": [f"task{n % 50}" for n in numbers], "embedder": [embedder] * count,
        "entities": [[f"e{n % 1000}"] for n in numbers], "tags": [[]] * count, "evidence": [[]] * count,
        "importance": [0.5] * count, "confidence": [0.8] * count, "strength": [1.0] * count,
        "valid_from": [_EPOCH + timedelta(minutes=n % 400_000) for n in numbers],
        "valid_to": [datetime(9999, 12, 31, tzinfo=UTC)] * count,
    }  # fmt: skip
    arrays = {name: pa.array(values, schema.field(name).type) for name, values in columns.items()}
    flat = pa.array(np.ascontiguousarray(vectors).ravel())
    offsets = pa.array(np.arange(0, len(flat) + 1, vectors.shape[1], dtype=np.int32))
    arrays["vector"] = pa.ListArray.from_arrays(offsets, flat)
    return pa.table(arrays)


def build(settings: Settings, rows: int, dim: int, queries: int) -> Iterator[int]:
    """Make the store of a home, slice by slice; yields the rows so far. The index is left to the caller."""
    lake = Lake.open(settings)
    name = _name(dim)
    generation = Generation(1, GENERATION, name, dim, _EPOCH, "bench")
    tables = Tables.create(store_url(settings, generation.name), dim, settings)
    world, rng = World(rows, dim), np.random.default_rng(11)
    folder = _beside(settings)
    folder.mkdir(parents=True, exist_ok=True)
    matrix = np.lib.format.open_memmap(folder / "matrix.npy", "w+", np.float32, (rows, dim))
    chosen = set(np.random.default_rng(5).choice(rows, size=min(queries, rows), replace=False).tolist())
    sources: list[tuple[Any, str]] = []
    for first in range(0, rows, SLICE):
        if first == 2 * SLICE:
            tables.index()  # a merge finds keys by their index
        vectors, texts = world.slice(rng, min(SLICE, rows - first))
        tables.upsert(memories(first, vectors, texts, name))
        matrix[first : first + len(texts)] = vectors
        sources += [(vectors[n], text) for n, text in enumerate(texts) if first + n in chosen]
        yield first + len(texts)
    matrix.flush()
    tables.set_folded_to(NAMESPACE, 0)
    near, said = world.asked(rng, np.stack([vector for vector, _ in sources]), [text for _, text in sources])
    order = rng.permutation(len(said))
    np.save(folder / "queries.npy", near[order])
    (folder / "queries.json").write_text(json.dumps([said[place] for place in order]))
    lake.create("current/000001.json", msgspec.json.encode(generation))


def exact(settings: Settings, rows: int, count: int = 10) -> None:
    """Find the nearest of each query by comparing it with every row, and keep them beside the store."""
    folder = _beside(settings)
    matrix, asked = np.load(folder / "matrix.npy", mmap_mode="r"), np.load(folder / "queries.npy")
    best: dict[str, list[list[str]]] = {}
    for share in SHARES:
        scores = np.full((len(asked), count), -2.0, np.float32)
        found = np.zeros((len(asked), count), np.int64)
        numbers = passing(rows, share)
        for start in range(0, len(numbers), 100_000):
            some = numbers[start : start + 100_000]
            values = asked @ np.asarray(matrix[some]).T
            both, ids = np.hstack([scores, values]), np.hstack([found, np.broadcast_to(some, values.shape)])
            top = np.argsort(-both, axis=1)[:, :count]
            scores, found = np.take_along_axis(both, top, 1), np.take_along_axis(ids, top, 1)
        best[share] = [[f"m{n:08d}" for n in row[value > -2]] for row, value in zip(found, scores, strict=True)]
    (folder / "best.json").write_text(json.dumps(best))


def is_built(settings: Settings) -> bool:
    """Whether a home has what `build` and `exact` leave."""
    return (_beside(settings) / "best.json").exists()


def opened(settings: Settings, rows: int, dim: int) -> Built:
    """What `build` and `exact` left in a home."""
    folder = _beside(settings)
    return Built(
        settings, rows, dim, json.loads((folder / "queries.json").read_text()), np.load(folder / "queries.npy")
    )
