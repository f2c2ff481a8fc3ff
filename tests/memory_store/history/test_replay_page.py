"""The page of a replay: it needs nothing else, and whatever is stored stays text in it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import Any

import pytest

from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.history.log import settle
from hindlake.memory_store.history.replay import Replay
from hindlake.memory_store.history.replay_page import Page, page
from hindlake.memory_store.settings import Settings
from hindlake.sdk.memory import Memory

NOON = datetime(2026, 3, 9, 12, tzinfo=UTC)
HOSTILE = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)> <!-- ",
    "]]> &lt;b&gt; \u2028\u2029 @@DATA@@ @@POLICY@@ ${alert(1)} `\\",
    "שלום \u202eevil\u202c 👩\u200d💻 付款超时",
    "\x1b[2J\x07 bell",
)


class Parsed(HTMLParser):
    """What a browser would make of a page: its tags in order, their attributes, the text of scripts and styles."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.texts: dict[str, list[str]] = {"script": [], "style": []}
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] in self.texts and data.strip():
            self.texts[self.tags[-1]].append(data)


def made(settings: Settings, *texts: str, most: int = 100, **more: Any) -> Page:
    """The page of a namespace in which these texts were remembered, a minute apart."""
    clock, lake = ManualClock(NOON), Lake.open(settings)
    with Memory(settings, clock=clock) as memory:
        for text in texts:
            memory.remember(text, subject=text, tags=[text])
            clock.advance(minutes=1)
        memory.search(texts[0] if texts else "nothing", subject="*")
    settle(lake, "default")
    return page(Replay(lake, "default", NOON - timedelta(days=1), NOON + timedelta(days=1)), most, **more)


def data_of(parsed: Parsed) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(parsed.texts["script"][0])
    return found


def test_whatever_is_stored_stays_text(settings: Settings, lake: Lake) -> None:
    empty = Parsed(page(Replay(lake, "default", NOON, NOON + timedelta(days=1))).html)
    hostile = Parsed(made(settings, *HOSTILE).html)
    assert hostile.tags == empty.tags
    assert hostile.attributes == empty.attributes
    assert hostile.texts["script"][1:] == empty.texts["script"][1:]
    entries = data_of(hostile)["entries"]
    assert [entry["subjects"] for entry in entries[: len(HOSTILE)]] == [[text] for text in HOSTILE]
    assert "<" not in hostile.texts["script"][0] and hostile.texts["script"][0].isascii()


def test_the_page_fetches_nothing_and_runs_only_its_own_script(settings: Settings) -> None:
    html = made(settings, "a").html
    parsed = Parsed(html)
    assert not [value for name, value in parsed.attributes if name in ("src", "href", "action", "data", "style")]
    assert not [name for name, _ in parsed.attributes if name.startswith("on")]
    assert set(re.findall(r"https?://[^\"'\s]+", html)) == {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest|WebSocket|import\(|innerHTML|eval\(", html)
    (policy,) = (value for name, value in parsed.attributes if value.startswith("default-src"))
    for text in (parsed.texts["style"][0], parsed.texts["script"][1]):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert "unsafe" not in policy


def test_a_page_says_what_it_leaves_out_and_keeps_the_last(settings: Settings) -> None:
    cut = made(settings, "one", "two", "three", most=2)
    assert (cut.shown, cut.left_out) == (2, 2)
    data = data_of(Parsed(cut.html))
    assert data["left_out"] == 2
    assert [entry["what"] for entry in data["entries"]] == ["remember", "search"]
    assert [entry.get("text") for entry in data["entries"]] == ["three", "one"]


def test_each_entry_names_memories_that_the_page_can_tell_of(settings: Settings) -> None:
    data = data_of(Parsed(made(settings, "one", "two").html))
    named = {id for entry in data["entries"] for id in entry.get("memories", ())}
    assert named == set(data["memories"])
    assert sorted(text for _, text in data["memories"].values()) == ["one", "two"]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_hundred_thousand_entries_make_a_page_of_the_last(settings: Settings, lake: Lake) -> None:
    from hindlake.memory_store.history.inbox import write_proposals

    rows = [
        {"act": f"a{n}", "at": NOON + timedelta(milliseconds=n), "decision": "refuse", "id": f"c{n}", "run": "r",
         "read_to": 0, "kind": "fact", "text": f"fact {n}", "reason": "a platitude"}
        for n in range(100_000)
    ]  # fmt: skip
    write_proposals(lake, "default", rows)
    made_of_all = page(Replay(lake, "default", NOON, NOON + timedelta(days=1)))
    assert (made_of_all.shown, made_of_all.left_out) == (20_000, 80_000)
    assert len(made_of_all.html) < 12_000_000
