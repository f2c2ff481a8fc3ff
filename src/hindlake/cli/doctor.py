"""`hindlake doctor`: what is not as it should be, and what to do about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

import typer

from ..memory_store.errors import HindlakeError, MissingExtra
from .examining import configured, endpoints, place, recalled, stored, working
from .examining.finding import Check, Finding, Level, Patient
from .session import HomeOption, JsonOption, NamespaceOption, Session

#: Every look, in the order in which findings are told.
CHECKS: tuple[Check, ...] = (
    configured.names, configured.secrets,
    place.home, place.disk, place.spool, place.clocks,
    endpoints.store, endpoints.model, endpoints.reranker, endpoints.ray,
    stored.generation, stored.vectors, stored.indexes, stored.files,
    working.runs, working.leases, working.schedule, working.backups,
    recalled.namespace, recalled.hidden, recalled.filters, recalled.floors, recalled.growth,
)  # fmt: skip
#: Looks that read all there is.
DEEP: tuple[Check, ...] = (stored.damage,)
_ORDER: tuple[Level, ...] = ("broken", "doubtful", "note")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor")(doctor)


def doctor(
    context: typer.Context,
    deep: Annotated[bool, typer.Option("--deep", help="Read every file too, to find damaged ones.")] = False,
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """Look at settings, endpoints, store, runs and recall; tell what is wrong, and how to mend it.

    Every finding has a section in docs/troubleshooting.md. Nothing is changed. The exit code is 1 if something is
    broken, else 0.

    \b
    hindlake doctor
    hindlake doctor --deep --json
    """
    session = Session(context, home, namespace, json)
    patient = Patient(session.settings, session.clock)
    found: list[Finding] = []
    for check in (*CHECKS, *(DEEP if deep else ())):
        found += examine(check, patient)
    found.sort(key=lambda finding: _ORDER.index(finding.level))
    counts = Counter(finding.level for finding in found)
    session.answer(
        {"findings": [asdict(finding) for finding in found], "counts": {level: counts[level] for level in _ORDER}},
        lambda: _show(session, found, len(CHECKS) + (len(DEEP) if deep else 0)),
    )
    if counts["broken"]:
        raise typer.Exit(1)


def examine(check: Check, patient: Patient) -> Iterator[Finding]:
    """What a look finds. One that can't be done is a finding itself."""
    try:
        yield from check(patient)
    except MissingExtra as error:
        yield Finding("not-installed", "note", f"{check.__module__.rsplit('.', 1)[1]} was not looked at: {error}", "")
    except HindlakeError as error:
        yield Finding("cannot-look", "broken", str(error), "the message says what to do")


def _show(session: Session, found: list[Finding], looks: int) -> None:
    told = set()
    for finding in found:
        if finding.says in told:  # what breaks several looks is told once
            continue
        told.add(finding.says)
        session.line(f"{finding.level:<9} {finding.code}: {finding.says}")
        if finding.fix:
            session.line(f"          → {finding.fix}")
    session.line(
        f"{looks} looks at {session.settings.home}, namespace {session.settings.namespace}: "
        + (f"{len(told)} findings" if told else "all is well")
    )
