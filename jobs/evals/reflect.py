"""Does a reflector see what people saw? Its lessons against annotated failures, its memories against gold ones.

Each set is read from a folder of its name below `data`; a set that is not there is left out.

| set | right means |
|---|---|
| trail, agentrx, whowhen | an experience quotes the annotated span or step |
| taubench | the experience of a failed run is among the first three for the other trial's opening words |
| realmem | a memory quotes the turn that a gold memory came from, and half of its words are the gold's |
"""

from __future__ import annotations

import json
import lzma
import math
import re
import tarfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...memory_store.capture.events import Trace
from ...memory_store.errors import UsageError
from ...memory_store.settings import Settings
from ..reflecting.candidates import Candidate, Reflector, TraceGroup
from ..reflecting.gate import gate
from ..reflecting.rules.generalise import content_words, instance_in
from .sets import NOW, dialogue_of, json_of, traces_in

#: Given texts and a query: the places of the texts, best first.
Rank = Callable[[Sequence[str], str], list[int]]
#: One set's figures, by name.
Figures = dict[str, float | int]

#: Most memories that count as found for a query.
_TOP = 3


def evaluate(data: Path, reflector: Reflector, settings: Settings, rank: Rank | None = None) -> dict[str, Figures]:
    """Figures for each set that lies below `data`: recall, precision, n, and what the set adds.

    `rank` orders texts for a query; without it, BM25 does. Raises `UsageError` if there is no set at all.
    """
    sets: dict[str, Callable[[Path], Figures]] = {
        "trail": lambda folder: _annotated(_trail(folder), reflector, settings),
        "whowhen": lambda folder: _annotated(_whowhen(folder), reflector, settings),
        "agentrx": lambda folder: _annotated(_agentrx(folder), reflector, settings),
        "taubench": lambda folder: _taubench(folder, reflector, settings, rank or bm25),
        "realmem": lambda folder: _realmem(folder, reflector),
    }
    found = {name: measure(data / name) for name, measure in sets.items() if (data / name).is_dir()}
    if not found:
        raise UsageError(f"{data} holds none of the folders {', '.join(sets)}: give the folder that holds them")
    return found


@dataclass
class _Case:
    """A trace and where people say it went wrong."""

    trace: Trace
    #: Steps that were annotated
    gold: set[int]
    #: The step of an event; events that are part of no step are left out
    steps: dict[str, int]
    #: The agent that is to blame; empty: not annotated
    agent: str = ""
    #: Agent of each step
    agents: dict[int, str] = field(default_factory=dict)


def _annotated(cases: Iterable[_Case], reflector: Reflector, settings: Settings) -> Figures:
    """Recall and precision of the steps that experiences quote, exactly and within one step."""
    count: Counter[str] = Counter()
    for case in cases:
        count["traces"] += 1
        count["n"] += len(case.gold)
        lessons = _lessons(reflector, settings, (case.trace,), count)
        pointed: set[int] = set()
        for lesson in lessons:
            steps = {case.steps[item.event_id] for item in lesson.evidence if item.event_id in case.steps}
            pointed |= steps
            count["right"] += bool(steps & case.gold)
            count["right_1"] += bool({s + d for s in steps for d in (-1, 0, 1)} & case.gold)
            count["right_agent"] += bool(case.agent) and case.agent in {case.agents.get(step, "") for step in steps}
        count["spoken"] += bool(lessons)
        count["found"] += len(case.gold & pointed)
        count["found_1"] += len(case.gold & {s + d for s in pointed for d in (-1, 0, 1)})
        count["blamed"] += bool(case.agent)
        count["found_agent"] += bool(case.agent) and case.agent in {case.agents.get(step, "") for step in pointed}
    figures = _figures(count["found"], count["right"], count["n"], count["lessons"])
    figures |= {
        "recall_1": _share(count["found_1"], count["n"]),
        "precision_1": _share(count["right_1"], count["lessons"]),
        "traces": count["traces"],
        "traces_with_a_lesson": count["spoken"],
        "most_lessons_a_trace": count["most"],
        "wrong_triggers": count["wrong_triggers"],
        "gated_out": count["gated_out"],
    }
    if count["blamed"]:
        figures["recall_agent"] = _share(count["found_agent"], count["blamed"])
        figures["precision_agent"] = _share(count["right_agent"], count["lessons"])
    return figures


def _lessons(reflector: Reflector, settings: Settings, traces: Sequence[Trace], count: Counter[str]) -> list[Candidate]:
    """The experiences of traces that pass the gate, with what is wrong about them counted."""
    rows = gate(traces, settings.gate, at=NOW, run="eval")
    chosen = tuple(trace for trace, row in zip(traces, rows, strict=True) if row["reflected"])
    count["gated_out"] += len(traces) - len(chosen)
    if not chosen:
        return []
    reflection = reflector.reflect(TraceGroup(chosen[0].trace_id, chosen))
    lessons = [candidate for candidate in reflection.candidates if candidate.kind == "experience"]
    count["lessons"] += len(lessons)
    count["most"] = max(count["most"], math.ceil(len(lessons) / len(chosen)))
    names = _said_names(chosen)
    count["wrong_triggers"] += sum(bool(instance_in(lesson.trigger, names)) for lesson in lessons)
    return lessons


_PERSON = re.compile(r"\b(?:my name is|i am|i'm|this is)\s+([A-Z][a-z]+(?: [A-Z][a-z]+){0,2})")


def _said_names(traces: Sequence[Trace]) -> tuple[str, ...]:
    """Names by which users introduce themselves."""
    said = (event.content for trace in traces for event in trace.events if event.role == "user")
    return tuple({name for text in said for name in _PERSON.findall(text)})


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0


def _figures(found: int, right: int, n: int, proposed: int) -> Figures:
    """Recall of `n` gold items and precision of what was proposed."""
    return {"recall": _share(found, n), "precision": _share(right, proposed), "n": n, "proposed": proposed}


def _placed(trace: Trace, texts: Sequence[Sequence[str]]) -> dict[str, int]:
    """The step of each event: the first one, from the event before it on, that holds its text.

    A call belongs to the step that made it, if that names it, else to the step of its answer.
    """
    steps: dict[str, int] = {}
    at = 0
    for event in trace.events:
        marks = [mark for mark in (event.call_id, event.content, event.result) if mark]
        if event.type == "task" or not marks:
            continue
        for step in range(at, len(texts)):
            if any(mark == text or (len(mark) > 8 and mark in text) for mark in marks for text in texts[step] if text):
                steps[event.event_id] = at = step
                break
    return steps


def _whowhen(folder: Path) -> Iterator[_Case]:
    for path in sorted(folder.glob("*.json.gz")):
        for run, trace in traces_in(path):
            history = run["history"]
            steps = _placed(trace, [[str(turn.get("content", ""))] for turn in history])
            agents = {i: str(turn.get("name") or turn.get("role") or "") for i, turn in enumerate(history)}
            yield _Case(trace, {int(run["mistake_step"])}, steps, str(run["mistake_agent"]), agents)


def _agentrx(folder: Path) -> Iterator[_Case]:
    verdicts = {int(one["trajectory_id"]): one for one in json_of(folder / "tau_ground_truth.json.gz")}
    for number, (run, trace) in enumerate(traces_in(folder / "tau_dataset_full.json.gz")):
        verdict = verdicts.get(number)
        if verdict is None:
            continue
        texts = [
            [str(turn.get("content") or ""), *(str(call["id"]) for call in turn.get("tool_calls") or ())]
            for turn in run["traj"]
        ]
        gold = {int(failure["step_number"]) - 1 for failure in verdict["failures"]}
        yield _Case(trace, gold, _placed(trace, texts))


def _trail(folder: Path) -> Iterator[_Case]:
    for path in sorted(folder.glob("*.tar.xz")):
        verdicts: dict[str, set[str]] = {}
        with lzma.open(path) as raw, tarfile.open(fileobj=raw) as archive:
            for member in archive:
                file = archive.extractfile(member) if "annotation" in member.name else None
                if file is not None:
                    errors = json.loads(file.read()).get("errors", ())
                    verdicts[Path(member.name).stem] = {str(error["location"]) for error in errors}
        for run, trace in traces_in(path):
            gold = verdicts.get(str(run.get("trace_id")))
            if gold:
                yield _spans(trace, gold)


def _spans(trace: Trace, gold: set[str]) -> _Case:
    """Spans as steps, in the order of their events; a message belongs to the span that it is a part of."""
    spans: dict[str, str] = {}
    for event in trace.events:
        own = json.loads(event.attributes).get("span_id", "") if event.attributes else ""
        spans[event.event_id] = own or spans.get(event.parent_event_id, "")
    order = {span: place for place, span in enumerate(dict.fromkeys(filter(None, spans.values())))}
    steps = {event: order[span] for event, span in spans.items() if span}
    return _Case(trace, {order[span] for span in gold if span in order}, steps)


def _taubench(folder: Path, reflector: Reflector, settings: Settings, rank: Rank) -> Figures:
    """Each trial's failed runs teach; the other trial's opening words of the same task ask."""
    count: Counter[str] = Counter()
    runs: dict[str, dict[int, Trace]] = defaultdict(dict)
    for path in sorted(folder.glob("*.json.gz")):
        for run, trace in traces_in(path):
            runs[str(run["task_id"])][int(run["trial"])] = trace
    for trial in sorted({trial for of_task in runs.values() for trial in of_task}):
        pool: list[tuple[str, str]] = []
        for task, trials in runs.items():
            if trial in trials and trials[trial].outcome == "failure":
                lessons = _lessons(reflector, settings, (trials[trial],), count)
                count["spoken"] += bool(lessons)
                pool += [(task, lesson.text) for lesson in lessons]
        for task, trials in runs.items():
            others = [other for number, other in trials.items() if number != trial]
            if trial not in trials or trials[trial].outcome != "failure" or not others:
                continue
            count["n"] += 1
            best = rank([text for _, text in pool], _opening(others[0]))[:_TOP]
            count["shown"] += len(best)
            count["own"] += sum(pool[place][0] == task for place in best)
            count["found"] += any(pool[place][0] == task for place in best)
    figures = _figures(count["found"], count["own"], count["n"], count["shown"])
    return figures | {
        "for_another_task": _share(count["shown"] - count["own"], count["shown"]),
        "failed_runs_with_a_lesson": count["spoken"],
        "most_lessons_a_trace": count["most"],
        "wrong_triggers": count["wrong_triggers"],
        "gated_out": count["gated_out"],
    }


def _opening(trace: Trace) -> str:
    return next((e.content for e in trace.events if e.type == "message" and e.role == "user"), trace.goal)


def _realmem(folder: Path, reflector: Reflector) -> Figures:
    """Gold memories of each session against what the reflector makes of the session."""
    count: Counter[str] = Counter()
    for path in sorted(folder.glob("*.json.gz")):
        for number, session in enumerate(json_of(path)["dialogues"]):
            gold = [item for item in session.get("extracted_memory") or () if item.get("content")]
            turns = [(turn["speaker"] == "User", str(turn["content"])) for turn in session["dialogue_turns"]]
            trace = dialogue_of(path.name, number, turns)
            if trace is None:
                continue
            count["sessions"] += 1
            count["n"] += len(gold)
            memories = reflector.reflect(TraceGroup(trace.trace_id, (trace,))).candidates
            memories = tuple(memory for memory in memories if memory.kind != "experience")
            count["proposed"] += len(memories)
            covered: set[int] = set()
            for memory in memories:
                places = [i for i, item in enumerate(gold) if _covers(memory, item, trace)]
                count["right"] += bool(places)
                covered |= set(places)
            count["found"] += len(covered)
    figures = _figures(count["found"], count["right"], count["n"], count["proposed"])
    return figures | {"sessions": count["sessions"]}


def _covers(memory: Candidate, gold: dict[str, Any], trace: Trace) -> bool:
    """Whether a memory quotes the turn of a gold memory, or one beside it, and shares half of its words with it."""
    places = {event.event_id: event.seq for event in trace.events}
    turn = gold.get("source_turn")
    if turn is not None and not any(abs(places[item.event_id] - int(turn)) <= 1 for item in memory.evidence):
        return False
    said, wanted = set(content_words(memory.text)), set(content_words(str(gold["content"])))
    return bool(said) and len(said & wanted) >= 0.5 * len(said)


_WORD = re.compile(r"[a-z0-9_]+|[\u4e00-\u9fff]")


def bm25(texts: Sequence[str], query: str) -> list[int]:
    """Places of the texts that share a word with the query, best first (Okapi BM25, k1 = 1.2, b = 0.75).

    >>> bm25(["cancel a booking", "rename a file"], "please cancel my booking")
    [0]
    """
    documents = [Counter(_stemmed(text)) for text in texts]
    lengths = [sum(document.values()) for document in documents]
    mean = sum(lengths) / len(lengths) if lengths else 1
    scores = [0.0] * len(documents)
    for word in set(_stemmed(query)):
        holders = sum(word in document for document in documents)
        weight = math.log(1 + (len(documents) - holders + 0.5) / (holders + 0.5))
        for i, document in enumerate(documents):
            if count := document[word]:
                scores[i] += weight * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * lengths[i] / mean))
    return sorted((i for i, score in enumerate(scores) if score > 0), key=lambda i: (-scores[i], i))


def _stemmed(text: str) -> list[str]:
    words = _WORD.findall(text.lower().replace("_", " "))
    return [re.sub(r"(?:ing|ed|es|s)$", "", word) if len(word) > 4 else word for word in words]
