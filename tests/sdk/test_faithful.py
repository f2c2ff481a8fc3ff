"""Any value goes in: faithfully, or marked; never a crash."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
import sys
import uuid
from collections import namedtuple
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindlake.memory_store.capture.events import Event
from hindlake.memory_store.capture.traces import read_traces
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import RecorderSettings, Settings
from hindlake.sdk.faithful import as_int, as_json, as_real, as_text
from hindlake.sdk.recorder import Recorder


@dataclasses.dataclass
class Order:
    id: int
    note: str


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    name: str
    at: datetime


class Struct(msgspec.Struct):
    x: int


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Name(str):
    """Text that is a little more than text."""


class Hostile:
    """Raises whatever it is asked."""

    def __repr__(self) -> str:
        raise RuntimeError("no")

    def __str__(self) -> str:
        raise RuntimeError("no")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


class HostileDict(dict[str, int]):
    def items(self) -> Any:
        raise RuntimeError("no")

    values = items

    def __iter__(self) -> Any:
        raise RuntimeError("no")


Point = namedtuple("Point", "x y")
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(PLAIN)
def test_json_values_come_back_as_they_went_in(value: object) -> None:
    """Oracle: the standard library reads what was written."""
    assert json.loads(as_json(value)) == value


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (b"\x00\xff", {"$bytes": "AP8="}),
        (bytearray(b"a"), {"$bytes": "YQ=="}),
        (float("nan"), {"$float": "nan"}),
        ([1.5, float("-inf")], [1.5, {"$float": "-inf"}]),
        ({"a": None, "b": float("nan")}, {"a": None, "b": {"$float": "nan"}}),
        ({"a": b"x"}, {"a": {"$bytes": "eA=="}}),
        (2**70, 2**70),
        (-(2**64), -(2**64)),
        ({1}, {"$set": [1]}),
        ((1, 2), [1, 2]),
        ({1: "a", None: "b", 2.5: "c"}, {"1": "a", "None": "b", "2.5": "c"}),
        ({1: "a", "1": "b"}, {"$pairs": [[1, "a"], ["1", "b"]]}),
        ({(1, 2): "a"}, {"[1,2]": "a"}),
        (datetime(2026, 3, 1, 8), "2026-03-01T08:00:00"),
        (datetime(2026, 3, 1, 8, tzinfo=UTC), "2026-03-01T08:00:00+00:00"),
        (date(2026, 3, 1), "2026-03-01"),
        (Decimal("1.10"), "1.10"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Path("a") / "b", "a/b"),
        (Order(1, "x"), {"id": 1, "note": "x"}),
        (
            Model(name="n", at=datetime(2026, 1, 1), more=b"x"),
            {"name": "n", "at": "2026-01-01T00:00:00", "more": {"$bytes": "eA=="}},
        ),  # type: ignore[call-arg]
        (Struct(1), {"x": 1}),
        (Point(1, b"a"), {"x": 1, "y": {"$bytes": "YQ=="}}),
        (Color.RED, "red"),
        ({"level": Level.HIGH, Color.RED: 1}, {"level": 3, '"red"': 1}),
        (Name("n"), "n"),
        (np.float64(1.5), 1.5),
        (np.float32("nan"), {"$float": "nan"}),
        (np.int64(7), 7),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        ("a\x00b", "a\x00b"),
        ("\ud83d lone", "\\ud83d lone"),
        ({"k\udc00": "v\udc00"}, {"k\\udc00": "v\\udc00"}),
        ("👩‍👩‍👧 مرحبا עולם 你好", "👩‍👩‍👧 مرحبا עולם 你好"),
        ("", ""),
    ],
    ids=repr,
)
def test_an_odd_value_has_its_own_words(value: object, stored: object) -> None:
    assert json.loads(as_json(value)) == stored


def test_an_integer_past_the_limit_of_text_is_hexadecimal() -> None:
    value = 10 ** (sys.get_int_max_str_digits() + 10)
    assert int(json.loads(as_json([value]))[0]["$int"], 16) == value


def test_what_contains_itself_is_cut_there() -> None:
    value: dict[str, Any] = {"a": 1}
    value["self"] = [value]
    assert json.loads(as_json(value)) == {"a": 1, "self": [{"$cycle": True}]}
    shared = [1]
    assert json.loads(as_json([shared, shared])) == [[1], [1]]


def test_what_is_nested_without_end_is_cut_too() -> None:
    value: Any = []
    for _ in range(100_000):
        value = [value]
    assert "$repr" in as_json(value)


def test_objects_that_raise_when_asked_cost_one_value() -> None:
    stored = json.loads(as_json({"ok": 1, "bad": Hostile(), "dict": HostileDict(a=1), "fn": len}))
    assert stored["ok"] == 1
    assert stored["bad"]["$type"].endswith("Hostile")
    assert stored["bad"]["$repr"] == "(no text: it raises when asked)"
    assert stored["dict"]["$type"].endswith("HostileDict")
    assert stored["fn"]["$repr"].startswith("<built-in function len")


def test_a_generator_is_not_used_up() -> None:
    numbers = iter([1, 2, 3])
    as_json(numbers)
    assert list(numbers) == [1, 2, 3]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        ("x", "x"),
        (b"caf\xc3\xa9", "café"),
        (b"\xff", '{"$bytes":"/w=="}'),
        (5, "5"),
        ([1], "[1]"),
        (ValueError("no"), "ValueError: no"),
        (Color.RED, '"red"'),
        (Name("n"), "n"),
    ],
)
def test_what_was_said_is_text(value: object, text: str) -> None:
    assert as_text(value) == text


def test_numbers_fit_their_columns() -> None:
    assert [as_int(v) for v in ("7", 3.9, 2**80, -(2**80), None, "x", float("nan"), np.int32(4))] == [
        7,
        3,
        2**63 - 1,
        -(2**63),
        None,
        None,
        None,
        4,
    ]
    assert [as_real(v) for v in (1, "1", None, np.float32(0.5), 10**400, True)] == [1.0, None, None, 0.5, None, 1.0]


def stored(recorder: Recorder, trace_id: str) -> list[Event]:
    assert recorder.flush(timeout=60)
    [trace] = read_traces(Lake.open(recorder.settings), "default", [trace_id])
    return list(trace.events)


def test_every_odd_argument_of_every_call_is_kept(tmp_path: Path) -> None:
    """Through the recorder, the spool and Parquet."""
    recorder = Recorder(Settings.load(home=str(tmp_path / "home")))
    odd: list[Any] = [
        None,
        b"\xff",
        float("nan"),
        "\x00",
        "\ud83d",
        2**80,
        -1,
        True,
        [],
        {},
        {"a": {1, 2}},
        Hostile(),
        object(),
        datetime(2026, 1, 1),
        np.float64(2),
        "",
        "مرحبا",
        Order(1, "\udfff"),
    ]
    with recorder.task(Hostile(), task_type=b"\xff", subject=7, task_id=["x"], conversation_id="\ud800") as task:  # type: ignore[arg-type]
        for value in odd:
            assert task.user(value)
            assert task.step(value, value, model=value, input_tokens=value, output_tokens=value, latency_us=value)
            assert task.tool_call(
                value,
                arguments=value,
                result=value,
                error_code=value,
                error_message=value,
                retries=value,
                latency_us=value,
                call_id=value,
                attributes=value,
            )
            assert task.feedback(value, score=value)
            with task.tool(value, value) as call:
                call.retries = value
                call.result(value)
                call.error(value, value)
            assert recorder.feedback(value, value, value)
        assert task.outcome("no such outcome", reason=Hostile())  # type: ignore[arg-type]
    events = stored(recorder, task.trace_id)
    assert len(events) == 2 + 5 * len(odd)
    assert events[-1].outcome == "unknown"
    assert recorder.status().failed == 0
    assert [e.content for e in events if e.type == "message"][3:5] == ["\x00", "\\ud83d"]


def test_a_long_value_is_cut_with_its_length_and_hash(tmp_path: Path) -> None:
    """50 MB in, 1 MB kept; JSON stays JSON; a character is never halved."""
    recorder = Recorder(Settings.load(home=str(tmp_path / "home")))
    text = "é" * 25_000_000
    with recorder.task("x") as task:
        assert task.user(text)
        assert task.tool_call("t" * 10_000, arguments={"body": "y" * 3_000_000}, result="ok")
    _, said, call, _ = stored(recorder, task.trace_id)
    [cut] = said.cuts
    assert (cut.field, cut.bytes) == ("content", 50_000_000)
    assert cut.sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert said.content == "é" * 500_000
    assert {c.field: c.bytes for c in call.cuts} == {"tool": 10_000, "arguments": 3_000_011}
    assert json.loads(call.arguments)["$cut"].startswith('{"body":"yyy')
    assert (len(call.tool), call.result) == (4_096, "ok")


def test_a_secret_on_the_edge_of_a_cut_is_masked_before_it_is_cut(tmp_path: Path) -> None:
    """Else its first half would stand there."""
    settings = Settings.load(home=str(tmp_path / "home"), recorder=RecorderSettings(max_value_bytes=1_000))
    recorder = Recorder(settings)
    secret = "AKIA" + "IOSFODNN7EXAMPLE"
    with recorder.task("x") as task:
        task.user("z" * 989 + " " + secret + " " + "z" * 5_000)
    said = stored(recorder, task.trace_id)[1]
    assert "AKIA" not in said.content
    assert said.content.endswith(" [masked:aw")
    assert said.cuts[0].bytes > 5_000


def test_no_secret_touches_the_disk(tmp_path: Path) -> None:
    """Neither in the spool nor in the lake nor in the digest."""
    secret = "AKIA" + "IOSFODNN7EXAMPLE"
    recorder = Recorder(Settings.load(home=str(tmp_path / "home")))
    with recorder.task(f"use {secret}", subject="u") as task:
        task.user(f"my password is password={secret}")
        task.tool_call("t", arguments={"key": secret}, result={"token": secret}, error_message=secret)
        spooled = b"".join(p.read_bytes() for p in recorder.settings.spool_folder.iterdir())
        task.outcome("success", reason=secret)
    assert secret.encode() not in spooled
    assert b"[masked:aws_key]" in spooled
    events = stored(recorder, task.trace_id)
    assert secret not in repr(events)
    assert sum(e.masked for e in events) == recorder.status().masked == 6
    lake = Lake.open(recorder.settings)
    [path] = lake.names("ns=default/inbox")
    assert secret not in repr(lake.read_table(path).to_pylist())
    assert secret not in repr(task.working)
