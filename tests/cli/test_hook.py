"""Hooks of Claude Code: its sessions become traces, and its prompts get what is known. They never stand in its way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hindlake.cli.hook_session import serve
from hindlake.memory_store.capture.events import Event
from hindlake.memory_store.capture.reads import read_days, scan_reads
from hindlake.memory_store.capture.traces import read_traces, scan_events
from hindlake.memory_store.errors import HindlakeError, UsageError
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.records.requests import request_of
from hindlake.memory_store.settings import Settings
from hindlake.sdk.integrations.claude_code import hooks_settings, session_trace
from hindlake.sdk.memory import Memory

SESSION = "0f9a1c1e-2b3c-4d5e-8f60-718293a4b5c6"


@pytest.fixture
def settings(home: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("HINDLAKE_EMBEDDER", "wordllama")
    return Settings.load(home=str(home))


class Session:
    """A session's log, as Claude Code writes it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._entries = 0
        self.line({"type": "summary", "summary": "Make the tests pass", "leafUuid": "u-0"})

    def line(self, value: dict[str, Any] | str) -> None:
        with self.path.open("a", encoding="utf-8") as log:
            log.write((value if isinstance(value, str) else json.dumps(value)) + "\n")

    def say(self, role: str, content: object, **more: object) -> None:
        self._entries += 1
        self.line({
            "parentUuid": None, "isSidechain": False, "userType": "external", "cwd": "/home/me/shop",
            "sessionId": SESSION, "version": "2.1.0", "gitBranch": "main", "type": role,
            "uuid": f"u-{self._entries}", "timestamp": f"2026-03-01T10:00:{self._entries:02d}.000Z",
            "message": {"role": role, "content": content, **more},
        })  # fmt: skip

    def call(self, id: str, command: str, result: str, **more: object) -> None:
        self.say("assistant", [{"type": "tool_use", "id": id, "name": "Bash", "input": {"command": command}}])
        self.say("user", [{"type": "tool_result", "tool_use_id": id, "content": result, **more}])


@pytest.fixture
def session(tmp_path: Path) -> Session:
    made = Session(tmp_path / f"{SESSION}.jsonl")
    made.say("user", "The tests fail, please make them pass.")
    made.call("t-1", "pytest", "bash: pytest: command not found", is_error=True)
    made.call("t-2", "uv run pytest", "3 passed")
    made.say("assistant", [{"type": "text", "text": "They pass."}], id="m-1", model="c1")
    return made


def told(event: str, session: Session | None = None, **more: object) -> bytes:
    path = {} if session is None else {"transcript_path": str(session.path)}
    return json.dumps({"session_id": SESSION, "hook_event_name": event, "cwd": "/", **path, **more}).encode()


def ask(raw: bytes, settings: Settings, subject: str = "") -> dict[str, Any] | None:
    return serve(raw, subject, settings.home, None)


def events(settings: Settings) -> list[Event]:
    traces = read_traces(Lake.open(settings), "default", [session_trace("default", SESSION)])
    return [event for trace in traces for event in trace.events]


def outline(settings: Settings) -> list[tuple[str, str]]:
    return [(one.type, one.content or one.arguments or one.outcome) for one in events(settings)]


def log_of(settings: Settings) -> str:
    return (settings.spool_folder / "hooks" / "claude-code.log").read_text()


def hindlake(*words: str, sent: bytes) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "hindlake.cli", "hook", "claude-code", *words]
    return subprocess.run(command, input=sent, capture_output=True, timeout=60)


def test_the_end_of_a_session_makes_it_a_trace_and_asks_for_a_reflection(settings: Settings, session: Session) -> None:
    assert ask(told("SessionEnd", session, reason="prompt_input_exit"), settings, "me") is None
    assert outline(settings) == [
        ("task", "The tests fail, please make them pass."),
        ("message", "The tests fail, please make them pass."),
        ("tool_call", '{"command":"pytest"}'),
        ("tool_call", '{"command":"uv run pytest"}'),
        ("message", "They pass."),
        ("outcome", "unknown"),
    ]
    found = events(settings)
    assert found[2].error_code and {one.subject for one in found[:-1]} == {"me"}
    request = log_of(settings).split()[-1]
    assert request_of(Lake.open(settings), "default", request).state == "waiting"


def test_the_same_session_twice_is_once_and_one_that_is_resumed_grows(settings: Settings, session: Session) -> None:
    for event in ("Stop", "PreCompact", "SessionEnd", "SessionEnd"):
        ask(told(event, session), settings)
    before = outline(settings)
    assert len(before) == 6
    session.say("user", "Always use uv run here.")  # as many events as the end that was noted
    ask(told("SessionEnd", session), settings)
    assert outline(settings) == [*before[:-1], ("message", "Always use uv run here."), before[-1]]
    assert len(scan_events(Lake.open(settings), "default", [])) == 7


def test_odd_lines_are_counted_and_the_rest_is_logged(settings: Settings, session: Session) -> None:
    for odd in ("{broken", "", "[]", '"text"', "\x00\x01", '{"type": "user"}', "nul" * 1000):
        session.line(odd)
    session.say("user", "Thanks \ud83d.")
    session.line('{"sessionId": "' + SESSION + '", "type": "user", "uuid": "u-99", "message": {"role": "us')
    ask(told("SessionEnd", session), settings)
    assert outline(settings)[-2][1].startswith("Thanks")
    assert "lines rejected" in log_of(settings)


@pytest.mark.parametrize("path", ["missing.jsonl", "", "folder"])
def test_a_log_that_is_not_there_is_said_so(settings: Settings, tmp_path: Path, path: str) -> None:
    (tmp_path / "folder").mkdir()
    raw = told("SessionEnd", transcript_path=str(tmp_path / path) if path else "")
    with pytest.raises(UsageError, match="is not there"):
        ask(raw, settings)
    assert "failed: the session's log" in log_of(settings)


def test_a_prompt_gets_what_is_known_once_and_again_when_the_context_was_emptied(settings: Settings) -> None:
    with Memory(settings) as memory:
        id = memory.remember("Run the tests with uv run pytest.", kind="rule")
        memory.remember("Run the tests quietly, please.", kind="preference", subject="me")
    prompt = told("UserPromptSubmit", prompt="Please run the tests.")
    answer = ask(prompt, settings, "me")
    assert answer is not None and answer["hookSpecificOutput"]["hookEventName"] == "UserPromptSubmit"
    block = answer["hookSpecificOutput"]["additionalContext"]
    assert "uv run pytest" in block and "quietly" in block
    assert ask(prompt, settings, "me") is None  # it stands in the context already
    ask(told("SessionStart", source="startup"), settings)
    assert ask(prompt, settings, "me") is None
    ask(told("SessionStart", source="compact"), settings)
    assert ask(prompt, settings, "me") is not None

    lake = Lake.open(settings)
    files = [path for paths in read_days(lake, "default").values() for path in paths]
    reads = [row for table in scan_reads(lake, files) for row in table.to_pylist()]
    assert {row["trace_id"] for row in reads} == {session_trace("default", SESSION)}
    assert len(reads) == 2 and all(row["injected"] and id in row["ids"] for row in reads)


@pytest.mark.parametrize("prompt", ["", "   ", None, 7, "x" * 100_000])
def test_a_prompt_about_which_nothing_is_known_gets_nothing(settings: Settings, prompt: object) -> None:
    assert ask(told("UserPromptSubmit", prompt=prompt), settings) is None


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"{}", b'{"session_id": 1, "hook_event_name": ["x"]}', b"\xff\x00"])
def test_what_is_no_hooks_input_is_refused(settings: Settings, raw: bytes) -> None:
    with pytest.raises(HindlakeError, match="Claude Code"):
        ask(raw, settings)


def test_the_command_leaves_the_work_behind_and_prints_nothing(settings: Settings, session: Session) -> None:
    run = hindlake("--home", settings.home, "--subject", "me", sent=told("SessionEnd", session))
    assert (run.returncode, run.stdout, run.stderr) == (0, b"", b"")
    until = time.monotonic() + 60
    while not list(Path(settings.spool_folder).glob("hooks/*.log")) and time.monotonic() < until:
        time.sleep(0.1)
    assert "5 events" in log_of(settings)


def test_the_command_prints_the_block_and_nothing_else(settings: Settings) -> None:
    with Memory(settings) as memory:
        memory.remember("Run the tests with uv run pytest.", kind="rule")
    run = hindlake("--home", settings.home, sent=told("UserPromptSubmit", prompt="Run the tests."))
    assert run.returncode == 0
    assert "uv run pytest" in json.loads(run.stdout)["hookSpecificOutput"]["additionalContext"]


def test_whatever_goes_wrong_the_command_ends_with_0_unless_told(settings: Settings, tmp_path: Path) -> None:
    spoiled = tmp_path / "file"
    spoiled.write_text("no folder")
    raw = told("SessionEnd", transcript_path=str(tmp_path / "missing"))
    for words, sent, code in (
        ([], b"no json", 0),
        (["--strict"], b"no json", 1),
        (["--home", str(spoiled), "--wait"], raw, 0),
        (["--home", str(spoiled), "--wait", "--strict"], raw, 1),
        (["--strict"], told("PreToolUse"), 0),
        (["--nonsense"], raw, 1),  # 2 would stop Claude Code
    ):
        run = hindlake(*words, sent=sent)
        assert (run.returncode, run.stdout) == (code, b""), (words, run.stderr)
        assert b"Traceback" not in run.stderr


def test_the_settings_of_claude_code_are_printed_with_the_options(settings: Settings) -> None:
    run = hindlake("--settings", "--subject", "a b", "--namespace", "acme", sent=b"")
    hooks = json.loads(run.stdout)["hooks"]
    [entry] = hooks["SessionEnd"][0]["hooks"]
    assert entry["command"].endswith("hook claude-code --subject 'a b' --namespace acme")
    assert entry["timeout"] > 2  # more than the second and a half that an end is given
    assert hooks.keys() == hooks_settings("").get("hooks", {}).keys()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_log_that_may_not_be_read_is_said_so(settings: Settings, session: Session) -> None:
    session.path.chmod(0)
    with pytest.raises((OSError, HindlakeError)):
        ask(told("SessionEnd", session), settings)
    assert "failed" in log_of(settings)


def test_what_subagents_did_is_logged_with_the_session(settings: Settings, session: Session, tmp_path: Path) -> None:
    entry = json.loads(session.path.read_text().splitlines()[1]) | {"isSidechain": True}
    own = tmp_path / SESSION / "subagents"
    own.mkdir(parents=True)
    for path, more in (
        (own / "agent-a1.jsonl", {"agentId": "a1"}),
        (tmp_path / "agent-a2.jsonl", {"agentId": "a2"}),
        (tmp_path / "agent-a3.jsonl", {"agentId": "a3", "sessionId": "another"}),
        (tmp_path / "agent-a4.jsonl", {"agentId": "a4", "sessionId": None}),
    ):
        path.write_text(json.dumps(entry | more) + "\n", encoding="utf-8")
    ask(told("SubagentStop", session), settings)
    found = scan_events(Lake.open(settings), "default", ["trace_id", "parent_trace_id", "attributes"]).to_pylist()
    begun = {row["trace_id"] for row in found if row["parent_trace_id"] == session_trace("default", SESSION)}
    assert len(begun) == 2
    assert "subagent" in "".join(row["attributes"] for row in found if row["trace_id"] in begun)
