"""`hindlake mcp`: memory for any agent that speaks the Model Context Protocol."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from .session import HomeOption, JsonOption, NamespaceOption, Session


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("mcp")(mcp)


def alone() -> None:
    """Run the command without loading the others."""
    app = typer.Typer(
        name="hindlake", add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
    )  # fmt: skip
    register(app)
    app.callback()(lambda: None)  # so that the command keeps its name
    app()


def mcp(
    context: typer.Context,
    http: Annotated[
        bool, typer.Option("--http", help="Serve over HTTP, for callers with a token; else over standard input.")
    ] = False,
    host: Annotated[str | None, typer.Option(help="With --http: address to listen on; 127.0.0.1 unless given.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="With --http: 8848 unless given.")] = None,
    subject: Annotated[
        str | None, typer.Option(help="Over standard input: the one subject that is served; else calls name it.")
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Only tools that read.")] = False,
    new_token: Annotated[
        str | None, typer.Option(metavar="NAME", help="Make a token, print it and its settings, and end.")
    ] = None,
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """Serve the memory to agents as MCP tools, resources and a prompt. Ends when standard input does.

    Over HTTP every caller has a token, which opens one namespace; `--new-token` makes one.

    \b
    hindlake mcp
    hindlake mcp --namespace acme --subject user:42 --read-only
    hindlake mcp --new-token laptop --namespace acme
    hindlake mcp --http --port 8848
    """
    session = Session(context, home, namespace, json)
    if new_token is not None:
        _new_token(session, new_token, subject or "", read_only)
        return
    given: dict[str, Any] = {"host": host, "port": port, "subject": subject, "writes": False if read_only else None}
    changed = {name: value for name, value in given.items() if value is not None}
    options = session.settings.mcp.model_copy(update=changed)
    settings = session.settings.model_copy(update={"mcp": options})
    from ..sdk.mcp import serve_http, serve_stdio

    if http:
        serve_http(settings, lambda url: session.note(f"listening on {url}"))
    else:
        serve_stdio(settings)


def _new_token(session: Session, name: str, subject: str, read_only: bool) -> None:
    """Print a token, which is kept nowhere, and what the settings have to say of it."""
    from ..memory_store.settings import McpToken
    from ..sdk.mcp.callers import new_token

    token, digest = new_token()
    made = McpToken(sha256=digest, namespace=session.settings.namespace, subject=subject, read_only=read_only)
    answer = {"name": name, "token": token, **made.model_dump()}

    def show() -> None:
        import json

        session.line(f"token  {token}")
        session.line("It is shown this once. Put this into hindlake.toml of the server:\n")
        session.line(f"[mcp.tokens.{json.dumps(name, ensure_ascii=False)}]")
        for key, value in made.model_dump(exclude_defaults=True).items():
            session.line(f"{key} = {json.dumps(value, ensure_ascii=False)}")

    session.answer(answer, show)
