"""`hindlake prompts …`: versions of the prompt that reflects."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from ..jobs.models.budget import estimate_tokens
from ..jobs.models.prompt_diff import SAMPLE, Change, PromptDiff, sample_groups, text_diff
from ..jobs.models.prompt_files import load_prompt, newest, own_prompts, packaged_prompts, prompt_names
from ..jobs.models.prompt_versions import EXAMPLES, ROOM, next_version, write_version
from ..memory_store.records.reviews import last_verdicts, read_reviews, shares
from ..memory_store.records.runs import spent_kept
from .session import HomeOption, JsonOption, NamespaceOption, Session

prompts = typer.Typer(no_args_is_help=True, help="Versions of the prompt that reflects.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A version, such as reflect.v1.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(prompts, name="prompts")


@prompts.command("list")
def list_(
    context: typer.Context, home: HomeOption = None, namespace: NamespaceOption = None, json: JsonOption = False
) -> None:
    """Show every version: those that come with hindlake, and those in the folder HINDLAKE_MODEL_PROMPTS.

    \b
    hindlake prompts list
    """
    session = Session(context, home, namespace, json)
    model = session.settings.model
    own = own_prompts(model.prompts)
    in_use = model.prompt or newest(packaged_prompts())
    judged = shares(last_verdicts(read_reviews(session.lake, session.settings.namespace)).values())["prompt"]
    rows: list[dict[str, Any]] = []
    for name in prompt_names(model.prompts):
        prompt = load_prompt(name, model.prompts)
        rows.append(
            {
                "name": name,
                "from": "folder" if name in own else "hindlake",
                "in_use": name == in_use,
                "hash": prompt.hash,
                "tokens": estimate_tokens(prompt.text),
                "reviewed_examples": prompt.text.count('\n{"verdict": '),
                "judged": judged[name].plain() if name in judged else None,
            }
        )

    def show() -> None:
        for row in rows:
            share = row["judged"]
            said = f", {share['right']} right and {share['wrong']} wrong" if share else ""
            mark = "*" if row["in_use"] else " "
            about = f"from {row['from']}, {row['tokens']} tokens, {row['reviewed_examples']} examples from reviews"
            session.line(f"{mark} {row['name']:<16} {about}{said}")

    session.answer({"in_use": in_use, "prompts": rows}, show)


@prompts.command("show")
def show(
    context: typer.Context,
    name: NameArgument,
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """Print a version as it is sent to the model.

    \b
    hindlake prompts show reflect.v1
    """
    session = Session(context, home, namespace, json)
    prompt = load_prompt(name, session.settings.model.prompts)
    session.answer({"name": prompt.name, "hash": prompt.hash, "text": prompt.text}, lambda: session.line(prompt.text))


@prompts.command("next")
def next_(
    context: typer.Context,
    base: Annotated[str, typer.Option(metavar="NAME", help="The version to begin with; the newest unless given.")] = "",
    examples: Annotated[int, typer.Option(metavar="N", min=1, help="Most examples.")] = EXAMPLES,
    tokens: Annotated[int, typer.Option(metavar="N", min=100, help="Most tokens of all examples.")] = ROOM,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show it, write nothing.")] = False,
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """Write the next version: the newest one with examples of what reviewers found right and wrong.

    It is used once HINDLAKE_MODEL_PROMPT names it. Secrets, names, ids, dates and amounts are never shown: a verdict
    on a memory that holds one is left out.

    \b
    hindlake prompts next --dry-run
    HINDLAKE_MODEL_PROMPTS=./prompts hindlake prompts next
    """
    session = Session(context, home, namespace, json)
    settings = session.settings
    version = next_version(
        session.lake, settings.namespace, settings, base=base, most=examples, room=tokens
    )  # fmt: skip
    prompt, path = (version.prompt, None) if dry_run else write_version(version, settings, session.clock.now())
    value = {
        "name": prompt.name,
        "path": str(path or ""),
        "base": version.base,
        "tokens": version.tokens,
        "example_tokens": version.example_tokens,
        "examples": [{"id": item.memory_id, "verdict": item.verdict} for item in version.examples],
        "left_out": [{"id": item.memory_id, "verdict": item.verdict, "why": item.why} for item in version.left_out],
    }
    if dry_run:
        value["text"] = prompt.text

    def show() -> None:
        if dry_run:
            session.line("\n".join(text_diff(load_prompt(version.base, settings.model.prompts), prompt)))
        counts = [sum(item.verdict == said for item in version.examples) for said in ("right", "wrong")]
        about = (
            f"{version.base} with {counts[0]} right and {counts[1]} wrong examples of {version.example_tokens} tokens"
        )
        session.line(f"{prompt.name}: {about}{'' if path is None else f', written to {path}'}")
        for item in version.left_out:
            session.line(f"  left out {item.memory_id} ({item.verdict}): {item.why}")
        if path is not None:
            session.line(f"Next: hindlake prompts diff {version.base} {prompt.name}")
            session.line(f"To use it: HINDLAKE_MODEL_PROMPT={prompt.name}")

    session.answer(value, show)


@prompts.command("diff")
def diff(
    context: typer.Context,
    first: NameArgument,
    second: NameArgument,
    sample: Annotated[int, typer.Option(metavar="N", min=1, help="Traces that both are tried on.")] = SAMPLE,
    text: Annotated[bool, typer.Option("--text", help="Only compare the texts.")] = False,
    forecast: Annotated[bool, typer.Option("--forecast", help="Only say what trying both would use.")] = False,
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """Show what another version changes: its text, and what the model makes of a sample of traces with both.

    The sample is the same each time as long as no trace is added. Nothing is decided. Replies are kept, so that a
    second time costs nothing; the budget of the settings holds.

    \b
    hindlake prompts diff reflect.v1 reflect.v2 --text
    hindlake prompts diff reflect.v1 reflect.v2 --forecast
    hindlake prompts diff reflect.v1 reflect.v2 --sample 50
    """
    session = Session(context, home, namespace, json)
    settings = session.settings
    lines = text_diff(load_prompt(first, settings.model.prompts), load_prompt(second, settings.model.prompts))
    value: dict[str, Any] = {"first": first, "second": second, "text": lines}
    if not session.as_json:
        session.line("\n".join(lines) or "the texts are the same")
    if not text:
        groups = sample_groups(session.lake, settings.namespace, sample)
        both = PromptDiff(settings, first, second, groups)
        asked = both.forecast()
        value["forecast"] = {**asdict(asked), "traces": len(groups), "exceeds": both.budget.exceeded_by(asked)}
        say = session.line if forecast and not session.as_json else session.note
        say(_forecast(value["forecast"]))
        if not forecast:
            with spent_kept(settings, "prompts-diff"):
                value["comparison"] = asdict(both.compare())
    session.answer(value, lambda: _show_comparison(session, value))


def _forecast(asked: dict[str, Any]) -> str:
    if not asked["traces"]:
        return "no trace to try them on: hindlake run reflect says which are worth it"
    tokens = asked["input_tokens"] + asked["output_tokens"]
    said = f"{asked['traces']} traces, {asked['calls']} calls to be made: at most {tokens:,} tokens, "
    return f"{said}{asked['cost'] / 1e6:.4f} USD{'; the budget stops it before' if asked['exceeds'] else ''}"


def _show_comparison(session: Session, value: dict[str, Any]) -> None:
    found = value.get("comparison")
    if found is None:
        return
    session.line(
        f"{found['compared']} of {found['traces']} traces compared, {found['failed']} failed, "
        f"{found['unpaid']} beyond the budget"
    )
    for name in ("first", "second"):
        it = found[name]
        tokens = f"{it['input_tokens']:,} tokens in, {it['output_tokens']:,} out, {it['cost'] / 1e6:.4f} USD"
        session.line(f"  {value[name]:<16} {it['memories']} memories, {it['refused']} refused, {tokens}")
    paid = f"{found['paid_tokens']:,} tokens, {found['paid_cost'] / 1e6:.4f} USD, {found['calls']} calls"
    session.line(f"  paid now: {paid}")
    counts = {name: len(found[name]) for name in ("gained", "lost", "changed")}
    session.line(f"  {found['same']} the same, " + ", ".join(f"{count} {name}" for name, count in counts.items()))
    for name in ("gained", "lost", "changed"):
        for item in found[name]:
            change = Change(**item)
            session.line(f"  {name:<8} {change.kind:<10} {change.before or change.after}")
            if change.before and change.after:
                session.line(f"  {'to':<8} {'':<10} {change.after}")
