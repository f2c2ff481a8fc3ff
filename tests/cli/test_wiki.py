"""`hindlake wiki` as a person uses it."""

from __future__ import annotations

from pathlib import Path

from hindlake.memory_store.settings import Settings
from hindlake.sdk.memory import Memory
from shell import Shell


def test_the_wiki_is_read_page_by_page_or_written_as_files(shell: Shell, settings: Settings, tmp_path: Path) -> None:
    memory = Memory(settings)
    old = memory.remember("Mei's budget is 5000.", kind="fact", subject="user:mei")
    memory.update(old, "Mei's budget is 8000.")
    memory.remember("Pump 7 leaks when it rains.", kind="fact", entities=["Pump 7"])
    listed = shell("wiki", "--json").json["pages"]
    assert [(page["about"], page["title"]) for page in listed] == [
        ("subject", "user:mei"),
        ("entity", "Pump 7"),
    ]
    page = shell("wiki", "user:mei").out
    assert page.index("budget is 8000") < page.index("## History") < page.index("budget is 5000")
    answer = shell("wiki", "--out", str(tmp_path / "pages"), "--json").json
    assert answer["pages"] == 2
    assert len(list((tmp_path / "pages").rglob("*.md"))) == 3


def test_a_page_tells_what_was_known_at_a_moment(shell: Shell, settings: Settings) -> None:
    memory = Memory(settings)
    old = memory.remember("Mei's budget is 5000.", kind="fact", subject="user:mei")
    shell("run", "nightly")
    memory.update(old, "Mei's budget is 8000.")
    then = shell("wiki", "user:mei", "--as-of", "1").out
    assert ("5000" in then, "8000" in then, "## History" in then) == (True, False, False)
    assert shell("wiki", "--as-of", "0", "--json").json == {"pages": []}


def test_a_name_without_a_page_is_wrong_usage_that_says_what_to_do(shell: Shell) -> None:
    done = shell("wiki", "nobody")
    assert done.code == 2
    assert "`hindlake wiki` lists all pages" in done.err
