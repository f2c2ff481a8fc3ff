"""What recurs over distinct tasks: failures and what mended them, kinds of arguments that fail, corrections, orders.

Pure: looks at traces of one namespace in, patterns out, the refused ones with their reason. What is seen in one task
only recurs nowhere and is no pattern.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from .look import Look, Sighting
from .orders import orders
from .support import RECURS, Pattern, Sort, cite, lower_bound, shared, tasks_of, too_rare, upper_bound

#: Share of the tasks with a failure that must have mended it in one way for that to be the advice.
MENDED = 0.25
#: Kinds of corrections that are kept of one task type.
_CORRECTIONS = 3
#: An argument that was left out, as a kind of value.
ABSENT = "absent"

_Seen = tuple[Look, Sighting]


def mine(looks: Sequence[Look], least: int) -> list[Pattern]:
    """The patterns of one namespace, each that fewer than `least` distinct tasks show with its refusal.

    Failures and arguments are a tool's, whatever the task; orders and corrections are compared inside a task type.
    """
    by_type: dict[str, list[Look]] = defaultdict(list)
    for look in looks:
        by_type[look.task_type].append(look)
    found = list(failures(looks, least))
    found += arguments(looks, least, {pattern.advice[:2] + pattern.signature[:1] for pattern in found})
    for task_type, some in sorted(by_type.items()):
        found += orders(some, task_type, least)
        found += corrections(some, task_type, least)
    return found


def failures(looks: Sequence[Look], least: int) -> Iterator[Pattern]:
    """Failures that recur, by tool, class and message, each with what mended it in most tasks."""
    for signature, seen in sorted(_by_signature(looks, "failure").items()):
        tasks = len(tasks_of(look for look, _ in seen))
        if tasks < RECURS:
            continue
        ways: dict[tuple[str, ...], list[_Seen]] = defaultdict(list)
        for look, sighting in seen:
            if sighting.what:
                ways[sighting.what[:3]].append((look, sighting))
        advice, showing, held = _way(signature[0], ways, tasks, looks)
        refusal = too_rare(tasks, least) or ("" if advice else "nothing recurs that helps against it")
        yield _pattern("failure", signature, advice, showing or seen, tasks, held, tasks, refusal, among=seen)


def _way(
    tool: str, ways: dict[tuple[str, ...], list[_Seen]], tasks: int, looks: Sequence[Look]
) -> tuple[tuple[str, ...], list[_Seen], int]:
    """What mended a failure in most distinct tasks, who shows it, in how many; what is known to help if none did."""
    counted = [(len(tasks_of(look for look, _ in seen)), what) for what, seen in ways.items()]
    for count, what in sorted(counted, key=lambda item: (-item[0], _BEST.index(item[1][0]), item[1])):
        is_mend = what[0] != "known" and count >= RECURS and count >= MENDED * tasks
        if not is_mend or (what[0] == "tool" and lower_bound(count, tasks) <= _usual(tool, what[1], looks)):
            continue
        if what[0] == "shape" and what[2].endswith("…") and not _is_vocabulary(ways[what]):
            continue
        return what, ways[what], count
    known = [(count, what) for count, what in counted if what[0] == "known"]
    if not known:
        return (), [], 0
    _, what = max(known)
    return what, ways[what], 0


#: Ways to mend a failure, the most telling first; the first seven change an argument.
_BEST = ("from", "ask", "set", "shape", "pass", "drop", "other", "step", "tool", "retry", "known")


def _usual(tool: str, following: str, looks: Sequence[Look]) -> float:
    """The share of tasks in which a tool is followed by another one when it works: no mend if it is as much."""
    pairs = [
        (look.task, after)
        for look in looks
        for (before, _), (after, _) in zip(look.steps, look.steps[1:], strict=False)
        if before == tool and after != tool
    ]
    tasks = {task for task, _ in pairs}
    return len({task for task, after in pairs if after == following}) / len(tasks) if tasks else 0.0


def _is_vocabulary(seen: Sequence[_Seen]) -> bool:
    """Whether the words that ids begin with stand before different ids, and are no one's name."""
    return len({sighting.what[-1] for _, sighting in seen}) >= RECURS


@dataclass
class _Kind:
    """Calls that wrote one argument in one way."""

    failed: list[_Seen] = field(default_factory=list)
    worked: list[_Seen] = field(default_factory=list)


def arguments(looks: Sequence[Look], least: int, told: set[tuple[str, ...]]) -> Iterator[Pattern]:
    """Tools that fail for one kind of value of an argument and work for another: the strongest of each tool.

    `told` are ways, arguments and tools that failures tell of already.
    """
    for (tool,), seen in sorted(_by_signature(looks, "argument").items()):
        found = []
        for name, kinds in sorted(_kinds(seen).items()):
            working = {kind: tasks_of(look for look, _ in some.worked) for kind, some in kinds.items()}
            for kind, some in sorted(kinds.items()):
                others = [(k, tasks) for k, tasks in working.items() if k != kind and len(tasks) >= RECURS]
                gap = _gap(kind, kinds)
                is_told = _is_vocabulary(some.failed) if kind.endswith("…") else True
                if others and gap > 0 and is_told:
                    better = max(others, key=lambda item: (len(item[1]), item[0]))[0]
                    found.append((gap, name, kind, better, some))
        found.sort(key=lambda item: (-item[0], item[1], item[2]))
        for place, (_, name, kind, better, some) in enumerate(found):
            tasks = len(tasks_of(look for look, _ in some.failed))
            refusal = too_rare(tasks, least)
            if not refusal and place:
                refusal = f"{found[0][1]} tells as much of {tool}"
            if not refusal and any((way, name, tool) in told for way in _BEST[:7]):
                refusal = f"the failure of {tool} that recurs tells of {name} already"
            of = len(tasks_of(look for look, _ in (*some.failed, *some.worked)))
            advice = ("kind", name, kind, better)
            yield _pattern("argument", (tool, name, kind), advice, some.failed, tasks, tasks, of, refusal)


def _kinds(seen: Sequence[_Seen]) -> dict[str, dict[str, _Kind]]:
    """For each argument of a tool, how it was written, and who did so in calls that failed and that worked."""
    kinds: dict[str, dict[str, _Kind]] = defaultdict(lambda: defaultdict(_Kind))
    names = {name for _, sighting in seen if sighting.what[1] == "given" for name in sighting.what[2:]}
    for look, sighting in seen:
        end, sort, *rest = sighting.what
        told = [(name, ABSENT) for name in names - set(rest)] if sort == "given" else [(rest[0], rest[1])]
        for name, kind in told:
            (kinds[name][kind].failed if end == "failed" else kinds[name][kind].worked).append((look, sighting))
    return kinds


def _gap(kind: str, kinds: dict[str, _Kind]) -> float:
    """How far the share of tasks that fail with a kind of value lies above the same share of all other kinds."""
    own = kinds[kind]
    bad = tasks_of(look for look, _ in own.failed)
    every = bad | tasks_of(look for look, _ in own.worked)
    rest = [some for other, some in kinds.items() if other != kind]
    bad_rest = tasks_of(look for some in rest for look, _ in some.failed)
    every_rest = bad_rest | tasks_of(look for some in rest for look, _ in some.worked)
    if len(bad) < RECURS:
        return 0.0
    return lower_bound(len(bad), len(every)) - upper_bound(len(bad_rest), len(every_rest))


def corrections(looks: Sequence[Look], task_type: str, least: int) -> Iterator[Pattern]:
    """What users correct in several tasks of one type: the words that most of them share, at least two."""
    rest = [(look, item) for look in looks for item in look.sightings if item.sort == "correction"]
    kept = 0
    while True:
        words = _common_words(rest)
        if not words:
            return
        seen = [(look, item) for look, item in rest if words <= set(item.signature)]
        rest = [(look, item) for look, item in rest if not words <= set(item.signature)]
        tasks = len(tasks_of(look for look, _ in seen))
        told = min((item.what for _, item in seen), key=lambda what: (len(what[0]), what))
        tool = shared(item.what[1] for _, item in seen)
        refusal = too_rare(tasks, least)
        if not refusal and kept == _CORRECTIONS:
            refusal = f"the task type has {_CORRECTIONS} stronger corrections already"
        kept += not refusal
        signature = (task_type, *sorted(words))
        pattern = _pattern("correction", signature, ("said", told[0], tool), seen, tasks, tasks, tasks, refusal)
        yield replace(pattern, task_type=task_type)


def _common_words(seen: Sequence[_Seen]) -> set[str]:
    """The most words that the most distinct tasks share, two at least; none if nothing recurs."""
    pairs: dict[tuple[str, str], set[str]] = defaultdict(set)
    for look, item in seen:
        for pair in combinations(sorted(set(item.signature)), 2):
            pairs[pair].add(look.task)
    if not pairs:
        return set()
    pair, tasks = min(pairs.items(), key=lambda item: (-len(item[1]), item[0]))
    if len(tasks) < RECURS:
        return set()
    sharing = [set(item.signature) for look, item in seen if set(pair) <= set(item.signature)]
    return set.intersection(*sharing)


def _by_signature(looks: Sequence[Look], sort: Sort) -> dict[tuple[str, ...], list[_Seen]]:
    found: dict[tuple[str, ...], list[_Seen]] = defaultdict(list)
    for look in looks:
        for sighting in look.sightings:
            if sighting.sort == sort:
                found[sighting.signature].append((look, sighting))
    return found


def _pattern(
    sort: Sort,
    signature: tuple[str, ...],
    advice: tuple[str, ...],
    showing: Sequence[_Seen],
    tasks: int,
    held: int,
    of: int,
    refusal: str,
    among: Sequence[_Seen] = (),
) -> Pattern:
    every = among or showing
    cited, evidence = cite(*([(look, sighting.evidence) for look, sighting in some] for some in (showing, every)))
    return Pattern(
        sort=sort,
        signature=signature,
        advice=advice,
        tasks=tasks,
        held=held,
        of=of,
        cited=cited,
        evidence=evidence,
        task_type=shared(look.task_type for look, _ in every),
        agent_role=shared(look.agent_role for look, _ in every),
        refusal=refusal,
    )
