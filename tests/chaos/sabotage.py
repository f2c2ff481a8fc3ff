"""What a check must catch: acknowledged acts that are taken away, or doubled, or changed, behind everyone's back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from hindlake.memory_store.capture.traces import trace_paths
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.history.log import log_paths

Rows = list[dict[str, Any]]


def lose_memory(lake: Lake, entry: dict[str, Any]) -> None:
    """A memory that was acknowledged was never accepted, as far as the log says."""

    def refuse(rows: Rows) -> Rows:
        return [{**row, "verdict": "refused"} if row["id"] == entry["id"] else row for row in rows]

    _rewrite(lake, log_paths(lake, "default"), refuse)


def double_memory(lake: Lake, entry: dict[str, Any]) -> None:
    """What was said once is remembered twice, under two ids: as a retry would that takes a new name each time."""
    paths = log_paths(lake, "default")
    rows = lake.read_table(paths[-1])
    last = rows.column("seq")[-1].as_py()
    every = [row for path in paths for row in lake.read_table(path).to_pylist()]
    [one] = [row for row in every if row["id"] == entry["id"] and row["decision"] == "add"]
    twin = {**one, "id": f"twin-of-{one['id']}"[:24], "act": "twin", "seq": last + 1}
    lake.put_table(
        f"ns=default/log/{len(paths) + 1:012d}.parquet", pa.Table.from_pylist([twin], schema=rows.schema)
    )  # fmt: skip


def double_act(lake: Lake, entry: dict[str, Any]) -> None:
    """An act is settled twice: as a settler would that does not look for what is in the log."""
    paths = log_paths(lake, "default")
    rows = lake.read_table(paths[-1])
    again = [{**row, "seq": row["seq"] + rows.num_rows} for row in rows.to_pylist()]
    lake.put_table(
        f"ns=default/log/{len(paths) + 1:012d}.parquet", pa.Table.from_pylist(again, schema=rows.schema)
    )  # fmt: skip


def lose_event(lake: Lake, entry: dict[str, Any]) -> None:
    """An event that was acknowledged is in no file."""
    _rewrite(lake, trace_paths(lake, "default"), lambda rows: [row for row in rows if row["content"] != entry["text"]])


def double_event(lake: Lake, entry: dict[str, Any]) -> None:
    """An event is there under two ids."""

    def twice(rows: Rows) -> Rows:
        return [*rows, *({**row, "event_id": f"{row['event_id']}x"} for row in rows if row["content"] == entry["text"])]

    _rewrite(lake, trace_paths(lake, "default"), twice)


def change_memory(lake: Lake, entry: dict[str, Any]) -> None:
    """A memory says something else than what was acknowledged."""

    def change(rows: Rows) -> Rows:
        return [{**row, "text": "otherwise"} if row["id"] == entry["id"] and row["text"] else row for row in rows]

    _rewrite(lake, log_paths(lake, "default"), change)


def tear_log(lake: Lake, entry: dict[str, Any]) -> None:
    """A row of the log has the place of another one."""

    def shift(rows: Rows) -> Rows:
        return [*rows[:-1], {**rows[-1], "seq": rows[-1]["seq"] + 1}]

    _rewrite(lake, log_paths(lake, "default")[-1:], shift)


def _rewrite(lake: Lake, paths: list[str], change: Callable[[Rows], Rows]) -> None:
    for path in paths:
        table = lake.read_table(path)
        rows = table.to_pylist()
        if (changed := change(rows)) != rows:
            lake.put_table(path, pa.Table.from_pylist(changed, schema=table.schema))
