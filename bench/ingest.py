"""How fast files are loaded: `python bench/ingest.py [--megabytes 64] [--data DIR] [--json]`.

Files of made-up runs are written in several formats and loaded into a lake in a new folder; with --data, the measuring
sets too. MB are those of the uncompressed file; a `cpu` second is one that this process worked, whatever else the
machine did. `peak_mb` is the most memory that the process had used by then.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import resource
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hindlake.jobs.ingest import ingest
from hindlake.memory_store.clock import SystemClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings

TEXT = "the parcel order city train ticket seat late again budget refund address street number paid open"
WORDS = TEXT.split()


def words(draw: random.Random, count: int) -> str:
    return " ".join(draw.choices(WORDS, k=count))


def trajectory(draw: random.Random, number: int) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": words(draw, 200)}]
    for turn in range(6):
        call = {"id": f"c{turn}", "function": {"name": "find", "arguments": json.dumps({"q": words(draw, 4)})}}
        messages += [
            {"role": "user", "content": words(draw, 30)},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{turn}", "content": json.dumps({"rows": [words(draw, 60)] * 3})},
            {"role": "assistant", "content": words(draw, 40)},
        ]
    return {"task_id": number, "reward": number % 2, "traj": messages}


def spans(draw: random.Random, number: int) -> dict[str, Any]:
    trace_id = f"{draw.getrandbits(128):032x}"
    made = []
    history = [{"role": "user", "parts": [{"type": "text", "content": words(draw, 30)}]}]
    for place in range(12):
        start = 1_767_225_600_000_000_000 + number * 10**9 + place * 10**7
        attributes = {"http.route": words(draw, 3), "peer": words(draw, 2)}
        if place % 3 == 1:
            answer = {"role": "assistant", "parts": [{"type": "text", "content": words(draw, 60)}]}
            attributes |= {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(history),
                           "gen_ai.output.messages": json.dumps([answer])}  # fmt: skip
            history = [*history, answer]
        if place % 3 == 2:
            attributes |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find",
                           "gen_ai.tool.call.result": words(draw, 80)}  # fmt: skip
        made.append({
            "traceId": trace_id, "spanId": f"{place + 1:016x}", "parentSpanId": f"{1:016x}" if place else "",
            "name": f"step {place}", "startTimeUnixNano": str(start), "endTimeUnixNano": str(start + 10**7),
            "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
        })  # fmt: skip
    return {"resourceSpans": [{"scopeSpans": [{"spans": made}]}]}


def lines(make: Callable[[random.Random, int], dict[str, Any]], size: int) -> Iterator[bytes]:
    draw, written, number = random.Random(7), 0, 0
    while written < size:
        line = json.dumps(make(draw, number)).encode() + b"\n"
        yield line
        written += len(line)
        number += 1


def write(folder: Path, size: int) -> list[tuple[str, Path, int]]:
    made = []
    for name, make in (("openai-messages", trajectory), ("otlp", spans)):
        all_lines = list(lines(make, size))
        total = sum(map(len, all_lines))
        plain = folder / f"{name}.jsonl"
        plain.write_bytes(b"".join(all_lines))
        made.append((f"{name} jsonl", plain, total))
        if name == "openai-messages":
            packed = folder / f"{name}.json.gz"
            packed.write_bytes(gzip.compress(b"[" + b",".join(all_lines) + b"]", 1))
            made.append((f"{name} array gz", packed, total))
    return made


def raw_size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        if path.suffix == ".gz":
            total += len(gzip.decompress(path.read_bytes()))
        elif path.suffix == ".xz":
            with tarfile.open(path) as archive:
                total += sum(member.size for member in archive)
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=64, help="size of each made-up file")
    parser.add_argument("--data", type=Path, help="folder with the measuring sets")
    parser.add_argument("--json", action="store_true", help="one object instead of a table")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        files = write(Path(folder), options.megabytes * 1_000_000)
        for name in ("taubench", "agentrx", "trail", "sweagent", "whowhen", "otel") if options.data else ():
            if (options.data / name).is_dir():
                files.append((name, options.data / name, raw_size(options.data / name)))
        settings = Settings.load(home=str(Path(folder) / "home"))
        lake = Lake.open(settings)
        for number, (name, path, size) in enumerate(files):
            took, cpu = [], []
            for _ in range(2):
                start, start_cpu = time.perf_counter(), time.process_time()
                report = ingest(lake, [path], settings, SystemClock(), namespace=f"n{number}")
                took.append(time.perf_counter() - start)
                cpu.append(time.process_time() - start_cpu)
                if len(took) == 1:
                    first = report
            rows.append({
                "name": name, "mb": round(size / 1e6, 1), "traces": first.loaded, "events": first.events,
                "mb_per_s": round(size / 1e6 / took[0], 1), "events_per_s": round(first.events / took[0]),
                "mb_per_cpu_s": round(size / 1e6 / cpu[0], 1),
                "again_mb_per_s": round(size / 1e6 / took[1], 1), "again_events": report.events,
                "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            })  # fmt: skip
    if options.json:
        print(json.dumps({"ingest": rows}))
        return
    print(" | ".join(rows[0]))
    for row in rows:
        print(" | ".join(map(str, row.values())))


if __name__ == "__main__":
    main()
