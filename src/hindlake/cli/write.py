"""`hindlake remember`, `update` and `forget`: a user's own acts."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from .session import HomeOption, JsonOption, NamespaceOption, Session


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("remember")(remember)
    app.command("update")(update)
    app.command("forget")(forget)


class KindName(StrEnum):
    """Kinds that can be written."""

    fact = "fact"
    preference = "preference"
    rule = "rule"
    experience = "experience"


IdArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of the memory, as search shows it.")]


def remember(
    context: typer.Context,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The memory, in a sentence that stands alone.")],
    kind: Annotated[KindName, typer.Option(help="What it is.")] = KindName.fact,
    subject: Annotated[str, typer.Option(help="Whom it is about; without it, it is shared.")] = "",
    importance: Annotated[float, typer.Option(min=0, max=1, help="0 to 1.")] = 0.5,
    entity: Annotated[list[str] | None, typer.Option(help="A name that it mentions; may be given again.")] = None,
    task_type: Annotated[str, typer.Option(help="Kind of task that it is for.")] = "",
    tool: Annotated[str, typer.Option(help="Tool that it is about.")] = "",
    key: Annotated[str, typer.Option(help="The same key again is the same memory, not a second one.")] = "",
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """Write a memory. It can be found at once, in every process.

    \b
    hindlake remember "Refunds above 500 need a manager" --kind rule
    hindlake remember "Prefers e-mail to phone" --kind preference --subject user:42
    """
    from ..sdk.memory import Memory

    session = Session(context, home, namespace, json)
    with Memory(session.settings) as memory:
        id = memory.remember(
            text, kind.value, subject=subject, importance=importance, entities=entity or [], task_type=task_type,
            tool=tool, key=key,
        )  # fmt: skip
    session.answer({"id": id, "state": "pending"}, lambda: session.line(id))


def update(
    context: typer.Context,
    id: IdArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What it should say now.")],
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """Say what a memory should say now. The old one is superseded, not lost: explain shows both.

    \b
    hindlake update ID "Prefers phone to e-mail"
    """
    from ..sdk.memory import Memory

    session = Session(context, home, namespace, json)
    with Memory(session.settings) as memory:
        new = memory.update(id, text)
    session.answer({"id": new, "superseded": id}, lambda: session.line(new))


def forget(
    context: typer.Context,
    id: IdArgument,
    reason: Annotated[str, typer.Option(help="Why; it is kept with the decision.")] = "",
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """Stop returning a memory, at once and in every process. It stays in the log and can be restored.

    \b
    hindlake forget ID --reason "the customer asked us to"
    """
    from ..sdk.memory import Memory

    session = Session(context, home, namespace, json)
    with Memory(session.settings) as memory:
        memory.forget(id, reason)
    session.answer({"id": id, "state": "deleted"}, lambda: session.line(f"{id} is not returned any more"))
