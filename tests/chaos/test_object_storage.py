"""The whole way on an object store that has bad days: each command ends well or with an error that names the fix, and
what was acknowledged is there once, in the home and in one that is restored from its backup.
"""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from chaos import actors
from chaos.check import check
from chaos.crew import Crew, Member, warm_up
from chaos.ledger import read_ledgers
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.history.log import read_log
from hindlake.memory_store.settings import Settings
from servers.faulty import KINDS, Weather, faulty_proxy
from servers.moto_s3 import moto_server
from servers.s3 import ACCESS_KEY, BUCKET, SECRET_KEY, s3_home

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

#: How often a command that failed is called again: an hour later, as a schedule does.
_TRIES = 6


class Bucket:
    """A home behind a proxy, and the command line."""

    def __init__(self, settings: Settings, weather: Weather, folder: Path) -> None:
        self.settings = settings.model_copy(update={"spool": str(folder / "spool"), "embedder": "wordllama"})
        self.weather, self.folder = weather, folder
        self.desk = folder / "desk"
        self.desk.mkdir()
        self.crew = Crew(self.desk)
        self.place = actors.Place(
            {
                "HINDLAKE_HOME": settings.home,
                "HINDLAKE_SPOOL": self.settings.spool,
                "HINDLAKE_EMBEDDER": "wordllama",
                "HINDLAKE_REFLECTOR": "rules",
                "HINDLAKE_JOBS_LEASE_SECONDS": "1",
                "HINDLAKE_S3_ENDPOINT": weather.endpoint,
                "HINDLAKE_S3_ACCESS_KEY_ID": ACCESS_KEY,
                "HINDLAKE_S3_SECRET_ACCESS_KEY": SECRET_KEY,
            },
            self.desk,
        )
        self.failures: list[str] = []

    def once(self, *arguments: str) -> Member:
        """Run a command; it ends well, or with an error that names the fix and no traceback."""
        member = self.crew.start("command", actors.command, self.place, list(arguments))
        assert not self.crew.wait(120, [member]), f"{arguments} goes on and on"
        assert not member.failure(), f"{arguments}: {member.failure()}"
        if code := member.process.exitcode:
            assert code == 1 and re.search(r"hindlake: |failed: |error", member.said), f"{arguments}: {member.said}"
            self.failures.append(f"{' '.join(arguments[:2])}: {member.said}")
        return member

    def run(self, *arguments: str) -> str:
        """Run a command until it ends well, and return what it printed."""
        for _ in range(_TRIES):
            member = self.once(*arguments)
            if not member.process.exitcode:
                return (self.desk / f"{member.name}.out").read_text()
        raise AssertionError(f"{arguments} failed {_TRIES} times: {member.said}")


def test_nothing_is_lost_or_doubled_from_the_recorder_to_a_restored_backup(
    s3_settings: Settings, tmp_path: Path
) -> None:
    warm_up()
    with faulty_proxy(s3_settings.s3.endpoint, dict.fromkeys(KINDS, 0.01), seed=1) as weather:
        bucket = Bucket(s3_settings, weather, tmp_path)
        agents = [bucket.crew.start("agent", actors.agent, bucket.place, number) for number in range(2)]
        until = time.monotonic() + 60
        while len(read_ledgers(bucket.desk)) < 40 and time.monotonic() < until:
            time.sleep(0.1)
        (bucket.desk / "over").touch()
        assert not bucket.crew.wait(60, agents)
        assert [agent.process.exitcode for agent in agents] == [0, 0], [agent.errors for agent in agents]
        bucket.run("run", "collect")
        bucket.run("run", "reflect", "--loop")
        bucket.run("run", "nightly", "--loop")
        bucket.run("backup", "create", "--to", str(tmp_path / "backups"))
        found = json.loads(bucket.run("search", "Ticket", "--subject", "user-1", "--json"))
        met = dict(weather.met)
        weather.clear()
        bucket.run("run", "nightly", "--loop")
    assert set(met) == set(KINDS)
    assert found
    ledger = read_ledgers(bucket.desk)
    verdict = check(bucket.settings, ledger, {}, str(tmp_path / "backups"))
    assert verdict.is_right, verdict
    assert sum(verdict.acknowledged.values()) > 20
    restored = bucket.settings.model_copy(update={"home": str(tmp_path / "restored"), "spool": ""})
    bucket.place.environment["HINDLAKE_HOME"] = restored.home
    bucket.run("backup", "restore", "--from", str(tmp_path / "backups"))
    bucket.run("run", "nightly", "--loop")
    verdict = check(restored, ledger, {})
    assert verdict.is_right, verdict


def test_the_way_is_the_same_on_the_store_of_another_maker(tmp_path: Path) -> None:
    warm_up()
    with moto_server(BUCKET) as endpoint:
        bucket = Bucket(s3_home(endpoint), Weather(endpoint=endpoint), tmp_path)
        Lake.open(bucket.settings).check_conditional_writes()
        agent = bucket.crew.start("agent", actors.agent, bucket.place, 1)
        while len(read_ledgers(bucket.desk)) < 10:
            time.sleep(0.1)
        (bucket.desk / "over").touch()
        assert not bucket.crew.wait(60, [agent])
        bucket.run("run", "reflect", "--loop")
        bucket.run("run", "nightly", "--loop")
        assert json.loads(bucket.run("search", "Ticket", "--subject", "user-1", "--json"))
        verdict = check(bucket.settings, read_ledgers(bucket.desk), {})
    assert verdict.is_right, verdict
    assert not bucket.failures


def test_a_store_that_is_gone_ends_every_command_with_an_error_that_names_it(
    s3_settings: Settings, tmp_path: Path
) -> None:
    warm_up()
    with faulty_proxy(s3_settings.s3.endpoint) as weather:
        bucket = Bucket(s3_settings, weather, tmp_path)
        bucket.run("remember", "The budget is 5000.")
        bucket.run("run", "nightly", "--loop")
        weather.rates = {"reset_before": 1.0}
        for arguments in (
            ("remember", "The budget is 8000."), ("search", "budget"), ("run", "reflect", "--loop"), ("rebuild",),
        ):  # fmt: skip
            bucket.once(*arguments)
        assert len(bucket.failures) == 4
        assert all("s3://hindlake/" in failure for failure in bucket.failures), bucket.failures
        weather.clear()
        bucket.run("run", "nightly", "--loop")
    assert read_log(Lake.open(s3_settings), "default").column("text").to_pylist().count("The budget is 5000.") == 1


def test_a_store_without_conditional_writes_is_refused_with_the_reason(s3_settings: Settings, tmp_path: Path) -> None:
    warm_up()
    with faulty_proxy(s3_settings.s3.endpoint) as weather:
        weather.conditional = False
        bucket = Bucket(s3_settings, weather, tmp_path)
        bucket.once("remember", "The budget is 5000.")
        bucket.once("run", "nightly", "--loop")
        assert len(bucket.failures) == 2
        assert all("ignores conditional writes (If-None-Match)" in failure for failure in bucket.failures)
        assert Lake.open(s3_settings).names("ns=default/log") == []
