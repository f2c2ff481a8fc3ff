"""What a `Memory` finds: one query or many, page by page, or a block for a prompt; and what was read, logged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypedDict, Unpack

from ..memory_store.clock import Clock
from ..memory_store.errors import UsageError
from ..memory_store.files.lake import Lake
from ..memory_store.history.as_of import past, search_past
from ..memory_store.history.moments import Moment
from ..memory_store.recall.conditions import Condition
from ..memory_store.recall.predicates import Filter
from ..memory_store.recall.reader import Answer, Reader
from ..memory_store.settings import Settings
from .arguments import ANY_SUBJECT, DEFAULT_KINDS, filter_of, many, stored
from .context import EXPERIENCES, PROMPT_TOKENS, Context, Source
from .gather import gather
from .hits import Hit, Page, hit_of
from .read_log import ReadLog
from .working import Turn

#: Hits that a search returns unless it says how many (R24); of experiences alone `EXPERIENCES`.
LIMIT = 5


class Filters(TypedDict, total=False):
    """What a search keeps to: the filters of `Memory.search`."""

    kinds: Sequence[str] | None
    subject: str | Sequence[str] | None
    task_type: str | Sequence[str] | None
    tool: str | Sequence[str] | None
    outcome: str | Sequence[str] | None
    error_code: str | Sequence[str] | None
    agent_role: str | Sequence[str] | None
    entities: Sequence[str] | None
    tags: Sequence[str] | None
    states: Sequence[str] | None
    since: datetime | None
    until: datetime | None
    where: Condition | None


class Searching:
    """The part of `Memory` that finds; a base class, made by no one."""

    #: The settings in force
    settings: Settings
    #: The namespace that is read
    namespace: str
    _lake: Lake
    _clock: Clock
    _reader: Reader
    _reads: ReadLog

    def search(
        self,
        query: str,
        *,
        limit: int | None = None,
        as_of: Moment | None = None,
        trace: str = "",
        log_read: bool = True,
        **filters: Unpack[Filters],
    ) -> list[Hit]:
        """The memories that answer a query, best first: filtered first, then by words and by meaning.

        Filters: `kinds`, `subject`, `task_type`, `tool`, `outcome`, `error_code`, `agent_role`, `entities`, `tags`,
        `states`, `since`, `until`, `where`. Each takes one value or several, any of which will do; `where` takes a
        condition that combines them (`hindlake.where`). Without `kinds`, all but episodes and their passages: a
        passage is one turn or step, cited by its event in `evidence`. Facts and preferences about a subject are
        returned only when `subject` names it; what has no subject is shared. `since` and `until` bound the time since
        when a memory holds. An empty query lists the newest. `limit` is 5, and 3 where only experiences are asked for.
        The read is logged for the task `trace`, else for the one that a recorder of this process runs in this
        context; outcomes of tasks tell later which memories help. `log_read=False` where no agent is answered.
        `as_of`, a time or a place in the log, asks what was known then (N3): every memory of then is looked at, in
        the state of then; such a read is not logged, and no reranker is asked.
        Raises `UsageError` for a filter that can't be meant.
        """
        where = filter_of(self.namespace, **filters)
        most = _limit(limit, where)
        if as_of is not None:
            then = [past(self._lake, self.namespace, as_of)]
            embedder, how = self._reader.embedder(), self.settings.search
            return [hit_of(found) for found in search_past(self._lake, then, embedder, stored(query), where, how, most)]
        return self._logged(stored(query), where, self._reader.answer(stored(query), where, most), trace, log_read)

    def search_many(
        self,
        queries: Sequence[str],
        *,
        limit: int | None = None,
        trace: str = "",
        log_read: bool = True,
        **filters: Unpack[Filters],
    ) -> list[list[Hit]]:
        """What `search` finds for each of some queries, in their order; they are embedded in one call.

        Each is logged as a read of its own.
        """
        if isinstance(queries, str):
            raise UsageError("search_many takes a list of queries: for one, call search")
        where = filter_of(self.namespace, **filters)
        asked = [stored(query) for query in queries]
        answers = self._reader.answers(asked, where, _limit(limit, where))
        found = zip(asked, answers, strict=True)
        return [self._logged(query, where, answer, trace, log_read) for query, answer in found]

    def search_page(
        self,
        query: str,
        *,
        limit: int | None = None,
        cursor: str = "",
        trace: str = "",
        log_read: bool = True,
        **filters: Unpack[Filters],
    ) -> Page:
        """Some of what a search finds, and the cursor of the page after it, to be given with the same arguments.

        The ranking is made for the first page, and the cursor holds the rest of it, 200 hits in all; an empty query
        lists everything that passes. So pages repeat and lose nothing, whatever is written, folded or built anew
        meanwhile, in any process; what was forgotten since is left out. Hits of later pages have score and relevance,
        no legs. Raises `UsageError` for a cursor that is none, or another search's.
        """
        where = filter_of(self.namespace, **filters)
        answer, following = self._reader.page(stored(query), where, _limit(limit, where), cursor)
        return Page(tuple(self._logged(stored(query), where, answer, trace, log_read)), following)

    def _logged(self, query: str, where: Filter, answer: Answer, trace: str, log_read: bool) -> list[Hit]:
        """The hits of an answer, which is logged as a read; that nothing was found, too."""
        read_id = ""
        if log_read and self.settings.search.log_reads:
            read_id = self._reads.returned(
                query, where, [hit.row["id"] for hit in answer.hits], trace=stored(trace),
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
        /,
        task: str,
        *,
        subject: str = "",
        budget_tokens: int = PROMPT_TOKENS,
        working: Sequence[Turn] | str = (),
        knowledge: Mapping[str, Source] | None = None,
        count_tokens: Callable[[str], int] | None = None,
        as_of: Moment | None = None,
        trace: str = "",
        log_read: bool = True,
        **filters: Any,
    ) -> Context:
        """What an agent should read before it works on a task: a block of text, and the ids of what is in it (R26).

        The block fits into what the task and `working`, the turns of the conversation, leave of `budget_tokens`.
        `knowledge` are other sources by name, functions from the task to texts: they have a part of their own (R27).
        `as_of` and `filters` are those of `search`, but for `kinds` and `limit`. What is in the block is logged as one
        read by the task `trace`, or by the one that a recorder of this process runs here. Raises `UsageError` for what
        can't be meant, and what a source raises.
        """
        context, inside = gather(
            self, stored(task), budget_tokens=budget_tokens, working=working, subject=stored(subject),
            knowledge=knowledge or {}, count=count_tokens, now=self._clock.now(), filters={**filters, "as_of": as_of},
        )  # fmt: skip
        if inside and log_read and self.settings.search.log_reads and as_of is None:
            where = filter_of(
                self.namespace, kinds=("episode", *DEFAULT_KINDS), subject=stored(subject) or None, **filters
            )
            generation, seq = self._reader.place(self.namespace)
            self._reads.returned(
                stored(task), where, [hit.id for hit in inside], trace=stored(trace), generation=generation, seq=seq,
                injected=True,
            )  # fmt: skip
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

    def recent(
        self, subject: str, *, hours: float | None = None, limit: int = LIMIT, log_read: bool = True
    ) -> list[Hit]:
        """Digests of the tasks of a subject that ended lately, newest first (R1): there the moment a task has ended.

        `hours` is `recorder.working_hours`, one day, unless given.
        """
        if not subject:
            raise UsageError("recent needs a subject: whose tasks?")
        window = timedelta(hours=self.settings.recorder.working_hours if hours is None else hours)
        since = self._clock.now() - window
        return self.search("", kinds=["episode"], subject=subject, since=since, limit=limit, log_read=log_read)


def _limit(limit: int | None, where: Filter) -> int:
    """How many hits are asked for. Raises `UsageError` for less than one."""
    if limit is None:
        return EXPERIENCES if where.kinds == ("experience",) else LIMIT
    if limit < 1:
        raise UsageError(f"limit is {limit}: ask for at least one")
    return limit
