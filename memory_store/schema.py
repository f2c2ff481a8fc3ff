"""Every column of every table: name, type, meaning. Arrow schemas, JSON Schema and the docs table come from here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pyarrow as pa

Type = Literal["text", "texts", "int", "real", "time", "flag", "vector", "evidence", "cuts"]


@dataclass(frozen=True)
class Column:
    """One column."""

    #: Its name in every table, in the CLI and in the docs
    name: str
    #: Its type; see `arrow_type`
    type: Type
    #: What it means, in a sentence
    meaning: str


def _c(name: str, type: Type, meaning: str) -> Column:
    return Column(name, type, meaning)


#: What happened: one row an event, ordered by `seq` inside a trace.
EVENTS = (
    _c("namespace", "text", "tenant; part of every key"),
    _c("trace_id", "text", "the task that this event belongs to, as an agent ran it"),
    _c("event_id", "text", "id of the event; equal ids are the same event"),
    _c(
        "seq",
        "int",
        "order inside a trace: counted from 0 by the recorder; microseconds since 1970 for feedback and outcomes that "
        "come late; nanoseconds since 1970 for spans",
    ),
    _c("at", "time", "when it happened, UTC"),
    _c("type", "text", "task · message · tool_call · step · feedback · outcome"),
    _c("role", "text", "who spoke: user · agent · tool · system"),
    _c("name", "text", "name of a step"),
    _c("content", "text", "what was said; the goal of a task; the reason of an outcome"),
    _c("tool", "text", "tool that was called"),
    _c("call_id", "text", "id that the agent gave the call"),
    _c("arguments", "text", "arguments of the call, as JSON"),
    _c("result", "text", "what the tool returned, as text or JSON"),
    _c("error_code", "text", "code or class of the error; empty when the call worked"),
    _c("error_message", "text", "what the error said"),
    _c("retries", "int", "tries after the first"),
    _c("latency_us", "int", "how long it took, in microseconds"),
    _c("outcome", "text", "success · failure · partial · unknown"),
    _c("score", "real", "reward of an outcome, or how good a feedback says it was"),
    _c("subject", "text", "whom the task is about: a user, an account, a machine"),
    _c("agent", "text", "name of the agent"),
    _c("agent_role", "text", "its role: planner, executor, …"),
    _c("task_type", "text", "kind of task, in the shared taxonomy"),
    _c("task_id", "text", "the same task run again has the same task_id"),
    _c("conversation_id", "text", "conversation that the task was part of"),
    _c("parent_trace_id", "text", "trace that started this one"),
    _c("parent_event_id", "text", "event that this one is a part of"),
    _c("model", "text", "language model that the agent used"),
    _c("input_tokens", "int", "tokens read by the model"),
    _c("output_tokens", "int", "tokens written by the model"),
    _c("language", "text", "language of the text, as a BCP 47 tag"),
    _c("source", "text", "recorder · otel · ingest:FORMAT"),
    _c("source_ref", "text", "where it was read: file and place"),
    _c("time_source", "text", "event: its own time · ingest: it had none, this is when it was read"),
    _c("attributes", "text", "what the source said that has no column here, as JSON"),
    _c("cuts", "cuts", "values too long to keep: field, length in bytes, SHA-256"),
    _c("masked", "int", "secrets and personal data that were masked before it was written"),
)

#: What a memory is, set once by the decision `add` and never changed.
CONTENT = (
    _c("kind", "text", "episode · experience · fact · preference · rule; alias: two names of one thing, no memory"),
    _c("text", "text", "the memory itself; never changes"),
    _c("subject", "text", "whom it is about; empty: shared"),
    _c("entities", "texts", "names of things that it mentions"),
    _c("tags", "texts", "free labels"),
    _c("attribute", "text", "what a fact or preference is about, such as budget"),
    _c("value", "text", "what the attribute is, such as 8000"),
    _c("about", "text", "whom or what it is about, in words"),
    _c("need", "text", "the later need that it serves"),
    _c("offer", "text", "what it offers there"),
    _c("trigger", "text", "experience: the situation in which it applies"),
    _c("action", "text", "experience: what to do then"),
    _c("avoid", "text", "experience: what not to do then"),
    _c("why", "text", "experience: the reason"),
    _c("not_when", "text", "experience: where it does not apply"),
    _c("task_type", "text", "kind of task that it was learned in"),
    _c("task_id", "text", "task that it was learned in"),
    _c("tool", "text", "tool that it is about"),
    _c("outcome", "text", "how that task ended: success · failure · partial · unknown"),
    _c("error_code", "text", "normalised class of the error that it is about"),
    _c("agent_role", "text", "role of the agent that it came from"),
    _c("said_by", "text", "who said it: user · agent · tool · web · reflection"),
    _c("language", "text", "language of the text, as a BCP 47 tag"),
    _c("quality", "int", "1 to 5, as the reflection judged it"),
    _c("importance", "real", "0 to 1"),
    _c("evidence", "evidence", "trace and event ids that it rests on, with the quoted span"),
    _c("derived_from", "texts", "memories that it was made from"),
    _c("reflector", "text", "what proposed it: rules or a model, with version"),
    _c("prompt_hash", "text", "hash of the prompt that proposed it; empty for rules"),
    _c("embedder", "text", "model of the vector"),
    _c("vector", "vector", "embedding of the text, unit length"),
)

#: What may change: each decision sets only what it changes, null means not set.
STATE = (
    _c("state", "text", "pending · active · superseded · merged · archived · deleted · quarantined"),
    _c("strength", "real", "factor on importance; 1 unless a decision down-ranks"),
    _c("confidence", "real", "0 to 1, how sure the reflection was"),
    _c("valid_from", "time", "since when the statement holds in the world"),
    _c("valid_to", "time", "until when it holds; 9999-12-31 while it does"),
    _c("superseded_by", "text", "the memory that took its place; empty: none"),
)

#: Envelope of a row of the log.
ENVELOPE = (
    _c("act", "text", "the act that this row is part of; it is settled as a whole"),
    _c("seq", "int", "place in the log of the namespace, from 1; null until settled"),
    _c("at", "time", "when it was written, UTC"),
    _c("run", "text", "run that proposed it; empty: a user's own act"),
    _c(
        "decision",
        "text",
        "add · merge · supersede · promote · archive · restore · downrank · quarantine · "
        "activate · forget · purge · alias · undo · cool · refuse",
    ),
    _c("id", "text", "memory that the row is about"),
    _c("read_to", "int", "place in the log up to which the proposer had read; null: a user's own act, which wins"),
    _c("verdict", "text", "accepted · refused; null until settled"),
    _c("reason", "text", "why it was decided, or why it was refused"),
)

#: Decisions that say what a row of the store is; the others change it.
ADDING = ("add", "alias")
#: Kind of what the decision `alias` adds: two names of one thing, which are no memory and are never returned.
ALIAS = "alias"

#: A row of the inbox or of the log.
LOG = ENVELOPE + CONTENT + STATE

#: A row of the store: the fold of the log.
MEMORIES = (
    _c("namespace", "text", "tenant; part of every key"),
    _c("id", "text", "id of the memory"),
    _c("seq", "int", "place in the log of the last decision that changed it"),
    _c("added_seq", "int", "place in the log of the decision that added it"),
    _c("added_at", "time", "when it was written, UTC"),
    _c("run", "text", "run that added it; empty: a user's own act"),
    *CONTENT,
    *STATE,
)

#: A turn or step of an episode, in order: a memory of kind `passage`, with its place in the conversation.
PASSAGES = (
    *MEMORIES,
    _c("episode", "text", "the episode that it is a part of"),
    _c("conversation", "text", "what it has its place in: the conversation, or the trace that belongs to none"),
    _c("place", "int", "place in the conversation, from 0"),
    _c("before", "text", "the passage before it in the conversation; empty: none"),
    _c("after", "text", "the passage after it"),
    _c("role", "text", "who spoke: user · agent · tool"),
    _c("events", "int", "events of its trace when it was made, by which it is known to be out of date"),
)

#: One row a trace that the gate has looked at.
GATE = (
    _c("namespace", "text", "tenant"),
    _c("trace_id", "text", "the trace"),
    _c("at", "time", "when it was decided"),
    _c("run", "text", "run that decided"),
    _c("reflected", "flag", "whether the trace was given to the reflector"),
    _c("trigger", "text", "the rule that decided, such as task_failed, tool_error, routine"),
    _c("outcome", "text", "outcome of the trace then"),
    _c("events", "int", "events of the trace then"),
)

#: What one reflector call said, kept verbatim.
REFLECTIONS = (
    _c("namespace", "text", "tenant"),
    _c("reflection_id", "text", "id of the reflection, derived from traces, reflector and prompt"),
    _c("at", "time", "when it was made"),
    _c("run", "text", "run that made it"),
    _c("traces", "texts", "traces that it is about"),
    _c("reflector", "text", "rules or model, with version"),
    _c("prompt_hash", "text", "hash of prompt and parameters; empty for rules"),
    _c("reply", "text", "what was said, verbatim, as JSON"),
    _c("error", "text", "why nothing could be made of it; empty when something could"),
    _c("input_tokens", "int", "tokens read"),
    _c("output_tokens", "int", "tokens written"),
    _c("cost", "int", "micro-dollars"),
    _c("latency_us", "int", "microseconds"),
    _c("calls", "int", "calls to the model, failed ones included"),
)

#: One row a read: what was asked, what was returned.
READS = (
    _c("namespace", "text", "tenant"),
    _c("read_id", "text", "id of the read"),
    _c("at", "time", "when"),
    _c("trace_id", "text", "task that asked; empty: none was named"),
    _c("query", "text", "what was asked"),
    _c("filters", "text", "typed filters, as JSON"),
    _c("generation", "text", "generation that answered"),
    _c("seq", "int", "place in the log up to which the answer knew"),
    _c("ids", "texts", "memories returned, best first"),
    _c("injected", "flag", "whether they were put into a context block"),
)

#: One row a memory, task and day: how often it was put before an agent then.
USAGE = (
    _c("id", "text", "the memory"),
    _c("trace_id", "text", "task that it was put before; empty: none was named"),
    _c("reads", "int", "distinct reads that put it there"),
    _c("last_at", "time", "when the last of them was"),
)

#: One row a memory that was ever put before an agent: what came of it, computed anew from all reads and outcomes.
CREDIT = (
    _c("id", "text", "the memory; what was merged into it counts as it"),
    _c("accesses", "int", "distinct reads that put it before an agent"),
    _c("last_at", "time", "when the last of them was"),
    _c("tasks", "int", "tasks that it was put before and that can be compared with others of their kind"),
    _c("helped", "int", "of these, tasks that went clearly better than their kind does without it"),
    _c("neutral", "int", "of these, tasks that went about as their kind does"),
    _c("misled", "int", "of these, tasks that went clearly worse"),
    _c("low", "real", "lower bound of what it adds to the success rate of its tasks, -1 to 1; null: unknown"),
    _c("high", "real", "upper bound of the same"),
    _c("surely", "real", "the upper bound that quarantine asks for, which is surer"),
)

#: What people said of memories that were reflected: the draws of the samples, and one row a verdict, never changed.
REVIEWS = (
    _c("namespace", "text", "tenant"),
    _c("review_id", "text", "id of the row, derived from memory, verdict and words, and from the verdict before it"),
    _c("at", "time", "when it was written; of two verdicts on a memory the later one holds"),
    _c("sample", "text", "sample that the memory was drawn in, such as 2026-11; empty: judged outside of one"),
    _c("memory_id", "text", "the memory"),
    _c("verdict", "text", "drawn (nothing said yet) · right · wrong · unsure"),
    _c("reason", "text", "why, in the reviewer's words"),
    _c("better", "text", "how it should have been worded; empty: nothing was offered"),
    _c("kind", "text", "kind of the memory"),
    _c("reflector", "text", "what proposed it"),
    _c("prompt", "text", "version of the prompt that proposed it, such as reflect.v1; empty for rules"),
    _c("prompt_hash", "text", "hash of the prompt that proposed it; empty for rules"),
    _c("reflected_at", "time", "when the memory was written"),
)

#: Every table by its name in the docs.
TABLES: dict[str, tuple[Column, ...]] = {
    "credit": CREDIT,
    "events": EVENTS,
    "gate": GATE,
    "log": LOG,
    "memories": MEMORIES,
    "passages": PASSAGES,
    "reads": READS,
    "reflections": REFLECTIONS,
    "reviews": REVIEWS,
    "usage": USAGE,
}


def arrow_type(type: Type) -> pa.DataType:
    """The Arrow type of a column type."""
    import pyarrow as pa

    types: dict[str, pa.DataType] = {
        "text": pa.string(),
        "texts": pa.list_(pa.string()),
        "int": pa.int64(),
        "real": pa.float64(),
        "time": pa.timestamp("us", tz="UTC"),
        "flag": pa.bool_(),
        "vector": pa.list_(pa.float32()),
        "evidence": pa.list_(pa.struct([("trace_id", pa.string()), ("event_id", pa.string()), ("quote", pa.string())])),
        "cuts": pa.list_(pa.struct([("field", pa.string()), ("bytes", pa.int64()), ("sha256", pa.string())])),
    }
    return types[type]


@cache
def arrow_schema(table: str) -> pa.Schema:
    """The Arrow schema of a table of `TABLES`.

    >>> arrow_schema("gate").names[:2]
    ['namespace', 'trace_id']
    """
    import pyarrow as pa

    return pa.schema([pa.field(column.name, arrow_type(column.type)) for column in TABLES[table]])


def conform(rows: pa.Table, table: str) -> pa.Table:
    """The same rows with exactly the columns of a table: missing ones null, unknown ones dropped, types cast.

    A lake file of an older version lacks the columns that came later; this is where they appear.
    """
    import pyarrow as pa

    schema = arrow_schema(table)
    columns = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def table_of(rows: list[dict[str, object]], table: str) -> pa.Table:
    """Rows given as dicts, as an Arrow table of the named schema; keys that are left out are null.

    Raises `ValueError` on a key that is no column.
    """
    import pyarrow as pa

    schema = arrow_schema(table)
    known = set(schema.names)
    for row in rows:
        if unknown := row.keys() - known:
            raise ValueError(f"no such column in {table}: {sorted(unknown)}")
    return pa.Table.from_pylist(rows, schema=schema)
