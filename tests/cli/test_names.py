"""`hindlake aliases` and `hindlake taxonomy` as scripts see them."""

from __future__ import annotations

import pytest

from shell import Shell


def test_an_alias_is_added_used_listed_and_taken_back(shell: Shell) -> None:
    shell("remember", "王小明喜欢乌龙茶", "--entity", "王小明")
    id = shell("aliases", "add", "小王", "王小明", "--json").json["id"]
    assert [hit["text"] for hit in shell("search", "茶", "--entity", "小王", "--json").json["hits"]] == [
        "王小明喜欢乌龙茶"
    ]
    (listed,) = shell("aliases", "list", "--json").json["aliases"]
    assert (listed["id"], listed["name"], listed["of"], listed["run"]) == (id, "小王", "王小明", "")
    assert id in shell("aliases", "list").out
    assert shell("aliases", "undo", "小王", "--json").json["undone"][0]["id"] == id
    assert shell("search", "茶", "--entity", "小王", "--json").json["hits"] == []
    assert shell("aliases", "undo", "小王").code == 2
    assert [one["state"] for one in shell("aliases", "list", "--every", "--json").json["aliases"]] == ["deleted"]
    assert shell("aliases", "add", "bob", "BOB").code == 2


def test_a_run_is_shown_done_and_undone(shell: Shell) -> None:
    shell("remember", "Robert Smith, also known as Bob, runs it", "--entity", "Robert Smith")
    shown = shell("run", "aliases", "--dry-run", "--json").json
    done = shell("run", "aliases", "--json").json
    (decided,) = done["decisions"]
    assert shown["decisions"] == [decided]
    assert (decided["about"], decided["value"]) == ("Bob", "Robert Smith")
    assert [one["run"] for one in shell("aliases", "list", "--json").json["aliases"]] == [done["run_id"]]
    assert shell("undo", done["run_id"], "--json").json["counts"]["deleted"] == 1
    assert shell("aliases", "list", "--json").json["aliases"] == []
    assert "1 taken back" in shell("run", "aliases").out


@pytest.mark.usefixtures("shipped_embedder")
def test_kinds_of_tasks_are_suggested_mapped_and_listed(shell: Shell) -> None:
    for text, name in (("ask for the passport", "book_flight"), ("weigh it", "BookFlights"), ("greet", "hello")):
        shell("remember", text, "--kind", "experience", "--task-type", name)
    (suggested,) = shell("taxonomy", "suggest", "--json").json["suggestions"]
    assert {suggested["name"], suggested["to"]} == {"book_flight", "BookFlights"}
    shell("taxonomy", "map", "book_flight", "booking")
    shell("taxonomy", "map", "BookFlights", "booking")
    assert len(shell("search", "x", "--task-type", "booking", "--json").json["hits"]) == 2
    lines = shell("taxonomy", "list").out.splitlines()
    assert [line.split(maxsplit=1)[1] for line in lines] == [
        "booking", "booking ← BookFlights", "booking ← book_flight", "hello  (in no class)"
    ]  # fmt: skip
    shell("taxonomy", "undo", "book_flight")
    assert len(shell("search", "x", "--task-type", "booking", "--json").json["hits"]) == 1
