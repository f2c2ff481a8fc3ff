"""Orders of calls that tell success from failure across the tasks of one type.

A sequence of two or three tools, gaps allowed, counts when runs that hold it end otherwise than runs that hold all of
it but one step, whichever step that is: each step must earn its place (the improvement constraint of R. Bayardo,
R. Agrawal and D. Gunopulos, ICDE 1999). Single calls are not compared: which tools a run needs depends on its task.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby

from ..reflecting.candidates import Evidence
from .look import Look
from .support import RECURS, Pattern, cite, lower_bound, shared, tasks_of, too_rare, upper_bound

#: Orders that are kept of one task type.
MOST = 3
#: Steps of a sequence.
LENGTH = 3
#: Runs of one tool that are looked at in a trace.
_RUNS = 24
#: So many calls of one tool in a row are a step of their own: going round.
_MANY = 3
#: Two-sided 95 % for each of the two shares, which must lie wholly apart, since many sequences are compared.
_Z = 1.96
#: Marks a tool that was called `_MANY` times or more in a row.
MANY = " ×"

Steps = tuple[str, ...]


def orders(looks: Sequence[Look], task_type: str, least: int) -> list[Pattern]:
    """The orders that separate, among traces of one task type, strongest first; those over `MOST` are refused."""
    ended = [look for look in looks if look.outcome in ("success", "failure")]
    if min(len(tasks_of(look for look in ended if look.outcome == end)) for end in ("success", "failure")) < RECURS:
        return []
    holders = hold(ended)
    found = [item for steps in holders if len(steps) > 1 if (item := _separates(steps, holders, ended))]
    found.sort(key=lambda item: (-item[0], len(item[1]), item[1]))
    chosen: list[Steps] = []
    patterns = []
    for _, steps, end in found:
        rival = next((other for other in chosen if _within(steps, other) or _within(other, steps)), None)
        refusal = f"the order of {' and '.join(rival)} says as much" if rival else ""
        if not refusal and len(chosen) == MOST:
            refusal = f"the task type has {MOST} stronger orders already"
        pattern = _pattern(steps, end, [ended[place] for place in holders[steps]], task_type, least, refusal)
        if not pattern.refusal:
            chosen.append(steps)
        patterns.append(pattern)
    return patterns


def hold(looks: Sequence[Look]) -> dict[Steps, set[int]]:
    """The places of the traces that hold each sequence of up to `LENGTH` steps which recurs over distinct tasks."""
    runs = [_runs(look) for look in looks]
    kept: dict[Steps, set[int]] = {}
    for length in range(1, LENGTH + 1):
        found: dict[Steps, set[int]] = defaultdict(set)
        for place, steps in enumerate(runs):
            for sequence in _sequences(steps, length, kept):
                found[sequence].add(place)
        kept |= {s: at for s, at in found.items() if len(tasks_of(looks[i] for i in at)) >= RECURS}
    return kept


def _runs(look: Look) -> list[Steps]:
    """What each run of calls of one tool can stand for: the tool, and the tool many times if it was."""
    runs = [(tool, sum(1 for _ in some)) for tool, some in groupby(tool for tool, _ in look.steps)]
    return [(tool, tool + MANY) if count >= _MANY else (tool,) for tool, count in runs[:_RUNS]]


def _sequences(runs: Sequence[Steps], length: int, kept: dict[Steps, set[int]]) -> set[Steps]:
    """The sequences of so many steps in a trace, every shorter part of which recurs."""
    level: list[tuple[int, Steps]] = [(-1, ())]
    for size in range(1, length + 1):
        level = list(
            dict.fromkeys(
                (at, (*steps, name))
                for last, steps in level
                for at in range(last + 1, len(runs))
                for name in runs[at]
                if size == length or (*steps, name) in kept
            )
        )
    return {steps for _, steps in level if length == 1 or all(part in kept for part in _parts(steps))}


def _parts(steps: Steps) -> Iterator[Steps]:
    for gone in range(len(steps)):
        yield steps[:gone] + steps[gone + 1 :]


def _within(part: Steps, whole: Steps) -> bool:
    rest = iter(whole)
    return all(step in rest for step in part)


def _separates(steps: Steps, holders: dict[Steps, set[int]], looks: Sequence[Look]) -> tuple[float, Steps, str] | None:
    """How far the bounds of the share of success lie apart with and without a step, and which end it goes with."""
    if len({step.removesuffix(MANY) for step in steps}) < len(steps):
        return None
    good, bad = _ends(holders[steps], looks)
    gaps: dict[str, float] = {}
    for end, hits in (("success", good), ("failure", bad)):
        with_it = lower_bound(hits, good + bad, _Z)
        gaps[end] = min(with_it - _upper_without(end, holders[part] - holders[steps], looks) for part in _parts(steps))
    end = max(gaps, key=lambda name: gaps[name])
    return (gaps[end], steps, end) if gaps[end] > 0 and not _denied(steps, end, holders, looks) else None


def _upper_without(end: str, places: set[int], looks: Sequence[Look]) -> float:
    good, bad = _ends(places, looks)
    return upper_bound(good if end == "success" else bad, good + bad, _Z)


def _ends(places: set[int], looks: Sequence[Look]) -> tuple[int, int]:
    """Distinct tasks of these traces that succeeded, and that failed; a task that did both counts in both."""
    good = tasks_of(looks[place] for place in places if looks[place].outcome == "success")
    bad = tasks_of(looks[place] for place in places if looks[place].outcome == "failure")
    return len(good), len(bad)


def _denied(steps: Steps, end: str, holders: dict[Steps, set[int]], looks: Sequence[Look]) -> bool:
    """Whether the tasks that ended both ways say the opposite more often than the same."""
    runs: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for place, look in enumerate(looks):
        runs[look.task][look.outcome].append(place in holders[steps])
    same = opposite = 0
    for by_end in runs.values():
        here, there = by_end.get(end), by_end.get("failure" if end == "success" else "success")
        if here and there:
            same += any(here) and not any(there)
            opposite += any(there) and not any(here)
    return opposite > same


def _pattern(steps: Steps, end: str, holding: Sequence[Look], task_type: str, least: int, refusal: str) -> Pattern:
    showing = [look for look in holding if look.outcome == end]
    tasks = len(tasks_of(showing))
    cited, evidence = cite((look, _shown(steps, look)) for look in showing)
    against = len(tasks_of(look for look in holding if look.outcome != end))
    return Pattern(
        sort="order",
        signature=(task_type, *steps),
        advice=(end, *steps),
        tasks=tasks,
        held=tasks,
        of=tasks + against,
        cited=cited,
        evidence=evidence,
        task_type=task_type,
        agent_role=shared(look.agent_role for look in showing),
        refusal=too_rare(tasks, least) or refusal,
    )


def _shown(steps: Steps, look: Look) -> list[Evidence]:
    """The calls of a trace that are the steps, the first way it holds them."""
    shown: list[Evidence] = []
    place = 0
    for step in steps:
        tool, count = (step.removesuffix(MANY), _MANY) if step.endswith(MANY) else (step, 1)
        while place < len(look.steps):
            here = look.steps[place : place + count]
            place += 1
            if len(here) == count and all(name == tool for name, _ in here):
                shown.append(here[0][1])
                place += count - 1
                break
    return shown
