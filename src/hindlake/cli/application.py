"""Every command of `hindlake`, in one application."""

from __future__ import annotations

import typer

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
    hook,
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
    run_scheduled,
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
    run_scheduled,
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
    hook,
    demo,
):
    _room.register(app)
