"""Which files of a backup a lake needs: those that it lacks or can't read, and that nothing has taken the place of."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256

from ...memory_store.errors import DamagedFile
from ...memory_store.files.backups import Kept, Manifest, Progress
from ...memory_store.files.lake import Lake, namespace_path
from ...memory_store.files.lake_format import MARKER
from ...memory_store.history.log import read_keys
from .check import damage

#: Why a file is put back: it is not there, or it can't be read.
MISSING, DAMAGED = "missing", "damaged"
#: Folders that the lake knows better by itself once it is in use.
_OWN = ("current", "generations", "backups")
#: Folders of a namespace whose files are sums of others: the newest count, or they are made again.
_SUMS = ("usage", "credit", "log-keys")
#: Key of the footer by which a joined trace file names those that it replaces; see `compact`.
_JOINED = b"hindlake.joined"
_WORKERS = 8


@dataclass(frozen=True)
class Step:
    """A file that is to be put back."""

    kept: Kept
    #: `MISSING` or `DAMAGED`
    reason: str


def plan(
    lake: Lake,
    view: Lake,
    manifest: Manifest,
    left_out: Counter[str],
    parted: list[str],
    *,
    is_new: bool,
    progress: Progress = lambda done, total: None,
) -> list[Step]:
    """What has to be put back, in the order of the backup. Reads only.

    `left_out` counts files that are not, by reason; `parted` gets the files of logs that say something else here.
    """
    there = set(lake.names(""))
    steps: list[Step] = []
    present: list[Kept] = []
    missing: list[Kept] = []
    for kept in manifest.files:
        if kept.path == MARKER:
            continue
        if not is_new and kept.path.split("/")[0] in _OWN:
            left_out["the lake knows better"] += 1
        else:
            (present if kept.path in there else missing).append(kept)

    def look(kept: Kept) -> str:
        return _state(lake, view, kept)

    with ThreadPoolExecutor(_WORKERS) as pool:
        for done, (kept, state) in enumerate(zip(present, pool.map(look, present), strict=True)):
            if state == DAMAGED:
                steps.append(Step(kept, DAMAGED))
            else:
                left_out[state] += 1
            if state == PARTED:
                parted.append(kept.path)
            progress(done + 1, len(present))
    for kept, reason in _wanted(lake, view, there, missing, is_new):
        if reason:
            left_out[reason] += 1
        else:
            steps.append(Step(kept, MISSING))
    return steps


#: What is found of a file that is there and can be read.
SAME, NEWER, PARTED = "the same is there", "it was written again", "it says something else"


def _state(lake: Lake, view: Lake, kept: Kept) -> str:
    try:
        data = lake.get(kept.path)
    except FileNotFoundError:
        return NEWER  # it went this moment: compaction, or settling
    if len(data) == kept.bytes and sha256(data).hexdigest() == kept.sha256:
        return SAME
    if damage(kept.path, data):
        return DAMAGED
    if kept.path.split("/")[1:2] == ["log"]:
        keys = ["act", "seq", "id", "decision"]
        if lake.read_table(kept.path, keys).select(keys) != view.read_table(kept.path, keys).select(keys):
            return PARTED
    return NEWER


def _wanted(lake: Lake, view: Lake, there: set[str], missing: list[Kept], is_new: bool) -> Iterator[tuple[Kept, str]]:
    """Files that are not there, each with why the lake does without it; empty: it needs it."""
    acts: dict[str, set[str]] = {}
    joined: dict[str, set[tuple[str, int]]] = {}
    for kept in missing:
        parts = kept.path.split("/")
        folder = parts[1] if parts[0].startswith("ns=") and len(parts) > 2 else ""
        namespace = parts[0].removeprefix("ns=")
        if is_new or not folder:
            yield kept, ""
        elif folder in _SUMS and any(path.startswith(f"{parts[0]}/{folder}/") for path in there):
            yield kept, "newer sums are there"
        elif folder == "replies" and parts[-1].endswith(".open"):
            yield kept, "the call is over"
        elif folder == "traces":
            day = kept.path.rpartition("/")[0]
            if day not in joined:
                joined[day] = _replaced(lake, day, there)
            yield kept, "it was joined" if (parts[-1], kept.bytes) in joined[day] else ""
        elif folder == "inbox":
            if namespace not in acts:
                acts[namespace] = _logged(lake, namespace)
            said = set(view.read_table(kept.path, ["act"]).column("act").to_pylist())
            yield kept, "it was settled" if said <= acts[namespace] else ""
        else:
            yield kept, ""


def _replaced(lake: Lake, day: str, there: set[str]) -> set[tuple[str, int]]:
    """Names and sizes of trace files whose events are in a bigger file of a day."""
    found: set[tuple[str, int]] = set()
    for path in there:
        if path.startswith(f"{day}/joined-"):
            try:
                said = json.loads((lake.footer(path).metadata or {}).get(_JOINED, b"{}"))
            except (DamagedFile, FileNotFoundError, ValueError):
                continue
            found.update((name, size) for name, size in said.get("replaces", []))
    return found


def _logged(lake: Lake, namespace: str) -> set[str]:
    """Every act that the log knows; none where it has a gap, so that no act is taken for settled."""
    numbers = [int(path.rpartition("/")[2].partition(".")[0]) for path in lake.names(namespace_path(namespace, "log"))]
    if numbers != list(range(1, len(numbers) + 1)):
        return set()
    found: set[str] = set()
    for keys in read_keys(lake, namespace):
        found.update(keys.column("act").to_pylist())
    return found
