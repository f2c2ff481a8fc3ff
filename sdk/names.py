"""Names: what a user says of names, that two stand for one thing, or that a kind of task is one of a class (R28); and
what memories bring together with a name (R23).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ..memory_store.clock import Clock, SystemClock
from ..memory_store.errors import UnknownMemory, UsageError
from ..memory_store.files.lake import Lake
from ..memory_store.history.inbox import Row, write_user_act
from ..memory_store.history.overlay import OverlayReader
from ..memory_store.ids import derive_id, sortable_id
from ..memory_store.recall.predicates import READABLE, Filter
from ..memory_store.recall.relations import Neighbour, mentions_in, neighbours
from ..memory_store.records.purged import blocked
from ..memory_store.schema import ALIAS
from ..memory_store.settings import Settings, check_namespace
from ..memory_store.store.generations import ensure, open_tables
from ..memory_store.store.tables import Tables
from ..memory_store.text.aliases import (
    Alias,
    NameBook,
    Sort,
    alias_id,
    alias_row,
    same_name,
    stored_aliases,
    subject_of,
    superseded_row,
    with_overlay,
)
from ..memory_store.text.taxonomy import TaskType
from .arguments import filter_of, stored


class Names:
    """The names of one namespace: aliases of things, and the taxonomy of kinds of tasks.

    What is said here is in the lake when the call returns, and holds in every process from then on. Searches ask for
    every name of what they name; texts and entities of memories stay as they were written.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        home: str | None = None,
        namespace: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Open the names of a home. `home` and `namespace` win over the settings; raises `SettingsError`."""
        settings = Settings.chosen(settings, home=home, namespace=namespace)
        #: The settings in force
        self.settings = settings
        #: The namespace that is read and written
        self.namespace = check_namespace(settings.namespace)
        self._clock = clock or SystemClock()
        self._lake = Lake.open(settings)
        self._overlay = OverlayReader(self._lake, self.namespace)

    def alias(self, name: str, of: str, *, subject: str = "", reason: str = "", key: str = "") -> str:
        """Say that a name stands for the same thing as another one, which is the usual name; return the alias's id.

        With `subject`, it holds in that subject's memories alone: two users' Bobs are two people. What the name stood
        for before, it stands for no more. With `key`, the same call made again is the same alias. Raises `UsageError`
        for names that are empty or one already.
        """
        return self._say("entity", stored(name), stored(of), stored(subject), stored(reason), key)

    def map_task_type(self, name: str, to: str, *, reason: str = "", key: str = "") -> str:
        """Say to which class of the taxonomy an agent's name of a kind of task belongs; return the id of the mapping.

        A search for either finds what was learned under both. Raises `UsageError` as `alias` does.
        """
        return self._say("task_type", stored(name), stored(to), "", stored(reason), key)

    def take_back(self, id: str, reason: str = "") -> None:
        """Take back an alias or a mapping. What it hid or joined is as if it had never been; saying it again is
        allowed. Raises `UnknownMemory` for an id of none that holds.
        """
        if id not in {alias.id for alias in self.aliases()}:
            raise UnknownMemory(
                f"no alias {id} holds in namespace {self.namespace}: `hindlake aliases list` shows them"
            )
        act = sortable_id()
        row: Row = {"act": act, "at": self._clock.now(), "decision": "forget", "id": id, "state": "deleted"}
        write_user_act(self._lake, self.namespace, [{**row, "reason": reason or "taken back"}], act)

    def aliases(self, sort: Sort | None = None, *, every: bool = False) -> list[Alias]:
        """The aliases and mappings that hold, oldest first; with `every`, also what was taken back or replaced."""
        tables = self._tables()
        overlay = self._overlay.read(tables.folded_to(self.namespace))
        return [
            alias
            for alias in with_overlay(stored_aliases(tables, self.namespace), overlay)
            if (every or alias.state in READABLE) and sort in (None, alias.sort)
        ]

    def task_types(self) -> list[TaskType]:
        """The names of kinds of tasks that memories have or that were mapped, by class, with counts."""
        tables = self._tables()
        overlay = self._overlay.read(tables.folded_to(self.namespace))
        classes = NameBook(self.aliases()).task_types
        where = Filter((self.namespace,), not_kinds=(ALIAS,), not_task_types=("",), not_ids=tuple(overlay.states))
        counts = Counter(tables.scan(where, ["task_type"]).column("task_type").to_pylist())
        fresh = zip(*(overlay.added.column(name).to_pylist() for name in ("task_type", "state")), strict=True)
        counts.update(name for name, state in fresh if name and state in READABLE)
        known = {name for names in classes.groups().values() for name in names}
        found = [TaskType(name, classes.usual(name), name in known, counts[name]) for name in sorted({*counts, *known})]
        return sorted(found, key=lambda one: (not one.is_mapped, one.of, one.name != one.of, one.name))

    def relations(
        self, name: str, *, subject: str | Sequence[str] | None = None, steps: int = 1, limit: int = 20
    ) -> list[Neighbour]:
        """Things that memories bring together with one that is named, closest first; with `steps=2`, also what is
        together with those. `subject` as in `Memory.search`. Raises `UsageError` for other steps than 1 and 2.
        """
        if steps not in (1, 2) or limit < 1:
            raise UsageError(
                f"{steps} steps, {limit} things: relations are walked 1 or 2 steps, for at least one thing"
            )
        tables = self._tables()
        overlay = self._overlay.read(tables.folded_to(self.namespace))
        where = filter_of(self.namespace, subject=subject)
        hidden = tuple(id for id, state in overlay.states.items() if state not in READABLE)
        where = replace(where, not_ids=hidden)
        classes = NameBook(self.aliases("entity")).entities(subject_of(where))
        look = mentions_in(tables, where, fresh=overlay.added.to_pylist())
        return neighbours(look, [stored(name)], classes, steps=steps, limit=limit)

    def _say(self, sort: Sort, name: str, of: str, subject: str, reason: str, key: str) -> str:
        now = self._clock.now()
        act = derive_id(self.namespace, "act", ALIAS, key) if key else sortable_id()
        id = alias_id(self.namespace, sort, name.strip(), of.strip(), subject)
        if id in blocked(self._lake, self.namespace).ids:
            id = derive_id(self.namespace, ALIAS, act)  # what was purged stays so; this is said anew
        row = alias_row(
            self.namespace, sort, name, of, at=now, subject=subject, reason=reason or "said by a user", id=id
        )  # fmt: skip
        older = [alias for alias in self.aliases(sort) if alias.subject == subject and alias.id != id]
        rows = [row, *(superseded_row(old, id, now) for old in older if same_name(sort, old.name, name))]
        write_user_act(self._lake, self.namespace, [{**one, "act": act} for one in rows], act)
        return id

    def _tables(self) -> Tables:
        return open_tables(self.settings, ensure(self._lake, self.settings, self._clock))
