"""What logging costs the agent, beside what else it could log with, and whether anything is lost.

    python bench/log.py [--json] [--events 40000] [--threads-events 20000] [--kills 40] [--flat-events 200000]
    python bench/log.py [--json] --soak 10000000

One tool-call event of about 450 bytes, screening on, one write to the spool, the background thread rolling into
Parquet meanwhile. `caller`: arguments and result as the texts that a model and a tool hand over; `caller_objects`: the
same as nested dicts, which have to be encoded faithfully first. Beside it in the same run, in turns: an OpenTelemetry
span (start and end, batch processor, an exporter that drops), the same span with the event's content, and `logging`
through a QueueHandler with a listener. Then sustained rates, memory over many events, and the kill test. `load` is the
machine's load average: above the number of cores, compare columns, not microseconds. `--soak` measures nothing else:
resident memory at twenty steps of so many events.
"""

from __future__ import annotations

import argparse
import json
import logging
import logging.handlers
import os
import queue
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hindlake.memory_store.settings import Settings
from hindlake.sdk.recorder import Recorder

ARGUMENTS = {"order_id": "WX-48213", "include": ["items", "address", "tracking"], "limit": 10}
RESULT = {
    "status": "delayed",
    "carrier": "NordPost",
    "eta": "2026-03-04T10:00:00Z",
    "items": [{"sku": "A-1", "n": 2}, {"sku": "B-7", "n": 1}],
    "note": "Held at the customs office since Monday",
}
ARGUMENTS_TEXT, RESULT_TEXT = json.dumps(ARGUMENTS), json.dumps(RESULT)
ROUNDS = 8
KILL_WRITERS = Path(__file__).parents[1] / "tests" / "sdk" / "kill_writers.py"


def timed(call: Callable[[], object], count: int) -> list[int]:
    """Nanoseconds of each of `count` calls."""
    clock = time.perf_counter_ns
    took = []
    for _ in range(count):
        start = clock()
        call()
        took.append(clock() - start)
    return took


def percentile(took: list[int], share: float) -> float:
    return round(sorted(took)[int(len(took) * share)] / 1_000, 2)


def span_call() -> tuple[Callable[[], object], Callable[[], object]]:
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    class Drop(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Drop()))
    tracer = provider.get_tracer("bench")

    def call() -> None:
        span = tracer.start_span("execute_tool get_order")
        span.set_attribute("gen_ai.tool.name", "get_order")
        span.set_attribute("gen_ai.tool.call.arguments", json.dumps(ARGUMENTS))
        span.set_attribute("gen_ai.tool.call.result", json.dumps(RESULT))
        span.end()

    return call, provider.shutdown


def bare_span_call() -> tuple[Callable[[], object], Callable[[], object]]:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    class Drop(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Drop()))
    tracer = provider.get_tracer("bench")
    return lambda: tracer.start_span("execute_tool get_order").end(), provider.shutdown


def queue_call() -> tuple[Callable[[], object], Callable[[], object]]:
    messages: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()
    listener = logging.handlers.QueueListener(messages, logging.NullHandler())  # type: ignore[arg-type]
    listener.start()
    logger = logging.getLogger("bench")
    logger.propagate = False
    logger.setLevel(logging.INFO)
    logger.addHandler(logging.handlers.QueueHandler(messages))  # type: ignore[arg-type]
    return lambda: logger.info("get_order %s %s", ARGUMENTS, RESULT), listener.stop


def rate(recorder: Recorder, threads: int, events: int) -> int:
    """Events a second that `threads` threads log together."""

    def log() -> None:
        task = recorder.task("bench")
        for _ in range(events // threads):
            task.tool_call("get_order", arguments=ARGUMENTS_TEXT, result=RESULT_TEXT, latency_us=1_234)

    workers = [threading.Thread(target=log) for _ in range(threads)]
    start = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return int(events / (time.perf_counter() - start))


def resident_mb() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return round(int(line.split()[1]) / 1024, 1)
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def soak(events: int) -> dict[str, object]:
    """Resident memory, in MB, at twenty steps of `events` events in traces of a thousand, printed as it goes."""
    steps: dict[str, float] = {}
    per_step = max(1, events // 20)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(Settings.load(home=f"{folder}/home"))
        done = 0
        for step in range(1, 21):
            while done < step * per_step:
                with recorder.task("bench", conversation_id=f"c-{done // 1_000 % 1_000}") as task:
                    count = min(1_000, step * per_step - done)
                    for _ in range(count):
                        task.tool_call("get_order", arguments=ARGUMENTS, result=RESULT, latency_us=1_234)
                    done += count
                if done % 20_000 == 0:  # an agent pauses; the spool is rolled meanwhile
                    recorder.flush(600)
            recorder.flush(600)
            shutil.rmtree(f"{folder}/home/lake")  # so that the machine's disk does not fill
            steps[str(done)] = resident_mb()
            print(f"{done:>12,} {steps[str(done)]:8.1f} MB", file=sys.stderr, flush=True)
        failed = recorder.status().failed
        recorder.close()
    return {"soak_mb": steps, "failed": failed, "seconds": round(time.perf_counter() - began)}


def flat(recorder: Recorder, events: int) -> dict[str, float]:
    """Resident memory, in MB, after a tenth of the events and after all of them."""
    task = recorder.task("bench", conversation_id="c")
    tenth = max(1, events // 10)
    at_tenth = 0.0
    for number in range(events):
        task.tool_call("get_order", arguments=ARGUMENTS, result=RESULT, latency_us=1_234)
        if number % 20_000 == 0:  # an agent pauses; the spool is rolled meanwhile
            recorder.flush(60)
        if number == tenth:
            at_tenth = resident_mb()
    recorder.flush(60)
    return {"events": events, "mb_after_a_tenth": at_tenth, "mb_after_all": resident_mb()}


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    parser.add_argument("--events", type=int, default=40_000)
    parser.add_argument("--threads-events", type=int, default=20_000)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--flat-events", type=int, default=200_000)
    parser.add_argument("--soak", type=int, default=0, metavar="N", help="only log N events, and watch the memory")
    options = parser.parse_args()
    if options.soak:
        print(json.dumps(soak(options.soak)) if options.json else soak(options.soak))
        return
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(Settings.load(home=f"{folder}/home"))
        task = recorder.task("bench", task_type="logistics", subject="user:42", conversation_id="c-12")

        def log() -> object:
            return task.tool_call("get_order", arguments=ARGUMENTS_TEXT, result=RESULT_TEXT, latency_us=1_234)

        def log_objects() -> object:
            return task.tool_call("get_order", arguments=ARGUMENTS, result=RESULT, latency_us=1_234)

        span, end_span = span_call()
        bare, end_bare = bare_span_call()
        handler, end_handler = queue_call()
        calls = {
            "caller": log,
            "caller_objects": log_objects,
            "otel_span": bare,
            "otel_span_with_content": span,
            "queue_handler": handler,
        }
        took: dict[str, list[int]] = {name: [] for name in calls}
        for call in calls.values():
            timed(call, 500)
        recorder.flush(60)
        size = 0
        for _ in range(ROUNDS):
            for name, call in calls.items():
                took[name] += timed(call, options.events // ROUNDS)
                if name.startswith("caller"):
                    left = recorder.status()
                    size = left.waiting_bytes // left.waiting_events if left.waiting_events else size
                    recorder.flush(60)
        for end in (end_span, end_bare, end_handler):
            end()
        report: dict[str, object] = {"event_bytes": size, "load": round(os.getloadavg()[0], 1), "cores": os.cpu_count()}
        for name, each in took.items():
            report |= {f"{name}_p50_us": percentile(each, 0.5), f"{name}_p99_us": percentile(each, 0.99)}
        rates = {}
        for threads in (1, 4, 16):
            rates[str(threads)] = rate(recorder, threads, options.threads_events)
            recorder.flush(60)
        report["events_per_s"] = rates
        report["memory"] = flat(recorder, options.flat_events)
        status = recorder.status()
        report |= {"logged": status.logged, "failed": status.failed}
        recorder.close()
        killed = subprocess.run(
            [sys.executable, str(KILL_WRITERS), f"{folder}/kills", str(options.kills), "1"],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        report |= {name: value for name, value in json.loads(killed.stdout).items() if name != "rows"}
    if options.json:
        print(json.dumps(report))
    else:
        for name, value in report.items():
            print(f"{name:28} {value}")


if __name__ == "__main__":
    main()
