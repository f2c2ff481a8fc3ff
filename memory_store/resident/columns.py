"""What rows are filtered by, as numbers in arrays: which of a million pass a filter is known in milliseconds.

A column of text is a list of the values that it has and, a row, the number of its own. What `matches` says of one row
in Python, `passing` says of all: a test property holds them to each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ..clock import as_utc
from ..errors import UsageError
from ..recall.conditions import COLUMNS, All, Condition, Either, From, Is, Not
from ..recall.predicates import NOT_ONE, ONE, Filter, storable
from ..text.names import name_key

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    Mask = npt.NDArray[np.bool_]

#: Columns of one text each; of what is not here a filter can't be answered from arrays.
TEXTS = (*COLUMNS, "namespace", "attribute")
#: Columns of several texts.
LABELS = ("names", "tags")
#: Columns of times, microseconds since 1970.
TIMES = ("valid_from", "valid_to")
#: What is read of a table for all of them.
READ = (*TEXTS, *LABELS, *TIMES)
#: A time that is not set.
_UNSET = -(2**63)


def covers(filter: Filter) -> bool:
    """Whether a filter looks at nothing but these columns; ids that it must not return are left to the caller."""
    return all(getattr(filter, name) is None or column in TEXTS for name, column in ONE.items()) and all(
        not getattr(filter, name) or column in TEXTS for name, column in NOT_ONE.items() if name != "not_ids"
    )


@dataclass(frozen=True)
class Coded:
    """A column as numbers: which of `values` a row has."""

    values: Sequence[str]
    #: One a row; of labels, one a label
    codes: npt.NDArray[np.int32]
    #: Of labels: where those of each row end
    ends: npt.NDArray[np.int64] | None = None

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each value."""
        return {value: number for number, value in enumerate(self.values)}

    def having(self, wanted: Iterable[str]) -> Mask:
        """Rows whose value, or at least one of whose labels, is among some."""
        import numpy as np

        known = [self.numbers[value] for value in set(wanted) if value in self.numbers]
        rows = len(self.codes) if self.ends is None else len(self.ends)
        if not known:
            return np.zeros(rows, bool)
        if self.ends is None and len(known) == len(self.values):
            return np.ones(rows, bool)
        if len(known) == 1:
            has = np.equal(self.codes, known[0])
        else:
            table = np.zeros(len(self.values), bool)
            table[known] = True
            has = table[self.codes]
        if self.ends is None:
            return has
        found = np.zeros(rows, bool)
        found[np.searchsorted(self.ends, np.flatnonzero(has), side="right")] = True
        return found


@dataclass(frozen=True)
class Columns:
    """The columns of some rows."""

    rows: int
    texts: Mapping[str, Coded]
    times: Mapping[str, npt.NDArray[np.int64]]

    def passing(self, filter: Filter) -> Mask:
        """Which rows pass a filter that is covered, `not_ids` left out."""
        import numpy as np

        mask = np.ones(self.rows, bool)
        for name, column in ONE.items():
            if column in TEXTS and (values := getattr(filter, name)) is not None:
                mask &= self._is(column, values)
        mask &= self._is("namespace", filter.namespaces)
        for name, column in NOT_ONE.items():
            if column in TEXTS and (values := getattr(filter, name)):
                mask &= ~self._is(column, values)
        if filter.subjects is not None:
            mask &= self._is("subject", ("", *filter.subjects))
        for column, form, some, every, none in (
            ("names", name_key, filter.entities, filter.all_entities, filter.not_entities),
            ("tags", storable, filter.tags, filter.all_tags, filter.not_tags),
        ):
            coded = self.texts[column]
            if some is not None:
                mask &= coded.having(map(form, some))
            for value in every:
                mask &= coded.having((form(value),))
            if none:
                mask &= ~coded.having(map(form, none))
        for group in filter.entity_groups:
            mask &= self.texts["names"].having(map(name_key, group))
        mask &= self._in_time(filter)
        return mask if filter.where is None else mask & self._holds(filter.where)

    def _is(self, column: str, values: Iterable[str]) -> Mask:
        return self.texts[column].having(map(storable, values))

    def _in_time(self, filter: Filter) -> Mask:
        import numpy as np

        start, end = self.times["valid_from"], self.times["valid_to"]
        mask = np.ones(self.rows, bool)
        if filter.since is not None:
            mask &= start >= _micros(filter.since)
        if filter.until is not None:
            mask &= (start < _micros(filter.until)) & (start != _UNSET)
        if filter.valid_at is not None:
            at = _micros(filter.valid_at)
            mask &= (start <= at) & (start != _UNSET) & ((end == _UNSET) | (end > at))
        return mask

    def _holds(self, condition: Condition) -> Mask:
        """Rows that a condition holds for."""
        import numpy as np

        match condition:
            case All(every=parts):
                return np.asarray(np.logical_and.reduce([np.ones(self.rows, bool), *map(self._holds, parts)]))
            case Either(some=parts):
                return np.asarray(np.logical_or.reduce([np.zeros(self.rows, bool), *map(self._holds, parts)]))
            case Not(without=inner):
                return ~self._holds(inner)
            case Is(column="entities", values=values):
                return self.texts["names"].having(map(name_key, values))
            case Is(column=column, values=values) if column in (*COLUMNS, "tags"):
                return self._is(column, values)
            case From(time=time):
                return self.times["valid_from"] >= _micros(time)
        raise UsageError(f"{condition!r} is no condition: make one with where(…)")


@dataclass
class Coder:
    """Makes columns of the batches of a table, one after the other."""

    _numbers: dict[str, dict[str, int]] = field(default_factory=lambda: {name: {} for name in (*TEXTS, *LABELS)})
    _codes: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in (*TEXTS, *LABELS, *TIMES)})
    _counts: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in LABELS})
    _rows: int = 0

    def add(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Take in rows that have the columns `READ`."""
        import pyarrow as pa
        import pyarrow.compute as pc

        self._rows += batch.num_rows
        for name in TEXTS:
            self._codes[name].append(self._coded(name, pc.fill_null(_whole(batch.column(name)), "")))
        for name in LABELS:
            lists = _whole(batch.column(name))
            self._counts[name].append(pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False))
            self._codes[name].append(self._coded(name, pc.fill_null(pc.list_flatten(lists), "")))
        for name in TIMES:
            times = pc.fill_null(_whole(batch.column(name)).cast(pa.int64()), _UNSET)
            self._codes[name].append(times.to_numpy(zero_copy_only=False))

    def _coded(self, name: str, column: pa.Array) -> npt.NDArray[np.int32]:
        import numpy as np

        pairs, numbers = column.dictionary_encode(), self._numbers[name]
        own = [numbers.setdefault(value, len(numbers)) for value in pairs.dictionary.to_pylist()]
        codes = pairs.indices.to_numpy(zero_copy_only=False)
        return np.asarray(own, np.int32)[codes] if own else np.zeros(0, np.int32)

    def columns(self) -> Columns:
        """The columns of all that was taken in."""
        import numpy as np

        def joined(parts: list[Any], kind: Any) -> Any:
            return np.concatenate(parts).astype(kind, copy=False) if parts else np.zeros(0, kind)

        texts = {
            name: Coded(
                list(numbers),
                joined(self._codes[name], np.int32),
                np.cumsum(joined(self._counts[name], np.int64)) if name in LABELS else None,
            )
            for name, numbers in self._numbers.items()
        }
        return Columns(self._rows, texts, {name: joined(self._codes[name], np.int64) for name in TIMES})


def save_columns(columns: Columns, folder: Path) -> None:
    """Write columns into a folder: a file an array, and one of the values."""
    import numpy as np

    for name, coded in columns.texts.items():
        np.save(folder / f"{name}.codes.npy", coded.codes)
        if coded.ends is not None:
            np.save(folder / f"{name}.ends.npy", coded.ends)
    for name, times in columns.times.items():
        np.save(folder / f"{name}.npy", times)
    values = {name: list(coded.values) for name, coded in columns.texts.items()}
    (folder / "values.msgpack").write_bytes(msgspec.msgpack.encode(values))


def load_columns(folder: Path, rows: int) -> Columns:
    """Columns that were saved, mapped into memory, not read."""
    import numpy as np

    def mapped(name: str) -> Any:
        return np.load(folder / f"{name}.npy", mmap_mode="r").view(np.ndarray)

    values = msgspec.msgpack.decode((folder / "values.msgpack").read_bytes(), type=dict[str, list[str]])
    texts = {
        name: Coded(some, mapped(f"{name}.codes"), mapped(f"{name}.ends") if name in LABELS else None)
        for name, some in values.items()
    }
    return Columns(rows, texts, {name: mapped(name) for name in TIMES})


def _whole(column: Any) -> Any:
    return column.combine_chunks() if hasattr(column, "combine_chunks") else column


def _micros(time: datetime) -> int:
    import numpy as np

    return int(np.datetime64(as_utc(time).replace(tzinfo=None), "us").astype(np.int64))
