"""Every text of a namespace that a generation needs a vector of, from the lake alone.

That is what the fold of the log embeds, cold storage included, and what the passages of episodes do.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..capture.passages import episode_id, texts_to_embed
from ..capture.traces import PATH, read_traces, scan_events
from ..files.lake import Lake
from ..history.log import log_paths, read_keys
from ..schema import ALIAS, conform
from .vectors import text_to_embed

#: Traces that are read at once.
_TRACES = 200


def embedded_texts(lake: Lake, namespace: str, embedder: str) -> Iterator[list[str]]:
    """Texts, some at a time; equal ones may come twice. Those that lie in the log with this embedder's vector are left
    out: a fold takes that.
    """
    yield from _memories(lake, namespace, embedder)
    yield from _passages(lake, namespace)


def _memories(lake: Lake, namespace: str, embedder: str) -> Iterator[list[str]]:
    columns = ["decision", "verdict", "kind", "text", "embedder"]
    for _, read in lake.read_tables(log_paths(lake, namespace), columns):
        rows = conform(read, "log").select(columns)
        found = zip(*(rows.column(name).to_pylist() for name in columns), strict=True)
        yield [
            text_to_embed(kind, text)
            for decision, verdict, kind, text, own in found
            if decision == "add" and verdict == "accepted" and kind not in (None, "", ALIAS) and text
            and own != embedder
        ]  # fmt: skip


def _passages(lake: Lake, namespace: str) -> Iterator[list[str]]:
    added: set[str] = set()
    for keys in read_keys(lake, namespace):
        rows = zip(*(keys.column(name).to_pylist() for name in ("id", "decision", "verdict")), strict=True)
        added.update(id for id, decision, verdict in rows if decision == "add" and verdict == "accepted")
    paths: dict[str, set[str]] = {}
    events = scan_events(lake, namespace, [PATH])
    for id, path in zip(events.column("trace_id").to_pylist(), events.column(PATH).to_pylist(), strict=True):
        paths.setdefault(id, set()).add(path)
    traces = [id for id in paths if episode_id(namespace, id) in added]
    for start in range(0, len(traces), _TRACES):
        some = traces[start : start + _TRACES]
        read = read_traces(lake, namespace, some, sorted(set().union(*(paths[id] for id in some))))
        yield [text for trace in read for text in texts_to_embed(trace)]
