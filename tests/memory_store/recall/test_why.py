"""Why a search returned what it did: each reason for which a memory does not come, told as it is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hindlake.jobs.passages import passages
from hindlake.jobs.purge import purge
from hindlake.memory_store.capture.passages import episode_id
from hindlake.memory_store.capture.reads import read_days
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.errors import UsageError
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.history.inbox import write_proposals, write_user_act
from hindlake.memory_store.history.log import settle
from hindlake.memory_store.recall.predicates import Filter
from hindlake.memory_store.recall.why import QueryExplanation, Verdict, failing
from hindlake.memory_store.settings import SearchSettings, Settings
from hindlake.memory_store.store.generations import build, current, open_tables
from hindlake.sdk.memory import Memory
from hindlake.sdk.recorder import Recorder

NOON = datetime(2026, 3, 9, 12, tzinfo=UTC)

#   key      kind        subject  tool     text
SAID = """
    refund   rule        -        refund   A refund above 500 needs the yes of a manager
    slow     experience  -        refund   When a refund takes long, tell the customer the date of the bank
    annmail  preference  ann      -        Ann wants refunds by bank transfer
    bobmail  preference  bob      -        Bob wants refunds as a voucher
    tea      fact        -        -        The kitchen on the third floor has green tea
    door     fact        -        -        The garage door closes at ten in the evening
"""

Said = tuple[Memory, dict[str, str]]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Said:
    """A memory in which everything above was remembered, and which id each text has. For tests that change nothing."""
    return remembered(Settings.load(home=str(tmp_path_factory.mktemp("home"))))


@pytest.fixture
def own(settings: Settings) -> Said:
    """The same, for a test that changes it."""
    return remembered(settings)


def remembered(settings: Settings) -> Said:
    memory, ids = Memory(settings, clock=ManualClock(NOON)), {}
    for line in SAID.strip().splitlines():
        key, kind, subject, tool, text = line.split(None, 4)
        ids[key] = memory.remember(text, kind, subject=subject.strip("-"), tool=tool.strip("-"))  # type: ignore[arg-type]
    return memory, ids


def why(said: Said, query: str, key: str, **more: Any) -> Verdict:
    """The verdict on what was expected."""
    memory, ids = said
    told = memory.explain(query=query, expected=ids.get(key, key), **more)
    assert told.expected is not None
    return told.expected


def with_search(memory: Memory, clock: ManualClock, **values: Any) -> Memory:
    """The same memory under other settings of search."""
    search = SearchSettings(**values)
    return Memory(memory.settings.model_copy(update={"search": search}), clock=clock)


def test_what_is_returned_says_its_place_legs_and_factors(said: Said) -> None:
    found = why(said, "who says yes to a refund above 500? a manager?", "refund")
    assert (found.reason, found.rank, found.told) == ("returned", 1, "it is hit 1 of 2")
    assert found.legs["vector"].rank >= 1 and 0 < found.relevance <= 1
    assert found.factors["confidence"] == 1.0


def test_the_verdict_is_returned_exactly_for_what_the_search_returns(said: Said) -> None:
    memory, ids = said
    asked: list[tuple[str, dict[str, Any]]] = [
        ("refund", {"subject": "ann", "limit": 2}), ("green tea", {"kinds": ["fact"]}), ("", {"limit": 2}),
    ]  # fmt: skip
    for query, filters in asked:
        hits = [hit.id for hit in memory.search(query, **filters)]
        told = memory.explain(query=query, **filters)
        assert [verdict.id for verdict in told.hits] == hits
        for id in (ids["refund"], ids["bobmail"], ids["door"]):
            verdict = memory.explain(query=query, expected=id, **filters).expected
            assert verdict is not None
            assert (verdict.reason == "returned") == (id in hits), (query, filters, verdict)
            if verdict.reason == "outranked":
                assert verdict.rank is not None
                more = memory.search(query, **{**filters, "limit": verdict.rank})
                assert more[-1].id == id


def test_what_is_outranked_says_by_how_much(said: Said) -> None:
    first = said[0].search("refund", limit=1)[0].id
    other = "slow" if first == said[1]["refund"] else "refund"
    found = why(said, "refund", other, limit=1)
    assert (found.reason, found.rank) == ("outranked", 2)
    assert found.told.startswith("it ranks 2 of ") and found.told.endswith("a limit of 2 returns it")


def test_what_is_below_a_floor_says_which_and_how_far(said: Said, clock: ManualClock) -> None:
    memory, ids = said
    lone = with_search(memory, clock, floor=0.0, lone_floor=0.98)
    found = why((lone, ids), "refund", "door")
    assert (found.reason, found.floor) == ("below_floor", 0.98)
    assert "search.lone_floor 0.98" in found.told and found.relevance < 0.98
    strict = with_search(memory, clock, floor=0.99)
    found = why((strict, ids), "an answer to something that nobody wrote", "door")
    assert (found.reason, found.floor) == ("below_floor", 0.99)
    loose = with_search(memory, clock, floor=0.0, lone_floor=0.0)
    assert why((loose, ids), "refund", "door").reason == "returned"


def test_what_is_about_another_subject_says_whom(said: Said) -> None:
    found = why(said, "refund by voucher", "bobmail", subject="ann")
    assert (found.reason, found.fails) == ("subject", ("subjects",))
    assert found.told == "it is about bob, and the search names ann as the subject"
    assert why(said, "refund by voucher", "bobmail").told.endswith("names none as the subject")
    assert why(said, "refund by voucher", "bobmail", subject="bob").reason == "returned"


@pytest.mark.parametrize(
    ("filters", "reason", "told"),
    [
        ({"kinds": ["fact"]}, "kind", "its kind is rule, and kinds is fact"),
        ({"tool": "pay"}, "filter", "its tool is refund, and tools is pay"),
        ({"outcome": "failure"}, "filter", "its outcome is not set, and outcomes is failure"),
        ({"entities": ["Lisbon"], "tags": ["x"]}, "filter", "its entities is"),
        ({"states": ["active"]}, "state", "it is pending"),
        ({"since": NOON + timedelta(days=1)}, "filter", "it holds since 2026-03-09 12:00, and since is 2026-03-10 12:"),
    ],
)
def test_what_a_filter_leaves_out_says_which_one(said: Said, filters: dict[str, Any], reason: str, told: str) -> None:
    found = why(said, "refund", "refund", **filters)
    assert found.reason == reason and found.told.startswith(told)


def test_all_the_filters_that_a_memory_fails_are_named(said: Said) -> None:
    found = why(said, "refund", "bobmail", kinds=["fact"], tool="pay")
    assert (found.reason, found.fails) == ("subject", ("subjects", "kinds", "tools"))


def test_what_gave_way_says_to_what_and_what_is_away_says_why(own: Said, lake: Lake) -> None:
    memory, ids = own
    newer = memory.update(ids["tea"], "The kitchen on the third floor has black tea")
    memory.forget(ids["door"], "the garage was sold")
    for _ in range(2):  # as it waits in the inbox, and as the store has it
        found = why(own, "tea", "tea")
        assert (found.reason, found.fails) == ("state", ("states",))
        assert found.told.startswith(f"it was superseded by {newer}, 2026-03-09 12:00: updated")
        found = why(own, "garage door", "door")
        assert found.told.startswith("it is deleted, 2026-03-09 12:00: the garage was sold (`hindlake restore ")
        settle(lake, "default")
        build(lake, memory.settings, ManualClock(NOON))
    archived = {"decision": "archive", "state": "archived", "reason": "unread for long", "run": "r1", "read_to": 99}
    write_proposals(lake, "default", [{**archived, "act": "x", "at": NOON, "id": ids["slow"]}])
    settle(lake, "default")
    assert "it is archived, 2026-03-09 12:00: unread for long (run r1)" in why(own, "refund", "slow").told


def test_what_a_run_proposed_waits_and_what_was_refused_says_why(own: Said, lake: Lake) -> None:
    add = {"decision": "add", "act": "a", "at": NOON, "id": "new", "run": "r1", "read_to": 0, "kind": "fact",
           "text": "Tea is served at four", "state": "pending", "valid_from": NOON}  # fmt: skip
    refuse = {**add, "decision": "refuse", "act": "b", "id": "flat", "reason": "a platitude", "state": None}
    write_proposals(lake, "default", [add])
    found = why(own, "tea at four", "new")
    assert (found.reason, found.text) == ("waiting", "Tea is served at four")
    write_proposals(lake, "default", [refuse])
    settle(lake, "default")
    assert why(own, "tea at four", "new").reason == "returned"
    found = why(own, "tea at four", "flat")
    assert (found.reason, found.told) == ("refused", "it was never added: a platitude")


def test_what_the_store_does_not_hold_yet_says_what_brings_it(own: Said, lake: Lake) -> None:
    memory, ids = own
    memory.forget(ids["door"])
    settle(lake, "default")
    tables = open_tables(memory.settings, build(lake, memory.settings, ManualClock(NOON)))
    restore = {"decision": "restore", "at": NOON, "id": ids["door"], "state": "pending"}
    write_user_act(lake, "default", [{**restore, "act": "r"}], "r")
    found = why(own, "garage door", "door")
    assert (found.reason, found.fails) == ("not_in_store", ("states",))
    assert found.told.startswith("the store has it as it was before the last decisions (states)")
    tables.cool("default", ("deleted",), 99)
    found = why(own, "garage door", "door")
    assert found.reason == "not_in_store" and found.told.startswith(
        "the store does not hold it: it is folded to place 7"
    )


def test_what_has_no_vector_says_that_only_words_can_find_it(own: Said, lake: Lake) -> None:
    import pyarrow as pa

    memory, ids = own
    settle(lake, "default")
    tables = open_tables(memory.settings, build(lake, memory.settings, ManualClock(NOON)))
    rows = tables.rows("default", [ids["door"]])
    place, field = rows.schema.get_field_index("vector"), rows.schema.field("vector")
    rows = rows.set_column(place, field, pa.nulls(1, field.type))
    rows = rows.set_column(rows.schema.get_field_index("seq"), rows.schema.field("seq"), pa.array([99], pa.int64()))
    tables.upsert(rows)
    assert why(own, "refund", "door").reason == "not_embedded"
    assert why(own, "garage", "door").reason == "returned"


def test_what_no_leg_reached_says_how_far_down_it_is(own: Said, clock: ManualClock, lake: Lake) -> None:
    memory, ids = own
    settle(lake, "default")
    build(lake, memory.settings, clock)
    few = with_search(memory, clock, candidates=1)
    found = why((few, ids), "refund", "door")
    assert found.reason == "no_candidate"
    assert found.further["text"] is None and (found.further["vector"] or 0) > 1
    assert found.told.startswith(f"no leg brought it: by vector it is at place {found.further['vector']}, it shares no")


def test_what_was_purged_is_said_to_be_and_shows_nothing(own: Said, lake: Lake, clock: ManualClock) -> None:
    memory, ids = own
    settle(lake, "default")
    purge(lake, memory.settings, clock, "default", ids=[ids["tea"]])
    found = why(own, "green tea", "tea")
    assert (found.reason, found.text, found.kind) == ("purged", "", "")


def test_an_unknown_id_and_that_of_another_namespace_are_told_alike(said: Said, clock: ManualClock) -> None:
    theirs = Memory(said[0].settings, namespace="theirs", clock=clock)
    id = theirs.remember("Their kitchen has coffee")
    found, unknown = why(said, "coffee", id), why(said, "coffee", "nobody")
    assert found.told == unknown.told and found.reason == unknown.reason == "unknown"
    assert (found.text, found.kind) == ("", "")


def test_without_an_expectation_the_nearest_that_did_not_come_are_told(said: Said) -> None:
    told = said[0].explain(query="refund", limit=1)
    assert isinstance(told, QueryExplanation)
    assert told.expected is None and len(told.hits) == 1
    reasons = {verdict.id: verdict.reason for verdict in told.cut}
    assert reasons[said[1]["bobmail"]] == reasons[said[1]["annmail"]] == "subject"
    assert "outranked" in reasons.values() and "below_floor" in reasons.values()
    assert said[1]["door"] not in [verdict.id for verdict in told.hits]
    assert told.candidates >= len(told.hits) + told.below_floor


def test_a_passage_is_told_of_too_and_goes_with_its_episode(settings: Settings, lake: Lake, clock: ManualClock) -> None:
    recorder = Recorder(settings, clock=clock)
    with recorder.task("Mend the garage door", subject="ann") as task:
        task.user("The spring of the garage door is broken")
        task.outcome("success")
    recorder.close()
    settle(lake, "default")
    build(lake, settings, clock)
    passages(lake, settings, clock)
    memory = Memory(settings, clock=clock)
    asked: dict[str, Any] = {"query": "the spring of the door", "kinds": ["passage"], "subject": "ann"}
    (hit,) = memory.explain(**asked).hits
    assert (hit.reason, hit.kind) == ("returned", "passage")
    found = memory.explain(**asked | {"kinds": ["fact"]}, expected=hit.id).expected
    assert found is not None and (found.reason, found.fails) == ("kind", ("kinds",))
    memory.forget(episode_id("default", task.trace_id))
    found = memory.explain(**asked, expected=hit.id).expected
    assert found is not None and found.reason == "state"
    assert found.told.startswith("the episode that it is a part of, ") and found.told.endswith(" is deleted")


def test_explaining_a_search_is_no_read(own: Said, lake: Lake) -> None:
    own[0].explain(query="refund", expected="nobody")
    own[0].close()
    assert read_days(lake, "default") == {}


def test_explain_takes_an_id_or_a_query(said: Said) -> None:
    memory, ids = said
    wrong: list[Callable[[], object]] = [
        lambda: memory.explain(ids["tea"], query="tea"),  # type: ignore[call-overload]
        lambda: memory.explain(query="tea", limit=0),
        lambda: memory.explain(query="tea", kinds=["nonsense"]),
    ]
    for call in wrong:
        with pytest.raises(UsageError):
            call()
    assert memory.explain(ids["tea"]).memory["text"].startswith("The kitchen")


def test_a_row_fails_the_fields_that_it_does_not_pass_and_no_others() -> None:
    row = {"namespace": "acme", "kind": "fact", "state": "active", "subject": "ann", "tool": "pay", "tags": ["x"]}
    assert failing(row, Filter(("acme",), subjects=None)) == ()
    assert failing(row, Filter(("acme",), subjects=())) == ("subjects",)
    wanted = Filter(("acme",), subjects=("ann",), not_tools=("pay",), all_tags=("x", "y"), states=("deleted",))
    assert failing(row, wanted) == ("states", "not_tools", "all_tags")


def test_the_store_that_a_search_begins_is_the_one_that_is_explained(settings: Settings, lake: Lake) -> None:
    told = Memory(settings).explain(query="anything", expected="nobody")
    assert told.hits == () and told.generation == current(lake).name
