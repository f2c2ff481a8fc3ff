"""Lines of runs: what they hold, and that they are off until asked for."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import hindlake
from hindlake.memory_store.errors import LakeError, ModelError
from hindlake.memory_store.settings import Settings
from hindlake.memory_store.telemetry import logs
from hindlake.memory_store.telemetry.events import EVENTS, FIELDS, LOGGER, Told, claimed_id, in_this_run, tell, telling
from hindlake.memory_store.telemetry.observing import observed

PACKAGE = Path(hindlake.__file__).parent


@pytest.fixture(autouse=True)
def _quiet_afterwards() -> Iterator[None]:
    yield
    logs.start(Settings.load())


def switch_on(settings: Settings, **chosen: str) -> Settings:
    chosen = {"format": "json", **chosen}
    on = Settings.load(home=settings.home, log=chosen)
    logs.start(on)
    return on


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_a_run_is_told_when_it_begins_and_ends_in_one_object_a_line(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    on = switch_on(settings)
    with observed(on, "nightly") as night, observed(on, "dedup", ["acme"], is_dry=True) as seen:
        seen.counts = {"merge": 3}
        seen.cost = 7
    began, step_began, step_ended, ended = lines(capsys)
    assert [one["event"] for one in (began, step_began, step_ended, ended)] == ["run_started"] * 2 + ["run_ended"] * 2
    assert step_began == {
        "time": step_began["time"], "level": "info", "event": "run_started", "run": seen.run, "parent": night.run,
        "job": "dedup", "namespaces": ["acme"], "is_dry": True,
    }  # fmt: skip
    assert (step_ended["counts"], step_ended["cost"], step_ended["status"]) == ({"merge": 3}, 7, "done")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", began["time"])
    assert ended["run"] == night.run and ended["seconds"] >= step_ended["seconds"]


def test_a_run_that_fails_tells_the_class_of_the_error_and_no_words_of_others(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    on = switch_on(settings)
    for error in (ModelError("HTTP 400: you asked 'my secret budget'"), LakeError("the bucket is gone")):
        with pytest.raises(type(error)), observed(on, "reflect"):
            raise error
    told = [one for one in lines(capsys) if one["event"] == "run_failed"]
    assert [(one["error"], one.get("says")) for one in told] == [
        ("ModelError", None), ("LakeError", "the bucket is gone"),
    ]  # fmt: skip


def test_a_budget_that_is_reached_is_a_warning_and_levels_are_kept(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    on = switch_on(settings, level="warning")
    with observed(on, "reflect") as seen:
        seen.status = "stopped"
    assert [(one["event"], one["level"]) for one in lines(capsys)] == [("budget_reached", "warning")]


def test_text_is_for_people(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    switch_on(settings, format="text")
    tell("namespace_skipped", namespace="acme", reason="another run works on it")
    assert capsys.readouterr().err.endswith(
        'info    namespace_skipped namespace=acme reason="another run works on it"\n'
    )


def test_other_loggers_of_hindlake_are_lines_too_without_the_words_of_errors(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    switch_on(settings)
    try:
        raise ValueError("my secret budget")
    except ValueError as error:
        logging.getLogger("hindlake").exception("could not log a read in %s (%s)", "/spool", error)
    (line,) = lines(capsys)
    assert (line["event"], line["says"]) == ("message", "could not log a read in /spool (ValueError)")
    assert line["error"] == "ValueError"


def test_a_key_in_free_text_is_masked(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    switch_on(settings)
    tell("telemetry_off", reason="can't use AKIAIOSFODNN7EXAMPLE")
    assert lines(capsys)[0]["reason"] == "can't use [masked:aws_key]"


def test_as_a_library_nothing_is_shown_and_handlers_of_the_application_get_everything(settings: Settings) -> None:
    program = (
        "import logging, sys\n"
        "from hindlake.memory_store.settings import Settings\n"
        "from hindlake.memory_store.telemetry.observing import observed\n"
        "from hindlake.memory_store.telemetry.events import tell\n"
        "settings = Settings.load(home=sys.argv[1])\n"
        "with observed(settings, 'decay'):\n"
        "    tell('lease_lost', namespace='acme')\n"
        "got = []\n"
        "class Mine(logging.Handler):\n"
        "    def emit(self, record): got.append(record.hindlake['event'])\n"
        "logging.getLogger('hindlake').addHandler(Mine()); logging.getLogger('hindlake').setLevel('INFO')\n"
        "with observed(settings, 'decay'):\n"
        "    pass\n"
        "print(got)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, settings.home], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("['run_started', 'run_ended']\n", "")


def test_what_a_worker_tells_is_told_again_with_its_place(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    with logs.collected(logging.INFO) as kept, telling(Told("r1", "reflect")):
        tell("model_retried", model="small", attempt=1, wait=0.5, reason="503")
    assert capsys.readouterr().err == ""
    switch_on(settings)
    logs.tell_again(kept, "worker-7", 123)
    (line,) = lines(capsys)
    assert (line["event"], line["run"], line["host"], line["pid"]) == ("model_retried", "r1", "worker-7", 123)


def test_threads_of_a_pool_tell_about_the_run_that_gave_them_work(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    on = switch_on(settings)
    with observed(on, "reflect") as seen, ThreadPoolExecutor(2) as pool:
        list(pool.map(in_this_run(lambda n: tell("model_retried", attempt=n)), (1, 2)))
    assert {one["run"] for one in lines(capsys)} == {seen.run}


def test_the_first_id_of_a_run_is_that_of_its_lines() -> None:
    assert claimed_id() == ""
    with telling(Told("r1", "reflect")):
        assert [claimed_id(), claimed_id()] == ["r1", ""]


def test_every_event_and_field_that_is_told_is_in_the_tables() -> None:
    sources = [path.read_text("utf-8") for path in PACKAGE.rglob("*.py")]
    rooms = [room for room in PACKAGE.iterdir() if room.is_symlink()]
    sources += [path.read_text("utf-8") for room in rooms for path in room.rglob("*.py")]
    told = {event for source in sources for event in re.findall(r'\btell\(\s*"([a-z_]+)"', source)}
    assert told | {"message"} == EVENTS.keys()
    calls = [call for source in sources for call in re.findall(r'\btell\(\s*"[a-z_]+"(.*?)\)\n', source, re.DOTALL)]
    names = {name for call in calls for name in re.findall(r"[ (,]([a-z_]+)=", call)}
    assert len(names) > 10 and names <= FIELDS.keys()


def test_no_level_is_so_low_that_a_handler_of_the_application_is_passed_over() -> None:
    assert LOGGER.level == logging.NOTSET
