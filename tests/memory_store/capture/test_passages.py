"""Passages: the turns of episodes, found with their neighbours, cited by event, made anew from the lake."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hindlake import Memory, Settings
from hindlake.memory_store.capture.episodes import episode_rows
from hindlake.memory_store.capture.events import Event, Trace, trace_of
from hindlake.memory_store.capture.passages import episode_id, passages_of, text_to_embed
from hindlake.memory_store.capture.traces import write_events
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.embedders import embedder_of
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.history.inbox import write_user_act
from hindlake.memory_store.history.log import settle
from hindlake.memory_store.recall.passage_legs import neighbour_legs, pool_of
from hindlake.memory_store.recall.predicates import Filter
from hindlake.memory_store.store.generations import build, ensure, fold_to_head, open_tables
from hindlake.memory_store.store.passage_fold import fold_passages
from hindlake.memory_store.store.tables import PASSAGES, Candidate, Tables
from hindlake.memory_store.text.terms import words

START = datetime(2026, 3, 2, 9, tzinfo=UTC)
ANY = Filter(("default",), states=None)

TALK = """
    trip   user   Guess what, I finally booked the sailing course
    trip   agent  Wonderful! When does it start?
    trip   user   On the ninth of June, if the wind allows
    trip   agent  I will keep my fingers crossed
    lunch  user   The soup at the corner place was far too salty
    lunch  agent  Then try the dumplings there
"""


def events(drawn: str, conversation: str = "", subject: str = "", start: datetime = START) -> list[Event]:
    """Messages as drawn: trace, role, text."""
    made: list[Event] = []
    for place, line in enumerate(drawn.strip().splitlines()):
        trace, role, text = line.split(None, 2)
        made.append(Event("default", trace, f"{trace}-{place}", place, start + timedelta(minutes=place), "message",
                          role=role, content=text, conversation_id=conversation, subject=subject))  # fmt: skip
    return made


def log(lake: Lake, some: list[Event]) -> None:
    """Events in the lake, and the episode of each trace, as at the end of a task."""
    write_events(lake, some)
    for id in dict.fromkeys(event.trace_id for event in some):
        trace = trace_of([event for event in some if event.trace_id == id])
        write_user_act(lake, "default", episode_rows(trace, START))


def catch_up(lake: Lake, settings: Settings) -> tuple[Tables, int]:
    """The store at the head of the lake, and how many passages that took."""
    generation = ensure(lake, settings, ManualClock(START))
    tables = open_tables(settings, generation)
    settle(lake, "default")
    fold_to_head(lake, tables, "default", embedder_of(settings))
    return tables, fold_passages(lake, tables, "default", embedder_of(settings))


def stored(tables: Tables) -> list[dict[str, Any]]:
    return sorted(tables.scan(ANY, table=PASSAGES).to_pylist(), key=lambda row: (row["conversation"], row["place"]))


def passage(event: Event, *others: Event) -> dict[str, Any]:
    """The passage of an event, in a trace with others."""
    trace = Trace("default", "t", (event, *others))
    [episode] = episode_rows(trace, START)
    rows = passages_of(trace, {**episode, "namespace": "default", "seq": 1}, "t", 0)
    return rows[0] if rows else {}


def test_the_answer_is_found_by_the_words_of_the_turn_before(lake: Lake, settings: Settings) -> None:
    log(lake, events(TALK))
    catch_up(lake, settings)
    hits = Memory(settings).search("when does the sailing course start", kinds=["passage"], limit=3)
    assert [hit.evidence[0]["event_id"] for hit in hits][-1] == "trip-2"
    assert {hit.evidence[0]["trace_id"] for hit in hits} == {"trip"}
    second = next(hit for hit in hits if hit.evidence[0]["event_id"] == "trip-1")
    assert second.before.startswith("Guess what") and second.after.startswith("On the ninth")
    assert {"near", "around"} <= second.legs.keys()


def test_only_who_asks_for_passages_gets_them(lake: Lake, settings: Settings) -> None:
    log(lake, events(TALK))
    catch_up(lake, settings)
    memory = Memory(settings)
    assert memory.search("sailing course") == []
    assert {hit.kind for hit in memory.search("sailing course", kinds=["episode"])} == {"episode"}
    assert {hit.kind for hit in memory.search("sailing course", kinds=["episode", "passage"], limit=9)} == {
        "episode", "passage"
    }  # fmt: skip


def test_an_episode_is_found_by_a_turn_that_its_digest_leaves_out(lake: Lake, settings: Settings) -> None:
    filler = "".join(f"\n    long   agent  Some words about nothing, number {n}" for n in range(30))
    log(lake, events(TALK + "    long   user   Help me tidy up" + filler + "\n    long   user   Buy a zither" + filler))
    catch_up(lake, settings)
    [best, *_] = Memory(settings).search("zither", kinds=["episode"])
    assert "zither" not in best.text
    assert best.evidence[0]["trace_id"] == "long"


def test_turns_of_one_conversation_are_numbered_through_its_traces(lake: Lake, settings: Settings) -> None:
    log(lake, events(TALK, conversation="c"))
    tables, _ = catch_up(lake, settings)
    rows = stored(tables)
    assert [row["place"] for row in rows] == list(range(6))
    assert [row["before"] for row in rows] == ["", *(row["id"] for row in rows[:-1])]
    assert [row["after"] for row in rows] == [*(row["id"] for row in rows[1:]), ""]


def test_folding_again_changes_nothing_and_what_is_new_is_added(lake: Lake, settings: Settings) -> None:
    log(lake, events(TALK, conversation="c"))
    tables, written = catch_up(lake, settings)
    before = stored(tables)
    assert written == 6
    assert catch_up(lake, settings)[1] == 0
    log(lake, events("tea user A pot of oolong, please", conversation="c", start=START + timedelta(days=1)))
    tables, written = catch_up(lake, settings)
    assert written == 2  # the new one, and the one that it now comes after
    assert stored(tables)[:5] == before[:5]


def test_an_event_that_came_late_takes_its_place(lake: Lake, settings: Settings) -> None:
    log(lake, events(TALK))
    catch_up(lake, settings)
    late = Event("default", "trip", "late", 99, START + timedelta(days=3), "feedback", role="user", content="No, July!")
    write_events(lake, [late])
    tables, written = catch_up(lake, settings)
    trip = [row["text"] for row in stored(tables) if row["conversation"] == "trip"]
    assert trip[-1] == "No, July!" and len(trip) == 5
    assert written == 5


def test_a_store_made_anew_has_the_same_passages_and_embeds_nothing(lake: Lake, settings: Settings) -> None:
    log(lake, events(TALK, conversation="c", subject="ann"))
    tables, _ = catch_up(lake, settings)
    files = lake.names("ns=default/vectors")
    again = open_tables(settings, build(lake, settings, ManualClock(START)))
    assert stored(again) == stored(tables)
    assert lake.names("ns=default/vectors") == files


def test_what_was_forgotten_speaks_no_more_and_what_is_restored_does(lake: Lake, settings: Settings) -> None:
    log(lake, events(TALK))
    catch_up(lake, settings)
    memory = Memory(settings)
    id = episode_id("default", "lunch")
    assert memory.search("salty soup", kinds=["passage"])[0].text.startswith("The soup")
    memory.forget(id)
    assert all("soup" not in hit.text for hit in memory.search("salty soup", kinds=["passage"], limit=9))
    assert all("soup" not in hit.text for hit in memory.search("", kinds=["passage"], limit=9))
    catch_up(lake, settings)
    assert all("soup" not in hit.text for hit in memory.search("salty soup", kinds=["passage"], limit=9))


def test_passages_are_returned_for_their_subject_only(lake: Lake, settings: Settings) -> None:
    log(lake, events("a user My locker code is 4411", subject="ann"))
    log(lake, events("b user My locker code is 9922", subject="bob"))
    catch_up(lake, settings)
    memory = Memory(settings)
    assert memory.search("locker code", kinds=["passage"]) == []
    assert [hit.text[-4:] for hit in memory.search("locker code", kinds=["passage"], subject="ann")] == ["4411"]


def test_a_failed_weather_call_never_answers_a_failed_exchange_rate_call(lake: Lake, settings: Settings) -> None:
    calls = [
        Event("default", tool, f"e-{tool}", 0, START, "tool_call", tool=tool, arguments="{}", error_code="503")
        for tool in ("get_weather", "get_exchange_rate")
    ]
    log(lake, calls)
    catch_up(lake, settings)
    hits = Memory(settings).search("the call failed with 503", kinds=["passage"], tool="get_exchange_rate", limit=9)
    assert [hit.tool for hit in hits] == ["get_exchange_rate"]


def test_the_newest_passages_are_listed_without_a_query(lake: Lake, settings: Settings) -> None:
    log(lake, events(TALK))
    catch_up(lake, settings)
    hits = Memory(settings).search("", kinds=["passage"], limit=2)
    assert [hit.evidence[0]["event_id"] for hit in hits] == ["lunch-5", "lunch-4"]


def test_a_store_without_the_table_of_passages_gets_it_at_the_next_fold(lake: Lake, settings: Settings) -> None:
    log(lake, events(TALK))
    generation = ensure(lake, settings, ManualClock(START))
    open_tables(settings, generation)._door.db.drop_table(PASSAGES)
    assert Memory(settings).search("sailing", kinds=["passage", "episode"]) != []
    tables, written = catch_up(lake, settings)
    assert written == 6 == len(stored(tables))


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"type": "message", "role": "user", "content": "  hello\0 there  "}, "hello there"),
        ({"type": "message", "role": "agent", "content": "\ud800"}, ""),
        ({"type": "message", "role": "system", "content": "You are helpful"}, ""),
        ({"type": "message", "role": "user"}, ""),
        ({"type": "step", "name": "plan", "content": "look first"}, "plan: look first"),
        ({"type": "tool_call", "tool": "pay", "arguments": '{"a": 1}', "error_code": "E7"}, 'pay · {"a": 1} · E7'),
        ({"type": "feedback", "role": "user", "content": "wrong"}, "wrong"),
        ({"type": "outcome", "content": "done"}, ""),
    ],
)
def test_what_an_event_says_is_its_passage(columns: dict[str, Any], text: str) -> None:
    assert passage(Event("default", "t", "e", 0, START, **columns)).get("text", "") == text


def test_where_several_speak_each_passage_names_its_speaker() -> None:
    ann = Event("default", "t", "1", 0, START, "message", role="user", content="hi", agent="Ann")
    bo = Event("default", "t", "2", 1, START, "message", role="agent", content="hello", agent="Bo")
    assert passage(ann, bo)["text"] == "Ann: hi"
    assert passage(ann)["text"] == "hi"


def test_long_answers_and_tool_results_have_no_vector() -> None:
    def row(role: str, text: str) -> str:
        return text_to_embed({"role": role, "text": text})

    assert row("user", "x" * 1000) == "x" * 480
    assert row("agent", "x" * 480) == "x" * 480
    assert row("agent", "x" * 481) == "" == row("tool", "x")


@pytest.mark.parametrize(("answerer", "has_neighbours"), [("agent", True), ("user", False)])
def test_turns_have_neighbours_where_more_than_one_speaks(answerer: str, has_neighbours: bool) -> None:
    said = [("user", "when did the ferry leave"), (answerer, "at nine"), ("user", "the goat is brown")]
    turns = [
        Candidate(
            f"t{place}",
            1.0,
            {"namespace": "a", "conversation": "c", "place": place, "role": role, "words": words(text)},
        )
        for place, (role, text) in enumerate(said)
    ]
    legs = neighbour_legs(pool_of("ferry", turns, {"t0": 0.9}), 0.7, 0.02, lambda _: 1.0)
    found = {leg.name: {one.id for one in leg.found} for leg in legs}
    near, around = ({"t0", "t1"}, {"t0", "t1", "t2"}) if has_neighbours else ({"t0"}, {"t0"})
    assert found == {"near": near, "around": around, "beside": {"t1"} if has_neighbours else set()}
