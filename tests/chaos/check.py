"""What must hold after a round, by the lake alone: rebuilt elsewhere, compared with the store, the oracle and the
ledgers that were kept outside.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from chaos.ledger import Entry
from hindlake.jobs.safekeeping.check import verify
from hindlake.memory_store.capture.traces import read_trace_files
from hindlake.memory_store.clock import SystemClock
from hindlake.memory_store.files.backups import Backups
from hindlake.memory_store.files.folder import Folder
from hindlake.memory_store.files.lake import Lake, namespace_path
from hindlake.memory_store.history.inbox import inbox_paths
from hindlake.memory_store.history.log import read_log
from hindlake.memory_store.recall.predicates import Filter
from hindlake.memory_store.records.runs import all_runs
from hindlake.memory_store.settings import Settings
from hindlake.memory_store.store.generations import build, current, open_tables
from naive_fold import STATES, Row, in_store, naive_fold, overtaken

NAMESPACE = "default"
#: Folders of the lake whose files say what is going on, and nothing that a rebuild rests on.
_PASSING = ("lease/", "probe/", "current/", "generations/")


@dataclass
class Verdict:
    """What a check found."""

    #: Acts that processes were told are kept, by what they did
    acknowledged: Counter[str] = field(default_factory=Counter)
    #: Acknowledged acts that are not there
    lost: list[str] = field(default_factory=list)
    #: What is there more than once
    doubled: list[str] = field(default_factory=list)
    #: Whatever else is not as it must be
    wrong: list[str] = field(default_factory=list)

    @property
    def is_right(self) -> bool:
        """Whether nothing was found."""
        return not (self.lost or self.doubled or self.wrong)


def check(settings: Settings, ledger: list[Entry], purged: dict[str, str], backups: str = "") -> Verdict:
    """Check a home in which nothing runs any more.

    `purged`: texts by id of what a purge was asked for that ended well. `backups`: where backups lie, if any ended.
    """
    verdict = Verdict(Counter(entry["what"] for entry in ledger if entry["what"] in ("event", "remember", "forget")))
    lake = Lake.open(settings)
    with tempfile.TemporaryDirectory(prefix="hindlake-chaos-") as folder:
        alone = settings.model_copy(update={"home": folder, "spool": ""})
        copy_lake(lake, Path(folder) / "lake")
        log = read_log(lake, NAMESPACE).to_pylist()
        _log_is_whole(verdict, lake, log)
        if verdict.doubled or verdict.wrong:
            return verdict
        now = naive_fold(log)
        _acts_are_there(verdict, ledger, log, now, set(purged))
        events = _events_are_there(verdict, lake, ledger)
        _evidence_exists(verdict, now, events)
        _chains_lead_somewhere(verdict, now)
        _gate_adds_up(verdict, lake)
        _stores_are_the_fold(verdict, settings, alone, log, now)
        _purged_is_gone(verdict, [Path(folder) / "lake"], purged)
        if backups:
            _backup_is_whole(verdict, settings, backups, Path(folder) / "verified")
    return verdict


def copy_lake(lake: Lake, folder: Path) -> None:
    """The files of a lake in a folder."""
    to = Folder(folder)
    for path in lake.names(""):
        if not path.startswith(_PASSING[:2]):
            to.put(path, lake.get(path))


def _log_is_whole(verdict: Verdict, lake: Lake, log: list[Row]) -> None:
    if [row["seq"] for row in log] != list(range(1, len(log) + 1)):
        verdict.wrong.append(f"the places of the log are not 1 to {len(log)}")
    # All rows of an act lie together, so an act that comes back later is there twice.
    acts = [row["act"] for row in log]
    starts = [act for before, act in zip(["", *acts], acts, strict=False) if before != act]
    verdict.doubled += [f"act {act}" for act, count in Counter(starts).items() if count > 1]
    adds = Counter(row["id"] for row in log if row["decision"] == "add" and row["verdict"] == "accepted")
    verdict.doubled += [f"memory {id}" for id, count in adds.items() if count > 1]
    verdict.wrong += [f"accepted though {row['id']} had changed: act {row['act']}" for row in overtaken(log)]
    verdict.wrong += [f"left in the inbox: {path}" for path in inbox_paths(lake, NAMESPACE)]


def _acts_are_there(
    verdict: Verdict, ledger: list[Entry], log: list[Row], now: dict[str, Row], purged: set[str]
) -> None:
    texts = Counter(row["text"] for row in now.values() if row["kind"] == "fact" and not row["run"])
    gone = {row["id"] for row in log if row["decision"] == "purge" and row["verdict"] == "accepted"}
    meant = {entry["id"] for entry in ledger if entry["what"] in ("meant", "forget")}
    for entry in ledger:
        id = entry.get("id", "")
        if entry["what"] == "remember" and id not in gone:
            memory = now.get(id)
            if memory is None or memory["text"] != entry["text"]:
                verdict.lost.append(f"memory {id}: {entry['text']}")
            elif texts[entry["text"]] != 1:
                verdict.doubled.append(f"memory {id}: {entry['text']}")
            elif memory["state"] in ("deleted", "quarantined") and id not in meant:
                verdict.lost.append(f"memory {id} is {memory['state']}, and no one asked for it")
            elif entry.get("old", "") in now.keys() - gone and now[entry["old"]]["state"] in ("pending", "active"):
                verdict.lost.append(f"memory {entry['old']} was updated, and is {now[entry['old']]['state']}")
        elif entry["what"] == "forget" and id not in gone and now.get(id, {}).get("state") != "deleted":
            verdict.lost.append(f"memory {id} was forgotten, and is {now.get(id, {}).get('state')}")
        elif entry["what"] == "missed":
            verdict.lost.append(f"memory {id} was not found right after it was written")
        elif entry["what"] == "wrong":
            verdict.wrong.append(entry["why"])
    verdict.lost += [f"the purge of {id}" for id in purged - gone]
    verdict.wrong += [f"{row['id']} is {row['state']!r}" for row in now.values() if row["state"] not in STATES]


def _events_are_there(verdict: Verdict, lake: Lake, ledger: list[Entry]) -> dict[str, dict[str, str]]:
    """Content of every event by trace and event; files are read raw, so that no reader's cleverness helps."""
    single: Counter[str] = Counter()
    events: dict[str, dict[str, str]] = {}
    contents: Counter[tuple[str, str]] = Counter()
    for path, rows in read_trace_files(lake, NAMESPACE, ["trace_id", "event_id", "content"]):
        # Compaction leaves small files beside the bigger one for an hour.
        single.update([] if "/joined-" in path else rows.column("event_id").to_pylist())
        for row in rows.to_pylist():
            of_trace = events.setdefault(row["trace_id"], {})
            if row["event_id"] not in of_trace:
                contents[row["trace_id"], row["content"] or ""] += 1
            of_trace[row["event_id"]] = row["content"] or ""
    verdict.doubled += [f"event {id}" for id, count in single.items() if count > 1]
    for entry in ledger:
        if entry["what"] == "event":
            count = contents[entry["trace"], entry["text"]]
            if count != 1:
                (verdict.doubled if count else verdict.lost).append(f"event {entry['text']} of {entry['trace']}")
    return events


def _evidence_exists(verdict: Verdict, now: dict[str, Row], events: dict[str, dict[str, str]]) -> None:
    for memory in now.values():
        for one in memory["evidence"] or ():
            if one["trace_id"] not in events:
                verdict.wrong.append(f"memory {memory['id']} rests on trace {one['trace_id']}, which is not there")
            elif one["event_id"] and one["event_id"] not in events[one["trace_id"]]:
                verdict.wrong.append(f"memory {memory['id']} rests on event {one['event_id']}, which is not there")


def _chains_lead_somewhere(verdict: Verdict, now: dict[str, Row]) -> None:
    for id, memory in now.items():
        chain = [id]
        while memory["state"] in ("superseded", "merged"):
            chain.append(memory["superseded_by"])
            if chain[-1] not in now or len(set(chain)) < len(chain):
                verdict.wrong.append(f"{' → '.join(chain)} leads nowhere")
                break
            memory = now[chain[-1]]


def _gate_adds_up(verdict: Verdict, lake: Lake) -> None:
    """Each trace was given to the reflector once, unless it grew; each run's counts are those of its rows."""
    rows: list[Row] = []
    for _, table in lake.read_tables(lake.names(namespace_path(NAMESPACE, "gate"))):
        rows += table.to_pylist()
    by_run = Counter(row["run"] for row in rows)
    for run in all_runs(lake, NAMESPACE):
        counts = dict(run.counts)
        if run.job == "reflect" and by_run[run.run_id] != counts.get("gated", by_run[run.run_id]):
            verdict.wrong.append(
                f"run {run.run_id} gated {counts.get('gated')}, and there are {by_run[run.run_id]} rows"
            )


def _stores_are_the_fold(
    verdict: Verdict, settings: Settings, alone: Settings, log: list[Row], now: dict[str, Row]
) -> None:
    """The store in use, one that is built elsewhere from a copy of the lake, and the oracle say the same."""
    if not log:
        return
    rebuilt = build(Lake.open(alone), alone, SystemClock())
    stores = {
        "the store": _rows(open_tables(settings, current(Lake.open(settings)))),
        "the rebuilt store": _rows(open_tables(alone, rebuilt)),
    }
    for name, (rows, folded_to) in stores.items():
        if folded_to != len(log):
            verdict.wrong.append(f"{name} is folded to {folded_to}, the log ends at {len(log)}")
            continue
        expected = in_store(log, now)
        for id in sorted(rows.keys() ^ expected.keys()):
            verdict.wrong.append(f"{name} {'has' if id in rows else 'lacks'} {id} ({now.get(id, {}).get('state')})")
        for id in rows.keys() & expected.keys():
            other = {key: (value, rows[id][key]) for key, value in expected[id].items() if rows[id][key] != value}
            if other:
                verdict.wrong.append(f"{name} says otherwise of {id}: {other}")
    live, again = (rows for rows, _ in stores.values())
    for id in live.keys() & again.keys():
        one, other = live[id]["vector"], again[id]["vector"]
        if (one is None) != (other is None) or (one is not None and not np.allclose(one, other, atol=1e-5)):
            verdict.wrong.append(f"{id} has another vector in the rebuilt store")


def _rows(tables: Any) -> tuple[dict[str, Row], int]:
    rows = tables.scan(Filter((NAMESPACE,), states=None)).to_pylist()
    found = {row["id"]: row for row in rows}
    assert len(found) == len(rows), "a store has an id twice"
    return found, tables.folded_to(NAMESPACE)


def _purged_is_gone(verdict: Verdict, folders: Iterable[Path], purged: dict[str, str]) -> None:
    if not purged:
        return
    for folder in folders:
        for path in folder.rglob("*"):
            if path.is_file():
                for text in _texts(path):
                    still = [id for id, said in purged.items() if said in text]
                    verdict.wrong += [f"{path.name} still says what was purged: {id}" for id in still]


def _texts(path: Path) -> Iterator[str]:
    """Everything that a file says."""
    if path.suffix == ".parquet":
        for row in pq.read_table(path, partitioning=None).to_pylist():
            yield json.dumps(row, default=str, ensure_ascii=False)
    else:
        yield path.read_bytes().decode("utf-8", "replace")


def _backup_is_whole(verdict: Verdict, settings: Settings, place: str, scratch: Path) -> None:
    backups = Backups(settings, place)
    report = verify(backups, backups.manifest(), Lake(Folder(scratch), str(scratch)))
    if not report.is_whole:
        verdict.wrong.append(f"backup {report.name}: {report.faults} {report.wrong}")
