"""What a pattern is, and how sure it is: bounds on shares of distinct tasks, never counts of repetitions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from ..reflecting.candidates import Evidence
from .look import Look

Sort = Literal["failure", "argument", "order", "correction"]
#: Traces that a pattern cites, each of another task.
CITED = 5
#: What is seen in fewer distinct tasks than this does not recur, and is no pattern at all.
RECURS = 2
#: One-sided 95 %.
Z = 1.645


@dataclass(frozen=True)
class Pattern:
    """Something that recurs over distinct tasks of a namespace, not worded yet."""

    sort: Sort
    #: What recurs. With the sort, it is what the pattern is known by, however its support grows
    signature: tuple[str, ...]
    #: What to do about it, language-free; another advice is another memory, which supersedes the one before
    advice: tuple[str, ...]
    #: Distinct tasks that show it
    tasks: int
    #: Distinct tasks in which the advice held, of those in which it could
    held: int
    of: int
    #: Traces of distinct tasks that show it, the newest first, `CITED` at most
    cited: tuple[Look, ...]
    evidence: tuple[Evidence, ...]
    #: Task type and role of all that show it; empty if they differ
    task_type: str = ""
    agent_role: str = ""
    #: Why it is not kept; empty if nothing speaks against it
    refusal: str = ""

    @property
    def language(self) -> str:
        """The language of most traces that are cited."""
        languages = [look.language for look in self.cited]
        return max(sorted(set(languages)), key=languages.count)

    @property
    def outcome(self) -> str:
        """How most traces that are cited ended."""
        outcomes = [look.outcome for look in self.cited]
        return max(sorted(set(outcomes)), key=outcomes.count)

    @property
    def at(self) -> datetime:
        """When it was last seen."""
        return max(look.at for look in self.cited)

    @property
    def names(self) -> tuple[str, ...]:
        """Names that no wording may hold."""
        return tuple(sorted({name for look in self.cited for name in look.names}))

    @property
    def confidence(self) -> float:
        """The lower bound on the share of tasks in which the advice holds; of advice that none has tried, half."""
        tried = lower_bound(self.held, self.of) if self.held else lower_bound(self.tasks, self.tasks) / 2
        return round(tried, 3)

    @property
    def importance(self) -> float:
        """From .3 upwards with how sure it is that it recurs."""
        return round(0.3 + 0.6 * lower_bound(self.tasks, self.tasks), 3)


def lower_bound(hits: int, n: int, z: float = Z) -> float:
    """The lower end of the Wilson score interval of a share (E. B. Wilson, JASA 22, 1927, p. 209-212); 0 for n = 0.

    >>> round(lower_bound(3, 3), 2), round(lower_bound(30, 30), 2), lower_bound(0, 5)
    (0.53, 0.92, 0.0)
    """
    return max(0.0, _wilson(hits, n, -z)) if n else 0.0


def upper_bound(hits: int, n: int, z: float = Z) -> float:
    """The upper end of the same interval; 1 for n = 0.

    >>> round(upper_bound(0, 10), 2)
    0.21
    """
    return min(1.0, _wilson(hits, n, z)) if n else 1.0


def _wilson(hits: int, n: int, z: float) -> float:
    share = hits / n
    centre = share + z * z / (2 * n)
    spread = math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return round((centre + z * spread) / (1 + z * z / n), 12)


def tasks_of(looks: Iterable[Look]) -> set[str]:
    """The distinct tasks of some traces: what is counted."""
    return {look.task for look in looks}


Shown = tuple[Look, Sequence[Evidence]]


def cite(best: Iterable[Shown], others: Iterable[Shown] = ()) -> tuple[tuple[Look, ...], tuple[Evidence, ...]]:
    """Traces that show something, one a task, the newest first, `CITED` at most, with their evidence.

    `others` come after the best.
    """
    chosen: dict[str, Shown] = {}
    for shown in (best, others):
        for look, evidence in sorted(shown, key=lambda item: (-item[0].at.timestamp(), item[0].trace_id)):
            chosen.setdefault(look.task, (look, evidence))
    some = list(chosen.values())[:CITED]
    return tuple(look for look, _ in some), tuple(dict.fromkeys(item for _, evidence in some for item in evidence))


def shared(values: Iterable[str]) -> str:
    """The one value that all have; empty if they differ."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else ""


def too_rare(tasks: int, least: int) -> str:
    """Why so few distinct tasks are not enough; empty if they are."""
    return f"seen in {tasks} distinct tasks, {least} are needed" if tasks < least else ""
