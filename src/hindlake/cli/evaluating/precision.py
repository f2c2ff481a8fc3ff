"""PrecisionMemBench: does a search return what it may, and nothing else?

Beliefs are remembered as a user would: preferences and facts of their user, names and aliases as entities, scope as
tags; what was superseded is updated to what took its place, what was resolved is forgotten. Pinned beliefs and open
questions are listed by their tag, as a prompt that always holds them would; the others are searched for.

A case passes when each part of its expectation holds. Where some beliefs may be returned, one of them must be: an
empty answer is right only where none may.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...memory_store.settings import Settings
from ...sdk.memory import Memory
from .logbook import progress

_KINDS = {"preference": "preference"}
_UNIVERSAL = "user:universal"


def measure_precision(data: Path, settings: Settings) -> dict[str, Any]:
    """Cases that pass; empty when the folder lacks the set."""
    folder = data / "precisionmembench"
    if not (folder / "retrieval.cases.json").exists():
        return {}
    beliefs = json.loads((folder / "beliefs.seed.json").read_text(encoding="utf-8"))
    cases = json.loads((folder / "retrieval.cases.json").read_text(encoding="utf-8"))
    memory = Memory(settings)
    belief_of = _remember(memory, beliefs)
    passed = 0
    failed: list[str] = []
    for number, case in enumerate(cases, 1):
        said = _answer(memory, case, belief_of)
        good = all(_holds(said[part], expected) for part, expected in case["expect"].items())
        passed += good
        failed += [] if good else [case["caseId"]]
        progress("precision", number, len(cases))
    return {"passed": passed, "n": len(cases), "failed": " ".join(failed) or "none"}


def _remember(memory: Memory, beliefs: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Write the beliefs in order of time; return them by the id of their memory."""
    of: dict[str, Mapping[str, Any]] = {}
    ids: dict[str, str] = {}
    known = {belief["_id"]: belief for belief in beliefs}
    olds = {belief["superseded_by"]: belief["_id"] for belief in beliefs if belief["superseded_by"]}

    def write(belief: Mapping[str, Any]) -> str:
        if belief["_id"] in ids:
            return ids[belief["_id"]]
        tags = [*belief["scope"], belief["type"], *(["pinned"] if belief["pinned"] else [])]
        named = [belief["canonical_name"].replace("_", " "), *belief["aliases"]]
        columns: dict[str, Any] = {
            "subject": belief["user_id"], "entities": named, "tags": tags, "confidence": belief["confidence"]
        }  # fmt: skip
        if belief["_id"] in olds:
            id = memory.update(write(known[olds[belief["_id"]]]), belief["content"], **columns)
        else:
            id = memory.remember(belief["content"], _KINDS.get(belief["type"], "fact"), **columns)  # type: ignore[arg-type]
        ids[belief["_id"]], of[id] = id, belief
        return id

    for belief in beliefs:
        write(belief)
    for id, belief in of.items():
        if belief["resolved_at"]:
            memory.forget(id, "resolved")
    return of


def _answer(
    memory: Memory, case: Mapping[str, Any], belief_of: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, str]]:
    """Beliefs by the part of the prompt that they go to, each with its text."""
    user, scope = case.get("userId", "test-user"), [tag for tag in case["scope"] if tag != _UNIVERSAL]
    most = case.get("budget", {}).get("maxBeliefs", 5)

    def listed(tags: Sequence[str]) -> dict[str, str]:
        hits = memory.search("", subject=user, tags=tags, limit=50, log_read=False)
        return {belief_of[hit.id]["_id"]: hit.text for hit in hits}

    pinned, questions, in_scope = listed(["pinned"]), listed(["open_question"]), listed(scope) if scope else {}
    shown = {id: text for id, text in pinned.items() if id in in_scope and id not in questions}
    found: dict[str, str] = {}
    if case["query"].strip() and most > 0 and scope:
        hits = memory.search(case["query"], subject=user, tags=scope, limit=most, log_read=False)
        found = {belief_of[hit.id]["_id"]: hit.text for hit in hits}
    room = max(most - len(shown), 0)
    relevant = {id: text for id, text in found.items() if id not in shown and id not in questions}
    return {
        "personaPrelude": listed([_UNIVERSAL]),
        "pinnedFacts": shown,
        "openQuestions": {id: text for id, text in questions.items() if id in in_scope},
        "relevantBeliefs": dict(list(relevant.items())[:room] if "budget" in case else relevant.items()),
    }


def _holds(said: Mapping[str, str], expected: Mapping[str, Any]) -> bool:
    text = "\n".join(said.values())
    allowed = expected.get("shouldOnlyInclude")
    return all(
        (
            all(id in said for id in expected.get("mustInclude", ())),
            not any(id in said for id in expected.get("mustExclude", ())),
            allowed is None or (said.keys() <= set(allowed) and bool(said) == bool(allowed)),
            not expected.get("nonEmpty") or bool(said),
            not expected.get("isNull") or not said,
            all(word in text for word in expected.get("contains", ())),
            not any(word in text for word in expected.get("mustNotContain", ())),
        )
    )
