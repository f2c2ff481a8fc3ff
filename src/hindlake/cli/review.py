"""`hindlake review`: people judge a sample of what was reflected."""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from ..jobs.review import SAMPLE, Period, draw, forget_wrong
from ..jobs.review_items import Item, cleaned, items_of, mask_of, verdicts_of
from ..memory_store.clock import as_utc
from ..memory_store.errors import UsageError
from ..memory_store.history.inbox import Row
from ..memory_store.records.reflected import memories_of
from ..memory_store.records.reviews import Share, Verdict, last_verdicts, read_reviews, shares, write_verdicts
from .session import HomeOption, JsonOption, NamespaceOption, Session

_ANSWERS = {"r": "right", "w": "wrong", "u": "unsure"}
_ASK = "r(ight) w(rong) u(nsure), perhaps with a reason · s(kip) b(ack) q(uit): "


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("review")(review)


def review(
    context: typer.Context,
    sample: Annotated[int, typer.Option(metavar="N", min=1, help="Memories of the sample.")] = SAMPLE,
    month: Annotated[
        str, typer.Option(metavar="YYYY-MM", help="Last month unless given; this one if last month has nothing.")
    ] = "",
    since: Annotated[datetime | None, typer.Option(help="Reflected at this time or later (UTC).")] = None,
    until: Annotated[datetime | None, typer.Option(help="Reflected before this time (UTC).")] = None,
    export: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the sample as JSON lines, to be filled in.")
    ] = None,
    verdicts: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Take verdicts from JSON lines; - is standard input.")
    ] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Forget the memories that were judged wrong.")] = False,
    report: Annotated[bool, typer.Option("--report", help="Only show what was said so far.")] = False,
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """Judge a sample of what was reflected in a month, each memory beside its evidence.

    Each verdict is kept at once: stop with q or Ctrl-C and run it again to go on. The last verdict on a memory holds.
    With --json no questions are asked.

    \b
    hindlake review
    hindlake review --export sample.jsonl
    hindlake review --verdicts sample.jsonl --apply
    hindlake review --report --month 2026-11
    """
    session = Session(context, home, namespace, json)
    if month and (since or until):
        raise UsageError("--month and --since/--until exclude each other")
    desk = _Desk(session, month, since, until, sample)
    result: dict[str, Any] = {}
    if export is not None:
        result["exported"] = _export(desk, export)
    if verdicts is not None:
        result |= _import(desk, verdicts)
    if export is None and verdicts is None and not report and not apply and not session.as_json:
        try:
            _ask(desk)
        except KeyboardInterrupt:
            session.note("\nstopped; what was judged is kept, run it again to go on")
            raise typer.Exit(1) from None
    if apply:
        result["forgotten"] = forget_wrong(session.lake, desk.namespace, session.clock.now())
    result |= desk.report()
    session.answer(result, lambda: _show(session, result))
    if result.get("refused") and not (result["kept"] or result["known"]):
        raise typer.Exit(1)


class _Desk:
    """The sample that lies before a reviewer."""

    def __init__(self, session: Session, month: str, since: datetime | None, until: datetime | None, size: int) -> None:
        self.session, self.lake, self.namespace = session, session.lake, session.settings.namespace
        #: Memories that were read from the log, by id
        self._memories: dict[str, Row] = {}
        now = session.clock.now()
        if since or until:
            begin = as_utc(since) if since else datetime.min.replace(tzinfo=now.tzinfo)
            self.period = Period.between(begin, as_utc(until) if until else now)
        else:
            self.period = Period.month(month) if month else Period.before(now)
        self.ids = draw(self.lake, self.namespace, self.period, size, now)
        if not (self.ids or month or since or until):
            self.period = Period.month(f"{now:%Y-%m}")
            self.ids = draw(self.lake, self.namespace, self.period, size, now)

    def items(self, ids: list[str]) -> Iterator[Item]:
        """The memories with these ids, with their evidence."""
        memories = self._read(ids)
        yield from items_of(self.lake, self.namespace, [memories[id] for id in ids if id in memories])

    def last(self) -> dict[str, Row]:
        """The verdict that holds, by memory."""
        return last_verdicts(read_reviews(self.lake, self.namespace))

    def keep(self, given: list[Verdict]) -> tuple[list[Row], list[str]]:
        """Keep verdicts: the rows that are new, and the ids that are no reflected memories."""
        memories = self._read([verdict.memory_id for verdict in given])
        known = [(verdict, memories[verdict.memory_id]) for verdict in given if verdict.memory_id in memories]
        in_sample = {id: self.period.name for id in self.ids}
        rows: list[Row] = []
        for name in (self.period.name, ""):
            some = [pair for pair in known if in_sample.get(pair[0].memory_id, "") == name]
            rows += write_verdicts(self.lake, self.namespace, some, self.session.clock.now(), name)
        return rows, [verdict.memory_id for verdict in given if verdict.memory_id not in memories]

    def _read(self, ids: list[str]) -> dict[str, Row]:
        """The rows of the log that added these memories, each read once, whatever the log's length."""
        if missing := [id for id in ids if id not in self._memories]:
            self._memories |= memories_of(self.lake, self.namespace, missing)
        return self._memories

    def report(self) -> dict[str, Any]:
        """Figures of the sample, and the shares over everything that was ever judged in the namespace."""
        last = self.last()
        mine = [last[id] for id in self.ids if id in last]
        about = {"name": self.period.name, "drawn": len(self.ids), "judged": len(mine)}
        return {"sample": {**about, **_plain(mine)}, **_plain(list(last.values()))}


def _plain(verdicts: list[Row]) -> dict[str, Any]:
    """Shares as plain values; "all" is one share, the others are by name."""
    groups = {group: {key: share.plain() for key, share in keyed.items()} for group, keyed in shares(verdicts).items()}
    return {**groups, "all": groups["all"].get("all", Share(0, 0, 0).plain())}


def _export(desk: _Desk, path: Path) -> int:
    """Write the sample as JSON lines, with the verdicts that there are; return how many."""
    last = desk.last()
    written = 0
    try:
        with path.open("w", encoding="utf-8") as file:
            for item in desk.items(desk.ids):
                said = last.get(item.id, {})
                blank = {name: said.get(name, "") for name in ("verdict", "reason", "better")}
                file.write(jsonlib.dumps({**item.plain(), **blank}, ensure_ascii=False) + "\n")
                written += 1
    except OSError as error:
        raise UsageError(f"{path} can't be written: {error.strerror}") from error
    return written


def _import(desk: _Desk, path: Path) -> dict[str, Any]:
    """Take verdicts from a file: what is new, what was known, and the lines that can't be used."""
    try:
        if str(path) == "-":
            given, bad = verdicts_of(sys.stdin, desk.session.settings)
        else:
            with path.open(encoding="utf-8-sig") as file:
                given, bad = verdicts_of(file, desk.session.settings)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} can't be read: {error}") from error
    rows, strangers = desk.keep(given)
    refused = [{"line": item.line, "id": "", "why": item.why} for item in bad]
    missing = f"no reflected memory of namespace {desk.namespace} has this id"
    refused += [{"line": 0, "id": id, "why": missing} for id in strangers]
    return {"kept": len(rows), "known": len(given) - len(rows) - len(strangers), "refused": refused}


def _ask(desk: _Desk) -> None:
    """Show what has no verdict yet, one after the other, and keep each answer at once."""
    session, last = desk.session, desk.last()
    waiting = [id for id in desk.ids if id not in last]
    session.line(f"{desk.period.name}: {len(desk.ids)} memories drawn, {len(waiting)} to be judged")
    mask = mask_of(session.settings)
    shown: list[Item] = []
    items = desk.items(waiting)
    place = 0
    while True:
        if place == len(shown):
            if (item := next(items, None)) is None:
                return
            shown.append(item)
        _show_item(session, shown[place], place + 1, len(waiting))
        letter, _, said = (_line(_ASK, sys.stdin) or "q").partition(" ")
        letter = letter.lower()[:1]
        if letter == "q":
            return
        if letter == "b":
            place = max(0, place - 1)
        elif letter == "s":
            place += 1
        elif letter in _ANSWERS:
            reason = said.strip()
            if letter == "w" and not reason:
                reason = _line("why is it wrong? ", sys.stdin)
            better = _line("how should it read? (empty: say nothing) ", sys.stdin) if letter == "w" else ""
            verdict = Verdict(shown[place].id, _ANSWERS[letter], cleaned(reason, mask), cleaned(better, mask))
            desk.keep([verdict])
            place += 1


def _line(prompt: str, source: TextIO) -> str:
    """One line of an answer; empty at the end of what there is to read."""
    sys.stdout.write(prompt)
    sys.stdout.flush()
    line = source.readline()
    if not line:
        sys.stdout.write("\n")
    elif not line.strip() and prompt == _ASK:
        return "?"
    return line.strip()


def _show_item(session: Session, item: Item, number: int, count: int) -> None:
    session.line()
    session.line(f"── {number} of {count}  {item.kind}, {item.state}, by {item.reflector}")
    session.line(item.text)
    for name, value in item.says.items():
        session.line(f"  {name.replace('_', ' ')}: {value}")
    for ground in item.evidence:
        session.line(f"  it rests on “{ground.quote}”")
        if ground.event is None:
            session.line("    which the lake no longer holds")
            continue
        session.line(f"    task: {ground.goal or 'not said'} — ended in {ground.outcome}")
        for mark, said in ((" ", ground.before), (">", ground.event), (" ", ground.after)):
            if said:
                session.line(
                    f"   {mark} {said.at:%H:%M:%S} {said.who}: {said.text.replace(chr(10), chr(10) + ' ' * 8)}"
                )


def _show(session: Session, result: dict[str, Any]) -> None:
    if "exported" in result:
        session.line(f"{result['exported']} memories written: fill in verdict, reason and better, then --verdicts FILE")
    if "kept" in result:
        refused = result["refused"]
        session.line(f"{result['kept']} verdicts kept, {result['known']} known already, {len(refused)} refused")
        for item in refused[:20]:
            session.line(f"  {item['id'] or 'line ' + str(item['line'])}: {item['why']}")
    if "forgotten" in result:
        session.line(f"{len(result['forgotten'])} memories forgotten: {', '.join(result['forgotten']) or 'none'}")
    sample = result["sample"]
    session.line(f"sample {sample['name']}: {sample['drawn']} drawn, {sample['judged']} judged")
    if not sample["drawn"]:
        session.note("nothing was reflected then: --month or --since and --until name another time")
    tables = [("sample", sample)]
    if result["all"] != sample["all"]:
        tables.append(("ever", result))
    for title, groups in tables:
        session.line(f"  {title:<6} {'all':<9} {'':<32} {_share(groups['all'])}")
        for group in ("kind", "reflector", "prompt"):
            for key, share in groups[group].items():
                session.line(f"  {title:<6} {group:<9} {key:<32} {_share(share)}")


def _share(share: dict[str, Any]) -> str:
    counts = f"{share['right']} right, {share['wrong']} wrong, {share['unsure']} unsure"
    if share["share"] is None:
        return counts
    low, high = share["bounds"]
    return f"{share['share']:.0%} right ({low:.0%} to {high:.0%}): {counts}"
