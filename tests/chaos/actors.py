"""What runs in the processes of a round: agents, readers, the command line, and both ends of an MCP server.

Each is forked from a server that has imported everything, so that a process costs milliseconds. All of hindlake that
they use is its public face: `Recorder`, `Memory`, `hindlake …`.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import random
import socket
import sys
import time
import warnings
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

# What commands load when they are first asked for is loaded here, before the fork.
import duckdb  # noqa: F401
import lancedb  # noqa: F401
import polars  # noqa: F401
import pyarrow.acero
import pyarrow.dataset  # noqa: F401

import hindlake.cli.application
import hindlake.cli.mcp
import hindlake.flows.maintenance
import hindlake.flows.pipeline
import hindlake.flows.reindexing
import hindlake.flows.safekeeping
import hindlake.sdk.mcp
from chaos.ledger import Ledger
from hindlake import Memory, Recorder, Settings
from hindlake.memory_store.clock import SystemClock
from hindlake.memory_store.embedders import embedder_named
from hindlake.memory_store.embedders.wordllama import WordLlama
from hindlake.memory_store.errors import HindlakeError

# Nothing of LanceDB is at work in the server that is forked: it has only been imported.
warnings.filterwarnings("ignore", "lancedb fork support is experimental", RuntimeWarning)

_CLONE_NEWUTS = 0x04000000
#: What an agent does, and how often.
_DEEDS = {"task": 6, "remember": 6, "retried": 2, "valued": 2, "update": 2, "forget": 1, "search": 2}


@dataclass(frozen=True)
class Place:
    """Where a process works, and under which circumstances."""

    #: Variables of its environment: home, spool, keys
    environment: dict[str, str]
    #: Folder for ledgers and output, which no fault reaches
    desk: Path
    #: Seconds that its clock is ahead
    skew: float = 0.0
    #: Name of the machine that it takes itself to be on; empty: this one
    machine: str = ""

    @property
    def goes_on(self) -> bool:
        """Whether the storm of the round is not over."""
        return not (self.desk / "over").exists()

    def enter(self, name: str) -> None:
        """Make the process that calls this one of the place; what it prints goes to files."""
        os.environ.update(self.environment)
        os.chdir(self.desk)
        for fd, ending in ((1, "out"), (2, "err")):
            file = os.open(self.desk / f"{name}.{ending}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(file, fd)
        if self.skew:
            shift_clock(self.skew)
        if self.machine and os.geteuid() == 0:
            if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWUTS) == 0:
                socket.sethostname(self.machine)
            platform.uname.cache_clear() if hasattr(platform.uname, "cache_clear") else None
            platform._uname_cache = None  # type: ignore[attr-defined]


def nothing() -> None:
    """A process that ends at once."""


# The model that embeds, too: loading it takes longer than a round should.
embedder_named(WordLlama.name, Settings.load())


def shift_clock(seconds: float) -> None:
    """Let the wall clock of this process be wrong."""
    right, seconds_since, nanos_since = SystemClock.now, time.time, time.time_ns
    SystemClock.now = lambda self: right(self) + timedelta(seconds=seconds)  # type: ignore[method-assign]
    time.time = lambda: seconds_since() + seconds
    time.time_ns = lambda: nanos_since() + int(seconds * 1e9)


def agent(place: Place, name: str, seed: int) -> None:
    """Log tasks, remember, update, forget and search, and note what was acknowledged, until the round ends."""
    place.enter(name)
    ledger, chance = Ledger(place.desk, name), random.Random(seed)
    settings = Settings.load()
    with Recorder(settings) as recorder, Memory(settings) as memory:
        deeds = _Deeds(recorder, memory, ledger, chance, name)
        ledger.note("begun")
        while place.goes_on:
            deeds.one()
            time.sleep(chance.random() * 0.03)
        ledger.note("ended", logged=recorder.status().logged, failed=recorder.status().failed)


class _Deeds:
    def __init__(
        self, recorder: Recorder, memory: Memory, ledger: Ledger, chance: random.Random, name: str
    ) -> None:  # fmt: skip
        self.recorder, self.memory, self.ledger, self.chance, self.name = recorder, memory, ledger, chance, name
        self.number = 0
        self.mine: list[tuple[str, str]] = []

    def one(self) -> None:
        self.number += 1
        [deed] = self.chance.choices(list(_DEEDS), list(_DEEDS.values()))
        try:
            getattr(self, deed)(f"{self.name}n{self.number:04d}")
        except HindlakeError as error:
            self.ledger.note("refused", deed=deed, error=f"{type(error).__name__}: {error}")

    def task(self, mark: str) -> None:
        said = self.chance.choice(("My budget is now {}.", "I prefer e-mail.", "No, that is wrong, do it again.", "{}"))
        subject = f"user-{self.chance.randrange(3)}"
        with self.recorder.task(f"{mark} plan a trip", subject=subject, task_type="trip") as task:
            for role, text in (("user", f"{mark}a"), ("agent", f"{mark}b"), ("user", said.format(self.number * 100))):
                kept = task.message(role, text)
                if text.startswith(mark):
                    self.ledger.note("event" if kept else "not kept", text=text, trace=task.trace_id)
            if self.chance.random() < 0.4:
                task.tool_call("pay", arguments={"of": mark}, error_code="504", error_message=f"timed out {mark}c")
            task.outcome(self.chance.choice(("success", "failure")))

    def remember(self, mark: str, **more: Any) -> str:
        text = f"Ticket {mark} was opened for account {self.chance.randrange(10**6)}."
        subject = f"user-{self.chance.randrange(3)}"
        id = self.memory.remember(text, subject=subject, **more)
        self.ledger.note("remember", id=id, text=text, subject=subject)
        self.mine.append((id, subject))
        return id

    def retried(self, mark: str) -> None:
        """As a client that never got its answer: the same call under the same key again."""
        text, first = f"Order {mark} was shipped.", ""
        for _ in range(3):
            try:
                id = self.memory.remember(text, subject="user-0", key=mark)
            except HindlakeError as error:
                self.ledger.note("refused", deed="retried", error=f"{type(error).__name__}: {error}")
                continue
            first = first or id
            if id != first:
                self.ledger.note("wrong", why=f"key {mark} gave {first} and {id}")
        if first:
            self.ledger.note("remember", id=first, text=text, subject="user-0")

    def valued(self, mark: str) -> None:
        """A value that takes the place of the one before."""
        value = str(self.chance.randrange(10**6))
        subject = f"user-{self.chance.randrange(3)}"
        text = f"The limit of {mark} is {value}."
        id = self.memory.remember(text, subject=subject, attribute="limit", value=value)
        self.ledger.note("remember", id=id, text=text, subject=subject)

    def update(self, mark: str) -> None:
        if self.mine:
            old, subject = self.mine.pop(self.chance.randrange(len(self.mine)))
            text = f"Ticket {mark} takes the place of another."
            self.ledger.note("meant", id=old)
            id = self.memory.update(old, text)
            self.ledger.note("remember", id=id, text=text, subject=subject, old=old)

    def forget(self, mark: str) -> None:
        if self.mine:
            id, _ = self.mine.pop(self.chance.randrange(len(self.mine)))
            self.ledger.note("meant", id=id)
            self.memory.forget(id)
            self.ledger.note("forget", id=id)

    def search(self, mark: str) -> None:
        """What was remembered is there at once for whoever lists what is known."""
        id = self.remember(mark)
        subject = self.mine[-1][1]
        every = self.memory.search("", kinds=["fact"], subject=subject, limit=10_000, log_read=False)
        self.ledger.note("found" if id in {hit.id for hit in every} else "missed", id=id)
        self.memory.used(self.memory.search(f"Ticket {mark}", subject=subject, limit=3)[:1])


def reader(place: Place, name: str, seed: int) -> None:
    """Search without a pause. What others had acknowledged before a search began is found by it."""
    place.enter(name)
    ledger, chance = Ledger(place.desk, name), random.Random(seed)
    with Memory(Settings.load()) as memory:
        ledger.note("begun")
        while place.goes_on:
            try:
                hits = memory.search(chance.choice(("ticket", "order shipped", "budget", "订单")), subject="user-1")
                ledger.note("search", hits=len(hits))
            except HindlakeError as error:
                ledger.note("refused", deed="reading", error=f"{type(error).__name__}: {error}")
            time.sleep(0.01)


def command(place: Place, name: str, arguments: list[str], pipes: tuple[Connection, Connection] | None = None) -> None:
    """`hindlake` with arguments; `pipes` become its standard input and output."""
    place.enter(name)
    if pipes is not None:
        for fd, pipe in enumerate(pipes):
            os.dup2(pipe.fileno(), fd)
            pipe.close()
        sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.argv = ["hindlake", *arguments]
    hindlake.cli.main()


def mcp_client(place: Place, name: str, pipes: tuple[Connection, Connection]) -> None:
    """Ask an MCP server to write and to search, until the round ends or the server is gone."""
    place.enter(name)
    ledger = Ledger(place.desk, name)
    with (
        contextlib.suppress(BrokenPipeError),  # the server is gone; closing what was not sent yet raises it too
        open(pipes[0].fileno(), closefd=False) as answers,
        open(pipes[1].fileno(), "w", closefd=False) as asked,
    ):

        def send(method: str, **parameters: Any) -> None:
            asked.write(json.dumps({"jsonrpc": "2.0", **parameters, "method": method}) + "\n")
            asked.flush()

        def ask(number: int, method: str, **parameters: Any) -> dict[str, Any] | None:
            send(method, id=number, params=parameters)
            for line in answers:
                answer = json.loads(line)
                if answer.get("id") == number:
                    return dict(answer.get("result") or {"isError": True, **answer})
            return None  # the server is gone

        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": name, "version": "1"}}
        number = 1
        answer = ask(number, "initialize", **hello)
        send("notifications/initialized")
        while answer is not None and place.goes_on:
            number += 1
            text = f"Parcel {name}n{number:04d} was returned."
            answer = ask(number, "tools/call", name="memory_write", arguments={"content": text})
            if answer and not answer.get("isError"):
                ledger.note("remember", id=answer["structuredContent"]["id"], text=text, subject="")
            elif answer:
                ledger.note("refused", deed="mcp", error=json.dumps(answer)[:300])
            time.sleep(0.02)
