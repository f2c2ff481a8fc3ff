"""What Claude Code's hooks do: a session that ends becomes a trace, and the next session's prompt gets what is known.

Claude Code itself is played: this writes a session's log as it does, and starts the hook as its settings say. Run it
with

    pip install 'hindlake[recall,jobs]'
    python examples/claude_code_session.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import mkdtemp

SESSION = "5b0f2c1e-0000-4000-8000-000000000001"
SAID = [
    ("user", "The tests fail, please make them pass."),
    ("assistant", [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "pytest"}}]),
    ("user", [{"type": "tool_result", "tool_use_id": "t1", "content": "pytest: command not found", "is_error": True}]),
    ("assistant", [{"type": "tool_use", "id": "t2", "name": "Bash", "input": {"command": "uv run pytest"}}]),
    ("user", [{"type": "tool_result", "tool_use_id": "t2", "content": "3 passed"}]),
    ("assistant", [{"type": "text", "text": "They pass."}]),
    ("user", "Always run the tests with uv run pytest in this project."),
]


def write_log(path: Path) -> None:
    """A session's log, one entry a line."""
    with path.open("w", encoding="utf-8") as log:
        for number, (role, content) in enumerate(SAID):
            entry = {
                "type": role, "sessionId": SESSION, "uuid": f"entry-{number}", "cwd": "/home/me/shop",
                "timestamp": f"2026-03-01T10:00:{number:02d}.000Z", "message": {"role": role, "content": content},
            }  # fmt: skip
            log.write(json.dumps(entry) + "\n")


def hindlake(home: str, *words: str, sent: object = None) -> str:
    """Run the command, and return what it prints."""
    command = [sys.executable, "-m", "hindlake.cli", *words]
    variables = {**os.environ, "HINDLAKE_HOME": home, "HINDLAKE_EMBEDDER": "wordllama"}
    sent = json.dumps(sent).encode() if sent else None
    return subprocess.run(command, input=sent, env=variables, check=True, stdout=subprocess.PIPE).stdout.decode()


def main(home: str) -> None:
    """A session ends; another one begins."""
    log = Path(mkdtemp()) / f"{SESSION}.jsonl"
    write_log(log)
    about = {"session_id": SESSION, "transcript_path": str(log), "cwd": "/home/me/shop"}
    hindlake(home, "hook", "claude-code", "--wait", "--strict", sent={**about, "hook_event_name": "SessionEnd"})
    hindlake(home, "run", "reflect")  # by schedule or by hand: it takes up what the hook asked for

    prompt = {
        "session_id": "another",
        "hook_event_name": "UserPromptSubmit",
        "prompt": "The tests fail again, please run pytest.",
    }
    answer = json.loads(hindlake(home, "hook", "claude-code", "--strict", sent=prompt))
    print(answer["hookSpecificOutput"]["additionalContext"])


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else mkdtemp())
