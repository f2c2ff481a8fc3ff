"""The inbox of a namespace: acts that have no place in the log yet.

An act is written once, whole, under a name that was fixed before the first try, so that trying again is harmless.
User acts (`u-…`) are readable at once; what a run proposes (`p-…`) is read by no one before it is settled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..files.lake import Lake, namespace_path
from ..ids import derive_id, sortable_id
from ..schema import table_of

if TYPE_CHECKING:
    import pyarrow as pa

#: A row of the inbox, by the columns of the schema `log`; what is left out is not set.
Row = dict[str, Any]


def write_user_act(lake: Lake, namespace: str, rows: Sequence[Row], name: str = "") -> str:
    """Put one act of a user or an agent (remember, update, forget, an episode) into the inbox; return its path.

    The rows share one `act` id, carry no `run` and no `read_to`, and win over what runs propose. Give `name` (the
    act id is a good one) to make a retry from another process hit the same file.
    """
    path = namespace_path(namespace, "inbox", f"u-{name or sortable_id()}.parquet")
    lake.put_table(path, _slim(table_of(list(rows), "log")))
    return path


def write_proposals(lake: Lake, namespace: str, rows: Sequence[Row]) -> str:
    """Put what one run proposes into the inbox, many acts in one file named for them; return its path."""
    acts = sorted({row["act"] for row in rows})
    path = namespace_path(namespace, "inbox", f"p-{derive_id(namespace, 'proposals', *acts)}.parquet")
    lake.put_table(path, _slim(table_of(list(rows), "log")))
    return path


def _slim(rows: pa.Table) -> pa.Table:
    """The rows without the columns that none of them sets: an act is small, and many are read at once."""
    return rows.select([name for name in rows.column_names if rows.column(name).null_count < rows.num_rows])


def inbox_paths(lake: Lake, namespace: str, user_only: bool = False) -> list[str]:
    """What waits to be settled, oldest name first."""
    prefix = namespace_path(namespace, "inbox")
    return [path for path in lake.names(prefix) if not user_only or path.startswith(f"{prefix}/u-")]
