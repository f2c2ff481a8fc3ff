"""Which names are one is decided once, for reasons, and can be taken back; what only looks alike stays two."""

from __future__ import annotations

from pathlib import Path

import pytest

from hindlake.jobs.alias_evidence import proposals, suggestions
from hindlake.jobs.aliases import aliases
from hindlake.jobs.deciding.decide import DecideReport
from hindlake.jobs.undo import undo
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings
from hindlake.memory_store.store.generations import build
from hindlake.sdk.memory import Memory
from hindlake.sdk.names import Names

KNOWN_AS = "Robert Smith, also known as Bob, runs the Berlin office"


@pytest.fixture
def settings(home: Path) -> Settings:
    return Settings.load(home=str(home), embedder="wordllama")


def row(text: str, *entities: str, subject: str = "", said_by: str = "user", id: str = "") -> dict[str, object]:
    return {"id": id or text, "text": text, "entities": list(entities), "subject": subject, "evidence": [],
            "said_by": said_by}  # fmt: skip


def found(*rows: dict[str, object]) -> list[tuple[str, str, str]]:
    return [(one.name, one.of, one.subject) for one in proposals(rows)]


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        (KNOWN_AS, ("Bob", "Robert Smith")),
        ("IBM, short for International Business Machines, sells servers.", ("IBM", "International Business Machines")),
        ("We use Transport Layer Security (TLS) here.", ("TLS", "Transport Layer Security")),
        ("Meta, formerly Facebook, is one.", ("Facebook", "Meta")),
        ("北京大学（简称北大）在北京市", ("北大", "北京大学")),
        ("我的同事王小明，又叫明明。", ("明明", "王小明")),
        ("客户张伟的英文名是David。", ("David", "张伟")),
    ],
)
def test_a_memory_that_says_so_makes_two_names_one(text: str, pair: tuple[str, str]) -> None:
    assert found(row(text, subject="u1")) == [(*pair, "u1")]


@pytest.mark.parametrize(
    "text",
    [
        "Order ORD-12, also known as ORD-13, is late.", "Ford, also known as Ford Inc., is here.",
        "She formerly worked at Acme Berlin.", "Room 101, formerly Room 102, is closed.", "He is also known as a liar.",
        "The Golden Gate Park (SFO) is big.", "它又叫什么？", "aka", "(IBM)", "简称",
    ],
)  # fmt: skip
def test_what_is_a_number_a_company_of_the_name_or_no_name_joins_nothing(text: str) -> None:
    assert found(row(text)) == []


def test_what_a_tool_or_a_page_says_is_not_believed() -> None:
    assert found(row(KNOWN_AS, said_by="web"), row(KNOWN_AS, said_by="tool", id="t")) == []


def test_spelling_joins_inside_one_scope_and_the_usual_name_is_the_one_used_most() -> None:
    both = (row("a", "web-hook relay"), row("b", "Webhook Relay"), row("c", "Webhook Relay"))
    assert found(*both) == [("web-hook relay", "Webhook Relay", "")]
    assert found(row("a", "Zoë Lee", subject="u1"), row("b", "Zoe Lee", subject="u2")) == []
    assert found(row("a", "Room 101", "Room-101b"), row("b", "Room 102"), row("c", "3.12", "31.2")) == []


def test_what_only_may_be_one_is_suggested_where_there_is_no_second_one() -> None:
    one = [(p.name, p.of, like) for p, like in suggestions([row("a", "Sarah"), row("b", "Sarah Connor")])]
    assert one == [("Sarah", "Sarah Connor", "short form")]
    assert suggestions([row("a", "Sarah"), row("b", "Sarah Connor"), row("c", "Sarah Miller")]) == []
    assert suggestions([row("a", "Sarah", subject="u1"), row("b", "Sarah Connor", subject="u2")]) == []
    assert found(row("a", "Sarah"), row("b", "Sarah Connor")) == []


def decide(settings: Settings, clock: ManualClock, dry_run: bool = False) -> DecideReport:
    return aliases(Lake.open(settings), settings, clock, version="test", dry_run=dry_run)


def test_a_run_decides_once_and_a_dry_run_nothing(settings: Settings, clock: ManualClock) -> None:
    with Memory(settings, clock=clock) as memory:
        memory.remember(KNOWN_AS, entities=["Robert Smith", "Berlin"])
        names = Names(settings, clock=clock)
        shown = decide(settings, clock, dry_run=True)
        assert (shown.counts["alias"], names.aliases()) == (1, [])
        first, second = decide(settings, clock), decide(settings, clock)
        assert (first.counts["alias"], second.counts["alias"], second.counts["known"]) == (1, 0, 1)
        (made,) = names.aliases()
        assert (made.name, made.of, made.run) == ("Bob", "Robert Smith", first.run_id)
        assert memory.explain(made.id).decisions[0].reason == "a memory says so: also known as"
        assert [hit.text for hit in memory.search("who leads", entities=["BOB"])] == [KNOWN_AS]
        assert memory.search("Bob", kinds=["fact"])[0].legs["names"]["rank"] == 1


def test_an_undone_run_leaves_no_trace_and_an_undone_undo_brings_it_back(
    settings: Settings, clock: ManualClock
) -> None:
    with Memory(settings, clock=clock) as memory:
        memory.remember(KNOWN_AS, entities=["Robert Smith"])
    names, lake = Names(settings, clock=clock), Lake.open(settings)
    run = decide(settings, clock).run_id
    back = undo(lake, settings, clock, run, version="test")
    assert (back.counts["deleted"], names.aliases()) == (1, [])
    again = decide(settings, clock)
    assert (again.counts["alias"], again.counts["taken_back"]) == (0, 1)
    undo(lake, settings, clock, back.run_id, version="test")
    assert [one.name for one in names.aliases()] == ["Bob"]
    before = names.aliases(every=True)
    build(lake, settings, clock)
    assert names.aliases(every=True) == before


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_two_runs_are_taken_back_in_either_order(
    settings: Settings, clock: ManualClock, order: tuple[int, int]
) -> None:
    names, lake = Names(settings, clock=clock), Lake.open(settings)
    runs = []
    with Memory(settings, clock=clock) as memory:
        for text in (KNOWN_AS, "Transport Layer Security (TLS) is used"):
            memory.remember(text)
            runs.append(decide(settings, clock).run_id)
    left = {"Bob", "TLS"}
    for place in order:
        undo(lake, settings, clock, runs[place], version="test")
        left -= {("Bob", "TLS")[place]}
        assert {one.name for one in names.aliases()} == left


def test_what_a_user_said_or_took_back_stands(settings: Settings, clock: ManualClock) -> None:
    with Memory(settings, clock=clock) as memory:
        memory.remember(KNOWN_AS)
        names = Names(settings, clock=clock)
        own = names.alias("Bob", "Bob Jones")
        assert decide(settings, clock).counts["otherwise"] == 1
        names.take_back(own)
        run = decide(settings, clock).run_id
        (made,) = names.aliases()
        names.take_back(made.id)
        assert decide(settings, clock).counts == {"taken_back": 1}
        names.alias("Bob", "Robert Smith")
        kept = undo(Lake.open(settings), settings, clock, run, version="test")
        assert ([one.of for one in names.aliases()], kept.counts["deleted"]) == (["Robert Smith"], 0)
