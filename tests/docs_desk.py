"""A desk at which the commands of a page are typed: a home with a past, the files that pages name, a shell of sorts.

A command of hindlake runs in this process as the installed one would, a server as one that has to answer. What belongs
to others is looked up in `docs_others`.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

import claude_code_session
from typer.testing import CliRunner

import docs_data
from composed import free_ports
from docs_others import OTHERS
from hindlake.cli import app
from hindlake.flows.pipeline import run_reflect
from hindlake.jobs.ingest import ingest
from hindlake.jobs.models.scripted_batches import ScriptedBatches
from hindlake.jobs.models.scripted_model import Request, Turn, say
from hindlake.memory_store.clock import ManualClock, SystemClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings
from hindlake.sdk.memory import Memory
from hindlake.sdk.recorder import Recorder
from servers.embeddings import Embeddings
from servers.otlp import otlp_receiver
from story_home import log_story

ROOT = Path(__file__).parent.parent
#: Before the days that pages ask about.
BEGAN = datetime(2026, 2, 20, tzinfo=UTC)
#: What commands say that looked where there is nothing: then a page shows nothing either.
_NOTHING = re.compile(r"^nothing (found|happened|was reflected)", re.MULTILINE)


def make_past(home: Path) -> dict[str, str]:
    """Fill a home with what an agent has lived through, and return what stands for the placeholders of pages.

    `restore` and `--memory` are for an ID that stands beside one of these.
    """
    settings = Settings.load(home=str(home), embedder="wordllama")
    clock = ManualClock(BEGAN)
    known: dict[str, str] = {}
    with Memory(settings, clock=clock) as memory:
        known["ID"] = memory.remember(
            "The budget is 5000 euros.", subject="user:42", attribute="budget", value="5000", entities=["Berlin"]
        )
        memory.remember("Bob lives in Berlin.", subject="user:42", entities=["Bob", "Berlin"])
        memory.remember("小王喜欢发邮件。", "preference", subject="user:mei", entities=["小王"])
        memory.remember(
            "When pay says E42 the card was refused: ask for another one.", "experience", tool="pay", error_code="E42",
            outcome="failure", tags=["vip"],
        )  # fmt: skip
        known["restore"] = memory.remember("Invoices are paid on Fridays.")
        memory.forget(known["restore"])
    log_story(settings)
    clock.time = datetime(2026, 3, 3, tzinfo=UTC)
    run_reflect(settings, clock, version="docs", engine="loop")
    with Recorder(settings) as recorder, recorder.task("Book the course", subject="ann") as task:
        task.user("I prefer window seats. When does the course start?")
        task.agent("The course starts on Monday.")
        task.outcome("success")
        known["TRACE"] = task.trace_id
    lake = Lake.open(settings)
    ingest(lake, [ROOT / "examples" / "support.jsonl"], settings, SystemClock(), namespace="default")
    known["RUN"] = run_reflect(settings, SystemClock(), version="docs", engine="loop").run_id
    with Memory(settings.model_copy(update={"namespace": "acme"})) as memory:
        memory.remember("Refunds above 500 need a manager.")
    with Memory(settings) as memory:
        known["--memory"] = memory.remember("Ann takes the train.", "preference", subject="ann")
    log_story(settings)
    return known


@dataclass(frozen=True)
class Line:
    """One command of a block."""

    #: Page and line, for whoever has to mend it
    place: str
    words: tuple[str, ...]
    #: Variables that are set before it
    variables: Mapping[str, str] = field(default_factory=dict)
    #: The command whose output it reads
    reads: tuple[str, ...] = ()


def lines_of(page: Path) -> Iterator[Line]:
    """The commands of a page's `sh` blocks, in their order."""
    text = page.read_text(encoding="utf-8")
    for block in re.finditer(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        first = text[: block.start(1)].count("\n") + 1
        for number, line in enumerate(block[1].splitlines(), first):
            before: tuple[str, ...] = ()
            variables: dict[str, str] = {}
            said: list[str] = []
            for word in [*shlex.split(line.replace("<this repository>", "REPOSITORY"), comments=True), "&&"]:
                if word == "|":
                    before, said = tuple(said), []
                elif word == "&&":
                    if said:
                        yield Line(f"{page.name}:{number}", tuple(said), variables, before)
                    before, said, variables = (), [], {}
                elif not said and re.fullmatch(r"[A-Z_]+=.*", word):
                    name, _, value = word.partition("=")
                    variables[name] = value
                else:
                    said.append(word)


class Desk:
    """Where the commands of one page are typed, one after the other."""

    def __init__(self, folder: Path, past: Path, known: Mapping[str, str], stack: ExitStack) -> None:
        self.folder, self._known, self._stack = folder, known, stack
        #: Variables of the page
        self.variables = {"HOME": str(folder / "user"), "HINDLAKE_HOME": str(folder / "home"),
                          "HINDLAKE_EMBEDDER": "wordllama", "HINDLAKE_MODEL_CALLS": "on"}  # fmt: skip
        shutil.copytree(past, folder / "home")
        _put_files(folder)

    @cached_property
    def embeddings(self) -> str:
        """The address of an endpoint of embedding models."""
        server = Embeddings()
        self._stack.callback(server.close)
        return server.url

    @cached_property
    def model(self) -> str:
        """The address of a language model, which has read what the rules would have."""
        return self._stack.enter_context(ScriptedBatches(_lesson)).url

    @cached_property
    def ports(self) -> list[int]:
        """Two free ports, the same for all commands of the page."""
        return free_ports(2)

    def type(self, line: Line) -> None:
        """Do what a line says. Raises `AssertionError` where it does not do what the page lets one expect."""
        words = [self._meant(word, line.words) for word in line.words]
        variables = {name: self._meant(value, line.words) for name, value in line.variables.items()}
        if words[0] == "export":
            self.variables.update(word.split("=", 1) for word in words[1:])
        elif words[0] == "hindlake":
            sent = OTHERS[line.reads[0]](self, list(line.reads), {}) if line.reads else None
            self._hindlake(words[1:], variables, sent or "")
        else:
            assert words[0] in OTHERS, f"what is {words[0]}? say in docs_others.py how it is run or what it is held to"
            OTHERS[words[0]](self, words, variables)

    def run(self, words: list[str], variables: Mapping[str, str], cwd: Path | None = None) -> str:
        """Run a program to its end, and return what it prints."""
        command = [sys.executable, *words[1:]] if words[0] == "python" else words
        done = subprocess.run(
            command, cwd=cwd or self.folder, env=self.environment(variables), capture_output=True, text=True,
            stdin=subprocess.DEVNULL, timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, f"{shlex.join(words)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout

    def serve(self, words: list[str], variables: Mapping[str, str], url: str) -> None:
        """Start a server that runs until the page ends, and wait until it answers."""
        with (self.folder / "served.log").open("ab") as log:
            process = subprocess.Popen(
                words, cwd=self.folder, env=self.environment(variables), stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True,
            )  # fmt: skip
        self._stack.callback(_end, process)
        end = time.monotonic() + 300
        while time.monotonic() < end:
            try:
                with urllib.request.urlopen(url, timeout=5) as answer:
                    assert answer.status == 200
                    return
            except OSError:
                said = (self.folder / "served.log").read_text(errors="replace")[-2000:]
                assert process.poll() is None, f"{shlex.join(words)}\n{said}"
                time.sleep(0.1)
        raise AssertionError(f"{shlex.join(words)} does not answer at {url}")

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Variables of a process."""
        paths = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return {**os.environ, **self.variables, **variables, "PATH": paths}

    def _meant(self, word: str, words: tuple[str, ...]) -> str:
        """What a word of a page stands for here."""
        if word == "ID" and (apart := next((one for one in ("restore", "--memory") if one in words), "")):
            return self._known[apart]
        if word == "N":
            listed = CliRunner().invoke(app, ["generations", "list", "--json"], env=self.variables)
            return str(max(one["number"] for one in json.loads(listed.stdout)["generations"]))
        if word == "20261130":
            return next((self.folder / "root/mnt/backups/hindlake/manifests").iterdir()).name[:8]
        if word in ("DIR", "../data"):
            return str(self.folder / "data")
        word = re.sub(r"^(?=/(mnt|srv)/)", f"{self.folder}/root", word)
        word = re.sub(r"(?<==)(?=/(mnt|srv)/)", f"{self.folder}/root", word)
        word = re.sub(r"^~(?=/)", self.variables["HOME"], word)
        if word.endswith(("=http://127.0.0.1:8080/v1", "=https://api.openai.com/v1")):
            return f"{word.partition('=')[0]}={self.embeddings}"
        word = word.replace("http://server:4200", f"http://127.0.0.1:{self.ports[0]}")
        if word == "http://127.0.0.1:4318":
            received = self._stack.enter_context(otlp_receiver())
            self._stack.callback(lambda: _assert(received.spans, "no span came in"))
            return received.endpoint
        return re.sub(r"\b(ID|RUN|TRACE)\b", lambda found: self._known[found[0]], word)

    def _hindlake(self, words: list[str], variables: Mapping[str, str], sent: str) -> None:
        if words[0] == "mcp" and "--new-token" not in words:
            self._serve_mcp(words, variables)
            return
        if any(name.startswith("OTEL_") for name in variables):  # sets up the whole process
            self.run(["python", "-m", "hindlake.cli", *words], variables)
            return
        done = CliRunner().invoke(app, words, input=sent, env={**self.variables, **variables})
        told = f"hindlake {shlex.join(words)}\n{done.output[-3000:]}"
        assert done.exit_code == 0, f"{told}\n{done.exception!r}"
        assert not _NOTHING.search(done.stderr) or "1207" in words, told
        if "--new-token" in words:
            (self.folder / "hindlake.toml").write_text(done.stdout[done.stdout.index("\n[mcp") :], encoding="utf-8")
        if "--export" in words:  # a person judges
            _judge(self.folder / words[-1])

    def _serve_mcp(self, words: list[str], variables: Mapping[str, str]) -> None:
        command = [sys.executable, "-m", "hindlake.cli", *words]
        if "--http" in words:
            place = command.index("--port") + 1
            command[place] = str(self.ports[0])
            self.serve(command, variables, f"http://127.0.0.1:{self.ports[0]}/health")
            return
        told = subprocess.run(
            command, cwd=self.folder, env=self.environment(variables), text=True, capture_output=True, timeout=60,
            input='{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", '
            '"capabilities": {}, "clientInfo": {"name": "desk", "version": "1"}}}\n',
        )  # fmt: skip
        assert told.returncode == 0 and '"serverInfo"' in told.stdout, told


def _put_files(folder: Path) -> None:
    """The files that pages name as the reader's own."""
    for name in ("examples", "bench", "deploy", "prefect.yaml", "tests", "src", "Makefile"):
        (folder / name).symlink_to(ROOT / name)
    traces = (ROOT / "examples" / "support.jsonl").read_bytes()
    (folder / "runs.jsonl.gz").write_bytes(gzip.compress(traces))
    (folder / "exports").mkdir()
    (folder / "exports" / "runs.jsonl").write_bytes(traces)
    with zipfile.ZipFile(folder / "export.zip", "w") as archive:
        archive.writestr("runs.jsonl", traces)
    sessions = folder / "user" / ".claude" / "projects" / "-home-me-shop"
    sessions.mkdir(parents=True)
    claude_code_session.write_log(sessions / f"{claude_code_session.SESSION}.jsonl")
    docs_data.write_sets(folder / "data")
    docs_data.write_pairs(folder / "pairs.jsonl")


def _judge(sample: Path) -> None:
    """Say of each line of a sample that it is wrong, as a reviewer would."""
    text = sample.read_text(encoding="utf-8")
    lines = [{**json.loads(line), "verdict": "wrong", "reason": "it names no tool"} for line in text.splitlines()]
    assert lines
    sample.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def _lesson(request: Request) -> Turn:
    return say({"summary": "It was paid by another card.", "facts": [], "experiences": []}, usage=(1_000, 100))


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):  # a worker waits for its runs
        process.wait(20)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(20)


def _assert(is_so: object, message: str) -> None:
    assert is_so, message
