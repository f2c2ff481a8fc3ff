"""LangGraph's store keeps the promises of its interface, and hindlake's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langgraph.store.base", reason="the extra langgraph is not installed")

from langgraph.store.base import GetOp, ListNamespacesOp, MatchCondition, PutOp, SearchOp

from hindlake.memory_store.errors import UsageError
from hindlake.memory_store.settings import Settings
from hindlake.sdk.integrations.langgraph import HindlakeStore
from hindlake.sdk.memory import Memory

ANN, BEN, DOCS = ("memories", "ann"), ("memories", "ben"), ("documents",)


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    home = tmp_path_factory.mktemp("home")
    with Memory(Settings.load(home=str(home), embedder="wordllama")) as one:
        yield one


@pytest.fixture
def store(memory: Memory, request: pytest.FixtureRequest) -> HindlakeStore:
    """A store whose namespaces begin with the test's name, in one memory for all."""
    return Prefixed(HindlakeStore(memory, subject=lambda namespace: namespace[-1]), request.node.name)


class Prefixed(HindlakeStore):
    def __init__(self, store: HindlakeStore, name: str) -> None:
        self._inner, self._name = store, name

    __slots__ = ("_inner", "_name")

    def batch(self, ops: Any) -> Any:
        return [self._out(one) for one in self._inner.batch([self._in(op) for op in ops])]

    def _in(self, op: Any) -> Any:
        if isinstance(op, SearchOp):
            return op._replace(namespace_prefix=(self._name, *op.namespace_prefix))
        if isinstance(op, ListNamespacesOp):
            first = MatchCondition("prefix", (self._name,))
            rest = [one._replace(path=(self._name, *one.path)) if one.match_type == "prefix" else one
                    for one in op.match_conditions or ()]  # fmt: skip
            return op._replace(match_conditions=(first, *rest), max_depth=op.max_depth and op.max_depth + 1)
        return op._replace(namespace=(self._name, *op.namespace))

    def _out(self, result: Any) -> Any:
        if isinstance(result, list):
            return [self._out(one) for one in result]
        if isinstance(result, tuple):
            return result[1:]
        if result is not None:
            result.namespace = result.namespace[1:]
        return result


def test_what_is_put_is_got_as_it_was(store: HindlakeStore) -> None:
    value = {"content": "Ann pays by card. 卡", "score": 4.5, "tags": ["a", {"b": None}], "": ""}
    store.put(ANN, "pay/1", value)
    item = store.get(ANN, "pay/1")
    assert item is not None
    assert (item.value, item.key, item.namespace) == (value, "pay/1", ANN)
    assert store.get(ANN, "pay") is None
    assert store.get(BEN, "pay/1") is None


def test_a_second_put_supersedes_and_a_delete_forgets(store: HindlakeStore, memory: Memory) -> None:
    store.put(ANN, "budget", {"text": "The budget is 5000."})
    store.put(ANN, "budget", {"text": "The budget is 8000."})
    assert [one.value["text"] for one in store.search(ANN)] == ["The budget is 8000."]
    context = memory.context("What is the budget?", subject="ann").text
    assert "5000" in context and "8000. (agent, not checked yet) (update)" in context
    store.delete(ANN, "budget")
    store.delete(ANN, "budget")
    assert store.get(ANN, "budget") is None
    assert store.search(ANN) == []
    store.put(ANN, "budget", {"text": "The budget is 100."})
    assert [one.value["text"] for one in store.search(ANN)] == ["The budget is 100."]


def test_a_search_keeps_to_its_namespace_and_answers_a_question(store: HindlakeStore) -> None:
    store.put(ANN, "a", {"text": "Ann likes green tea."})
    store.put(ANN, "b", {"text": "Ann drives a red car."})
    store.put(BEN, "a", {"text": "Ben likes black tea."})
    store.put(DOCS, "a", {"text": "Tea is a drink."})
    found = store.search(ANN, query="which tea does she like?", limit=1)
    assert [(one.key, one.score is not None) for one in found] == [("a", True)]
    assert {one.namespace for one in store.search(("memories",))} == {ANN, BEN}
    assert len(store.search((), limit=3)) == 3
    assert len(store.search((), limit=3, offset=3)) == 1
    assert store.search(("mem",)) == []


@pytest.mark.parametrize(
    ("wanted", "keys"),
    [
        ({"kind": "a"}, {"1", "2"}),
        ({"kind": "a", "size": {"$gt": 1}}, {"2"}),
        ({"size": {"$gte": 2, "$lt": 3}}, {"2"}),
        ({"size": {"$ne": 1}}, {"2", "3"}),
        ({"kind": {"$gt": 1}}, set()),
        ({"none": None}, {"1", "2", "3"}),
    ],
)
def test_filters_look_at_the_fields_of_values(store: HindlakeStore, wanted: dict[str, Any], keys: set[str]) -> None:
    for key, kind, size in (("1", "a", 1), ("2", "a", 2), ("3", "b", 3)):
        store.put(DOCS, key, {"text": f"Document {key}.", "kind": kind, "size": size})
    assert {one.key for one in store.search(DOCS, filter=wanted)} == keys


def test_namespaces_are_listed(store: HindlakeStore) -> None:
    for namespace in (ANN, BEN, DOCS, ("a", "b", "c", "ann")):
        store.put(namespace, "k", {"text": f"Something in {namespace}."})
    assert store.list_namespaces() == sorted([ANN, BEN, DOCS, ("a", "b", "c", "ann")])
    assert store.list_namespaces(prefix=("memories",)) == [ANN, BEN]
    assert store.list_namespaces(suffix=("ann",)) == [("a", "b", "c", "ann"), ANN]
    assert store.list_namespaces(prefix=("a", "*", "c")) == [("a", "b", "c", "ann")]
    assert store.list_namespaces(max_depth=1) == [("a",), ("documents",), ("memories",)]
    assert store.list_namespaces(limit=1, offset=1) == [DOCS]


def test_batches_are_done_in_their_order_and_from_an_event_loop(store: HindlakeStore) -> None:
    ops = [PutOp(DOCS, "k", {"text": "One."}), GetOp(DOCS, "k"), PutOp(DOCS, "k", None), GetOp(DOCS, "k")]
    put, got, gone, none = asyncio.run(store.abatch(ops))
    assert (put, gone, none) == (None, None, None)
    assert got.value == {"text": "One."}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("value", "more", "why"),
    [
        ({}, {}, "has no text"),
        ({"text": "   "}, {}, "has no text"),
        ({"a": "one", "b": "two"}, {}, "has no text"),
        ({"text": "x", "when": object()}, {}, "is not JSON"),
        ({"text": "x"}, {"index": False}, "can always be searched"),
    ],
)
def test_what_can_not_be_a_memory_is_refused_with_its_reason(
    store: HindlakeStore, value: dict[str, Any], more: dict[str, Any], why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        store.put(DOCS, "k", value, **more)
    assert store.get(DOCS, "k") is None


def test_a_field_that_is_named_or_the_only_text_is_the_text(store: HindlakeStore, memory: Memory) -> None:
    store.put(DOCS, "1", {"title": "A", "body": "The body of it."}, index=["body"])
    store.put(DOCS, "2", {"note": "A note alone.", "n": 1})
    assert store.get(DOCS, "1").value == {"title": "A", "body": "The body of it."}  # type: ignore[union-attr]
    texts = {hit.text for hit in memory.search("", subject="documents", limit=50)}
    assert {"The body of it.", "A note alone."} <= texts


def test_time_to_live_unknown_operators_and_far_pages_are_refused(store: HindlakeStore) -> None:
    with pytest.raises(NotImplementedError):
        store.put(DOCS, "k", {"text": "x"}, ttl=5)
    store.put(DOCS, "k", {"text": "x", "n": 1})
    with pytest.raises(UsageError, match=r"\$in"):
        store.search(DOCS, filter={"n": {"$in": [1]}})
    with pytest.raises(UsageError, match="the best 200"):
        store.search(DOCS, limit=100, offset=101)


def test_secrets_beside_the_text_are_masked_too(memory: Memory, tmp_path: Path) -> None:
    store = HindlakeStore(memory)
    store.put(("secrets",), "k", {"text": "A key.", "api_key": "sk-proj-" + "a1B2" * 12})
    assert "a1B2a1B2" not in str(store.get(("secrets",), "k"))
