"""Counts of the measuring data, taken from the raw files: `python bench/raw_counts.py --data DIR`.

This program knows nothing of hindlake and imports none of it: it is what the counts in the lake are compared with.
One object on standard output: set → traces, spans, span_errors, tool_calls, tool_errors.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

Counts = dict[str, int]


def load(path: Path) -> Any:
    return json.loads(gzip.decompress(path.read_bytes()))


def chats(records: list[dict[str, Any]]) -> Counts:
    """OpenAI messages: each element of tool_calls is a call, each tool message that begins with Error: an error."""
    messages = [message for record in records for message in record["traj"]]
    return {
        "traces": len(records),
        "spans": 0,
        "span_errors": 0,
        "tool_calls": sum(len(message.get("tool_calls") or ()) for message in messages),
        "tool_errors": sum(m["role"] == "tool" and (m["content"] or "").startswith("Error:") for m in messages),
    }


def taubench(folder: Path) -> Counts:
    return chats(load(folder / "airline_trials_0_1.json.gz"))


def agentrx(folder: Path) -> Counts:
    return chats(load(folder / "tau_dataset_full.json.gz"))


def whowhen(folder: Path) -> Counts:
    records = load(folder / "algorithm_generated.json.gz")
    answers = [m["content"] for r in records for m in r["history"] if m["name"] == "Computer_terminal"]
    failed = [answer for answer in answers if re.match(r"exitcode: [1-9]", answer)]
    return counts(traces=len(records), tool_calls=len(answers), tool_errors=len(failed))


def sweagent(folder: Path) -> Counts:
    runs = [load(path) for path in sorted(folder.glob("*.traj.gz"))]
    steps = [step for run in runs for step in run["trajectory"] if step["action"].strip()]
    refused = re.compile(r"Your proposed edit has introduced|\s*EXECUTION TIMED OUT")
    failed = [step for step in steps if refused.match(step["observation"])]
    return counts(traces=len(runs), tool_calls=len(steps), tool_errors=len(failed))


def trail(folder: Path) -> Counts:
    spans: list[dict[str, Any]] = []
    traces = asked = 0
    with tarfile.open(folder / "gaia_dev.tar.xz") as archive:
        for member in archive:
            if not member.name.startswith("traces/") or not member.isfile():
                continue
            stream = archive.extractfile(member)
            assert stream is not None
            here: list[dict[str, Any]] = []
            waiting = list(json.load(stream)["spans"])
            while waiting:
                span = waiting.pop()
                here.append(span)
                waiting += span["child_spans"]
            traces += 1
            spans += here
            asked += unrun_calls(here)
    tools = [span for span in spans if kind(span) == "TOOL"]
    return counts(
        traces=traces,
        spans=len(spans),
        span_errors=sum(span["status_code"] == "Error" for span in spans),
        tool_calls=len(tools) + asked,
        tool_errors=sum(span["status_code"] == "Error" for span in tools),
    )


def kind(span: dict[str, Any]) -> str:
    return str(span["span_attributes"].get("openinference.span.kind"))


def unrun_calls(spans: list[dict[str, Any]]) -> int:
    """Calls that the model asked for and that no span of a tool ran: more of a name than there are spans of it."""
    ran = Counter(span["span_attributes"]["tool.name"] for span in spans if kind(span) == "TOOL")
    asked: dict[str, str] = {}
    for span in spans:
        given = span["span_attributes"]
        for key, value in given.items():
            if key.startswith("llm.output_messages") and key.endswith("tool_call.function.name"):
                asked[given[key.replace("function.name", "id")]] = value
    return sum(max(0, count - ran[name]) for name, count in Counter(asked.values()).items())


def otel(folder: Path) -> Counts:
    traces = set()
    spans: list[tuple[bool, dict[str, Any]]] = []
    for name in ("helm.json.gz", "k8s.json.gz"):
        for trace in load(folder / name)["data"]:
            traces.add(trace["traceID"])
            for span in trace["spans"]:
                tags = {tag["key"]: tag["value"] for tag in span["tags"]}
                spans.append((tags.get("error") is True, tags))
    for batch in load(folder / "tempo_export_with_batches.json.gz")["batches"]:
        for scope in batch["instrumentationLibrarySpans"]:
            for span in scope["spans"]:
                traces.add(span["traceId"])
                tags = {one["key"]: next(iter(one["value"].values())) for one in span["attributes"]}
                spans.append((span["status"].get("code") == 2, tags))
    tools = [(failed, tags) for failed, tags in spans if tags.get("gen_ai.operation.name") == "execute_tool"]
    ran = {tags["gen_ai.tool.call.id"] for _, tags in tools}
    asked = {str(value) for _, tags in spans for key, value in tags.items()
             if re.fullmatch(r"gen_ai\.completion\.\d+\.tool_calls\.\d+\.id", key)}  # fmt: skip
    return counts(
        traces=len(traces),
        spans=len(spans),
        span_errors=sum(failed for failed, _ in spans),
        tool_calls=len(tools) + len(asked - ran),
        tool_errors=sum(bad or '"isError": true' in tags["gcp.vertex.agent.tool_response"] for bad, tags in tools),
    )


def counts(**some: int) -> Counts:
    return {name: some.get(name, 0) for name in ("traces", "spans", "span_errors", "tool_calls", "tool_errors")}


SETS = {
    "agentrx": agentrx, "otel": otel, "sweagent": sweagent, "taubench": taubench, "trail": trail, "whowhen": whowhen,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds the sets")
    data = parser.parse_args().data
    print(json.dumps({name: count(data / name) for name, count in SETS.items() if (data / name).is_dir()}))


if __name__ == "__main__":
    main()
