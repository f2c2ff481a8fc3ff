"""The store: whether it fits the settings, follows the log, and whether its files are many or damaged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ...memory_store.embedders import embedder_named, embedder_of
from ...memory_store.errors import DamagedFile, EmbedderError, NoGeneration
from ...memory_store.files.lake import namespace_path
from ...memory_store.history.inbox import inbox_paths
from ...memory_store.history.log import head
from ...memory_store.recall.predicates import READABLE, Filter
from ...memory_store.store.generations import open_tables
from ...memory_store.store.registry import current
from .finding import Finding, Patient

#: Rows of the log that a store may be behind before searches grow slow: they are read anew by each process.
_BEHIND = 2_000
#: Rows that may wait for an index before searches grow slow.
_UNINDEXED = 20_000
#: Files of the inbox, and of one day of traces, that are many.
_MANY = 500


def generation(patient: Patient) -> Iterator[Finding]:
    """Whether readers have a store, by which model, and how far it is behind."""
    lake, settings = patient.lake, patient.settings
    rows = head(lake, patient.namespace)[1]
    try:
        used = current(lake)
    except NoGeneration:
        if rows:
            yield Finding(
                "no-store", "broken", f"the log has {rows} decisions and no store was built of them",
                "run `hindlake rebuild`; no model is called",
            )  # fmt: skip
        return
    try:
        embedder_named(used.embedder, settings)
    except EmbedderError as error:
        yield Finding(
            "embedder-missing", "broken", f"the store in use has vectors of {used.embedder}: {error}",
            "install what is named there, or run `hindlake reindex` with an embedder that runs here",
        )  # fmt: skip
    yield from _swapped(patient, used.embedder)
    behind = rows - open_tables(settings, used).folded_to(patient.namespace)
    if behind > _BEHIND:
        yield Finding(
            "store-behind", "doubtful", f"the store is {behind} decisions behind the log: searches make up for it",
            "run `hindlake run nightly`, or let the flow `hourly` run: both fold",
        )  # fmt: skip


def _swapped(patient: Patient, used: str) -> Iterator[Finding]:
    try:
        wanted = embedder_of(patient.settings).name
    except EmbedderError as error:
        yield Finding(
            "embedder-unusable", "broken", f"the embedder of the settings can't be used: {error}",
            "set HINDLAKE_EMBEDDER to one that can, or install what is named there",
        )  # fmt: skip
        return
    if wanted != used:
        yield Finding(
            "model-swapped", "doubtful",
            f"the settings ask for {wanted}, the store in use has vectors of {used} and goes on with them",
            f"run `hindlake reindex --embedder {patient.settings.embedder}`, or set HINDLAKE_EMBEDDER back",
        )  # fmt: skip


def vectors(patient: Patient) -> Iterator[Finding]:
    """Whether what can be returned has vectors."""
    try:
        tables = open_tables(patient.settings, current(patient.lake))
    except NoGeneration:
        return
    where = Filter((patient.namespace,), states=READABLE)
    rows = tables.scan(where, ["id", "vector"])
    if missing := rows.column("vector").null_count:
        yield Finding(
            "not-embedded", "doubtful",
            f"{missing} of {rows.num_rows} memories have no vector and are found by their words alone",
            "run `hindlake rebuild` once the embedder can be reached; `hindlake explain ID` says why one has none",
        )  # fmt: skip


def indexes(patient: Patient) -> Iterator[Finding]:
    """Whether the indexes have taken in what is there."""
    try:
        tables = open_tables(patient.settings, current(patient.lake))
    except NoGeneration:
        return
    for table, found in tables.coverage().items():
        behind = max(found, key=lambda one: one.waiting, default=None)
        if behind is not None and behind.waiting > _UNINDEXED:
            yield Finding(
                "index-behind", "doubtful",
                f"{behind.waiting} rows of {table} are not in the index of {behind.column}: searches look at each",
                "run `hindlake run nightly`, which lets indexes catch up",
            )  # fmt: skip


def files(patient: Patient) -> Iterator[Finding]:
    """Whether small files pile up."""
    lake, namespace = patient.lake, patient.namespace
    if (waiting := len(inbox_paths(lake, namespace))) > _MANY:
        yield Finding(
            "inbox-full", "doubtful", f"{waiting} files wait in the inbox, and every search reads them",
            "run `hindlake run nightly`, or let the flow `hourly` run: both settle",
        )  # fmt: skip
    days = Counter(path.rsplit("/", 1)[0] for path in lake.names(namespace_path(namespace, "traces")))
    if days and (most := days.most_common(1)[0])[1] > _MANY:
        yield Finding(
            "many-files", "doubtful", f"{most[0]} holds {most[1]} small files",
            "run `hindlake run compact`, or let the flow `collect` run every hour",
        )  # fmt: skip


def damage(patient: Patient) -> Iterator[Finding]:
    """Whether every Parquet file of the namespace can be read, checksums included. Reads all of them."""
    lake = patient.lake
    for path in lake.names(f"ns={patient.namespace}"):
        if not path.endswith(".parquet"):
            continue
        try:
            lake.read_table(path)
        except FileNotFoundError:
            continue  # joined or settled meanwhile
        except DamagedFile as error:
            yield Finding(
                "file-damaged", "broken", str(error),
                "bring it back with `hindlake backup restore`; else move it away and run `hindlake rebuild`",
            )  # fmt: skip
