"""Would deduplication merge what differs, and miss what is the same? Pairs are typed by the function that the jobs use.

Each set is read from a folder of its name below `data`; a set that is not there is left out.

| set | right means |
|---|---|
| locomo, memdaily | no two facts of one person or messages of one user are merged, but for the same words |
| pairs | precision and recall of what is merged (same or refines), a set; of PAWS-X, pairs that differ and are merged |
| longmemeval, realmem | written in order and resolved, the newer statement stands and the older one points to it |
| precisionmembench | what was superseded is superseded by its successor; nobody's belief meets another user's |

Of labelled pairs, the half that `is_reported` gives counts; the other half is what calibrations were fitted on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...memory_store.errors import UsageError
from ...memory_store.history.inbox import Row
from ..comparing.pairs import Verdict, type_pairs
from ..comparing.wording import normal_text
from ..deciding.meet import Scale, meet
from ..deciding.meetings import Meeting
from ..deciding.resolve import resolve
from ..reflecting.rules.attributes import holds_many
from . import dedup_sets as sets
from .vector_cache import VectorCache

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Matrix = npt.NDArray[np.float32]

#: One set's figures, by name.
Figures = dict[str, float | int]
#: Told how far it is: the set, what is being done, how many are done and of how many.
Progress = Callable[[str, str, int, int], None]
#: Pairs typed at a time, after which progress is told.
_PORTION = 5_000
#: Of a set of distinct facts, pairs that are less likely than this to be about one thing are not typed.
_NEAR = 0.05


class DedupEval:
    """The sets of one folder, measured with one embedder and its calibration."""

    def __init__(
        self, data: Path, vectors: VectorCache, embedder: str, progress: Progress | None = None, *, sample: int = 0
    ) -> None:
        """`sample`: so many histories of MemDaily, evenly spread; 0 is all. Raises `UsageError` when the folder holds
        none of the sets.
        """
        self._data, self._vectors = data, vectors
        self._scale = Scale(embedder)
        self._progress = progress or (lambda name, what, done, count: None)
        self._sample = sample
        self._sets: dict[str, Callable[[], Figures]] = {
            "locomo": lambda: self._facts("locomo", list(sets.locomo(data / "locomo"))),
            "memdaily": lambda: self._facts("memdaily", self._sampled(list(sets.memdaily(data / "memdaily")))),
            "longmemeval": lambda: self._updates("longmemeval", list(sets.longmemeval(data / "longmemeval"))),
            "realmem": lambda: self._updates("realmem", list(sets.realmem(data / "realmem"))),
            "precisionmembench": lambda: self._beliefs(data / "precisionmembench"),
        }
        if not any((data / name).is_dir() for name in (*self._sets, "pairs")):
            raise UsageError(f"{data} holds none of the folders {', '.join((*self._sets, 'pairs'))}: give theirs")

    def evaluate(self) -> dict[str, Any]:
        """Figures of every set that is there, and the totals that matter most at the top."""
        found: dict[str, Any] = {name: run() for name, run in self._sets.items() if (self._data / name).is_dir()}
        folder = self._data / "pairs"
        for name, (file, first, second, label, same_from) in sets.PAIR_SETS.items():
            if (folder / file).is_file():
                pairs = sets.labelled_pairs(folder / file, first, second, label, same_from)
                found[name] = self._labelled(name, [pair for pair in pairs if sets.is_reported(*pair[:2])])
        updates = [found[name] for name in ("longmemeval", "realmem") if name in found]
        return {
            "false_merges": sum(found[name]["false_merges"] for name in ("locomo", "memdaily") if name in found),
            "pawsx_merged": found.get("pawsx", {}).get("wrong", 0),
            "updates_right": sum(one["updates_right"] for one in updates),
            "n": sum(one["n"] for one in updates),
            **found,
        }

    def _embed(self, name: str, texts: Sequence[str]) -> Matrix:
        return self._vectors.passages(texts, lambda done, count: self._progress(name, "texts embedded", done, count))

    def _sampled(self, groups: list[tuple[str, list[str]]]) -> list[tuple[str, list[str]]]:
        if not 0 < self._sample < len(groups):
            return groups
        return [groups[place * len(groups) // self._sample] for place in range(self._sample)]

    def _typed(self, name: str, pairs: Sequence[tuple[Row, Row]]) -> list[Verdict]:
        """The verdict on each pair, with probabilities from the calibration."""
        texts = list(dict.fromkeys(str(row["text"]) for pair in pairs for row in pair))
        matrix = self._embed(name, texts)
        place = {text: number for number, text in enumerate(texts)}
        verdicts: list[Verdict] = []
        for start in range(0, len(pairs), _PORTION):
            some = pairs[start : start + _PORTION]
            ready = [
                self._scale.pair(one, two, float(matrix[place[one["text"]]] @ matrix[place[two["text"]]]))
                for one, two in some
            ]
            verdicts += type_pairs(ready, holds_many=holds_many)
            self._progress(name, "pairs typed", len(verdicts), len(pairs))
        return verdicts

    def _facts(self, name: str, groups: Sequence[tuple[str, list[str]]]) -> Figures:
        """Distinct facts of one subject: every pair that may be about one thing is typed."""
        import numpy as np

        figures: Figures = {"false_merges": 0, "superseded": 0, "groups": len(groups), "pairs": 0, "typed": 0}
        self._embed(name, list(dict.fromkeys(text for _, some in groups for text in some)))
        done: set[tuple[str, str]] = set()
        pairs: list[tuple[Row, Row]] = []
        for subject, some in groups:
            own = list({normal_text(text): text for text in some}.values())
            matrix = self._vectors.passages(own)
            cosines = matrix @ matrix.T
            figures["pairs"] += len(own) * (len(own) - 1) // 2
            for one, two in zip(*np.nonzero(np.triu(cosines >= self._scale.lowest(_NEAR), 1)), strict=True):
                key = (own[one], own[two])
                if key not in done:
                    done.add(key)
                    pairs.append(
                        tuple(sets.row_of(own[at], subject, sets.day(int(at))) for at in (one, two))  # type: ignore[arg-type]
                    )
        figures["typed"] = len(pairs)
        for verdict in self._typed(name, pairs):
            figures["false_merges"] += verdict.joins
            figures["superseded"] += verdict.type in ("supersedes", "conflicts")
        return figures

    def _labelled(self, name: str, pairs: Sequence[tuple[str, str, bool]]) -> Figures:
        """Pairs with a label; those of the same words in both are counted apart: no rule could tell them apart."""
        rows = [(sets.row_of(first, "someone"), sets.row_of(second, "someone")) for first, second, _ in pairs]
        merged = [verdict.joins for verdict in self._typed(name, rows)]
        alike = [normal_text(first) == normal_text(second) for first, second, _ in pairs]
        right = sum(join and same for join, (_, _, same) in zip(merged, pairs, strict=True))
        wrong = sum(
            join and not same and not equal for join, equal, (_, _, same) in zip(merged, alike, pairs, strict=True)
        )
        positive = sum(same for _, _, same in pairs)
        return {
            "precision": round(right / (right + wrong), 4) if right + wrong else 0.0,
            "recall": round(right / positive, 4) if positive else 0.0,
            "right": right,
            "wrong": wrong,
            "n": len(pairs),
            "positive": positive,
            "same_words_called_different": sum(
                equal and not same for equal, (_, _, same) in zip(alike, pairs, strict=True)
            ),
        }

    def _updates(self, name: str, cases: Sequence[sets.Update]) -> Figures:
        """What is written, batch by batch, is resolved as the jobs do. Right: an older statement no longer stands, the
        newer one that it points to does, and the two are those that are meant.
        """
        self._embed(name, [row["text"] for case in cases for batch in case.batches for row in batch])
        figures: Figures = {"updates_right": 0, "n": len(cases), "wrongly_retired": 0}
        for place, case in enumerate(cases, 1):
            known = self._written(case.batches)
            hit = False
            for row in known.values():
                if row["state"] not in ("superseded", "merged"):
                    continue
                other = known[row["superseded_by"]]
                is_newer = other["valid_from"] > row["valid_from"]
                if is_newer and other["state"] == "active" and case.meant(row["text"], other["text"]):
                    hit = True
                elif normal_text(row["text"]) != normal_text(other["text"]):
                    figures["wrongly_retired"] += 1
            figures["updates_right"] += hit
            self._progress(name, "cases resolved", place, len(cases))
        return figures

    def _written(self, batches: Sequence[Sequence[Row]]) -> dict[str, Row]:
        """The memories by id, once each batch was written and then met what was there."""
        known: dict[str, Row] = {}
        for batch in batches:
            rows = [*(row for row in known.values() if row["state"] == "active"), *batch]
            met: dict[str, list[Meeting]] = defaultdict(list)
            vectors = self._vectors.passages([row["text"] for row in rows])
            for one in meet(rows, vectors, self._scale, what="same", holds_many=holds_many):
                for mine, other in ((one.first, one.second), (one.second, one.first)):
                    met[rows[mine]["id"]].append(
                        Meeting(rows[other]["id"], one.verdict, one.verdict.stands == (other == one.second))
                    )
            decided = resolve([], batch, list(known.values()), holds_many=holds_many, met=met)
            known |= {row["id"]: dict(row) for row in batch}
            for row in (row for rows in decided.values() for row in rows):
                known[row["id"]].update({key: value for key, value in row.items() if key in known[row["id"]]})
        return known

    def _beliefs(self, folder: Path) -> Figures:
        rows, chain = sets.beliefs(folder)
        ids = list(rows)
        pairs = [(one, two) for place, one in enumerate(ids) for two in ids[place + 1 :]]
        typed = self._typed("precisionmembench", [(rows[one], rows[two]) for one, two in pairs])
        figures: Figures = {"superseded_right": 0, "n": len(chain), "isolation_broken": 0, "wrongly_joined": 0}
        for (one, two), verdict in zip(pairs, typed, strict=True):
            meant = two in _successors(chain, one) or one in _successors(chain, two)
            if verdict.type == "supersedes" and meant:
                figures["superseded_right"] += chain.get(one) == two or chain.get(two) == one
            elif verdict.joins or verdict.type == "supersedes":
                figures["wrongly_joined"] += 1
                figures["isolation_broken"] += rows[one]["subject"] != rows[two]["subject"]
        return figures


def _successors(chain: Mapping[str, str], one: str) -> list[str]:
    """What superseded a belief, and what superseded that, and so on."""
    found: list[str] = []
    while (one := chain.get(one, "")) and one not in found:
        found.append(one)
    return found
