"""The processes of a round: started, watched, killed, stopped and woken."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


@cache
def _forking() -> Any:
    """Processes are forked from a server that has imported what they need, and has done nothing else."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["chaos.actors"])
    return context


def warm_up() -> None:
    """Have the server ready that processes are forked from: its imports take seconds."""
    from chaos.actors import nothing

    process = _forking().Process(target=nothing)
    process.start()
    process.join()


@dataclass
class Member:
    """A process of a round."""

    name: str
    #: agent · reader · mcp server · mcp client · or the command
    role: str
    process: Any
    desk: Path
    is_killed: bool = False
    is_stopped: bool = False

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended; one that is stopped has not."""
        return bool(self.process.is_alive())

    @property
    def errors(self) -> str:
        """What it wrote to standard error."""
        path = self.desk / f"{self.name}.err"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def said(self) -> str:
        """The end of all that it wrote."""
        path = self.desk / f"{self.name}.out"
        return (path.read_text(errors="replace")[-1500:] if path.exists() else "") + self.errors[-1500:]

    def signal(self, number: int) -> None:
        """Send a signal, if it is still there."""
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, number)

    def failure(self) -> str:
        """What is wrong with how it ended; empty: it ended well, or failed with an error that names the fix."""
        code, errors = self.process.exitcode, self.errors
        if self.is_killed and code == -signal.SIGKILL:
            return ""
        if "Traceback" in errors or "panicked" in errors:
            return errors[-3000:]
        return "" if code in (0, 1, 2) else f"it ended with {code}: {errors[-1000:]}"


class Crew:
    """All processes of a round."""

    def __init__(self, desk: Path) -> None:
        self.desk = desk
        self.members: list[Member] = []
        self._numbers: dict[str, int] = {}

    def start(self, role: str, act: Callable[..., None], place: Any, *arguments: Any) -> Member:
        """Start a process under a name that no one else has."""
        short = role.replace(" ", "-")
        number = self._numbers[short] = self._numbers.get(short, 0) + 1
        name = f"{short}{number}"
        process = _forking().Process(target=act, args=(place, name, *arguments), name=name)
        process.start()
        member = Member(name, role, process, self.desk)
        self.members.append(member)
        return member

    def alive(self) -> list[Member]:
        """Those that run, or are stopped."""
        return [member for member in self.members if member.is_alive]

    def kill(self, member: Member) -> None:
        """`kill -9`."""
        member.is_killed = True
        member.signal(signal.SIGKILL)
        member.process.join(10)

    def stop(self, member: Member) -> None:
        """Let it stand still, as a machine that is suspended does."""
        member.is_stopped = True
        member.signal(signal.SIGSTOP)

    def wake(self) -> list[Member]:
        """Let those go on that stand still."""
        woken = [member for member in self.alive() if member.is_stopped]
        for member in woken:
            member.is_stopped = False
            member.signal(signal.SIGCONT)
        return woken

    def wait(self, seconds: float, members: list[Member] | None = None) -> list[Member]:
        """Wait until all have ended that don't stand still; those that have not."""
        until = time.monotonic() + seconds
        waited = [member for member in (self.members if members is None else members) if not member.is_stopped]
        for member in waited:
            member.process.join(max(0.0, until - time.monotonic()))
        return [member for member in waited if member.is_alive]

    def end(self) -> None:
        """Leave no process behind."""
        for member in self.alive():
            self.kill(member)
