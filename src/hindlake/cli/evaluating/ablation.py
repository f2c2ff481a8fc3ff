"""What each stage of a search adds: the same questions with a stage left out, put in, or done otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...memory_store.recall.legs import LEGS
from ...memory_store.settings import SearchSettings, Settings

_NEIGHBOURS = ("near", "around", "beside")
#: Rows of the table: what they change of the search settings; weights are added to those that are set.
_ROWS: Mapping[str, Mapping[str, Any]] = {
    "as shipped": {},
    "reciprocal rank fusion": {"fusion": "rrf"},
    "without names": {"weights": {"names": 0.0}},
    "without dates": {"weights": {"dates": 0.0}},
    "without text": {"weights": {"text": 0.0}},
    "without vector": {"weights": {"vector": 0.0}},
    "without neighbours": {"weights": dict.fromkeys(_NEIGHBOURS, 0.0)},
    "without turns": {"weights": {"turns": 0.0, "several": 0.0, "said": 0.0}},
    "with recency .05": {"weights": {"recency": 0.05}},
    "with entities .05": {"weights": {"entities": 0.05}},
    "text and vector alone": {"weights": dict.fromkeys(set(LEGS) - {"text", "vector"}, 0.0)},
    "vector alone": {"weights": dict.fromkeys(set(LEGS) - {"vector"}, 0.0)},
}
#: Rows that change nothing where the legs that they name are not asked.
_ONLY = {"without neighbours": "passage", "without turns": "episode"}


def ablations(settings: Settings, kind: str) -> dict[str, Settings]:
    """Settings by the name of the row, for sets that search for passages or for episodes."""
    rows = {}
    for name, changes in _ROWS.items():
        if _ONLY.get(name, kind) == kind:
            search = settings.search.model_dump()
            search |= {**changes, "weights": {**search["weights"], **changes.get("weights", {})}}
            rows[name] = settings.model_copy(update={"search": SearchSettings.model_validate(search)})
    return rows
