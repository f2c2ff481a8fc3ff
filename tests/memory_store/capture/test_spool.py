"""The spool file: whole events, torn tails, damage, and who may take what."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindlake.memory_store.capture.events import Event
from hindlake.memory_store.capture.spool import (
    Spool,
    adopt,
    home_label,
    read_segment,
    roll_segments,
    segment_paths,
    waiting,
)
from hindlake.memory_store.capture.traces import trace_paths
from hindlake.memory_store.errors import LakeError
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


def event(number: int, content: str = "", namespace: str = "default") -> Event:
    return Event(namespace, "trace", f"event{number}", number, AT, "message", role="user", content=content)


def payload(*args: object, **named: object) -> bytes:
    return msgspec.msgpack.encode(event(*args, **named))  # type: ignore[arg-type]


def spool_of(folder: Path, count: int, **options: object) -> Spool:
    spool = Spool(folder, **options)  # type: ignore[arg-type]
    for number in range(count):
        spool.append(payload(number, "x" * number))
    return spool


#: A process that appends events to a spool, says so, and goes on living.
WRITER = """
import os, sys
from datetime import UTC, datetime
from pathlib import Path
import msgspec
from hindlake.memory_store.capture.events import Event
from hindlake.memory_store.capture.spool import Spool
spool = Spool(Path(sys.argv[1]))
for number in range(7):
    event = Event("default", "trace", f"event{number}", number, datetime.now(UTC), "message")
    spool.append(msgspec.msgpack.encode(event))
"""
LIVES = "print('ready', flush=True); sys.stdin.read()"


def started(code: str, folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_what_is_appended_is_read_back_in_order(tmp_path: Path) -> None:
    spool = spool_of(tmp_path, 30)
    [path] = segment_paths(tmp_path)
    segment = read_segment(path)
    assert segment.events == [event(number, "x" * number) for number in range(30)]
    assert (segment.torn_bytes, segment.damaged, spool.appended) == (0, 0, 30)


def test_a_spool_opens_nothing_before_it_must(tmp_path: Path) -> None:
    Spool(tmp_path / "spool").seal()
    assert not (tmp_path / "spool").exists()


@given(end=st.integers(0, 2_000))
def test_a_torn_tail_is_detected_wherever_it_is_torn(tmp_path_factory: pytest.TempPathFactory, end: int) -> None:
    """Oracle: the events whose last byte is before the tear."""
    folder = tmp_path_factory.mktemp("spool")
    spool = Spool(folder)
    ends = []
    for number in range(12):
        spool.append(payload(number, "x" * 40))
        ends.append(segment_paths(folder)[0].stat().st_size)
    [path] = segment_paths(folder)
    start = ends[0] - (ends[1] - ends[0])
    cut = start + end % (ends[-1] - start + 1)
    os.truncate(path, cut)
    segment = read_segment(path)
    whole = sum(1 for place in ends if place <= cut)
    assert len(segment.events) == whole
    assert segment.torn_bytes == cut - (ends[whole - 1] if whole else start)
    assert segment.damaged == 0


def test_zeros_after_a_power_cut_are_a_torn_tail(tmp_path: Path) -> None:
    spool_of(tmp_path, 3)
    [path] = segment_paths(tmp_path)
    with path.open("ab") as file:
        file.write(bytes(5_000))
    segment = read_segment(path)
    assert (len(segment.events), segment.torn_bytes, segment.damaged) == (3, 5_000, 0)


def test_a_flipped_bit_costs_one_event_and_the_file_is_set_aside(tmp_path: Path, lake: Lake) -> None:
    spool = spool_of(tmp_path, 5)
    spool.seal()
    [path] = segment_paths(tmp_path)
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"event2")] ^= 1
    path.write_bytes(raw)
    rolled = roll_segments(lake, tmp_path)
    assert (rolled.events, rolled.damaged) == (4, 1)
    assert path.with_suffix(".damaged").read_bytes() == raw
    assert waiting(tmp_path).damaged == 1
    assert roll_segments(lake, tmp_path).segments == 0


def test_a_file_that_is_no_spool_is_set_aside(tmp_path: Path, lake: Lake) -> None:
    (tmp_path / "a.spool").write_bytes(b"something else")
    assert roll_segments(lake, tmp_path).damaged == 1
    assert (tmp_path / "a.damaged").exists()


def test_a_segment_that_is_appended_to_is_left_alone(tmp_path: Path, lake: Lake) -> None:
    spool = spool_of(tmp_path, 3)
    assert roll_segments(lake, tmp_path).held == 1
    assert waiting(tmp_path).events == 3
    spool.append(payload(3))
    spool.seal()
    assert roll_segments(lake, tmp_path).events == 4
    assert not spool.unrolled()


def test_a_segment_has_one_holder(tmp_path: Path) -> None:
    spool_of(tmp_path, 1).seal()
    [path] = segment_paths(tmp_path)
    with adopt(path) as first, adopt(path) as second:
        assert (first, second) == (True, False)
    with adopt(path) as again:
        assert again
    with adopt(tmp_path / "gone.spool") as gone:
        assert not gone


def test_the_segment_of_a_dead_process_is_adopted_and_that_of_a_live_one_is_not(tmp_path: Path, lake: Lake) -> None:
    """By the lock, never by a process number."""
    with started(WRITER + LIVES, tmp_path) as writer:
        assert roll_segments(lake, tmp_path).held == 1
        writer.kill()
        writer.wait()
    assert roll_segments(lake, tmp_path).events == 7


def test_a_child_does_not_hold_the_segment_of_a_parent_that_died(tmp_path: Path, lake: Lake) -> None:
    """The lock goes with the open file, which a fork shares."""
    with started(f"{WRITER}\nif os.fork() == 0:\n    {LIVES}\nos._exit(0)", tmp_path) as parent:
        parent.wait()
        assert roll_segments(lake, tmp_path).events == 7


def test_rolling_again_after_a_kill_between_parquet_and_removal_adds_nothing(tmp_path: Path, lake: Lake) -> None:
    spool_of(tmp_path, 6).seal()
    [path] = segment_paths(tmp_path)
    raw = path.read_bytes()
    roll_segments(lake, tmp_path)
    before = {name: lake.get(name) for name in trace_paths(lake, "default")}
    path.write_bytes(raw)
    assert roll_segments(lake, tmp_path).events == 6
    assert {name: lake.get(name) for name in trace_paths(lake, "default")} == before


def test_a_write_that_is_cut_short_leaves_nothing_of_the_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fills in the middle of an event: it is refused, and the next one fits behind the last whole one."""
    spool = spool_of(tmp_path, 2)
    write = os.write
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda fd, data: write(fd, bytes(data)[:20]))
        with pytest.raises(OSError, match="No space") as raised:
            spool.append(payload(2))
        assert raised.value.errno == errno.ENOSPC
    spool.append(payload(3))
    [path] = segment_paths(tmp_path)
    segment = read_segment(path)
    assert [e.seq for e in segment.events] == [0, 1, 3]
    assert (segment.torn_bytes, spool.appended) == (0, 3)


def test_a_torn_event_that_cannot_be_taken_back_ends_its_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = spool_of(tmp_path, 2)
    write = os.write

    def refuse(fd: int, length: int) -> None:
        raise OSError(errno.EIO, "broken")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda fd, data: write(fd, bytes(data)[:20]))
        patched.setattr(os, "ftruncate", refuse)
        with pytest.raises(OSError, match="No space"):
            spool.append(payload(2))
    spool.append(payload(3))
    first, second = (read_segment(path) for path in segment_paths(tmp_path))
    assert ([e.seq for e in first.events], first.torn_bytes) == ([0, 1], 20)
    assert ([e.seq for e in second.events], second.torn_bytes) == ([3], 0)


def test_a_flush_to_disk_that_fails_refuses_the_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """fsync=True promises more, so its failure is a failure."""
    spool = spool_of(tmp_path, 2, fsync=True)

    def refuse(fd: int) -> None:
        raise OSError(errno.EIO, "broken")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", refuse)
        with pytest.raises(OSError, match="broken"):
            spool.append(payload(2))
    assert [e.seq for e in read_segment(segment_paths(tmp_path)[0]).events] == [0, 1]


def test_a_lake_that_cannot_be_written_leaves_everything_in_the_spool(tmp_path: Path, lake: Lake) -> None:
    """A file stands where the namespace's folder should be."""
    spool_of(tmp_path / "spool", 3).seal()
    Path(lake.url, "ns=default").write_text("in the way")
    with pytest.raises(LakeError):
        roll_segments(lake, tmp_path / "spool")
    assert waiting(tmp_path / "spool").events == 3


def test_two_homes_can_share_a_spool_folder(tmp_path: Path) -> None:
    """Events go into the home that they were logged for."""
    folder = tmp_path / "spool"
    homes = [Settings.load(home=str(tmp_path / name), spool=str(folder)) for name in ("a", "b")]
    for settings in homes:
        spool_of(folder, 2, label=home_label(settings)).seal()
    rolled = roll_segments(Lake.open(homes[0]), folder, home_label(homes[0]))
    assert (rolled.events, rolled.foreign) == (2, 1)
    rolled = roll_segments(Lake.open(homes[1]), folder, home_label(homes[1]))
    assert (rolled.events, rolled.foreign) == (2, 0)


def test_a_home_that_was_moved_takes_its_spool_along(tmp_path: Path) -> None:
    """The spool inside a home names no home."""
    old = Settings.load(home=str(tmp_path / "old"))
    spool_of(old.spool_folder, 2, label=home_label(old)).seal()
    os.rename(tmp_path / "old", tmp_path / "new")
    new = Settings.load(home=str(tmp_path / "new"))
    assert roll_segments(Lake.open(new), new.spool_folder, home_label(new)).events == 2


def test_what_waits_is_counted_with_the_time_of_the_oldest(tmp_path: Path) -> None:
    assert waiting(tmp_path / "nowhere") == waiting(tmp_path)
    spool = spool_of(tmp_path, 4)
    left = waiting(tmp_path)
    assert (left.events, left.segments, left.oldest) == (4, 1, AT)
    assert left.bytes == segment_paths(tmp_path)[0].stat().st_size
    spool.seal()


def test_what_never_became_a_segment_is_removed_after_an_hour(tmp_path: Path, lake: Lake) -> None:
    young, old = tmp_path / "young.new", tmp_path / "old.new"
    for path in (young, old):
        path.write_bytes(b"")
    os.utime(old, (0, 0))
    roll_segments(lake, tmp_path)
    assert young.exists() and not old.exists()


def test_one_segment_makes_a_file_for_each_namespace_and_day(tmp_path: Path, lake: Lake) -> None:
    spool = Spool(tmp_path)
    spool.append(payload(1, namespace="acme"))
    spool.append(payload(2, namespace="other"))
    late = msgspec.structs.replace(event(3, namespace="acme"), at=datetime(2026, 3, 2, tzinfo=UTC))
    spool.append(msgspec.msgpack.encode(late))
    spool.seal()
    rolled = roll_segments(lake, tmp_path)
    assert (rolled.segments, rolled.events, rolled.files) == (1, 3, 3)
    assert len(trace_paths(lake, "acme")) == 2
