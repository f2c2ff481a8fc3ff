"""`hindlake hook`: commands that other programs start at events of theirs.

They end at once and with 0, whatever happens: a program's user must not wait for, or be stopped by, its memory.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from typing import Annotated

import typer

#: Most bytes of a hook's input.
_MOST = 16_000_000
#: Events that are worked on when the hook has ended, since it has nothing to say.
_WITHOUT_ANSWER = ("SessionStart", "Stop", "SubagentStop", "PreCompact", "SessionEnd")

HomeOption = Annotated[str | None, typer.Option("--home", metavar="DIR", help="Where lake and store lie.")]
NamespaceOption = Annotated[str | None, typer.Option("--namespace", "-n", metavar="NAME", help="The tenant.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    group = typer.Typer(help="Commands for hooks of other programs.", no_args_is_help=True, rich_markup_mode=None)
    group.callback()(lambda: None)
    group.command("claude-code")(claude_code)
    app.add_typer(group, name="hook")


def alone() -> None:
    """Run the command without loading the others. It never ends with 2, which to Claude Code means: stop."""
    app = typer.Typer(
        name="hindlake", add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
    )  # fmt: skip
    register(app)
    app.callback()(lambda: None)
    try:
        app()
    except SystemExit as end:
        sys.exit(1 if end.code else 0)


def claude_code(
    context: typer.Context,
    subject: Annotated[str, typer.Option(help="Whose memories they are; what has no subject is shared.")] = "",
    wait: Annotated[bool, typer.Option("--wait", help="Log the session before this ends, not after.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="End with 1 where something failed.")] = False,
    settings: Annotated[bool, typer.Option("--settings", help="Print what settings.json has to say, and end.")] = False,
    home: HomeOption = None,
    namespace: NamespaceOption = None,
) -> None:
    """Serve a hook of Claude Code: its JSON comes on standard input.

    At SessionEnd the session is logged as a trace, and a reflection is asked for; at Stop and PreCompact it is logged
    as far as it has come. At UserPromptSubmit what is known is put before the model. The same session twice is once.

    \b
    hindlake hook claude-code --settings
    hindlake hook claude-code --namespace acme --subject me
    hindlake hook claude-code --wait --strict < input.json
    """
    shared = context.find_root().obj
    home, namespace = home or getattr(shared, "home", None), namespace or getattr(shared, "namespace", None)
    options = [
        word
        for name, value in (("--subject", subject), ("--home", home), ("--namespace", namespace))
        if value
        for word in (name, value)
    ]
    if settings:
        from ..sdk.integrations.claude_code import hooks_settings

        words = [sys.argv[0] if os.access(sys.argv[0], os.X_OK) else "hindlake", "hook", "claude-code", *options]
        print(json.dumps(hooks_settings(shlex.join(words)), indent=2))
        return
    # The boundary of the promise above.
    try:
        _serve(sys.stdin.buffer.read(_MOST), options, subject, wait, home, namespace)
    except Exception as error:
        print(f"hindlake: {error or type(error).__name__}", file=sys.stderr)
        if strict:
            raise typer.Exit(1) from None


def _serve(
    raw: bytes, options: list[str], subject: str, wait: bool, home: str | None, namespace: str | None
) -> None:  # fmt: skip
    """Do what the event asks for, in this process or in one that outlives it."""
    event = json.loads(raw).get("hook_event_name") if raw.startswith(b"{") else None
    if isinstance(event, str) and event not in _WITHOUT_ANSWER and event != "UserPromptSubmit":
        return
    if event in _WITHOUT_ANSWER and not wait:
        _leave_behind(raw, options)
        return
    from .hook_session import serve

    printed = serve(raw, subject, home, namespace)
    if printed is not None:
        print(json.dumps(printed))


def _leave_behind(raw: bytes, options: list[str]) -> None:
    """Go on in a process of its own session, which no one waits for and no signal to this one reaches."""
    words = [sys.executable, "-m", "hindlake.cli", "hook", "claude-code", "--wait", *options]
    child = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    assert child.stdin is not None
    child.stdin.write(raw)
    child.stdin.close()
    child.returncode = 0  # it is not waited for: said so that its end is no one's warning
