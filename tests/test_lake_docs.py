"""The page about the lake: its table of columns is that of the schema, and its way into a bucket leads there."""

from __future__ import annotations

import contextlib
import io
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hindlake.memory_store.capture.events import Event
from hindlake.memory_store.capture.traces import write_events
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.schema import EVENTS, arrow_type
from hindlake.memory_store.settings import JobSettings, Settings

PAGE = (Path(__file__).parent.parent / "docs" / "lake.md").read_text(encoding="utf-8")


def test_the_table_of_columns_is_that_of_the_schema() -> None:
    """If this fails, the right side is what the page has to say."""
    said = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+) \|$", PAGE.split("## Columns of an event")[1], re.MULTILINE)
    assert said == [(column.name, str(arrow_type(column.type)), column.meaning) for column in EVENTS]


def test_the_layout_is_that_of_the_lake() -> None:
    from hindlake.memory_store.files import lake

    stated = set(re.findall(r"^    ((?:ns=|current/)\S+)", lake.__doc__ or "", re.MULTILINE))
    assert stated
    assert stated <= set(re.findall(r"^\| `(\S+)` \| ", PAGE, re.MULTILINE))


def test_the_settings_have_the_defaults_that_are_stated() -> None:
    rows = re.findall(r"^\| `HINDLAKE_JOBS_(\w+)` \| (\d+) \|", PAGE, re.MULTILINE)
    assert len(rows) == 3
    for name, default in rows:
        assert getattr(JobSettings(), name.lower()) == int(default)


def test_the_way_into_a_bucket_leads_there(s3_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    at = datetime(2026, 3, 1, tzinfo=UTC)
    write_events(Lake.open(s3_settings), [Event("acme", "t", "e", 0, at, "tool_call", tool="get_order")])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_settings.s3.access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_settings.s3.secret_access_key.get_secret_value())
    [block] = re.findall(r"^```py\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    block = block.replace("bucket/prefix", s3_settings.home.removeprefix("s3://"))
    block = block.replace("http://127.0.0.1:8333", s3_settings.s3.endpoint)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block, "lake.md", "exec"), {})
    assert printed.getvalue() == "[('get_order', 1)]\n"
