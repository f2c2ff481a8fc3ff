"""One round: work is done by many processes while faults strike; then all is brought to rest, and checked."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing import Pipe
from pathlib import Path

from chaos import actors
from chaos.check import Verdict, check
from chaos.crew import Crew, Member, warm_up
from chaos.disk import fill, small_disk
from chaos.ledger import read_ledgers
from chaos.plan import JOBS, Plan
from chaos.template import Template
from hindlake.memory_store.settings import S3Settings, Settings
from servers.embeddings import Embeddings
from servers.faulty import Weather, faulty_proxy
from servers.s3 import ACCESS_KEY, BUCKET, SECRET_KEY

#: Seconds until what still runs when the faults have ended must have ended by itself.
_PATIENCE = 240.0
_TICK = 0.02
#: Acts that must have been acknowledged before a round comes to rest, and between two strikes; but a round lasts no
#: longer than so many times what is planned.
_ACTS, _ACTS_BETWEEN, _STRETCH = 20, 1, 3
_NIGHT = JOBS[2][1]
#: What may end a job though no disk and no bucket fails: another one at work, which may stand still, and a purge that
#: took away what a backup was about to keep.
_CAUSES = (" is at work (process ", "run `hindlake backup create` again")


@dataclass
class Round:
    """What a round was, and what was found."""

    plan: Plan
    verdict: Verdict = field(default_factory=Verdict)
    #: Faults that struck, by kind
    struck: Counter[str] = field(default_factory=Counter)
    #: Who was killed, by role
    killed: Counter[str] = field(default_factory=Counter)
    #: Processes that ended by themselves, by role and exit code
    ended: Counter[tuple[str, int]] = field(default_factory=Counter)
    #: How processes ended that should not end so
    unclean: list[str] = field(default_factory=list)
    #: What was refused to agents and readers, by error
    refused: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def is_right(self) -> bool:
        """Whether nothing was found."""
        return self.verdict.is_right and not self.unclean


def run_round(plan: Plan, s3: str, embeddings: Embeddings, template: Template, keep: Path | None = None) -> Round:
    """Run a round. `s3`: address of an S3 server. `keep`: where its files are left, else they are removed."""
    warm_up()
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix=f"hindlake-chaos-{plan.seed}-"))
    try:
        with ExitStack() as stack:
            done = _Running(plan, folder, s3, embeddings, template, stack).run()
        done.seconds = time.monotonic() - began
        if keep is not None and not done.is_right:
            shutil.copytree(folder, keep / f"round-{plan.seed}", dirs_exist_ok=True)
        return done
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _weather(plan: Plan, upstream: str) -> Iterator[Weather | None]:
    if plan.place == "folder":
        yield None
        return
    with faulty_proxy(upstream, plan.rates, plan.seed) as weather:
        yield weather


class _Running:
    def __init__(
        self, plan: Plan, folder: Path, s3: str, embeddings: Embeddings, template: Template, stack: ExitStack
    ) -> None:  # fmt: skip
        self.plan, self.folder = plan, folder
        self.desk = folder / "desk"
        self.desk.mkdir()
        self.chance = random.Random(f"driver {plan.seed}")
        self.round = Round(plan)
        self.disk = folder / "disk"
        self.disk.mkdir()
        if any(strike.kind == "disk full" for strike in plan.strikes):
            stack.enter_context(small_disk(self.disk))
        self.weather = stack.enter_context(_weather(plan, s3))
        home = str(self.disk / "home") if plan.place == "folder" else f"s3://{BUCKET}/{folder.name}"
        self.variables = {
            "HINDLAKE_HOME": home, "HINDLAKE_EMBEDDER": "wordllama", "HINDLAKE_REFLECTOR": "rules",
            "HINDLAKE_JOBS_LEASE_SECONDS": "1", "HINDLAKE_MODEL_BASE_URL": embeddings.url,
            "HINDLAKE_MODEL_CALLS": "on", "HINDLAKE_JOBS_COMPACT_MIN_AGE_MINUTES": "0",
            "HINDLAKE_BACKUP_TO": str(folder / "backups"), "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state"),
            "TOKENIZERS_PARALLELISM": "false",
        }  # fmt: skip
        keys: dict[str, str] = {}
        if self.weather is not None:
            keys = {"access_key_id": ACCESS_KEY, "secret_access_key": SECRET_KEY}
            self.variables |= {f"HINDLAKE_S3_{name.upper()}": value for name, value in keys.items()}
            self.variables["HINDLAKE_S3_ENDPOINT"] = self.weather.endpoint
        own = S3Settings(endpoint=s3 if keys else "", **keys)  # type: ignore[arg-type]
        #: The home as the check sees it, past the proxy
        self.settings = Settings.load(
            home=home, embedder="wordllama", s3=own, spool=str(folder / "no-spool"),
            model={"base_url": embeddings.url, "calls": "on"},
        )  # fmt: skip
        template.copy(self.settings, self.desk)
        self.crew = stack.enter_context(_crew(self.desk))
        self.purges: dict[str, str] = {}
        self.backed_up = False

    def place(self, number: int, *, calm: bool = False) -> actors.Place:
        """Where the n-th process works: on one of the laptops, if there are several."""
        laptop = number % self.plan.laptops
        more = {"HINDLAKE_SPOOL": str(self.disk / f"spool-{laptop}")} if self.plan.place == "s3" else {}
        skew = 0.0 if calm else self.plan.skews[number % len(self.plan.skews)]
        if calm and self.plan.place == "s3":
            more["HINDLAKE_S3_ENDPOINT"] = self.settings.s3.endpoint
        machine = f"laptop-{laptop}" if self.plan.laptops > 1 else ""
        return actors.Place({**self.variables, **more}, self.desk, skew, machine)

    def run(self) -> Round:
        self._storm()
        self._rest()
        ledger = read_ledgers(self.desk)
        for entry in ledger:
            if entry["what"] in ("refused", "not kept"):
                self.round.refused[f"{entry.get('deed', 'log')}: {entry.get('error', '')[:160]}"] += 1
        backups = self.variables["HINDLAKE_BACKUP_TO"] if self.backed_up else ""
        self.round.verdict = check(self.settings, ledger, self.purges, backups)
        if self.plan.laptops > 1 or len(self.plan.schedulers) > 1 or any(self.plan.skews):
            kinds = {"two laptops", "two schedulers", "two nights", "two collectors", "clock skew"}
            self.round.struck.update(self.plan.faults & kinds)
        if self.weather is not None:
            self.round.struck.update(self.weather.met)
        return self.round

    def _storm(self) -> None:
        began = time.monotonic()
        strikes = list(self.plan.strikes)
        posts = _posts(self)
        filled: list[tuple[float, Path]] = []
        acts = acts_then = 0
        looked = 0.0
        while True:
            now = time.monotonic() - began
            is_late = now > _STRETCH * self.plan.seconds
            if is_late or (now > self.plan.seconds and not strikes and acts >= _ACTS):
                break
            for post in posts:
                post.keep_up()
            if now - looked > 0.1:
                acts, looked = _acts(self.desk), now
            # On a busy machine faults wait until something has happened that they can strike at.
            if strikes and now >= strikes[0].at and (acts - acts_then >= _ACTS_BETWEEN or is_late):
                strike, acts_then = strikes.pop(0), acts
                if strike.kind == "disk full":
                    filled.append((now + strike.seconds, fill(self.disk)))
                    self.round.struck["disk full"] += 1
                else:
                    self._strike(strike.kind, strike.which)
            for end, path in list(filled):
                if now >= end:
                    path.unlink(missing_ok=True)
                    filled.remove((end, path))
            time.sleep(_TICK)
        (self.desk / "over").touch()
        for _, path in filled:
            path.unlink(missing_ok=True)
        if self.weather is not None:
            self.weather.clear()

    def _strike(self, kind: str, which: float) -> None:
        some = [member for member in self.crew.alive() if not member.is_stopped]
        if not some:
            return
        member = some[int(which * len(some))]
        self.round.struck[kind] += 1
        if kind == "kill":
            self.crew.kill(member)
            self.round.killed[member.role] += 1
        else:
            self.crew.stop(member)

    def _rest(self) -> None:
        """Let all end that runs, do what is due, wake those that stand still, and do what is due then."""
        # Client and server wait for each other, and one of them may stand still.
        talking = [one for one in self.crew.alive() if one.role.startswith("mcp ")]
        paused = talking if any(one.is_stopped for one in talking) else []
        for member in self.crew.wait(_PATIENCE, [one for one in self.crew.alive() if one not in paused]):
            self.round.unclean.append(f"{member.name} goes on and on: {member.errors[-500:]}")
            self.crew.kill(member)
        self._calm()
        if self.crew.wake():
            for member in self.crew.wait(_PATIENCE):
                self.round.unclean.append(f"{member.name} goes on and on after it woke: {member.errors[-500:]}")
                self.crew.kill(member)
            self._calm()
        may_fail = self.plan.place == "s3" or self.round.struck["disk full"]
        for member in self.crew.members:
            if failure := member.failure():
                self.round.unclean.append(f"{member.name} ({member.role}): {failure}")
            elif not member.is_killed:
                self.round.ended[member.role, member.process.exitcode] += 1
                if member.process.exitcode and not (may_fail or any(why in member.errors for why in _CAUSES)):
                    self.round.unclean.append(f"{member.name} ({member.role}) failed without a cause: {member.said}")

    def _calm(self) -> None:
        """What the next hour and night would do, undisturbed; the clocks are right."""
        for laptop in range(1, self.plan.laptops):  # the night collects on its own
            self._must("run collect", ["run", "collect"], laptop)
        for id in self.purges:
            self._must("purge", ["purge", id, "--yes", "--now", "--json"], 0)
        self._must("run nightly", [*_NIGHT, "--json"], 0)

    def _must(self, role: str, arguments: list[str], laptop: int) -> None:
        member = self.crew.start(f"calm {role}", actors.command, self.place(laptop, calm=True), arguments)
        if self.crew.wait(_PATIENCE, [member]):
            self.round.unclean.append(f"{role} goes on and on, though nothing disturbs it: {member.errors[-500:]}")
            self.crew.kill(member)
        elif member.process.exitcode:
            self.round.unclean.append(f"{role} fails though nothing disturbs it: {member.said}")


class _Post:
    """Something that is always done by someone: who ends or dies is followed by another."""

    def __init__(self, running: _Running, number: int) -> None:
        self.running, self.number = running, number
        self.member: Member | None = None
        self.count = 0

    def keep_up(self) -> None:
        """Start the next one if no one is at work; one that stands still is left alone, and another takes over."""
        if self.member is None or not self.member.is_alive or self.member.is_stopped:
            self.count += 1
            self.member = self.start()

    def start(self) -> Member | None:
        raise NotImplementedError


class _Logging(_Post):
    """An agent."""

    def start(self) -> Member:
        running = self.running
        seed = running.chance.randrange(10**9)
        return running.crew.start("agent", actors.agent, running.place(self.number), seed)


class _Reading(_Post):
    """A reader."""

    def start(self) -> Member:
        running = self.running
        seed = running.chance.randrange(10**9)
        return running.crew.start("reader", actors.reader, running.place(self.number), seed)


class _Asking(_Post):
    """An MCP server, and a client that asks it."""

    def start(self) -> Member:
        running, place = self.running, self.running.place(self.number)
        to_server, to_client = Pipe(duplex=False), Pipe(duplex=False)
        ours = (to_server[0], to_client[1])
        server = running.crew.start("mcp server", actors.command, place, ["mcp"], ours)
        running.crew.start("mcp client", actors.mcp_client, place, (to_client[0], to_server[1]))
        for pipe in (*to_server, *to_client):
            pipe.close()
        return server


class _Scheduling(_Post):
    """A scheduler: one job after the other."""

    def __init__(self, running: _Running, number: int, jobs: tuple[tuple[str, ...], ...]) -> None:
        super().__init__(running, number)
        self.jobs = jobs

    def keep_up(self) -> None:
        member = self.member
        if member is not None and member.role == "backup create" and not member.is_alive:
            self.running.backed_up = self.running.backed_up or member.process.exitcode == 0
        super().keep_up()

    def start(self) -> Member | None:
        running = self.running
        arguments = list(self.jobs[(self.count - 1) % len(self.jobs)])
        if arguments == ["purge"]:
            remembered = [one for one in read_ledgers(running.desk) if one["what"] == "remember"]
            if not remembered or running.purges:
                return None
            one = running.chance.choice(remembered)
            running.purges[one["id"]] = one["text"]
            arguments = ["purge", one["id"], "--yes", "--now", "--json"]
        role = " ".join(arguments[:2] if arguments[0] in ("run", "backup") else arguments[:1])
        return running.crew.start(role, actors.command, running.place(self.number), arguments)


def _posts(running: _Running) -> list[_Post]:
    plan = running.plan
    posts: list[_Post] = [_Logging(running, number) for number in range(plan.agents)]
    posts += [_Reading(running, number) for number in range(plan.readers)]
    posts += [_Scheduling(running, number, jobs) for number, jobs in enumerate(plan.schedulers)]
    return posts + ([_Asking(running, 0)] if plan.has_mcp else [])


@contextmanager
def _crew(desk: Path) -> Iterator[Crew]:
    crew = Crew(desk)
    try:
        yield crew
    finally:
        crew.end()


def _acts(desk: Path) -> int:
    """Lines of all ledgers."""
    return sum(path.read_bytes().count(b"\n") for path in desk.glob("*.jsonl"))
