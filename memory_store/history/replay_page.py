"""A replay as one HTML page that needs nothing else: style, script and data are inside, and nothing is fetched.

What is stored is data: it lies in the page as JSON without any sign that HTML knows, the script puts it on the screen
as text only, and the page's own policy lets no other script run.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import deque
from dataclasses import dataclass, fields
from datetime import datetime
from importlib.resources import files
from typing import Any

from .replay import Replay
from .timeline import Entry

#: Entries of a page unless it is asked for more or fewer: the last ones of the period.
MOST = 20_000
_TEMPLATE = "replay.html"
_FIELDS = [field.name for field in fields(Entry)]


@dataclass(frozen=True)
class Page:
    """A page, and what is in it."""

    html: str
    #: Entries in it
    shown: int
    #: Earlier entries of the period that are not
    left_out: int
    #: Entries that are not in it because they are about what was purged
    purged: int


def page(replay: Replay, most: int = MOST) -> Page:
    """The last `most` entries of a replay as a page."""
    total = 0
    last: deque[Entry] = deque(maxlen=most)
    for entry in replay:
        total += 1
        last.append(entry)
    told = {id: memory for entry in last for id in entry.memories if (memory := replay.memory(id)) is not None}
    data = {
        "namespace": replay.namespace,
        "since": replay.since,
        "until": replay.until,
        "left_out": total - len(last),
        "purged": replay.purged,
        "entries": [plain(entry) for entry in last],
        "memories": {id: [memory.kind, memory.text] for id, memory in told.items()},
    }
    template = files(__package__).joinpath(_TEMPLATE).read_text(encoding="utf-8")
    html = template.replace("@@POLICY@@", _policy(template)).replace("@@DATA@@", _json(data))
    return Page(html, len(last), total - len(last), replay.purged)


def plain(entry: Entry) -> dict[str, Any]:
    """An entry as plain values, without those that say nothing."""
    values = {name: getattr(entry, name) for name in _FIELDS}
    return {name: value for name, value in values.items() if value not in ("", (), None, 0)}


def _json(data: object) -> str:
    """JSON that can stand anywhere in HTML: ASCII, and no sign that opens or closes a tag or an entity.

    >>> _json({"text": "</script><b>&"})
    '{"text":"\\\\u003c/script\\\\u003e\\\\u003cb\\\\u003e\\\\u0026"}'
    """
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), default=datetime.isoformat)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _policy(template: str) -> str:
    """A content security policy that allows the template's own style and script, by their hash, and nothing else."""
    (style,) = re.findall(r"<style>(.*?)</style>", template, re.DOTALL)
    (script,) = re.findall(r"<script>(.*?)</script>", template, re.DOTALL)
    return f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'"


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
