"""The reflector without a model: what a trace shows by rule, and silence where it shows nothing.

How it judges, so that the numbers can be held to account:

| rule | quality | confidence |
|---|---|---|
| a user's statement about a common attribute | 4 | .9 |
| another statement of a user | 3 | .6 to .85 |
| what a user settled, or accepted of what the agent laid out | 3 | .55 to .65 |
| an error that a changed call mended | 4 | .7 to .8 |
| a change that another one closed the way to | 4 | .6 |
| a retry or another tool that worked | 3 to 4 | .6 to .7 |
| a failed and a successful run of one task, apart by their calls | 4 | .5 |
| a user's correction | 3 to 4 | .45 to .6 |
| another tool found what one did not | 3 | .6 |
| tried in vain, asked in circles, values made up, figures from nowhere | 3 | .4 to .6 |
| how a failed run ended | 3 | .3 to .35 |

The same lesson from several runs is one lesson: a point of quality more, and .1 of confidence a run, .95 at most.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace

from ...memory_store.capture.episodes import trace_language
from ...memory_store.capture.events import Event, Trace
from ...memory_store.text.entities import entities_of, find_entities
from .candidates import Candidate, Evidence, Reflection, Refusal, TraceGroup
from .rules.agreements import agreements_of
from .rules.assumptions import assumption_of
from .rules.attributes import is_secret
from .rules.checks import refusal_reason
from .rules.contrast import contrast_of
from .rules.detours import detours_of, ways_round
from .rules.endings import ending_of, objections_of
from .rules.generalise import situation_of
from .rules.lessons import Lesson, candidate_of
from .rules.order import order_of
from .rules.plans import settled_of
from .rules.purpose import with_purpose
from .rules.reader import is_from_user, statements_of
from .rules.repairs import repairs_of
from .rules.statements import Statement
from .rules.unsourced import unsourced_of

#: Most experiences of one trace.
EXPERIENCES = 3


@dataclass(frozen=True)
class RulesReflector:
    """Lessons and statements by rule. It keeps no state, so that it can be sent to any worker."""

    #: A new version may reflect on the same traces again
    name: str = "rules@2"

    @property
    def concurrency(self) -> int:
        """One group at a time: rules are all computing."""
        return 1

    def share(self, parts: int, calls: int = 0) -> RulesReflector:
        """Itself: rules cost nothing."""
        return self

    def reflect(self, group: TraceGroup) -> Reflection:
        """Statements and experiences of the fresh traces of a group; the known ones serve for contrast only."""
        kept: list[Candidate] = []
        refused: list[Refusal] = []
        for trace in group.fresh:
            names = _names(trace)
            proposed = _experiences(trace, group.fresh, group.known)
            lasting = 0
            for candidate in (*_statements(trace), *proposed):
                reason = refusal_reason(candidate, names)
                if not reason and candidate.kind == "experience":
                    lasting += 1
                    if lasting > EXPERIENCES:
                        reason = f"the trace has {EXPERIENCES} stronger experiences already"
                if reason:
                    refused.append(Refusal(_without_secrets(candidate, reason), reason))
                else:
                    kept.append(candidate)
        joined = [with_purpose(candidate) for candidate in _joined(kept)]
        return Reflection(tuple(joined), tuple(refused), reply=_reply(joined, refused))


def _statements(trace: Trace) -> list[Candidate]:
    """What the user of a trace states, a later value of an attribute after an earlier one."""
    known: dict[str, Statement] = {}
    found: dict[tuple[str, str, str], Candidate] = {}
    words = [event for event in trace.events if is_from_user(event)]
    settled: dict[str, list[Statement]] = defaultdict(list)
    for item in settled_of(trace, words):
        settled[item.event.event_id].append(item.said)
    for event in words:
        stated = statements_of(event.content, known)
        for said in stated:
            if said.attribute and not said.secret:
                known[said.attribute] = said
        # A sentence in which something is stated is kept once, as what it states
        quotes = [said.quote for said in stated if said.quote]
        stated += [said for said in settled[event.event_id] if not any(quote in said.quote for quote in quotes)]
        for said in stated:
            key = (said.kind, said.attribute or said.text.casefold(), said.value.casefold())
            found.setdefault(key, _statement_candidate(trace, said, (event, said.quote)))
    for agreed in agreements_of(trace):
        said = agreed.said
        places = ((agreed.acceptance, agreed.acceptance.content[:120]), (agreed.proposal, agreed.quote))
        found.setdefault((said.kind, said.text.casefold(), ""), _statement_candidate(trace, said, *places))
    return list(found.values())


def _statement_candidate(trace: Trace, said: Statement, *places: tuple[Event, str]) -> Candidate:
    """The candidate of a statement; `places` are where it shows, the user's own words first."""
    evidence = tuple(Evidence(event.trace_id, event.event_id, quote) for event, quote in places)
    return Candidate(
        kind=said.kind,
        text=said.text,
        evidence=() if said.secret else evidence,
        valid_from=places[0][0].at,
        subject=trace.first("subject"),
        entities=entities_of(said.text),
        tags=("changed",) if said.changed else (said.tag,) if said.tag else (),
        attribute=said.attribute,
        value=said.value,
        task_type=trace.first("task_type"),
        task_id=trace.first("task_id"),
        agent_role=trace.first("agent_role"),
        outcome=trace.outcome,
        said_by="user",
        language=trace_language(trace),
        quality=4 if said.confidence >= 0.85 else 3,
        importance=said.importance,
        confidence=said.confidence,
    )


def _experiences(trace: Trace, fresh: Sequence[Trace], known: Sequence[Trace]) -> list[Candidate]:
    """Lessons of one trace, strongest first. How it ended counts only when nothing else does.

    A pair of runs is compared once: by the failed one, or by the successful one if the failed one is known already.
    """
    language = trace_language(trace)
    chinese = language.startswith("zh")
    situation = situation_of(trace)
    lessons: list[Lesson] = []
    if trace.outcome in ("failure", "partial"):
        better = [other for other in (*fresh, *known) if other.outcome == "success"]
        lessons += [lesson for other in better if (lesson := contrast_of(trace, other, situation, chinese))]
    elif trace.outcome == "success":
        worse = [other for other in known if other.outcome == "failure"]
        lessons += [lesson for other in worse if (lesson := contrast_of(other, trace, situation, chinese))]
    lessons = lessons[:1]
    lessons += objections_of(trace, situation, chinese)
    lessons += order_of(trace, situation, chinese)
    lessons += repairs_of(trace, situation, chinese)
    lessons += detours_of(trace, situation, chinese)
    lessons += ways_round(trace, situation, chinese)
    for look in (assumption_of, unsourced_of):
        if lesson := look(trace, situation, chinese):
            lessons.append(lesson)
    if not lessons and (ending := ending_of(trace, situation, chinese)):
        lessons.append(ending)
    lessons.sort(key=lambda lesson: (-lesson.quality, -lesson.confidence))
    return [candidate_of(lesson, trace, language) for lesson in lessons]


def _names(trace: Trace) -> tuple[str, ...]:
    """Names of people and places that a lesson must not hold: the subject's, and those in what the user said."""
    said = "\n".join(event.content for event in trace.events if is_from_user(event))
    names = {entity.text for entity in find_entities(said, 100) if entity.kind == "name"}
    return tuple(sorted({*names, *filter(None, (trace.first("subject"),))}))


def _joined(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Equal lessons of several runs as one, with the evidence of all of them."""
    found: dict[tuple[str, str, str, str], Candidate] = {}
    for candidate in candidates:
        key = (candidate.kind, candidate.subject, candidate.text, candidate.value)
        before = found.get(key)
        if before is None:
            found[key] = candidate
            continue
        runs = {item.trace_id for item in before.evidence}
        more = {item.trace_id for item in candidate.evidence} - runs
        found[key] = replace(
            before,
            evidence=tuple(dict.fromkeys((*before.evidence, *candidate.evidence))),
            valid_from=max(before.valid_from, candidate.valid_from)
            if candidate.kind == "experience"
            else min(before.valid_from, candidate.valid_from),
            quality=min(5, before.quality + (1 if more else 0)),
            confidence=min(0.95, round(before.confidence + 0.1 * len(more), 3)),
        )
    return list(found.values())


def _without_secrets(candidate: Candidate, reason: str) -> Candidate:
    """A refused candidate as it may be kept: of a secret nothing but that there was one."""
    if "secret" not in reason and not is_secret(candidate.text):
        return candidate
    return replace(
        candidate,
        text=f"a {candidate.kind} that is not kept",
        value="",
        evidence=(),
        entities=(),
        trigger="",
        action="",
        avoid="",
        why="",
        not_when="",
    )


def _reply(kept: Sequence[Candidate], refused: Sequence[Refusal]) -> str:
    """What was proposed, in the form that the lake keeps."""
    said = {
        "candidates": [_plain(candidate) for candidate in kept],
        "refusals": [{"reason": refusal.reason, **_plain(refusal.candidate)} for refusal in refused],
    }
    return json.dumps(said, ensure_ascii=False, default=str)


def _plain(candidate: Candidate) -> dict[str, object]:
    """The fields of a candidate that say something."""
    return {name: value for name, value in asdict(candidate).items() if value not in ("", (), [])}
