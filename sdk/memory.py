"""Memory: what an agent reads from, and writes to when it knows something for sure."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Literal

from ..memory_store.as_of import past, search_past
from ..memory_store.clock import END_OF_TIME, Clock, SystemClock, as_utc
from ..memory_store.embedders import embedder_named
from ..memory_store.errors import EmbedderError, UnknownMemory, UsageError
from ..memory_store.generations import ensure, fold_to_head, open_tables
from ..memory_store.ids import derive_id, sortable_id
from ..memory_store.inbox import Row, write_user_act
from ..memory_store.lake import Lake
from ..memory_store.log import settle
from ..memory_store.masking import Mask
from ..memory_store.moments import Moment
from ..memory_store.predicates import Filter
from ..memory_store.reader import Reader
from ..memory_store.settings import Settings, check_namespace
from ..memory_store.vectors import embed_rows
from .arguments import ANY_SUBJECT, DEFAULT_KINDS, filter_of, given, known, many, stored
from .context import PROMPT_TOKENS, Context, Source
from .gather import gather
from .hits import Hit, hit_of
from .looking import Looking
from .read_log import ReadLog
from .working import Turn

Kind = Literal["experience", "fact", "preference", "rule"]
#: Longest text of a memory, in characters.
MAX_TEXT = 20_000
#: After this many writes of one process the inbox is settled and folded, in the background.
SETTLE_WRITES = 256


class Memory(Looking):
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
        if settings is None:
            settings = Settings.load(home=home, namespace=namespace)
        elif home is not None or namespace is not None:
            settings = Settings.load(**{**dict(settings), **given(home=home, namespace=namespace)})
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

    def update(self, id: str, text: str, *, valid_from: datetime | None = None, key: str = "", **columns: Any) -> str:
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
        state = before if before in ("superseded", "merged") and found.memory["superseded_by"] else "pending"
        act = sortable_id()
        row: Row = {"act": act, "at": self._clock.now(), "decision": "restore", "id": id, "state": state}
        self._write(act, [{**row, "reason": reason or "restored on request"}])
        self._settle()  # it may lie in cold storage, from which the fold brings it back
        return state

    def search(
        self,
        query: str,
        *,
        kinds: Sequence[str] | None = None,
        subject: str | Sequence[str] | None = None,
        task_type: str | Sequence[str] | None = None,
        tool: str | Sequence[str] | None = None,
        outcome: str | Sequence[str] | None = None,
        error_code: str | Sequence[str] | None = None,
        agent_role: str | Sequence[str] | None = None,
        entities: Sequence[str] | None = None,
        tags: Sequence[str] | None = None,
        states: Sequence[str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 5,
        as_of: Moment | None = None,
        trace: str = "",
        log_read: bool = True,
    ) -> list[Hit]:
        """The memories that answer a query, best first: filtered first, then by words and by meaning.

        A filter takes one value or several, any of which will do. Without `kinds`, all but episodes and their
        passages: a passage is one turn or step, cited by its event in `evidence`. Facts and
        preferences about a subject are returned only when `subject` names it; what has no subject is shared.
        `since` and `until` bound the time since when a memory holds. An empty query lists the newest.
        The read is logged for the task `trace`, else for the one that a recorder of this process runs in this
        context; outcomes of tasks tell later which memories help. `log_read=False` where no agent is answered.
        `as_of`, a time or a place in the log, asks what was known then (N3): every memory of then is looked at, in
        the state of then; such a read is not logged.
        Raises `UsageError` for a filter that can't be meant.
        """
        if limit < 1:
            raise UsageError(f"limit is {limit}: ask for at least one")
        where = filter_of(
            self.namespace, kinds=kinds, subject=subject, task_type=task_type, tool=tool, outcome=outcome,
            error_code=error_code, agent_role=agent_role, entities=entities, tags=tags, states=states, since=since,
            until=until,
        )  # fmt: skip
        if as_of is not None:
            then = [past(self._lake, self.namespace, as_of)]
            embedder, how = self._reader.embedder(), self.settings.search
            return [
                hit_of(found) for found in search_past(self._lake, then, embedder, stored(query), where, how, limit)
            ]
        answer = self._reader.answer(stored(query), where, limit)
        read_id = ""
        if log_read and self.settings.search.log_reads and answer.hits:
            read_id = self._reads.returned(
                stored(query), where, [hit.row["id"] for hit in answer.hits], trace=stored(trace),
                generation=answer.generation, seq=answer.seq[self.namespace], injected=False,
            )  # fmt: skip
        return [hit_of(found, read_id) for found in answer.hits]

    def used(self, hits: Sequence[Hit | str], *, trace: str = "") -> None:
        """Say which hits (or ids) were put before the model: only they count as read, and take part in the credit
        for how the task ends. Without it, all that a search returned do.
        """
        by_read: dict[str, list[str]] = {}
        for hit in hits:
            read_id, id = (hit.read_id, hit.id) if isinstance(hit, Hit) else ("", stored(hit))
            by_read.setdefault(read_id, []).append(id)
        if self.settings.search.log_reads:
            for read_id, ids in by_read.items():
                self._reads.used(read_id, ids, trace=stored(trace))

    def context(
        self,
        task: str,
        *,
        subject: str = "",
        budget_tokens: int = PROMPT_TOKENS,
        working: Sequence[Turn] | str = (),
        knowledge: Mapping[str, Source] | None = None,
        count_tokens: Callable[[str], int] | None = None,
        trace: str = "",
        **filters: Any,
    ) -> Context:
        """What an agent should read before it works on a task: a block of text, and the ids of what is in it (R26).

        The block fits into what the task and `working`, the turns of the conversation, leave of `budget_tokens`.
        `knowledge` are other sources by name, functions from the task to texts: they have a part of their own (R27).
        `filters` are those of `search`. What is in the block counts as read by the task `trace`, or by the one that
        a recorder of this process runs here. Raises `UsageError` for what can't be meant, and what a source raises.
        """
        context, inside = gather(
            self, stored(task), budget_tokens=budget_tokens, working=working, subject=stored(subject),
            knowledge=knowledge or {}, count=count_tokens, now=self._clock.now(), filters={"trace": trace, **filters},
        )  # fmt: skip
        self.used(inside, trace=trace)
        return context

    def predecessors(self, ids: Sequence[str], subject: str | None, tags: Any) -> list[tuple[str, Hit]]:
        """Memories whose place those named took, each with its successor's id, if `subject` and `tags` let it pass."""
        if not ids:
            return []
        whose = None if subject == ANY_SUBJECT else many(subject) or ()
        names = (self.namespace,)
        where = Filter(names, DEFAULT_KINDS, ("superseded",), whose, tags=many(tags), superseded_by=tuple(ids))
        found = self._reader.search("", where, 4 * len(ids))
        return [(hit.row["superseded_by"], hit_of(hit)) for hit in found]

    def recent(self, subject: str, *, hours: float | None = None, limit: int = 5) -> list[Hit]:
        """Digests of the tasks of a subject that ended lately, newest first (R1): there the moment a task has ended.

        `hours` is `recorder.working_hours`, one day, unless given.
        """
        if not subject:
            raise UsageError("recent needs a subject: whose tasks?")
        window = timedelta(hours=self.settings.recorder.working_hours if hours is None else hours)
        return self.search(
            "", kinds=["episode"], subject=subject, since=self._clock.now() - window, limit=limit
        )  # fmt: skip

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
            self._settling = threading.Thread(target=self._settle, name="hindlake-settle", daemon=True)
            self._settling.start()

    def _settle(self) -> None:
        settle(self._lake, self.namespace)
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
