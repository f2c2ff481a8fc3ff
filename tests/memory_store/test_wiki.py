"""A page tells what is known of one thing, with its sources, and nothing that belongs to someone else."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hindlake.memory_store.clock import END_OF_TIME
from hindlake.memory_store.text.aliases import Alias, NameBook
from hindlake.memory_store.text.names import name_key
from hindlake.memory_store.wiki import Page, find, index, pages, render

DAY = datetime(2026, 3, 1, tzinfo=UTC)


def row(id: str, text: str, **columns: Any) -> dict[str, Any]:
    plain = {
        "kind": "fact", "subject": "", "entities": [], "state": "active", "confidence": 0.9, "valid_from": DAY,
        "valid_to": END_OF_TIME, "superseded_by": "", "said_by": "user",
        "evidence": [{"trace_id": "t1", "event_id": "e1", "quote": text}],
    }  # fmt: skip
    return {**plain, "id": id, "text": text, **columns}


def test_a_page_of_an_entity_has_what_is_shared_and_a_page_of_a_subject_what_is_its_own() -> None:
    made = pages(
        [
            row("a", "The pump is loud.", entities=["Pump 7"]),
            row("b", "Ann owns the pump.", entities=["Pump 7"], subject="ann"),
            row("c", "Bo hates the pump.", entities=["Pump 7"], subject="bo"),
        ],
        [],
    )
    told = {page.title: [memory["id"] for memory in page.memories] for page in made}
    assert told == {"ann": ["b"], "bo": ["c"], "Pump 7": ["a"]}


def test_a_name_has_one_page_however_it_is_written() -> None:
    made = pages([row("a", "1", entities=["Pay API"]), row("b", "2", entities=["ＰＡＹ  api", "Pay API"])], [])
    assert [page.title for page in made] == ["Pay API"]
    assert [memory["id"] for memory in made[0].memories] == ["a", "b"]


def test_what_has_several_names_has_one_page_that_each_of_them_finds() -> None:
    rows = [row("a", "It is loud.", entities=["P7", "Hall B"]), row("b", "It leaks.", entities=["Pump 7"])]
    alias = Alias("x", "entity", "P7", "Pump 7", "", "active", DAY, "")
    made = pages(rows, [], NameBook([alias]))
    assert [(page.title, page.names, len(page.memories)) for page in made] == [
        ("Hall B", (), 1),
        ("Pump 7", ("P7",), 2),
    ]
    assert made[0].related == ("Pump 7",)
    assert find(made, "p7") == find(made, "Pump 7") == [made[1]]
    assert "also P7" in render(made[1])
    assert len(pages(rows, [], NameBook([replace(alias, state="deleted")]))) == 3


def test_names_that_differ_in_a_number_have_pages_of_their_own() -> None:
    assert len(pages([row("a", "1", entities=["Room 101"]), row("b", "2", entities=["Room 102"])], [])) == 2


def test_what_is_not_confirmed_stands_apart_and_history_after_it() -> None:
    old = row("old", "The budget is 5000.", subject="ann", state="superseded", superseded_by="new", valid_to=DAY)
    text = render(
        pages(
            [
                row("new", "The budget is 8000.", subject="ann"),
                row("maybe", "Ann may like tea.", subject="ann", kind="preference", confidence=0.4),
            ],
            [old],
        )[0]
    )
    order = ["## Facts", "budget is 8000", "## Preferences, not confirmed yet", "like tea", "## History", "5000"]
    assert sorted(order, key=text.index) == order
    assert "superseded, then new" in text


def test_every_memory_cites_itself_and_its_events() -> None:
    text = render(pages([row("a", "The pump is loud.", entities=["pump"])], [])[0])
    assert "The pump is loud. (2026-03-01, user) [1][2]" in text
    assert "1. memory a\n2. trace t1, event e1: “The pump is loud.”" in text


def test_text_can_not_open_a_heading_a_link_or_a_tag() -> None:
    nasty = "ok\n# Rules\n[click](http://evil) <script>"
    text = render(pages([row("a", nasty, entities=[nasty])], [])[0])
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert headings[1:] == ["## Facts", "## Sources"]
    assert "[click" not in text.replace("\\[click", "")
    assert "\\<script\\>" in text


def test_episodes_have_no_page() -> None:
    assert pages([row("a", "x", kind="episode", entities=["pump"])], []) == []


def test_a_page_is_found_by_its_name_or_by_a_part_of_it() -> None:
    made = pages([row("a", "1", entities=["Pump 7"]), row("b", "2", entities=["Pump 77"])], [])
    assert [page.title for page in find(made, "pump 7")] == ["Pump 7"]
    assert [page.title for page in find(made, "pump")] == ["Pump 7", "Pump 77"]
    assert "[Pump 7](entities/Pump-7-" in index(made)


@given(st.lists(st.text(min_size=1, max_size=20).filter(lambda name: name_key(name) != ""), max_size=8))
def test_every_name_has_a_file_of_its_own_below_its_folder(names: list[str]) -> None:
    files = {page.file for page in (Page("entity", name, (), (), ()) for name in names)}
    assert len(files) == len({name_key(name) for name in names})
    assert all(file.count("/") == 1 and ".." not in file and "\0" not in file for file in files)
