"""More than one search: many queries at once, page after page, from an event loop; and how reads are logged."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hindlake import AsyncMemory, Memory, Recorder, Settings, where
from hindlake.memory_store.capture.reads import read_days, scan_reads
from hindlake.memory_store.clock import ManualClock, SystemClock
from hindlake.memory_store.errors import UsageError
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.history.log import settle
from hindlake.memory_store.store.generations import build

FRUIT = ["apples", "pears", "plums", "figs", "dates", "limes", "grapes", "melons", "cherries", "quinces", "mangoes"]


@pytest.fixture
def settings(home: Path) -> Settings:
    """Settings with the fast embedder."""
    return Settings.load(home=str(home), embedder="wordllama")


@pytest.fixture
def memory(settings: Settings) -> Iterator[Memory]:
    with Memory(settings, clock=ManualClock(datetime(2026, 3, 1, tzinfo=UTC))) as memory:
        yield memory


def stocked(memory: Memory) -> Memory:
    for number, fruit in enumerate(FRUIT):
        memory.remember(f"The shop sells {fruit}.", valid_from=datetime(2026, 1, 1 + number, tzinfo=UTC))
    return memory


def reads_of(settings: Settings) -> list[dict[str, Any]]:
    lake = Lake.open(settings)
    files = [path for paths in read_days(lake, "default").values() for path in paths]
    return [row for table in scan_reads(lake, files) for row in table.to_pylist()]


def test_many_queries_find_what_each_finds_alone_and_are_embedded_in_one_call(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    stocked(memory)
    queries = ["where are plums?", "", "figs or limes", "where are plums?"]
    alone = [memory.search(query, log_read=False) for query in queries]
    memory._reader._asked.clear()
    calls: list[list[str]] = []
    embedder = memory._reader.embedder()
    embed = embedder.queries
    monkeypatch.setattr(embedder, "queries", lambda texts: calls.append(list(texts)) or embed(texts))
    assert memory.search_many(queries, log_read=False) == alone
    assert calls == [["where are plums?", "figs or limes"]]
    assert memory.search_many([]) == []
    assert memory.search_many(["plums"], since=datetime(2027, 1, 1, tzinfo=UTC)) == [[]]
    with pytest.raises(UsageError, match="list of queries"):
        memory.search_many("plums")


def page_after_page(memory: Memory, query: str, between: Callable[[], object], **more: Any) -> list[str]:
    """Ids of all pages of three; `between` is called before each page but the first."""
    page = memory.search_page(query, limit=3, **more)
    ids = [hit.id for hit in page.hits]
    while page.cursor:
        between()
        page = memory.search_page(query, limit=3, cursor=page.cursor, **more)
        assert page.hits
        ids += [hit.id for hit in page.hits]
    return ids


@pytest.mark.parametrize("query", ["what does the shop sell?", ""])
def test_pages_repeat_and_lose_nothing_while_others_write(query: str, memory: Memory, settings: Settings) -> None:
    stocked(memory)
    whole = [hit.id for hit in memory.search(query, limit=50)]
    other = Memory(settings)
    lake = Lake.open(settings)
    steps = iter(
        [
            lambda: [other.remember(f"The shop sells {n} kinds of cheese, too") for n in range(4)],
            lambda: settle(lake, "default"),
            lambda: build(lake, settings, SystemClock()),
        ]
    )

    def between() -> None:
        next(steps, lambda: None)()

    assert page_after_page(memory, query, between) == whole and len(whole) == len(FRUIT)


def test_a_page_after_the_first_leaves_out_what_was_forgotten_and_is_full_all_the_same(memory: Memory) -> None:
    stocked(memory)
    whole = memory.search("what does the shop sell?", limit=50)
    first = memory.search_page("what does the shop sell?", limit=3)
    assert [hit.id for hit in first.hits] == [hit.id for hit in whole[:3]]
    memory.forget(whole[4].id)
    second = memory.search_page("what does the shop sell?", limit=3, cursor=first.cursor)
    assert [hit.id for hit in second.hits] == [whole[3].id, whole[5].id, whole[6].id]
    assert [hit.score for hit in second.hits] == [whole[3].score, whole[5].score, whole[6].score]


def test_a_cursor_goes_on_in_another_process_and_only_for_its_own_search(memory: Memory, settings: Settings) -> None:
    stocked(memory)
    memory.remember("The shop sells nuts to Ann.", subject="ann")
    first = memory.search_page("shop", limit=4, subject="ann")
    with Memory(settings) as other:
        assert other.search_page("shop", limit=4, subject="ann", cursor=first.cursor).hits
        for wrong in ({"subject": "bob"}, {"subject": "ann", "tags": ["x"]}):
            with pytest.raises(UsageError, match="another search"):
                other.search_page("shop", limit=4, cursor=first.cursor, **wrong)
    for junk in ("x", "AAAA", first.cursor[:-3], "😀", first.cursor + "!"):
        with pytest.raises(UsageError, match="cursor"):
            memory.search_page("shop", subject="ann", cursor=junk)


def test_conditions_narrow_a_search_and_never_open_what_it_may_not_see(memory: Memory) -> None:
    a = memory.remember("Refund refused", tool="pay", outcome="failure", error_code="E1")
    b = memory.remember("Refund paid", tool="pay", outcome="success")
    c = memory.remember("Seat refused", tool="book", outcome="failure", tags=["vip", "late"])
    memory.remember("Bob's refund was refused", subject="bob", tool="pay")

    def found(condition: Any, **more: Any) -> set[str]:
        return {hit.id for hit in memory.search("", where=condition, **more)}

    assert found(where(tool="pay") & ~where(outcome="failure")) == {b}
    assert found(where(tool="book") | where(error_code="E1")) == {a, c}
    assert found(where(tags="vip") & where(tags="late") & ~where(tags="x")) == {c}
    assert found(~where(error_code="E1")) == {b, c}
    assert found(where(subject="bob") | ~where(tool="nothing")) == {a, b, c}
    assert found(where(tool="pay"), outcome="failure") == {a}
    assert [hit.id for hit in memory.search("refund refused", where=where(tool="book"))] == [c]
    assert memory.search("refund", where=where(tool="x' OR 1=1 --")) == []


def test_an_identifier_is_found_whole_above_its_parts_before_and_after_the_fold(memory: Memory) -> None:
    whole = {
        "ORD-12345": memory.remember("The parcel of ORD-12345 is late."),
        "ECONNRESET": memory.remember("Call ended in ECONNRESET at night."),
        "http_client.py": memory.remember("The limit is set in http_client.py for all."),
    }
    memory.remember("ORD, ORD, ORD: 12345 parcels, 12345 letters, and 12345 ORD again.")
    memory.remember("ORD-12346 is late, the parcel of ORD-12346.")
    memory.remember("The http client of the client that speaks http, py and http_client.rs")
    memory.remember("econn reset, conn reset, reset the connection")

    def best(query: str) -> str:
        return memory.search(query, limit=1, log_read=False)[0].id

    for _ in range(2):
        assert {name: best(name) for name in whole} == whole
        assert {name: best(f"what about {name.lower()}?") for name in whole} == whole
        memory._settle()


def test_five_memories_and_three_experiences_are_returned_by_default(memory: Memory) -> None:
    for number in range(8):
        memory.remember(f"When payment {number} fails, wait.", kind="experience")
        memory.remember(f"Payment {number} failed.")
    assert len(memory.search("payment fails")) == 5
    assert len(memory.search("payment fails", kinds=["experience"])) == 3
    assert len(memory.search("payment fails", kinds=["experience"], limit=7)) == 7


def test_a_context_is_one_read_of_what_is_in_it(memory: Memory, settings: Settings) -> None:
    fact = memory.remember("The card of Ann was refused twice.", subject="ann")
    lesson = memory.remember("When a card is refused: offer a bank transfer.", kind="experience")
    with Recorder(settings).task("pay", subject="ann"):
        memory.search("card", subject="ann", log_read=False)
    context = memory.context("the card was refused", subject="ann", trace="t1")
    memory.context("the card was refused", subject="ann", log_read=False)
    memory.context("a", subject="ann", budget_tokens=3)
    memory.close()
    [read] = reads_of(settings)
    assert read["injected"] and read["trace_id"] == "t1" and read["query"] == "the card was refused"
    assert set(read["ids"]) == set(context.ids) >= {fact, lesson}
    assert read["generation"] and read["seq"] >= 0 and '"subjects":["ann"]' in read["filters"]


def test_an_event_loop_goes_on_while_a_search_waits(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search waits for the loop: if it blocked it, neither would ever go on."""
    released = threading.Event()

    async def main() -> None:
        async with AsyncMemory(settings) as memory:
            id = await memory.remember("The shop sells figs.")
            embedder = memory.memory._reader.embedder()
            embed = embedder.queries

            def waiting(texts: list[str]) -> Any:
                assert released.wait(60)
                return embed(texts)

            monkeypatch.setattr(embedder, "queries", waiting)
            search = asyncio.create_task(memory.search("figs"))
            context = asyncio.create_task(memory.context("buy figs"))
            await asyncio.sleep(0)
            released.set()
            assert [hit.id for hit in await search] == [id]
            assert (await context).ids == (id,)
            assert [len(hits) for hits in await memory.search_many(["figs", "shop"])] == [1, 1]
            assert (await memory.search_page("figs")).cursor == ""
            await memory.forget(id)
            assert await memory.search("figs") == []
            with pytest.raises(UsageError):
                await memory.search("figs", limit=0)

    asyncio.run(main())


def test_an_async_read_is_logged_for_the_task_that_runs(settings: Settings) -> None:
    async def main() -> str:
        async with AsyncMemory(settings) as memory:
            await memory.remember("The shop sells figs.")
            with Recorder(settings).task("buy figs") as task:
                await memory.search("figs")
                return str(task.trace_id)

    trace = asyncio.run(main())
    assert [read["trace_id"] for read in reads_of(settings)] == [trace]
