"""Memory: what an agent reads from, and writes to when it knows something for sure."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Literal

from ..memory_store.capture.masking import Mask
from ..memory_store.clock import END_OF_TIME, Clock, SystemClock, as_utc
from ..memory_store.embedders import embedder_named
from ..memory_store.errors import EmbedderError, HindlakeError, UnknownMemory, UsageError
from ..memory_store.files.lake import Lake
from ..memory_store.history.inbox import Row, write_user_act
from ..memory_store.history.log import settle
from ..memory_store.ids import derive_id, sortable_id
from ..memory_store.recall.reader import Reader
from ..memory_store.records.vectors import embed_rows
from ..memory_store.settings import Settings, check_namespace
from ..memory_store.store.generations import despite_a_switch, ensure, fold_to_head, open_tables
from .arguments import ANY_SUBJECT as ANY_SUBJECT
from .arguments import DEFAULT_KINDS, known, stored
from .looking import Looking
from .read_log import ReadLog
from .searching import Searching

_log = logging.getLogger("hindlake")

Kind = Literal["experience", "fact", "preference", "rule"]
#: Longest text of a memory, in characters.
MAX_TEXT = 20_000
#: After this many writes of one process the inbox is settled and folded, in the background.
SETTLE_WRITES = 256


class Memory(Searching, Looking):
    """The memories of one namespace. Safe to share between threads; make a new one after a fork.

    What `remember` returned for is found by the next search in any process, before any job has run.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        home: str | None = None,
        namespace: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Open the memory of a home. `home` and `namespace` win over the settings; raises `SettingsError`."""
        settings = Settings.chosen(settings, home=home, namespace=namespace)
        #: The settings in force
        self.settings = settings
        #: The namespace that is read and written
        self.namespace = check_namespace(settings.namespace)
        self._clock = clock or SystemClock()
        self._lake = Lake.open(settings)
        self._reader = Reader(self._lake, settings, self._clock)
        self._mask = Mask(settings.recorder.mask_secrets, settings.recorder.mask_personal)
        self._reads = ReadLog(settings, self._clock, self._mask)
        self._writes = 0
        self._settling: threading.Thread | None = None

    def __enter__(self) -> Memory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Wait for what runs in the background, and bring logged reads into the lake. Nothing is lost without it."""
        self._reads.close()
        if self._settling is not None:
            self._settling.join()

    def remember(
        self,
        text: str,
        kind: Kind = "fact",
        *,
        subject: str = "",
        importance: float = 0.5,
        confidence: float = 1.0,
        entities: Sequence[str] = (),
        tags: Sequence[str] = (),
        attribute: str = "",
        value: str = "",
        task_type: str = "",
        tool: str = "",
        outcome: str = "",
        error_code: str = "",
        agent_role: str = "",
        said_by: str = "user",
        valid_from: datetime | None = None,
        key: str = "",
    ) -> str:
        """Write a memory and return its id. It is in the lake and readable when this returns, state `pending`.

        A job compares it with what is there later. `attribute` and `value` ("budget", "8000") let a newer value
        supersede the older one. With `key`, the same call made again, after a time-out or in another process, is the
        same memory. Secrets are masked. Raises `UsageError` for what can't be meant, `LakeError` if it was not kept.
        """
        act = derive_id(self.namespace, "act", "remember", key) if key else sortable_id()
        row = self._row(
            text, kind, act, subject=subject, importance=importance, confidence=confidence, entities=entities,
            tags=tags, attribute=attribute, value=value, task_type=task_type, tool=tool, outcome=outcome,
            error_code=error_code, agent_role=agent_role, said_by=said_by, valid_from=valid_from,
        )  # fmt: skip
        self._write(act, [row])
        return str(row["id"])

    def update(
        self, /, id: str, text: str, *, valid_from: datetime | None = None, key: str = "", **columns: Any
    ) -> str:
        """Say what a memory should say now: a new memory that supersedes it, whose id is returned.

        What is not given in `columns` (those of `remember`) is taken from the old one. The old text stays readable
        in `explain`. Raises `UnknownMemory`.
        """
        old = self._live(id)
        act = derive_id(self.namespace, "act", "update", key) if key else sortable_id()
        kept = {name: old[name] for name in _CARRIED if old.get(name) is not None}
        if unknown := columns.keys() - set(_CARRIED):
            raise UsageError(f"update can't set {', '.join(sorted(unknown))}: it takes {', '.join(_CARRIED)}")
        row = self._row(text, old["kind"], act, valid_from=valid_from, **{**kept, **columns})
        row["derived_from"] = [id]
        until = row["valid_from"]
        old_row: Row = {
            "act": act,
            "at": row["at"],
            "decision": "supersede",
            "id": id,
            "state": "superseded",
            "superseded_by": row["id"],
            "valid_to": until,
            "reason": "updated",
        }
        self._write(act, [row, old_row])
        return str(row["id"])

    def forget(self, id: str, reason: str = "") -> None:
        """Stop returning a memory, at once and in every process. It can be restored. Raises `UnknownMemory`."""
        self._live(id)
        act = sortable_id()
        row: Row = {"act": act, "at": self._clock.now(), "decision": "forget", "id": id, "state": "deleted"}
        self._write(act, [{**row, "reason": reason or "forgotten on request"}])

    def restore(self, id: str, reason: str = "") -> str:
        """Bring back a memory that was forgotten, archived or quarantined, and return the state that it has now.

        It is `pending`: readable at once, and compared anew with what was written meanwhile. One that had a successor
        when it was forgotten has it still, and is `superseded` or `merged` again. Raises `UnknownMemory`, and
        `UsageError` for a memory that is not away or was purged.
        """
        found = self.explain(id)
        if any(step.decision == "purge" and step.verdict != "refused" for step in found.decisions):
            raise UsageError(f"memory {id} was purged: nothing brings it back")
        if found.memory["state"] not in _AWAY:
            raise UsageError(f"memory {id} is {found.memory['state']}: only {', '.join(_AWAY)} ones can be restored")
        states = [step.sets["state"] for step in found.decisions if step.verdict != "refused" and "state" in step.sets]
        before = next((state for state in reversed(states) if state not in _AWAY), "pending")
        fresh = "active" if found.memory["kind"] == "alias" else "pending"  # names are compared with nothing
        state = before if before in ("superseded", "merged") and found.memory["superseded_by"] else fresh
        act = sortable_id()
        row: Row = {"act": act, "at": self._clock.now(), "decision": "restore", "id": id, "state": state}
        self._write(act, [{**row, "reason": reason or "restored on request"}])
        self._settle()  # it may lie in cold storage, from which the fold brings it back
        return state

    def _row(
        self,
        text: str,
        kind: str,
        act: str,
        *,
        valid_from: datetime | None,
        importance: float = 0.5,
        confidence: float = 1.0,
        entities: Sequence[str] = (),
        tags: Sequence[str] = (),
        said_by: str = "user",
        **columns: str,
    ) -> Row:
        if not isinstance(text, str) or not text.strip():
            raise UsageError("a memory needs a text")
        if len(text) > MAX_TEXT:
            raise UsageError(f"the text has {len(text)} characters, {MAX_TEXT} at most: remember its parts, or log it")
        known((kind,), DEFAULT_KINDS, "kind")
        known((said_by,), _SPEAKERS, "said_by")
        for name, number in (("importance", importance), ("confidence", confidence)):
            if not (isinstance(number, int | float) and math.isfinite(number) and 0 <= number <= 1):
                raise UsageError(f"{name} is {number!r}: it goes from 0 to 1")
        now = self._clock.now()
        row: Row = {
            **{name: stored(value) for name, value in columns.items()},
            "act": act,
            "at": now,
            "decision": "add",
            "id": derive_id(self.namespace, "mem", act),
            "reason": "remembered",
            "kind": kind,
            "text": self._mask.text(stored(text))[0],
            "entities": [stored(name) for name in entities],
            "tags": [stored(name) for name in tags],
            "said_by": said_by,
            "evidence": [],
            "derived_from": [],
            "importance": float(importance),
            "confidence": float(confidence),
            "strength": 1.0,
            "state": "pending",
            "valid_from": now if valid_from is None else as_utc(valid_from),
            "valid_to": END_OF_TIME,
            "superseded_by": "",
        }
        try:
            embed_rows(self._reader.embedder(), [row])
        except EmbedderError:
            return row  # the fold embeds it, or says why it can't
        return row

    def _live(self, id: str) -> dict[str, Any]:
        memory = self.explain(id).memory
        if memory["state"] in ("deleted", "refused"):
            raise UnknownMemory(f"memory {id} is {memory['state']}")
        return memory

    def _write(self, act: str, rows: list[Row]) -> None:
        write_user_act(self._lake, self.namespace, rows, act)
        self._reader.forget_overlays()
        self._writes += 1
        if self._writes % SETTLE_WRITES == 0 and (self._settling is None or not self._settling.is_alive()):
            self._settling = threading.Thread(target=self._settle_behind, name="hindlake-settle", daemon=True)
            self._settling.start()

    def _settle_behind(self) -> None:
        """Settle beside what the agent does: a failure is no failure of its call, and the next job makes up for it."""
        try:
            self._settle()
        except HindlakeError as error:
            _log.warning("what was remembered is kept, and is folded later: %s", error)

    def _settle(self) -> None:
        settle(self._lake, self.namespace)
        despite_a_switch(self._lake, self._fold)

    def _fold(self) -> None:
        generation = ensure(self._lake, self.settings, self._clock)
        # Not the reader's embedder: readers may be switched to another generation in between.
        embedder = embedder_named(generation.embedder, self.settings)
        fold_to_head(self._lake, open_tables(self.settings, generation), self.namespace, embedder)


_SPEAKERS = ("user", "agent", "tool", "web", "reflection")
#: States of memories that can be restored.
_AWAY = ("deleted", "archived", "quarantined")
_CARRIED = (
    "subject", "importance", "confidence", "entities", "tags", "attribute", "value", "task_type", "tool", "outcome",
    "error_code", "agent_role", "said_by",
)  # fmt: skip
