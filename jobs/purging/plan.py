"""What a purge is to remove: the memories, the events that they rest on, and how their text is recognised (N10)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ...memory_store.capture.traces import read_trace_files, scan_events
from ...memory_store.errors import UnknownMemory, UsageError
from ...memory_store.files.lake import Lake
from ...memory_store.files.store_files import generation_folders
from ...memory_store.history.inbox import Row, inbox_paths
from ...memory_store.history.log import read_log
from ...memory_store.records.pieces import WINDOW, Pieces, is_telling, plain, strings
from ...memory_store.records.purged import Blocked, Purge
from ...memory_store.records.vectors import namespace_key, text_hash, text_to_embed
from ...memory_store.schema import ADDING, ALIAS, conform
from ...memory_store.settings import Settings

#: Columns that say what a memory is about.
_TEXTS = ("text", "trigger", "action", "avoid", "why", "not_when")
_COLUMNS = ["id", "act", "decision", "verdict", "kind", "subject", "attribute", "value", "evidence", "derived_from",
            "state", "superseded_by", *_TEXTS]  # fmt: skip
#: Columns of events that are searched for the same statement.
_SPOKEN = ["trace_id", "event_id", "content", "arguments", "result", "error_message"]
#: Share of a text's pieces at which another text says the same.
_SAME = 0.5
#: Characters from which on a quote is a statement of its own, not a phrase.
_STATEMENT = 40
#: Places that a plan names of one sort; of more it gives the number.
LISTED = 50


@dataclass(frozen=True)
class Asked:
    """What a user wants purged; one of the three at least."""

    ids: tuple[str, ...] = ()
    #: Everything about somebody, and the traces of their tasks
    subject: str = ""
    #: A trace, and what rests on it alone
    trace: str = ""


@dataclass
class Plan:
    """A purge, and what the user should know before it is done."""

    purge: Purge
    #: Memories that stay and have something in common with what is purged, and what
    related: dict[str, str] = field(default_factory=dict)
    #: Events of other traces that say the same, as trace and event
    same_in_traces: list[tuple[str, str]] = field(default_factory=list)
    #: Purged texts that other memories or traces say too, word by word, so that a copy can't be told from theirs
    indistinct: int = 0


def plan_purge(lake: Lake, settings: Settings, namespace: str, asked: Asked, purge_id: str, now: datetime) -> Plan:
    """What a purge of this would remove. Reads only. Raises `UnknownMemory`, and `UsageError` if nothing is asked."""
    if not (asked.ids or asked.subject or asked.trace):
        raise UsageError("nothing to purge: name memories by id, or give --subject or --trace")
    memories, gone = _memories(lake, namespace)
    if unknown := [id for id in asked.ids if id not in memories and id not in gone]:
        raise UnknownMemory(f"no memory {', '.join(unknown)} in namespace {namespace}: `hindlake search` shows ids")
    episodes = [memories[id] for id in asked.ids if id in memories and memories[id]["kind"] == "episode"]
    traces, events = _asked_events(lake, namespace, asked, {trace for row in episodes for trace in _traces(row)})
    chosen = dict.fromkeys((id for id in asked.ids if id in memories), "named")
    chosen |= {
        id: "about the subject" for id, row in memories.items() if asked.subject and row["subject"] == asked.subject
    }
    key = namespace_key(lake, namespace)
    while True:
        more = _rest(memories, chosen, traces, events, key)
        if not more:
            break
        chosen |= more
    every = events | _evidence(memories[id] for id in chosen)
    purge = Purge(
        purge_id=purge_id,
        namespace=namespace,
        asked_at=now,
        ids=sorted(chosen),
        events=sorted(every),
        traces=sorted(traces),
        vectors=_vector_hashes(memories, chosen, key),
        generations=generation_folders(settings),
        also={id: why for id, why in chosen.items() if why not in ("named", "about the subject")},
    )
    plan = Plan(purge)
    _look_around(lake, namespace, plan, memories, asked, key)
    return plan


def _memories(lake: Lake, namespace: str) -> tuple[dict[str, Row], set[str]]:
    """Every memory and refused candidate with what the log says of it now, and the ids that were purged."""
    memories: dict[str, Row] = {}
    gone: set[str] = set()
    rows = read_log(lake, namespace, 0, _COLUMNS).to_pylist()
    for _, waiting in lake.read_tables(inbox_paths(lake, namespace, user_only=True)):
        rows += conform(waiting, "log").select(_COLUMNS).to_pylist()
    for row in sorted(rows, key=lambda row: row["decision"] not in ADDING):  # in the inbox, acts lie in no order
        if row["decision"] == "purge" and row["verdict"] != "refused":
            gone.add(row["id"])
        if row["decision"] in (*ADDING, "refuse") or row["verdict"] == "refused":
            # A refused candidate says something too; a memory of the same id says it first.
            known = memories.setdefault(row["id"], row)
            if known["text"] is None:
                memories[row["id"]] = row
        elif row["id"] in memories:
            changed = {name: row[name] for name in ("state", "superseded_by") if row[name] is not None}
            memories[row["id"]] = {**memories[row["id"]], **changed}
    return {id: row for id, row in memories.items() if id not in gone and row["text"]}, gone


def _asked_events(lake: Lake, namespace: str, asked: Asked, traces: set[str]) -> tuple[set[str], set[tuple[str, str]]]:
    """Traces that are asked for as a whole, and their events. `traces`: those of episodes that are named."""
    if not (asked.subject or asked.trace or traces):
        return set(), set()
    rows = scan_events(lake, namespace, ["subject"]).to_pylist()
    traces |= {row["trace_id"] for row in rows if asked.subject and row["subject"] == asked.subject}
    if asked.trace:
        if asked.trace not in {row["trace_id"] for row in rows}:
            raise UsageError(f"no trace {asked.trace} in namespace {namespace}: `hindlake explain ID` names traces")
        traces.add(asked.trace)
    return traces, {(row["trace_id"], row["event_id"]) for row in rows if row["trace_id"] in traces}


def _evidence(rows: Iterable[Row]) -> set[tuple[str, str]]:
    """Events that memories rest on. An episode is its trace, not what it quotes of it."""
    some = (row for row in rows if row["kind"] != "episode")
    return {(item["trace_id"], item["event_id"]) for row in some for item in row["evidence"] or ()}


def _traces(row: Row) -> set[str]:
    return {item["trace_id"] for item in row["evidence"] or ()}


def _said(row: Row) -> list[str]:
    return [row[name] for name in _TEXTS if row[name]]


def _needles(memories: dict[str, Row], chosen: Iterable[str], traces: set[str]) -> list[str]:
    """Texts by which copies are recognised: what the memories say, and what was quoted for it.

    An episode says all of its trace, which is only to go where the trace is. A quote of a word or two tells nothing.
    """
    rows = [row for id in chosen if (row := memories[id])["kind"] != "episode" or _traces(row) <= traces]
    return [text for row in rows for text in _said(row)] + [
        item["quote"] for row in rows for item in row["evidence"] or () if is_telling(item["quote"] or "")
    ]


def _rest(
    memories: dict[str, Row], chosen: dict[str, str], traces: set[str], events: set[tuple[str, str]], key: bytes
) -> dict[str, str]:
    """Memories that go too, and why: made of one that goes, or its words once more, from the same trace."""
    more: dict[str, str] = {}
    asked = Blocked(
        [Purge(purge_id="", namespace="", asked_at=datetime.min, ids=[], events=sorted(events), traces=sorted(traces))]
    )
    its_traces = traces | {trace for trace, _ in _evidence(memories[id] for id in chosen)}
    others = [row for id, row in memories.items() if id not in chosen]
    beside = [row for row in others if any(item["trace_id"] in its_traces for item in row["evidence"] or ())]
    pieces = Pieces.of(_needles(memories, chosen, traces), key)
    counts = pieces.hits(["\n".join(_said(row)) for row in beside])
    for place, row in enumerate(beside):
        length = max(1, len(plain("\n".join(_said(row)))) - WINDOW + 1)
        if counts[place] and (row["kind"] == "episode" or counts[place] >= _SAME * length):
            more[row["id"]] = "says it too, from the same trace"
    for row in others:
        if asked.rests_on_it_alone(row["evidence"]):
            more[row["id"]] = "rests on nothing else"
        parents = row["derived_from"] or ()
        if row["kind"] == ALIAS and parents and chosen.keys() >= set(parents):
            more[row["id"]] = "was learned from nothing else"
        for parent in parents:
            if (
                parent in chosen
                and memories[parent]["state"] == "merged"
                and memories[parent]["superseded_by"] == row["id"]
            ):
                more[row["id"]] = f"was composed of {parent}"
    return more


def _vector_hashes(memories: dict[str, Row], chosen: dict[str, str], key: bytes) -> list[str]:
    return sorted({text_hash(key, text_to_embed(memories[id]["kind"], memories[id]["text"])).hex() for id in chosen})


def _look_around(lake: Lake, namespace: str, plan: Plan, memories: dict[str, Row], asked: Asked, key: bytes) -> None:
    """What says the same elsewhere, what stays though it is related, and the pieces that are the purge's own."""
    purge = plan.purge
    ids, gone = set(purge.ids), Blocked([purge])
    needles = [text for text in _needles(memories, purge.ids, set(purge.traces)) if plain(text)]
    pieces = Pieces.of(needles, key)
    same = _Same(memories, purge.ids, needles, key)
    kept = [row for id, row in memories.items() if id not in ids]
    texts = ["\n".join(_said(row)) for row in kept]
    counts = pieces.hits(texts)
    for place, row in enumerate(kept):
        if counts[place] and same.as_in(texts[place]):
            plan.related[row["id"]] = "says the same, from elsewhere"
        elif ids.intersection(row["derived_from"] or ()):
            plan.related[row["id"]] = "was made from it"
        elif gone.rests_on_it_alone(row["evidence"]) and row["kind"] != "episode":
            plan.related[row["id"]] = "rests on the same events"
    purge.restored = sorted(r["id"] for r in kept if r["state"] == "merged" and r["superseded_by"] in purge.also)
    own = pieces.without(texts)
    for _, rows in read_trace_files(lake, namespace, _SPOKEN):
        is_other = [not gone.trace(trace) for trace in rows.column("trace_id").to_pylist()]
        for name in rows.column_names[2:]:
            places, spoken = strings(rows.column(name))
            others = [text if is_other[row] else None for row, text in zip(places, spoken, strict=True)]
            found = pieces.hits(others)
            own = own.without([others[place] for place in found])
            for place in (place for place in found if same.as_in(others[place] or "")):
                event = rows.slice(places[place], 1).to_pylist()[0]
                plan.same_in_traces.append((event["trace_id"], event["event_id"]))
    plan.same_in_traces = sorted(set(plan.same_in_traces))
    plan.indistinct = sum(not own.hits([text]) for text in needles)
    if asked.subject:
        # The name itself is content where it stands alone, such as in the filters of a read.
        own = own.joined(Pieces.of([asked.subject], key))
    purge.pieces = own.kept()


class _Same:
    """Tells whether a text says what a purged memory says: it has half of the pieces of its text, or of a quote."""

    def __init__(self, memories: dict[str, Row], ids: Sequence[str], needles: Sequence[str], key: bytes) -> None:
        own = {text for id in ids for text in _said(memories[id])}
        telling = {text for text in needles if text in own or len(plain(text)) >= _STATEMENT}
        self._each = [Pieces.of([text], key) for text in sorted(telling)]

    def as_in(self, text: str) -> bool:
        """Whether it does."""
        return any(pieces.hits([text])[0] >= _SAME * len(pieces) for pieces in self._each)


def listed(some: Sequence[Any]) -> list[Any]:
    """The first of a list that may be long."""
    return list(some[:LISTED])
