"""The proxy of faults does what it says, with a real server behind it."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest

from hindlake.memory_store.errors import DamagedFile, LakeError, UnsafeStore
from hindlake.memory_store.files import tries
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings
from servers.faulty import KINDS, Weather, faulty_proxy


def lake_at(settings: Settings, weather: Weather) -> Lake:
    """The lake of a home, through a proxy."""
    through = settings.s3.model_copy(update={"endpoint": weather.endpoint})
    return Lake.open(settings.model_copy(update={"s3": through}))


def test_what_becomes_of_a_request_is_drawn_from_the_seed_alone() -> None:
    first, second, other = (Weather(dict.fromkeys(KINDS, 0.1), seed) for seed in (1, 1, 2))
    drawn = [[weather.draw("GET") for _ in range(200)] for weather in (first, second, other)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert {kind for kind, _ in drawn[0]} == {"", *KINDS}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_lake_works_through_every_fault_and_is_told_the_truth(s3_settings: Settings, kind: str) -> None:
    with faulty_proxy(s3_settings.s3.endpoint, {kind: 0.2}, seed=3) as weather:
        weather.seconds = 0.01
        lake = lake_at(s3_settings, weather)
        written = {f"ns=default/log/{number:012d}.parquet": f"{number}".encode() * 1000 for number in range(30)}
        for path, data in written.items():
            # The reply may be lost, and the client tries again: it has to find out that the name is its own.
            assert lake.create(path, data)
        assert weather.met[kind] > 0
        assert all(not lake.create(path, b"of someone else") for path in written)
        assert {path: lake.get(path) for path in lake.names("ns=default/log")} == written
    assert {path: Lake.open(s3_settings).get(path) for path in written} == written


def test_a_store_that_is_down_is_an_error_that_names_the_place_after_one_layer_of_tries(
    s3_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tries, "TRIES", 3)
    with faulty_proxy(s3_settings.s3.endpoint) as weather:
        lake = lake_at(s3_settings, weather)
        lake.put("ns=default/inbox/a", b"a")
        weather.rates = {"slow_down": 1.0}
        before = weather.requests
        with pytest.raises(LakeError, match=r"can't write ns=default/inbox/b in s3://.*503"):
            lake.put("ns=default/inbox/b", b"b")
        assert weather.requests - before == 3


def test_a_big_file_whose_reading_breaks_off_is_read_on_and_else_an_error_of_the_lake_and_no_damaged_file(
    s3_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "ns=default/traces/day=2026-03-01/big.parquet"
    Lake.open(s3_settings).put_table(path, pa.table({"text": [os.urandom(100).hex() for _ in range(20_000)]}))
    with faulty_proxy(s3_settings.s3.endpoint) as weather:
        lake = lake_at(s3_settings, weather)
        whole = lake.read_table(path, ["text"])
        assert whole.num_rows == 20_000
        weather.rates, weather.methods = {"slow_down": 0.1, "truncated": 0.1, "reset_before": 0.1}, frozenset({"GET"})
        for _ in range(6):
            assert lake.read_table(path, ["text"]).equals(whole)
        assert weather.met.total() > 1
        monkeypatch.setattr(tries, "TRIES", 2)
        weather.rates = {"slow_down": 1.0}
        with pytest.raises(LakeError, match=r"can't read .*big.parquet in s3://.*tried 2 times") as raised:
            lake.read_table(path, ["text"])
    assert not isinstance(raised.value, DamagedFile)


def test_a_store_that_ignores_conditional_writes_is_refused_before_anything_is_claimed(s3_settings: Settings) -> None:
    with faulty_proxy(s3_settings.s3.endpoint) as weather:
        weather.conditional = False
        lake = lake_at(s3_settings, weather)
        with pytest.raises(UnsafeStore, match="ignores conditional writes"):
            lake.create("ns=default/log/000000000001.parquet", b"1")
        assert not lake.exists("ns=default/log/000000000001.parquet")
        marked = lake.format()
        weather.conditional = True
        assert lake_at(s3_settings, weather).create("ns=default/log/000000000001.parquet", b"1")
        assert Lake.open(s3_settings).format() == marked
