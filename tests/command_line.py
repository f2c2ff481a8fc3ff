"""Whether the command line takes some words, without doing what they say."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import typer

from hindlake.cli import app


@cache
def _application() -> Any:
    return typer.main.get_command(app)


def assert_taken(words: Sequence[str]) -> None:
    """Names of the command and of its options are right, and each value is of the kind that it has to be."""
    command, path, rest = _command(words)
    command.make_context(path, rest)


def assert_named(words: Sequence[str]) -> None:
    """There are such a command, or group of commands, and such options of it; values may be left out."""
    command, path, rest = _command(words)
    known = {option for one in command.params for option in (*one.opts, *one.secondary_opts)} | {"--help"}
    for word in rest:
        assert not word.startswith("-") or word.split("=")[0] in known, f"{path} takes no {word}"


def _command(words: Sequence[str]) -> tuple[Any, str, list[str]]:
    """The command that words name, its path, and what is left for it."""
    command = _application()
    rest, path = list(words), "hindlake"
    while hasattr(command, "commands"):
        flags = {option: one.is_flag for one in command.params for option in one.opts}
        while rest and rest[0].startswith("-"):
            assert rest[0] in flags, f"{path} takes no {rest[0]}"
            del rest[: 1 if flags[rest[0]] else 2]
        if not rest and path != "hindlake":
            break
        assert rest and rest[0] in command.commands, f"{path} has no command {rest[:1]}"
        path, command = f"{path} {rest[0]}", command.commands[rest.pop(0)]
    return command, path, rest
