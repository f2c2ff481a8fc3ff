"""`hindlake demo`: the whole way once, offline, as a story."""

from __future__ import annotations

import os
import tempfile
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from typing import Annotated, Any

import typer
from rich.panel import Panel

from ..memory_store.clock import END_OF_TIME, ManualClock, SystemClock
from ..memory_store.settings import Settings
from .session import JsonOption, Session


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo")(demo)


def demo(
    context: typer.Context,
    home: Annotated[
        str | None, typer.Option("--home", metavar="DIR", help="An empty folder to play in; a new one unless given.")
    ] = None,
    loop: Annotated[bool, typer.Option("--loop", help="Leave Prefect and Ray out: faster, the same result.")] = False,
    pause: Annotated[bool, typer.Option("--pause", help="Wait for Enter after each step.")] = False,
    json: JsonOption = False,
) -> None:
    """Watch an agent log a week of work, the jobs learn from it, and the agent meet a similar task.

    Nothing leaves this machine and no model is called. The home stays there for you to look around in.

    \b
    hindlake demo
    hindlake demo --loop --pause
    """
    folder = home or tempfile.mkdtemp(prefix="hindlake-demo-")
    session = Session(context, folder, None, json)
    _Demo(session, loop=loop, pause=pause).play()


class _Demo:
    def __init__(self, session: Session, *, loop: bool, pause: bool) -> None:
        self._session, self._loop, self._pause = session, loop, pause
        self._settings = Settings.load(home=session.settings.home, namespace="demo", reflector="rules")
        self._today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)
        self._step = 0
        self._result: dict[str, Any] = {"home": self._settings.home}

    def play(self) -> None:
        """Every step, in order."""
        from ..sdk.memory import Memory

        self._log()
        afternoon = ManualClock(self._today + timedelta(hours=15, minutes=40))
        with Memory(self._settings, clock=afternoon) as memory:
            self._comes_back(memory)
        with Memory(self._settings) as memory:
            before = [memory.search(query, **filters) for query, filters in _TASKS]
            self._learn()
            self._similar(memory, before)
            self._changed(memory)
            self._why(memory)
        self._end()

    def _log(self) -> None:
        from ..sdk.recorder import Recorder
        from .story import Story

        clock = ManualClock(self._today)
        recorder = Recorder(self._settings, agent="desk", agent_role="executor", clock=clock)
        told = Story(recorder, clock, self._today).tell()
        recorder.close()
        self._head("An agent works", "The SDK writes down what it does, event by event; events become Parquet files.")
        for trace in told:
            self._say(f"  {trace.at:%a %H:%M}  {trace.outcome:<8} {trace.goal}")
        self._result["traces"] = len(told)

    def _comes_back(self, memory: Any) -> None:
        from .story import CUSTOMER

        digests = memory.recent(CUSTOMER)
        self._head(
            "The same customer comes back in the afternoon",
            "A new conversation, and no job has run yet. What does the agent know when it is greeted?",
        )
        self._say("  user   我早上问过的那个快递，有消息了吗？")
        self._say("")
        self._say(f'  memory.recent("{CUSTOMER}")')
        for hit in digests:
            for line in hit.text.splitlines():
                self._say(f"    │ {line}")
        self._say("")
        self._say("  Before, it would have asked for the order number again.")
        self._result["recent"] = [hit.text for hit in digests]

    def _learn(self) -> None:
        has_all = find_spec("prefect") is not None and find_spec("ray") is not None
        if self._loop or not has_all:
            result = self._learn_here()
            where = "in this process"
        else:
            result = self._learn_as_flow()
            where = "as a Prefect flow, on Ray workers"
        counts = result["counts"]
        self._head("The jobs run", f"gate → reflect → resolve → decisions in the log → LanceDB, {where}, no model.")
        self._say(f"  run {result['run_id']}, worked by {', '.join(result['workers'])}")
        self._say(f"  {counts['traces']} traces: {counts['reflected']} reflected on, {counts['skipped']} not worth it")
        self._say(
            f"  {counts['candidates']} candidates: {counts['added']} added, {counts.get('merged', 0)} merged, "
            f"{counts.get('superseded', 0)} outdated on arrival; {counts.get('superseding', 0)} superseded something"
        )
        self._say(f"  {counts['refused']} proposals refused, each with its reason; {counts['episodes']} new episodes")
        self._result["run"] = result

    def _learn_here(self) -> dict[str, Any]:
        from .. import __version__
        from ..flows.pipeline import run_reflect

        return run_reflect(self._settings, SystemClock(), version=__version__, engine="loop").summary()

    def _learn_as_flow(self) -> dict[str, Any]:
        os.environ.pop("PREFECT_API_URL", None)
        os.environ["PREFECT_HOME"] = f"{self._settings.home}/prefect"
        os.environ["PREFECT_LOGGING_LEVEL"] = "ERROR"
        os.environ["PREFECT_SERVER_ANALYTICS_ENABLED"] = "false"
        os.environ["PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"] = "120"
        with self._session.errors.status("a Prefect server and Ray workers start, which takes half a minute …"):
            from ..flows.reflect import reflect

            return reflect(self._settings.home, ["demo"], "rules", "ray")

    def _similar(self, memory: Any, before: list[list[Any]]) -> None:
        self._head("The agent meets similar tasks", "Filtered first (tool, subject), then by words and by meaning.")
        learned = []
        for (query, filters), old in zip(_TASKS, before, strict=True):
            hits = memory.search(query, **filters)
            named = ", ".join(f"{name}={value!r}" for name, value in filters.items() if name != "limit")
            self._say(f"  memory.search({query!r}{', ' + named if named else ''})")
            self._say(f"    before  {old[0].text if old else 'nothing is known'}")
            for hit in hits[:2]:
                self._say(f"    now     {hit.score:.2f}  {hit.text}")
            if not hits:
                self._say("    now     nothing: what failed elsewhere does not answer this")
            self._say("")
            learned.append({"query": query, "before": [hit.text for hit in old], "now": [hit.text for hit in hits]})
        self._result["similar"] = learned

    def _changed(self, memory: Any) -> None:
        from .story import BUYER

        hits = [hit for hit in memory.search("预算", subject=BUYER, kinds=["fact", "preference"]) if "预算" in hit.text]
        old = [
            hit for hit in memory.search("预算", subject=BUYER, kinds=["fact", "preference"], states=["superseded"])
            if "预算" in hit.text
        ]  # fmt: skip
        self._head("A budget changed", "The old statement is kept, closed, and points to the new one.")
        for hit in [*old, *hits]:
            until = "now" if hit.valid_to == END_OF_TIME else f"{hit.valid_to:%m-%d %H:%M}"
            self._say(f"  [{hit.valid_from:%m-%d %H:%M} – {until}]  {hit.state:<10}  {hit.text}")
        self._result["budget"] = {"now": [hit.text for hit in hits], "before": [hit.text for hit in old]}

    def _why(self, memory: Any) -> None:
        query, filters = _TASKS[0]
        hits = memory.search(query, **filters)
        if not hits:
            return
        found = memory.explain(hits[0].id)
        self._head("Why does it know that?", f"hindlake explain {found.id}")
        self._say(f"  {found.memory['text']}")
        for item in found.evidence[:4]:
            self._say(f"    {item.at:%m-%d %H:%M}  {item.role or item.tool}  {item.error_code}")
            self._say(f"      “{item.quote[:100]}”")
        for item in found.decisions:
            self._say(f"    log {item.seq}: {item.decision}, {item.reason}")
        self._result["explained"] = found.id

    def _end(self) -> None:
        home = self._settings.home
        self._head("Look around", "The home is yours.")
        self._say(f"  hindlake status --home {home} -n demo")
        self._say(f'  hindlake search "late parcel" --home {home} -n demo --kind episode --subject "*"')
        if self._session.as_json:
            self._session.answer(self._result, lambda: None)

    def _head(self, title: str, said: str) -> None:
        if self._session.as_json:
            return
        if self._step and self._pause:
            typer.prompt("", default="Enter", show_default=False, prompt_suffix="… ")
        self._step += 1
        self._session.console.print()
        self._session.console.print(Panel(said, title=f"{self._step}. {title}", title_align="left"))

    def _say(self, text: str) -> None:
        if not self._session.as_json:
            self._session.line(text)


_TASKS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("The card on file was refused, how do I pay?", {"tool": "pay"}),
    ("查天气的接口又超时了", {"tool": "get_weather"}),
    ("No direct flight to Lisbon", {"task_type": "travel"}),
    ("The exchange rate does not load", {"tool": "get_rate"}),
)
