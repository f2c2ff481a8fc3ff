"""`hindlake generations …`: which complete stores there are, and going from one to another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from .session import HomeOption, JsonOption, Session

generations = typer.Typer(no_args_is_help=True, help="Complete stores: list, use, compare and drop them.")

NumberArgument = Annotated[int, typer.Argument(metavar="N", help="Number of a generation.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(generations, name="generations")


@generations.command("list")
def list_(context: typer.Context, home: HomeOption = None, json: JsonOption = False) -> None:
    """Show every generation: its model, its state, when readers used it.

    \b
    hindlake generations list
    """
    from ..memory_store.store.registry import known

    session = Session(context, home, None, json)
    found = [
        {
            "number": one.claim.number, "state": one.state, "embedder": one.claim.embedder, "dim": one.claim.dim,
            "reason": one.claim.reason, "branch": one.claim.branch, "built_at": one.claim.claimed_at,
            "used_at": one.used_at, "left_at": one.left_at,
        }
        for one in known(session.lake)
    ]  # fmt: skip

    def show() -> None:
        for one in found:
            session.line(
                f"{one['number']:>4}  {one['state']:<9} {one['embedder']:<24} {one['dim']:>5}  "
                f"{one['built_at']:%Y-%m-%d %H:%M}  {one['reason']}"
            )

    session.answer({"generations": found}, show)


@generations.command("copy")
def copy(context: typer.Context, home: HomeOption = None, json: JsonOption = False) -> None:
    """Bring the copy that searches on this machine read, of the generation in use in a bucket, up to date.

    Searches do that by themselves where HINDLAKE_INDEX_COPY_TO names a folder; the first time it takes a while.

    \b
    HINDLAKE_INDEX_COPY_TO=/var/cache/hindlake hindlake generations copy
    """
    from ..memory_store.files.store_copy import Copied, StoreCopy
    from ..memory_store.store.registry import current

    session = Session(context, home, None, json)
    one = current(session.lake)
    done = Copied(reason="it lies in a folder")
    if session.settings.is_remote:
        done = StoreCopy(session.lake, session.settings).bring(one.name)
    said = f"{done.files} files, {done.bytes / 2**20:.1f} MB; {done.fetched} fetched, {done.removed} removed"
    if done.reason:
        said = f"not copied, and read where it lies: {done.reason}"
    value = {"number": one.number, **asdict(done)}
    session.answer(value, lambda: session.line(f"generation {one.number}: {said}"))


@generations.command("use")
def use(context: typer.Context, number: NumberArgument, home: HomeOption = None, json: JsonOption = False) -> None:
    """Switch readers to a generation. What was written meanwhile is folded into it first, so nothing is missed.

    One that shows a re-reflection is adopted: it becomes a run in the log, which `hindlake undo RUN` takes back.

    \b
    hindlake generations use 3
    """
    from .. import __version__
    from ..jobs.rereflect import adopt, branch_of
    from ..memory_store.store.switching import use as switch_to

    session = Session(context, home, None, json)
    if branch_of(session.lake, number)[1] is not None:
        done = adopt(session.lake, session.settings, session.clock, number, version=__version__)
        counts = ", ".join(f"{count} {name}" for name, count in sorted(done.counts.items())) or "nothing changed"
        session.answer(
            {"run_id": done.run_id, "counts": dict(done.counts)},
            lambda: session.line(f"run {done.run_id}: {counts}; back: hindlake undo {done.run_id}"),
        )
        return
    generation = switch_to(session.lake, session.settings, session.clock, number)
    session.answer(
        asdict(generation),
        lambda: session.line(f"generation {generation.number} in use, vectors by {generation.embedder}"),
    )


@generations.command("drop")
def drop(context: typer.Context, number: NumberArgument, home: HomeOption = None, json: JsonOption = False) -> None:
    """Delete the tables of a generation that is not in use. Vectors stay in the lake.

    \b
    hindlake generations drop 2
    """
    from ..memory_store.store.switching import discard

    session = Session(context, home, None, json)
    discard(session.lake, session.settings, number)
    session.answer({"dropped": number}, lambda: session.line(f"generation {number} dropped"))


@generations.command("diff")
def diff(
    context: typer.Context,
    before: Annotated[int, typer.Argument(metavar="A", help="Number of a generation.")],
    after: Annotated[int, typer.Argument(metavar="B", help="Number of another.")],
    queries: Annotated[
        int, typer.Option(metavar="N", help="Last real queries of each namespace that are asked of both.")
    ] = 50,
    limit: Annotated[int, typer.Option(metavar="N", help="Memories of each sort that are shown.")] = 10,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="Labelled sets that both are measured on too.")
    ] = None,
    sets: Annotated[
        str, typer.Option(metavar="NAMES", help="Those of `hindlake eval recall` to take, with commas.")
    ] = "precision",
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Compare two generations: memories gained, lost and changed, what they cost, what real queries find.

    With `--data`, also what `hindlake eval recall` and `hindlake eval reflect` say of each one's embedder and
    reflectors.

    \b
    hindlake generations diff 1 2
    hindlake generations diff 1 2 --data ../data --sets locomo,precision --json
    """
    from ..jobs.rereflect import side
    from ..memory_store.store.generation_diff import diff as compare

    session = Session(context, home, None, json)
    lake = session.lake
    sides = side(lake, before), side(lake, after)
    found = compare(lake, session.settings, session.clock, *sides, queries=queries)
    value = found.summary()
    if data is not None:
        value["evals"] = _evals(session, data, sets, value)
    session.answer(value, lambda: _show_diff(session, value, limit))


def _evals(session: Session, data: Path, sets: str, value: dict[str, Any]) -> dict[str, Any]:
    """Figures of both sides; a side that would be measured as the other was is not measured again."""
    from ..memory_store.errors import UsageError
    from ..memory_store.records.runs import spent_kept
    from .evaluating.recall import SETS
    from .evaluating.sides import evals

    names = [name for name in sets.split(",") if name]
    if unknown := set(names).difference((*SETS, "precision")):
        raise UsageError(f"there is no set {', '.join(sorted(unknown))}: take {', '.join((*SETS, 'precision'))}")
    if not data.is_dir():
        raise UsageError(f"{data} is no folder")
    done: dict[tuple[str, ...], dict[str, Any]] = {}
    for name in ("before", "after"):
        key = (value[name]["embedder"], *value[name]["reflectors"])
        if key not in done:
            with spent_kept(session.settings, "eval"):
                done[key] = evals(data, names, session.settings, key[0], key[1:])
    return {name: done[value[name]["embedder"], *value[name]["reflectors"]] for name in ("before", "after")}


def _show_diff(session: Session, value: dict[str, Any], limit: int) -> None:
    for name in ("before", "after"):
        side = value[name]
        kinds = ", ".join(f"{count} {kind}" for kind, count in side["memories"].items()) or "nothing"
        cost = side["cost"]
        session.line(f"{side['number']:>4}  {side['embedder']}  {side['reason']}: {kinds}")
        session.line(
            f"      by {', '.join(side['reflectors']) or 'users alone'}: {cost['runs']} runs, {cost['calls']} calls, "
            f"{cost['input_tokens']} tokens in, {cost['output_tokens']} out, {cost['cost'] / 1e6:.4f} USD"
        )
    for name, sign in (("gained", "+"), ("lost", "-"), ("changed", "~")):
        counts = value["counts"][name]
        session.line(f"{name:<8} {', '.join(f'{count} {kind}' for kind, count in counts.items()) or 'none'}")
        for row in value[name][:limit]:
            columns = "; ".join(f"{column}: {was} → {now}" for column, (was, now) in row.get("columns", {}).items())
            session.line(f"  {sign} {row['id']}  {row['kind']:<10}  {row['text'][:100]}{'  ' * bool(columns)}{columns}")
    if evals := value.get("evals"):
        before, after = (dict(_figures(evals[name])) for name in ("before", "after"))
        for name in dict.fromkeys([*before, *after]):
            session.line(f"eval     {name:<40} {before.get(name, '–')} → {after.get(name, '–')}")
    if value["replayed"]:
        session.line(
            f"queries  {len(value['replayed'])} real ones: {value['overlap']:.0%} of the hits in common, "
            f"{value['changed_firsts']} with another first hit"
        )


def _figures(value: dict[str, Any], name: str = "") -> Iterator[tuple[str, str]]:
    """Figures by their whole name."""
    for key, inner in value.items():
        whole = f"{name} {key}".strip()
        if isinstance(inner, dict):
            yield from _figures(inner, whole)
        elif isinstance(inner, int | float):
            yield whole, f"{inner:.3f}" if isinstance(inner, float) else str(inner)
