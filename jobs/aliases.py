"""The job `aliases`: decides which names of memories stand for one thing, from what memories say and how names are
spelled, and looks again at aliases whose sources were undone.

It never takes back what a user said, and never proposes again what somebody took back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..memory_store.clock import Clock
from ..memory_store.files.lake import Lake
from ..memory_store.history.inbox import Row
from ..memory_store.history.log import read_keys
from ..memory_store.recall.predicates import READABLE
from ..memory_store.records.purged import blocked
from ..memory_store.settings import Settings
from ..memory_store.text.aliases import Alias, alias_id, alias_row, same_name, stored_aliases
from .alias_evidence import COLUMNS, Proposal, proposals, suggestions
from .deciding.decide import Decided, DecideReport, View, decide

#: Kinds whose names are looked at: an episode is its trace, as it was said.
KINDS = ("experience", "fact", "preference", "rule")


def aliases(
    lake: Lake,
    settings: Settings,
    clock: Clock,
    *,
    version: str,
    namespaces: Sequence[str] | None = None,
    dry_run: bool = False,
) -> DecideReport:
    """Decide which names stand for one thing. Raises when the lake or the store fail.

    Counts names that `may be one`, which are left to people, and pairs that are `known` or were `taken back`.
    """
    return decide(
        lake, settings, clock, rule, job="aliases", version=version, namespaces=namespaces, dry_run=dry_run
    )  # fmt: skip


def rule(view: View) -> Iterator[Decided]:
    """What the names of one namespace are to each other."""
    rows = view.memories(COLUMNS, kinds=KINDS, states=READABLE).to_pylist()
    known = stored_aliases(view.tables, view.namespace)
    sure = proposals(rows)
    decided = Decided()
    said = {alias.id for alias in known}
    ids = {_id(view, one): one for one in sure}
    gone = _gone(view, set(ids) - said)
    held = [alias for alias in known if alias.sort == "entity" and alias.state in READABLE]
    for id, one in ids.items():
        if id in said or id in gone:
            stands = any(alias.id == id for alias in held)
            decided.counts["known" if stands else "taken_back"] += 1
        elif any(alias.subject == one.subject and same_name("entity", alias.name, one.name) for alias in held):
            decided.counts["otherwise"] += 1  # the name has a meaning already
        else:
            decided.acts.append([_row(view, one)])
    decided.acts += [[_again(alias, alias.id in ids)] for alias in held if alias.state == "pending"]
    decided.counts["may_be_one"] = sum(_id(view, one) not in said for one, _ in suggestions(rows))
    decided.counts = +decided.counts
    yield decided


def _id(view: View, proposal: Proposal) -> str:
    return alias_id(view.namespace, "entity", proposal.name, proposal.of, proposal.subject)


def _gone(view: View, ids: set[str]) -> set[str]:
    """Of aliases that the store does not hold, those that were there once: taken back long ago, or purged."""
    if not ids:
        return set()
    found = blocked(view.lake, view.namespace).ids & ids
    for keys in read_keys(view.lake, view.namespace):
        found |= ids.intersection(keys.column("id").to_pylist())
    return found


def _row(view: View, proposal: Proposal) -> Row:
    return alias_row(
        view.namespace, "entity", proposal.name, proposal.of, at=view.now, subject=proposal.subject,
        reason=proposal.reason, evidence=proposal.evidence, derived_from=proposal.memories,
    )  # fmt: skip


def _again(alias: Alias, is_supported: bool) -> Row:
    """What becomes of an alias whose sources were undone."""
    if is_supported:
        return {"decision": "activate", "id": alias.id, "state": "active", "reason": "other memories say it too"}
    return {"decision": "forget", "id": alias.id, "state": "deleted", "reason": "what it was learned from was undone"}
