"""Whatever happens to memories in whatever order, the store is the fold of the log and nothing is lost.

A machine writes, runs jobs, kills them at any write, undoes runs, rebuilds, and lets two writers meet; after each step
what there is equals a naive fold of the log.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from functools import cache, partial
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from evolving import JOBS, NAMESPACES, SAYINGS, TASKS, Home, Killed, at_once, die, interrupted
from hindlake.memory_store.embedders import embedder_named
from hindlake.memory_store.records.vectors import embed_texts, text_to_embed
from hindlake.memory_store.settings import Settings
from hindlake.sdk.memory import ANY_SUBJECT
from naive_fold import AWAY, CHANGING, KINDS, STATES, Row, in_store, naive_fold, numbered, overtaken


@cache
def vector_of(embedder: str, kind: str, text: str) -> Any:
    (vector,) = embed_texts(embedder_named(embedder, Settings.load()), [text_to_embed(kind, text)])
    return vector


# The real side.


class Evolution(RuleBasedStateMachine):
    """Steps in any order; each ends with a look at everything."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="hindlake-evolution-", ignore_cleanup_errors=True)
        self.home = Home(Path(self.folder.name) / "home")
        self.ids: dict[str, list[str]] = {name: [] for name in NAMESPACES}
        self.texts: dict[str, str] = {}

    def teardown(self) -> None:
        try:
            self.everything_can_be_taken_back()
        finally:
            for memory in self.home.writers.values():
                memory.close()
            self.folder.cleanup()

    # Users.

    @initialize(some=st.lists(st.integers(0, len(SAYINGS) - 1), min_size=2, max_size=8))
    def begin(self, some: list[int]) -> None:
        for saying in some:
            self.remember("east", 0, saying, 0)
        self.remember("west", 0, some[0], 0)

    @rule(
        namespace=st.sampled_from(NAMESPACES),
        writer=st.integers(0, 1),
        saying=st.integers(0, len(SAYINGS) - 1),
        days_ago=st.sampled_from([0, 0, 3, 400]),
    )
    def remember(self, namespace: str, writer: int, saying: int, days_ago: int) -> None:
        self.ids[namespace].append(self.home.say(namespace, writer, saying, days_ago))

    @rule(writer=st.integers(0, 1), which=st.integers(0, 99), saying=st.integers(0, len(SAYINGS) - 1))
    def update(self, writer: int, which: int, saying: int) -> None:
        if id := self.some("east", which, STATES - {"deleted"}):
            text, _, columns = SAYINGS[saying]
            value = {name: columns[name] for name in ("attribute", "value") if name in columns}
            self.ids["east"].append(self.home.writers["east", writer].update(id, text, **value))

    @rule(namespace=st.sampled_from(NAMESPACES), writer=st.integers(0, 1), which=st.integers(0, 99))
    def forget(self, namespace: str, writer: int, which: int) -> None:
        if id := self.some(namespace, which, STATES - {"deleted"}):
            self.home.writers[namespace, writer].forget(id)

    @rule(namespace=st.sampled_from(NAMESPACES), writer=st.integers(0, 1), which=st.integers(0, 99))
    def restore(self, namespace: str, writer: int, which: int) -> None:
        if id := self.some(namespace, which, AWAY):
            self.home.writers[namespace, writer].restore(id)

    @rule(
        namespace=st.sampled_from(NAMESPACES),
        said=st.sampled_from(TASKS),
        outcome=st.sampled_from(["success", "failure"]),
        which=st.lists(st.integers(0, 99), max_size=3),
        times=st.sampled_from([1, 1, 12]),
    )
    def task(self, namespace: str, said: str, outcome: str, which: list[int], times: int) -> None:
        shown = [id for place in which if (id := self.some(namespace, place, {"pending", "active"}))]
        for _ in range(times):
            self.home.task(namespace, said, outcome, list(dict.fromkeys(shown)))

    @rule(days=st.sampled_from([1, 8, 40, 200]))
    def time_passes(self, days: int) -> None:
        self.home.clock.advance(days=days)

    # Jobs.

    @rule(namespace=st.sampled_from(NAMESPACES), data=st.data())
    def settle(self, namespace: str, data: st.DataObject) -> None:
        waiting = {row["act"] for row in self.home.said(namespace)}
        report = self.to_its_end(data, partial(self.home.settle, namespace))
        if report is not None:
            assert sum(report.counts.values()) >= len(waiting)

    @rule(namespace=st.sampled_from(("east", "east", "west")), name=st.sampled_from(sorted(JOBS)), data=st.data())
    def job(self, namespace: str, name: str, data: st.DataObject) -> None:
        self.home.settle(namespace)
        before = Counter((row["state"], row["kind"]) for row in naive_fold(self.home.log(namespace)).values())
        report = self.to_its_end(data, partial(self.home.jobs[name], namespace))
        if report is not None:
            self.counts_add_up(name, report.counts, before)

    @precondition(lambda self: self.home.runs("east"))
    @rule(which=st.integers(0, 99), data=st.data())
    def undo(self, which: int, data: st.DataObject) -> None:
        runs = self.home.runs("east")
        self.to_its_end(data, partial(self.home.undo, "east", runs[which % len(runs)]))

    @rule()
    def compact(self) -> None:
        self.home.compact()

    @rule()
    def rebuild(self) -> None:
        live = {name: self.home.store(name) for name in NAMESPACES}
        generation = self.home.rebuild()
        for name in NAMESPACES:
            self.home.settle(name)
            assert self.home.store(name, generation)[1] >= live[name][1]

    @rule(
        first=st.sampled_from(["remember", "settle", "rebuild", *JOBS]),
        second=st.sampled_from(["remember", "forget", "settle", *JOBS]),
        which=st.integers(0, 99),
    )
    def two_at_once(self, first: str, second: str, which: int) -> None:
        at_once(*(partial(self.act, name, writer, which) for writer, name in enumerate((first, second))))

    def act(self, name: str, writer: int, which: int) -> None:
        if name == "remember":
            self.remember("east", writer, which % len(SAYINGS), 0)
        elif name == "forget":
            self.forget("east", writer, which)
        elif name == "settle":
            self.home.settle("east")
        elif name == "rebuild":
            self.home.rebuild()
        else:
            self.home.jobs[name]("east")

    def to_its_end(self, data: st.DataObject, job: Any) -> Any:
        """Run a job: undisturbed, killed at a write and started again, or with a user who writes meanwhile.

        Returns the report of one that was undisturbed.
        """
        how = data.draw(st.sampled_from(["quiet", "quiet", "killed", "disturbed"]), "how")
        if how == "quiet":
            return job()
        number, after = data.draw(st.integers(1, 14), "write"), data.draw(st.booleans(), "after")
        if how == "disturbed":
            name, which = data.draw(st.sampled_from(["remember", "forget", "settle"])), data.draw(st.integers(0, 99))
            with interrupted(number, partial(self.act, name, 1, which), after=after):
                job()
            return None
        try:
            with interrupted(number, die, after=after):
                job()
        except Killed:
            self.everything_is_as_the_log_says()
            job()
        return None

    def counts_add_up(self, name: str, counts: Counter[str], before: Counter[tuple[str, str]]) -> None:
        active = Counter({kind: n for (state, kind), n in before.items() if state == "active"})
        if name in ("resolve", "reflect"):
            ends = ("activated", "pending_merged", "pending_superseded", "unsettled")
            assert counts["pending"] == sum(n for (state, kind), n in before.items() if state == "pending")
            assert counts["pending"] == sum(counts[end] for end in ends)
            assert counts["candidates"] == sum(counts[end] for end in ("added", "merged", "superseded", "known"))
        elif name == "dedup":
            assert counts["kept"] + counts["merge"] == active.total() - active["episode"]
        elif name == "merge":
            assert counts["kept"] + counts["retired"] == active["fact"] + active["preference"] + active["rule"]
        elif name == "decay":
            assert counts["alive"] + counts["kept"] + counts["archive"] + counts["forget"] == active.total()

    def some(self, namespace: str, which: int, states: set[str]) -> str:
        """A memory in one of some states, empty if there is none."""
        now = naive_fold(numbered(self.home.log(namespace), self.home.said(namespace)))
        ids = sorted(id for id, row in now.items() if row["state"] in states and row["kind"] != "episode")
        return ids[which % len(ids)] if ids else ""

    # What must hold.

    @invariant()
    def everything_is_as_the_log_says(self) -> None:
        seen: set[str] = set()
        for namespace in NAMESPACES:
            log, said = self.home.log(namespace), self.home.said(namespace)
            assert [row["seq"] for row in log] == list(range(1, len(log) + 1))
            assert overtaken(log) == []
            now = naive_fold(numbered(log, said))
            assert set(self.ids[namespace]) <= set(now)
            assert not seen & set(now)
            seen |= set(now)
            self.nothing_changed_or_vanished(now)
            self.the_store_is_the_fold(namespace, log)
            self.what_is_found_is_what_there_is(namespace, now)

    def nothing_changed_or_vanished(self, now: dict[str, Row]) -> None:
        for id, memory in now.items():
            assert memory["state"] in STATES
            assert self.texts.setdefault(id, memory["text"]) == memory["text"]
            chain = [id]
            while now[chain[-1]]["state"] in ("superseded", "merged"):
                chain.append(now[chain[-1]]["superseded_by"])
                assert chain[-1] in now, f"{chain} leads nowhere"
                assert len(set(chain)) == len(chain), f"{chain} is a circle"

    def the_store_is_the_fold(self, namespace: str, log: list[Row]) -> None:
        rows, folded_to = self.home.store(namespace)
        known = [row for row in log if row["seq"] <= folded_to]
        expected = in_store(known, naive_fold(known))
        assert set(rows) == set(expected)
        for id, row in rows.items():
            assert {name: row[name] for name in expected[id]} == expected[id]
            assert np.allclose(row["vector"], vector_of(row["embedder"], row["kind"], row["text"]))

    def what_is_found_is_what_there_is(self, namespace: str, now: dict[str, Row]) -> None:
        """What is readable is found; but what came back by the log alone, without a fold, comes with the next fold."""
        readable = {id for id, row in now.items() if row["state"] in ("pending", "active")}
        rows, _ = self.home.store(namespace)
        late = {id for id in readable if id in rows and rows[id]["state"] not in ("pending", "active")}
        for writer in range(2):
            memory = self.home.writers[namespace, writer]
            hits = memory.search("", kinds=KINDS, subject=ANY_SUBJECT, limit=10_000, log_read=False)
            assert {hit.id for hit in hits} | late == readable | late
            assert all(hit.text == now[hit.id]["text"] for hit in hits)

    def everything_can_be_taken_back(self) -> None:
        for namespace in NAMESPACES:
            self.home.settle(namespace)
            live = self.home.store(namespace)
            assert self.home.store(namespace, self.home.rebuild()) == live
            for run in self.home.runs(namespace):
                self.home.undo(namespace, run)
            self.is_what_users_said(self.home.log(namespace))

    def is_what_users_said(self, log: list[Row]) -> None:
        """Once every run is taken back: what runs added is deleted, all else is what users said last."""
        said: dict[str, Row] = {}
        for row in log:
            if not row["run"] and row["verdict"] == "accepted":
                mine = said.setdefault(row["id"], {"there": "pending"})
                mine |= {name: row[name] for name in CHANGING if row[name] is not None}
                if row["decision"] == "restore" and row["state"] in ("superseded", "merged"):
                    mine["state"] = mine["there"]  # it is again what it was, whoever had made it that
                elif row["state"] is not None and row["state"] not in AWAY:
                    mine["there"] = row["state"]
        for id, memory in naive_fold(log).items():
            if memory["run"]:
                assert memory["state"] == "deleted" or said.get(id, {}).get("state") == "pending", memory
            else:
                assert {name: memory[name] for name in CHANGING} == {name: said[id][name] for name in CHANGING}


def run(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        Evolution,
        settings=hypothesis.settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],  # a smaller failure takes minutes to find
            suppress_health_check=list(hypothesis.HealthCheck),
        ),
    )


def test_whatever_happens_the_store_is_the_fold_of_the_log_and_nothing_is_lost() -> None:
    run(3, 10)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_whatever_happens_in_many_more_rounds_the_store_is_the_fold_of_the_log() -> None:
    run(20, 30)
