"""LangGraph's store, kept as memories: what a graph puts is remembered, what it searches is recalled.

    store = HindlakeStore(memory, subject=lambda namespace: namespace[-1])
    graph = builder.compile(store=store)
    store.put(("memories", "ann"), "pay", {"text": "Ann pays by card."})

A value needs one text, which is what is searched and what other agents read; its other fields are kept beside it. A
put under a key that is there supersedes what was there, so that history stays; a delete forgets. What hindlake does to
memories it does to these: `run decay` may archive them, a person may restore them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ...memory_store.capture.masking import Mask
from ...memory_store.errors import MissingExtra, UsageError
from ..arguments import ANY_SUBJECT

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
    )
except ImportError as error:
    raise MissingExtra.needs("langgraph-checkpoint", "langgraph") from error

if TYPE_CHECKING:
    from ..hits import Hit
    from ..memory import Kind, Memory

#: Fields in which the text of a value is looked for, the first that is there.
_TEXTS = ("text", "content", "memory", "data", "value")
#: What tags say: that a memory lies at or below a namespace, at which key, and what its value holds beside its text.
_BELOW, _AT, _VALUE = "langgraph:below=", "langgraph:at=", "langgraph:value="
#: Most hits that a search looks at, and that a page of a listing holds.
_MOST = 200


class HindlakeStore(BaseStore):
    """A store whose items are memories. Safe to share between threads. Raises `UsageError` for what can't be mapped."""

    __slots__ = ("_kind", "_mask", "_memory", "_subject")

    def __init__(
        self, memory: Memory, *, kind: Kind = "fact", subject: str | Callable[[tuple[str, ...]], str] = ""
    ) -> None:
        """`subject`: whom the items are about, or a function that tells it from their namespace; empty: shared."""
        self._memory, self._kind, self._subject = memory, kind, subject
        options = memory.settings.recorder
        self._mask = Mask(options.mask_secrets, options.mask_personal)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do some operations, in their order."""
        return [self._do(op) for op in ops]

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do them in a thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _do(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            found = self._at(op.namespace, op.key)
            return None if found is None else _item(found, found.valid_from)
        if isinstance(op, PutOp):
            self._put(op)
            return None
        if isinstance(op, SearchOp):
            return self._search(op)
        if isinstance(op, ListNamespacesOp):
            return self._namespaces(op)
        raise UsageError(f"{type(op).__name__} is an operation that HindlakeStore does not know")

    def _at(self, namespace: tuple[str, ...], key: str) -> Hit | None:
        tag = _AT + json.dumps([*namespace, key], ensure_ascii=False)
        found = self._memory.search(
            "", kinds=[self._kind], tags=[tag], subject=ANY_SUBJECT, limit=1, log_read=False
        )  # fmt: skip
        return found[0] if found else None

    def _put(self, op: PutOp) -> None:
        before = self._at(op.namespace, op.key)
        if op.value is None:
            if before is not None:
                self._memory.forget(before.id, "deleted from LangGraph's store")
            return
        if op.index is False:
            raise UsageError("index=False: a memory can always be searched; keep what must not be in another store")
        text, tags = self._written(op)
        if before is not None:
            self._memory.update(before.id, text, tags=tags, said_by="agent")
            return
        subject = self._subject(op.namespace) if callable(self._subject) else self._subject
        self._memory.remember(text, self._kind, subject=subject, tags=tags, said_by="agent")

    def _written(self, op: PutOp) -> tuple[str, list[str]]:
        """The text of a value, and the tags that bring it back."""
        value = dict(op.value or {})
        name = next((one for one in (*(op.index or ()), *_TEXTS) if isinstance(value.get(one), str)), None)
        texts = [one for one, held in value.items() if isinstance(held, str)]
        if name is None and len(texts) == 1:
            [name] = texts
        if name is None or not value[name].strip():
            raise UsageError(
                f"the value of {op.key!r} has no text: put what is to be remembered into one of {', '.join(_TEXTS)}"
            )
        text = value.pop(name)
        try:
            beside = json.dumps([name, value], ensure_ascii=False)
        except (TypeError, ValueError) as error:
            raise UsageError(f"the value of {op.key!r} is not JSON: {error}") from None
        below = [json.dumps(op.namespace[:depth], ensure_ascii=False) for depth in range(len(op.namespace) + 1)]
        at = json.dumps([*op.namespace, op.key], ensure_ascii=False)
        return text, [_AT + at, *(_BELOW + one for one in below), _VALUE + self._mask.json(beside)[0]]

    def _search(self, op: SearchOp) -> list[SearchItem]:
        tag = _BELOW + json.dumps(op.namespace_prefix, ensure_ascii=False)
        wanted = op.offset + op.limit
        if wanted > _MOST:
            raise UsageError(f"offset and limit are {wanted} together: a search looks at the best {_MOST}")
        found = self._memory.search(
            op.query or "", kinds=[self._kind], tags=[tag], subject=ANY_SUBJECT, log_read=False,
            limit=_MOST if op.filter else max(wanted, 1),
        )  # fmt: skip
        passed = [one for one in found if _passes(_value(one), op.filter or {})][op.offset : wanted]
        if op.query:
            self._memory.used(passed)
        return [_search_item(one, one.score if op.query else None) for one in passed]

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        found = {_place(one)[0] for one in self._all()}
        matching = {one for one in found if all(_matches(one, condition) for condition in op.match_conditions or ())}
        shown = sorted({one[: op.max_depth] for one in matching})
        return shown[op.offset : op.offset + op.limit]

    def _all(self) -> Iterator[Hit]:
        cursor, is_first = "", True
        while cursor or is_first:
            page = self._memory.search_page(
                "", kinds=[self._kind], tags=[_BELOW + "[]"], subject=ANY_SUBJECT, limit=_MOST, cursor=cursor,
                log_read=False,
            )  # fmt: skip
            yield from page.hits
            cursor, is_first = page.cursor, False


def _place(hit: Hit) -> tuple[tuple[str, ...], str]:
    *namespace, key = json.loads(next(one for one in hit.tags if one.startswith(_AT)).removeprefix(_AT))
    return tuple(namespace), key


def _value(hit: Hit) -> dict[str, Any]:
    name, beside = json.loads(next(one for one in hit.tags if one.startswith(_VALUE)).removeprefix(_VALUE))
    return {name: hit.text, **beside}


def _item(hit: Hit, at: datetime) -> Item:
    namespace, key = _place(hit)
    return Item(value=_value(hit), key=key, namespace=namespace, created_at=at, updated_at=at)


def _search_item(hit: Hit, score: float | None) -> SearchItem:
    namespace, key = _place(hit)
    at = hit.valid_from
    return SearchItem(namespace, key, _value(hit), at, at, score)


def _passes(value: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(_holds(value.get(name), condition) for name, condition in wanted.items())


def _holds(held: Any, condition: Any) -> bool:
    """One condition on one field. Raises `UsageError` for an operator that there is not."""
    if not (isinstance(condition, dict) and any(str(name).startswith("$") for name in condition)):
        return bool(held == condition)
    return all(_compares(held, name, other) for name, other in condition.items())


def _compares(held: Any, operator: str, other: Any) -> bool:
    if operator not in _OPERATORS:
        raise UsageError(f"operator {operator!r}: filters know {', '.join(_OPERATORS)}")
    try:
        return _OPERATORS[operator](held, other)
    except TypeError:  # of things that have no order
        return False


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": lambda held, other: bool(held == other),
    "$ne": lambda held, other: bool(held != other),
    "$gt": lambda held, other: bool(held > other),
    "$gte": lambda held, other: bool(held >= other),
    "$lt": lambda held, other: bool(held < other),
    "$lte": lambda held, other: bool(held <= other),
}


def _matches(namespace: Sequence[str], condition: MatchCondition) -> bool:
    path = condition.path
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", held) for held, wanted in zip(part, path, strict=True))
