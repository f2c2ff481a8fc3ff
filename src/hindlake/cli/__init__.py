"""The command line. Exit codes: 0 done, 1 failed, 2 wrong usage."""

from __future__ import annotations

import sys

import typer

from ..memory_store.errors import HindlakeError, SettingsError, UsageError
from . import (
    backup,
    calibrate,
    costs,
    demo,
    doctor,
    eval_dedup,
    eval_recall,
    evals,
    explain,
    generations,
    ingest,
    mcp,
    migrate,
    names,
    prompts,
    purge,
    recall,
    reindex,
    replay,
    rereflect,
    review,
    run,
    run_maintain,
    run_nightly,
    run_passages,
    run_patterns,
    state,
    undo,
    wiki,
    write,
)
from .session import HomeOption, JsonOption, NamespaceOption, Shared

app = typer.Typer(
    name="hindlake",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="""Memory that agents earn from what they did.

    \b
    hindlake ingest runs.json.gz      load traces that you have
    hindlake run reflect              learn from them
    hindlake search "seats sold out"  ask what is known
    hindlake explain ID               see why
    hindlake demo                     watch the whole way, offline

    Settings come from options, HINDLAKE_* variables and hindlake.toml, in this order.
    """,
)


@app.callback()
def _shared(
    context: typer.Context, home: HomeOption = None, namespace: NamespaceOption = None, json: JsonOption = False
) -> None:
    context.obj = Shared(home, namespace, json)


for _room in (
    ingest,
    run,
    run_patterns,
    run_passages,
    run_maintain,
    run_nightly,
    recall,
    explain,
    replay,
    write,
    undo,
    purge,
    backup,
    migrate,
    state,
    doctor,
    costs,
    reindex,
    rereflect,
    generations,
    wiki,
    names,
    review,
    prompts,
    evals,
    eval_recall,
    eval_dedup,
    calibrate,
    mcp,
    demo,
):
    _room.register(app)


def main() -> None:
    """Entry point of the command `hindlake`."""
    try:
        app()
    except (SettingsError, UsageError) as error:
        print(f"hindlake: {error}", file=sys.stderr)
        sys.exit(2)
    except HindlakeError as error:
        print(f"hindlake: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("hindlake: stopped; what was done is kept, run it again to go on", file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
