"""A purge removes a text from everywhere, proves it by decoding everything, and nothing brings it back."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hindlake.jobs.purge import Receipt, purge, sweep_due
from hindlake.jobs.reflect import reflect
from hindlake.jobs.reflecting.reflectors import reflector_of
from hindlake.memory_store.capture.spool import roll_segments
from hindlake.memory_store.capture.traces import read_traces, scan_events
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.errors import UnknownMemory, UsageError
from hindlake.memory_store.files.lake import Lake, namespace_path, parquet_bytes
from hindlake.memory_store.files.store_files import generation_folders
from hindlake.memory_store.history.inbox import write_proposals
from hindlake.memory_store.history.log import read_log, settle
from hindlake.memory_store.records.purged import blocked, purges
from hindlake.memory_store.schema import table_of
from hindlake.memory_store.settings import Settings
from hindlake.memory_store.store.generations import build, current
from hindlake.sdk.memory import ANY_SUBJECT, Memory
from hindlake.sdk.recorder import Recorder
from story_home import TODAY, store_rows

#: What is going to be purged.
SECRET = "my passport number is X4478-22-991 and it expires in May"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(TODAY)


def tell(settings: Settings, clock: ManualClock, subject: str, *said: str, echo: str = "") -> str:
    """A task in which a user says things; its trace."""
    recorder = Recorder(settings, clock=clock)
    with recorder.task("Book the trip", subject=subject, task_type="travel") as task:
        for text in said:
            task.user(text)
        if echo:
            task.agent(echo)
        task.outcome("success")
    recorder.close()
    return task.trace_id


def learn(settings: Settings, clock: ManualClock) -> None:
    roll_segments(Lake.open(settings), settings.spool_folder)
    reflect(Lake.open(settings), settings, clock, reflector_of(settings, "rules"), version="test", engine="loop")


@pytest.fixture(scope="module")
def home_of_ann(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """Ann tells a secret and a budget; the agent repeats the secret; a memory of it is kept, and read."""
    home, clock = tmp_path_factory.mktemp("ann") / "home", ManualClock(TODAY)
    settings = Settings.load(home=str(home), embedder="wordllama")
    trace = tell(settings, clock, "ann", f"By the way, {SECRET}.", "My budget is 8000.", echo=f"Noted: {SECRET}!")
    tell(settings, clock, "ben", "I live in Oslo, and my budget is 300.")
    learn(settings, clock)
    lake, memory = Lake.open(settings), Memory(settings, clock=clock)
    (event,) = [
        row["event_id"]
        for row in scan_events(lake, "default", ["content", "role"]).to_pylist()
        if row["trace_id"] == trace and row["role"] == "user" and SECRET in row["content"]
    ]
    evidence = [{"trace_id": trace, "event_id": event, "quote": SECRET}]
    add = {"act": "s1", "at": clock.now(), "run": "r", "read_to": 0, "decision": "add", "id": "secret", "kind": "fact"}
    add |= {"text": f"Ann says: {SECRET}", "subject": "ann", "evidence": evidence, "state": "active", "reason": SECRET}
    add |= {"derived_from": [], "confidence": 0.9, "strength": 1.0, "valid_from": clock.now(), "superseded_by": ""}
    write_proposals(lake, "default", [add])
    settle(lake, "default")
    build(lake, settings, clock)
    assert memory.search("passport number", subject="ann")
    memory.close()
    reply = json.dumps({"key": "k", "content": f"[{SECRET}]"})
    lake.put(namespace_path("default", "replies", "r1.json"), reply.encode())
    other = pa.table({"note": [SECRET, "harmless"], "deep": [[{"a": SECRET}], [{"a": "b"}]]})
    lake.put(namespace_path("default", "reviews", "sample.parquet"), parquet_bytes(other))
    return home, trace, event


@pytest.fixture
def told(home_of_ann: tuple[Path, str, str], tmp_path: Path) -> tuple[Settings, str, str]:
    """A copy of that home, the trace in which Ann told the secret, and the event."""
    source, trace, event = home_of_ann
    shutil.copytree(source, tmp_path / "home")
    return Settings.load(home=str(tmp_path / "home"), embedder="wordllama"), trace, event


def purged(settings: Settings, clock: ManualClock, **options: Any) -> Receipt:
    return purge(Lake.open(settings), settings, clock, "default", **{"ids": ["secret"], "now": True, **options})


def lake_rows(settings: Settings, folder: str) -> list[dict[str, Any]]:
    lake = Lake.open(settings)
    paths = lake.names(namespace_path("default", folder))
    return [row for _, rows in lake.read_tables(paths) for row in rows.to_pylist()]


def everything(settings: Settings) -> bytes:
    """Every string of every file, decoded here without the code under test."""
    import lancedb
    import pyarrow.parquet as pq

    said: list[str] = []
    for path in Path(settings.home).rglob("*"):
        if path.is_file() and "/store/" not in str(path):
            said.append(pq.read_table(path).to_pylist().__repr__() if path.suffix == ".parquet" else "")
            said.append(path.read_bytes().decode("utf-8", "replace"))
    for folder in (Path(settings.home) / "store").iterdir():
        database = lancedb.connect(folder)
        for name in database.list_tables().tables:
            table = database.open_table(name)
            for version in table.list_versions():
                table.checkout(version["version"])
                said.append(repr(table.to_arrow().drop_columns(["vector"]).to_pylist()
                                 if "vector" in table.schema.names else table.to_arrow().to_pylist()))  # fmt: skip
    return "\n".join(said).encode("utf-8", "replace")


def test_a_purged_text_is_nowhere_and_the_receipt_says_so(told: tuple[Settings, str, str], clock: ManualClock) -> None:
    settings, _trace, _event = told
    assert b"X4478-22-991" in everything(settings)
    receipt = purged(settings, clock)
    assert b"X4478-22-991" not in everything(settings)
    assert b"x4478-22-991" not in everything(settings)
    assert (receipt.verified, receipt.leftovers, receipt.expires) == (True, [], [])
    assert receipt.hidden[0] == "secret" or "secret" in receipt.hidden
    assert set(receipt.also.values()) <= {"says it too, from the same trace"}
    assert receipt.decoded["columns"] > 100
    assert receipt.sweep_due == TODAY + timedelta(hours=24)
    assert SECRET not in json.dumps(receipt.summary(), default=str)
    (kept,) = [p for p in Lake.open(settings).names("ns=default/purged") if p.endswith(".receipt.json")]
    assert json.loads(Lake.open(settings).get(kept))["verified"]


def test_what_others_said_and_what_was_said_besides_stays(told: tuple[Settings, str, str], clock: ManualClock) -> None:
    settings, trace, _event = told
    before = {row["text"] for row in store_rows(settings) if row["subject"] == "ben"}
    purged(settings, clock)
    assert {row["text"] for row in store_rows(settings) if row["subject"] == "ben"} == before != set()
    memory = Memory(settings, clock=clock)
    assert {row["outcome"] for row in lake_rows(settings, "gate")} == {"success"}
    assert any("8000" in hit.text for hit in memory.search("budget", subject="ann"))
    (told_trace,) = read_traces(Lake.open(settings), "default", [trace])
    contents = [item.content for item in told_trace.events]
    assert "My budget is 8000." in contents
    assert not any("passport" in text for text in contents)
    assert "secret" not in {hit.id for hit in memory.search("", subject=ANY_SUBJECT, limit=50)}
    assert memory.explain("secret").memory["text"] is None
    with pytest.raises(UsageError, match="was purged"):
        memory.restore("secret")


def test_neither_a_rebuild_nor_a_reflection_nor_a_job_in_flight_brings_it_back(
    told: tuple[Settings, str, str], clock: ManualClock
) -> None:
    settings, trace, event = told
    purged(settings, clock)
    lake = Lake.open(settings)
    evidence = [{"trace_id": trace, "event_id": event, "quote": SECRET}]
    late = {"at": clock.now(), "run": "r", "read_to": 0, "decision": "add", "kind": "fact", "text": SECRET}
    late |= {"evidence": evidence, "state": "active", "valid_from": clock.now(), "superseded_by": ""}
    write_proposals(lake, "default", [{**late, "act": "l1", "id": "secret"}, {**late, "act": "l2", "id": "twin"}])
    report = settle(lake, "default")
    assert report.refused == {"l1": "secret was purged", "l2": "what twin rests on was purged"}
    assert SECRET not in repr(read_log(lake, "default").to_pylist())
    lake.delete(lake.names("ns=default/gate"))
    learn(settings, clock)
    build(lake, settings, clock)
    assert b"X4478-22-991" not in everything(settings)


def test_a_tombstone_is_what_a_rebuild_gives_too(told: tuple[Settings, str, str], clock: ManualClock) -> None:
    settings, _, _ = told
    purged(settings, clock)
    before = store_rows(settings)
    (tomb,) = [row for row in before if row["id"] == "secret"]
    assert (tomb["state"], tomb["text"], tomb["kind"], tomb["evidence"]) == ("deleted", "", "", None)
    build(Lake.open(settings), settings, clock)
    assert store_rows(settings) == before


@pytest.mark.parametrize(
    "plant",
    [
        lambda lake: lake.put("ns=default/odd/x.parquet", parquet_bytes(pa.table({"a": [[{"b": f"so {SECRET}"}]]}))),
        lambda lake: lake.put("ns=default/odd/x.json", json.dumps({"a": {SECRET: 1}}).encode()),
        lambda lake: lake.put("ns=default/odd/x.bin", b"\x00\xff" + SECRET[10:40].upper().encode() + b"\x01"),
        lambda lake: lake.put("odd.txt", SECRET.encode()),
        lambda lake: lake.put(
            "ns=default/odd/x.parquet", parquet_bytes(pa.table({"d": pa.array([SECRET]).dictionary_encode()}))
        ),
    ],
    ids=["nested column", "JSON key", "a part in bytes", "outside of a namespace", "dictionary"],
)
def test_a_planted_leftover_is_found(
    told: tuple[Settings, str, str], clock: ManualClock, plant: Callable[[Lake], None]
) -> None:
    settings, _, _ = told
    steps: list[str] = []

    def progress(step: str) -> None:
        steps.append(step)
        if step == "verify":
            plant(Lake.open(settings))

    receipt = purged(settings, clock, progress=progress)
    assert not receipt.verified
    assert [("odd" in place.path, place.rows) for place in receipt.leftovers] == [(True, 1)]


def test_a_leftover_in_an_older_version_of_a_table_is_found(
    told: tuple[Settings, str, str], clock: ManualClock
) -> None:
    settings, _, _ = told

    def progress(step: str) -> None:
        if step == "verify":
            import lancedb

            database = lancedb.connect(f"{settings.home}/store/{current(Lake.open(settings)).name}")
            table = database.create_table("odd", pa.table({"a": [SECRET]}))
            table.delete("true")

    receipt = purged(settings, clock, progress=progress)
    assert [place.path.split("/")[2] for place in receipt.leftovers] == ["odd@1"]


class Killed(BaseException):
    pass


STEPS = ("record", "decide", "mask", "collect", "rewrite", "rebuild", "remove", "verify", "receipt")


@pytest.mark.parametrize(
    "step",
    [step if step in ("decide", "rewrite", "remove") else pytest.param(step, marks=pytest.mark.slow) for step in STEPS],
)
def test_a_purge_that_is_killed_is_finished_by_the_next(
    told: tuple[Settings, str, str], clock: ManualClock, step: str
) -> None:
    settings, _, _ = told

    def progress(name: str) -> None:
        if name == step:
            raise Killed

    with pytest.raises(Killed):
        purged(settings, clock, progress=progress)
    receipt = purged(settings, clock)
    assert receipt.verified
    assert "secret" in receipt.hidden
    assert b"X4478-22-991" not in everything(settings)


def test_old_generations_stay_for_a_grace_and_the_receipt_says_until_when(
    told: tuple[Settings, str, str], clock: ManualClock
) -> None:
    settings, _, _ = told
    old = set(generation_folders(settings))
    receipt = purged(settings, clock, now=False)
    assert {(item["what"], item["on"]) for item in receipt.expires} == {
        (f"generation {name}", TODAY + timedelta(hours=1)) for name in old
    }
    assert old < set(generation_folders(settings))
    clock.advance(hours=2)
    assert purged(settings, clock, now=False).expires == []
    assert not old & set(generation_folders(settings))


def test_the_sweep_takes_what_came_late_and_forgets_how_it_was_recognised(
    told: tuple[Settings, str, str], clock: ManualClock
) -> None:
    settings, trace, _event = told
    purged(settings, clock)
    lake = Lake.open(settings)
    late = {"namespace": "default", "reflection_id": "x", "at": clock.now(), "traces": [trace], "reply": SECRET}
    lake.put_table("ns=default/reflections/late.parquet", table_of([dict(late)], "reflections"))
    assert sweep_due(lake, settings, clock) == []
    clock.advance(hours=25)
    (receipt,) = sweep_due(lake, settings, clock)
    assert (receipt.verified, receipt.sweep_due) == (True, None)
    assert b"X4478-22-991" not in everything(settings)
    assert (purges(lake, "default")[0].pieces, sweep_due(lake, settings, clock, now=True)) == ({}, [])
    assert purged(settings, clock).verified  # the receipt is kept


def test_the_same_statement_elsewhere_is_listed_and_stays(told: tuple[Settings, str, str], clock: ManualClock) -> None:
    settings, _, _ = told
    other = tell(settings, clock, "ann", f"Again: {SECRET}")
    memory = Memory(settings, clock=clock)
    twin = memory.remember(f"Ann says: {SECRET}", subject="ann")
    roll_segments(Lake.open(settings), settings.spool_folder)
    receipt = purged(settings, clock)
    assert receipt.related[twin] == "says the same, from elsewhere"
    assert [item[0] for item in receipt.same_in_traces] == [other]
    assert receipt.indistinct > 0
    assert memory.search("passport", subject="ann")[0].id == twin


def test_everything_about_a_subject_goes(told: tuple[Settings, str, str], clock: ManualClock) -> None:
    settings, _trace, _ = told
    receipt = purged(settings, clock, ids=[], subject="ann")
    assert (receipt.verified, receipt.leftovers, receipt.related) == (True, [], {})
    assert {row["outcome"] for row in lake_rows(settings, "gate")} == {"success"}
    assert {row["subject"] for row in store_rows(settings) if row["kind"]} <= {"ben", ""}
    left = everything(settings)
    for text in (b"X4478-22-991", b"budget is 8000"):
        assert text not in left
    assert b"budget is 300" in left
    with pytest.raises(UsageError, match="nothing is known about subject nobody"):
        purged(settings, clock, ids=[], subject="nobody")


def test_a_trace_goes_with_what_rests_on_it_alone(told: tuple[Settings, str, str], clock: ManualClock) -> None:
    settings, trace, _ = told
    receipt = purged(settings, clock, ids=[], trace=trace)
    assert (receipt.verified, receipt.leftovers) == (True, [])
    assert "secret" in receipt.hidden
    (shell,) = read_traces(Lake.open(settings), "default", [trace])
    assert {event.content for event in shell.events} == {""}
    assert blocked(Lake.open(settings), "default").event(trace, "an event that comes late")


def test_a_dry_run_says_what_would_go_and_changes_nothing(told: tuple[Settings, str, str], clock: ManualClock) -> None:
    settings, _, _ = told
    before = {path: Lake.open(settings).get(path) for path in Lake.open(settings).names("")}
    shown = purged(settings, clock, dry_run=True)
    assert shown.dry_run
    assert "secret" in shown.hidden
    assert {path: Lake.open(settings).get(path) for path in Lake.open(settings).names("")} == before


def test_what_was_composed_of_it_goes_and_the_other_parts_come_back(settings: Settings, clock: ManualClock) -> None:
    settings = settings.model_copy(update={"embedder": "wordllama"})
    memory, lake = Memory(settings, clock=clock), Lake.open(settings)
    one, two = (memory.remember(text, subject="ann") for text in (SECRET, "ann likes to be called by her first name"))
    whole: dict[str, Any] = {"act": "w", "at": clock.now(), "run": "r", "read_to": 9, "reason": "one fuller memory"}
    new = {
        **whole,
        "decision": "add",
        "id": "whole",
        "kind": "fact",
        "text": "Passport X4478-22-991, first name please",
    }
    new |= {"subject": "ann", "derived_from": [one, two], "evidence": [], "state": "active", "superseded_by": ""}
    parts = [{**whole, "decision": "merge", "id": id, "state": "merged", "superseded_by": "whole"} for id in (one, two)]
    write_proposals(lake, "default", [{**new, "valid_from": clock.now()}, *parts])
    receipt = purged(settings, clock, ids=[one])
    assert (receipt.also, receipt.restored) == ({"whole": f"was composed of {one}"}, [two])
    assert [hit.id for hit in memory.search("", subject="ann")] == [two]


def test_what_is_not_there_is_named(settings: Settings, clock: ManualClock) -> None:
    with pytest.raises(UnknownMemory, match="nobody"):
        purged(settings, clock, ids=["nobody"])
    with pytest.raises(UsageError, match="no trace"):
        purged(settings, clock, ids=[], trace="t")
    with pytest.raises(UsageError, match="nothing to purge"):
        purged(settings, clock, ids=[])


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_purge_works_in_a_bucket(s3_settings: Settings, clock: ManualClock) -> None:
    settings = s3_settings.model_copy(update={"embedder": "wordllama"})
    trace = tell(settings, clock, "ann", f"By the way, {SECRET}.")
    learn(settings, clock)
    memory, lake = Memory(settings, clock=clock), Lake.open(settings)
    id = memory.remember(f"Ann says: {SECRET}", subject="ann")
    old = set(generation_folders(settings))
    receipt = purged(settings, clock, ids=[id], trace=trace)
    assert (receipt.verified, receipt.leftovers) == (True, [])
    assert old != set()
    assert not old & set(generation_folders(settings))
    assert memory.search("passport", subject=ANY_SUBJECT) == []
    clock.advance(hours=25)
    (swept,) = sweep_due(lake, settings, clock)
    assert swept.sweep_due is None


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_process_that_is_killed_in_the_middle_is_finished_by_the_next(
    told: tuple[Settings, str, str], clock: ManualClock
) -> None:
    settings, _, _ = told
    code = (
        "import os, signal, sys\n"
        "from hindlake.jobs.purge import purge\n"
        "from hindlake.memory_store.clock import SystemClock\n"
        "from hindlake.memory_store.files.lake import Lake\n"
        "from hindlake.memory_store.settings import Settings\n"
        "settings = Settings.load(home=sys.argv[1], embedder='wordllama')\n"
        "writes, put = [], Lake.put\n"
        "def counted(self, path, data):\n"
        "    put(self, path, data)\n"
        "    writes.append(path)\n"
        "    if len(writes) == int(sys.argv[2]):\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "Lake.put = counted\n"
        "purge(Lake.open(settings), settings, SystemClock(), 'default', ids=['secret'], now=True)\n"
    )
    died = 0
    for writes in (1, 2, 4, 6, 9):
        done = subprocess.run([sys.executable, "-c", code, settings.home, str(writes)], capture_output=True)
        died += done.returncode == -9
    assert died >= 3
    receipt = purged(settings, clock)
    assert (receipt.verified, "secret" in receipt.hidden) == (True, True)
    assert b"X4478-22-991" not in everything(settings)
