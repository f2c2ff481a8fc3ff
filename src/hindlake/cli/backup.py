"""`hindlake backup …`: making, checking and restoring backups."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..memory_store.errors import DamagedFile, UsageError
from .run import progress_bar
from .session import HomeOption, JsonOption, Session

backups = typer.Typer(no_args_is_help=True, help="Make, check and restore backups of the lake.")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(backups, name="backup")


ToOption = Annotated[
    str, typer.Option("--to", metavar="PLACE", help="A folder or s3://bucket/prefix; else HINDLAKE_BACKUP_TO.")
]
FromOption = Annotated[
    str, typer.Option("--from", metavar="PLACE", help="A folder or s3://bucket/prefix; else HINDLAKE_BACKUP_TO.")
]
NameArgument = Annotated[
    str, typer.Argument(metavar="[NAME]", help="Name of the backup, or how it begins; without it, the newest.")
]


@backups.command("create")
def create(
    context: typer.Context,
    to: ToOption = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be copied, write nothing.")] = False,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Back the lake up while others write, read the backup back, and drop those that are too old.

    Files that an earlier backup has are not copied again. Stopped, it is finished by the same command.

    \b
    hindlake backup create --to /mnt/backups/hindlake
    hindlake backup create --to s3://backups/hindlake
    hindlake backup create --dry-run
    """
    from ..flows.safekeeping import forecast_backup, run_backup

    session = Session(context, home, None, json)
    if dry_run:
        value = forecast_backup(session.settings, to).summary()
    else:
        with progress_bar(session, "files") as progress:
            value = run_backup(session.settings, session.clock, to, progress=progress).summary()
    session.answer(value, lambda: _show_created(session, value))


def _show_created(session: Session, value: dict[str, Any]) -> None:
    line = session.line
    if value["is_dry_run"]:
        line(f"would copy {value['copied']} files, {_size(value['copied_bytes'])}; {value['known']} are there")
        return
    line(f"backup {value['name']} in {value['url']}")
    copied = f"{value['copied']} copied ({_size(value['copied_bytes'])})"
    before = value["known"] + value["reused"]
    line(f"  files     {value['files']}, {_size(value['bytes'])}: {copied}, {before} there before")
    line(f"  verified  {value['verified']} files read back, {value['repaired']} copied again")
    for name, count in value["memories"].items():
        line(f"  memories  {count} in namespace {name}, folded from the backup as from the lake")
    for path, what in value["damaged"].items():
        if what == "kept":
            line(
                f"  damaged   {path} in the lake; the backup keeps what it was: `hindlake backup restore` puts it back"
            )
        else:
            line(f"  damaged   {path} in the lake, and no backup has it whole: {what}")
    if value["dropped"]:
        line(f"  dropped   {', '.join(value['dropped'])}; {value['pruned']} files deleted")


@backups.command("list")
def list_backups(
    context: typer.Context, source: FromOption = "", home: HomeOption = None, json: JsonOption = False
) -> None:
    """Show the backups that are kept.

    \b
    hindlake backup list
    hindlake backup list --from s3://backups/hindlake
    """
    from ..memory_store.files.backups import Backups

    session = Session(context, home, None, json)
    kept = Backups(session.settings, source)
    kept.check("")
    manifests, damaged = [], []
    for name in reversed(kept.names()):
        try:
            manifests.append(kept.manifest(name))
        except DamagedFile as error:
            damaged.append(str(error))
    some: list[dict[str, Any]] = [
        {
            "name": one.name,
            "began_at": one.began_at,
            "home": one.home,
            "version": one.version,
            "files": len(one.files),
            "bytes": sum(file.bytes for file in one.files),
            "memories": {name: sum(at.memories.values()) for name, at in one.namespaces.items()},
            "seq": {name: at.seq for name, at in one.namespaces.items()},
            "damaged": one.damaged,
        }
        for one in manifests
    ]

    def show() -> None:
        for one in some:
            memories = one["memories"]
            said = ", ".join(f"{count} memories in {name}" for name, count in memories.items()) or "no memories"
            session.line(f"{one['name']}  {one['began_at']:%Y-%m-%d %H:%M}  {one['files']} files, "
                         f"{_size(one['bytes'])}  {said}")  # fmt: skip
        for text in damaged:
            session.line(text)
        if not some:
            session.line(f"{kept.url} has no backup yet")

    session.answer({"url": kept.url, "backups": some, "damaged": damaged}, show)


@backups.command("verify")
def verify(
    context: typer.Context,
    name: NameArgument = "",
    every: Annotated[bool, typer.Option("--all", help="Every backup that is kept.")] = False,
    source: FromOption = "",
    scratch: Annotated[
        str,
        typer.Option(metavar="DIR", help="Where there is room to restore into; else the folder for temporary files."),
    ] = "",
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Restore a backup into a scratch folder and compare: each file by its hash, each log by what it folds to.

    The exit code is 1 if anything is not as it was.

    \b
    hindlake backup verify
    hindlake backup verify 20261130 --scratch /mnt/room
    hindlake backup verify --all
    """
    from ..flows.safekeeping import run_verify

    session = Session(context, home, None, json)
    if name and every:
        raise UsageError("--all verifies every backup: it takes no name")
    with progress_bar(session, "files") as progress:
        reports = run_verify(session.settings, source, name, every=every, scratch=scratch, progress=progress)

    def show() -> None:
        for one in reports:
            held = f"{one.files} files, {_size(one.bytes)}, {sum(one.memories.values())} memories"
            session.line(f"backup {one.name}: {held}: {'whole' if one.is_whole else 'NOT WHOLE'}")
            for fault in one.faults:
                session.line(f"  {fault.path}: {fault.reason}")
            for text in one.wrong:
                session.line(f"  {text}")
            for path in one.damaged:
                session.line(f"  {path} was damaged in the lake when it was backed up")

    session.answer({"backups": [one.summary() for one in reports]}, show)
    if not all(one.is_whole for one in reports):
        session.note("make a new backup with `hindlake backup create`: it copies again what the lake still has")
        raise typer.Exit(1)


@backups.command("restore")
def restore(
    context: typer.Context,
    name: NameArgument = "",
    source: FromOption = "",
    as_of_backup: Annotated[
        bool,
        typer.Option("--as-of-backup", help="Show readers what was known then; what came later stays in the log."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be put back, write nothing.")] = False,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Put back what the lake lacks or can't be read, or all of it into an empty home, and build a generation.

    Nothing that is there is removed or replaced by something older, and what was purged does not come back. Readers
    are switched to the new generation; `hindlake generations use` switches them back.

    \b
    hindlake backup restore --home /srv/new --from /mnt/backups/hindlake
    hindlake backup restore 20261130 --dry-run
    hindlake backup restore 20261130 --as-of-backup
    """
    from ..flows.safekeeping import run_restore

    session = Session(context, home, None, json)
    with progress_bar(session, "files") as progress:
        value = run_restore(
            session.settings, session.clock, source, name, hold=as_of_backup, dry_run=dry_run, progress=progress
        ).summary()
    session.answer(value, lambda: _show_restored(session, value))


def _show_restored(session: Session, value: dict[str, Any]) -> None:
    line = session.line
    note = " (dry run: nothing was written)" if value["is_dry_run"] else ""
    line(f"restored {value['name']} into {'the new home' if value['is_new'] else 'the lake of'} {value['home']}{note}")
    line(f"  put back    {value['put_back']} missing files, {len(value['replaced'])} that could not be read")
    for path in value["replaced"]:
        line(f"    {path}")
    for reason, count in value["left_out"].items():
        line(f"  left out    {count} files: {reason}")
    for path in value["parted"]:
        line(f"  parted      {path} says something else in the lake than in the backup")
    if value["cleaned"]:
        line(f"  purged      {value['cleaned']} files held what was purged since; it was taken out first")
    if value["generation"]:
        shows = ", ".join(f"{name} at {seq}" for name, seq in value["shows"].items())
        held = ", and what is written from now on" if value["is_held"] else ""
        line(f"  generation  {value['generation']} shows {shows or 'nothing'}{held}")
        if value["before"]:
            line(f"  back        hindlake generations use {value['before']}")


@backups.command("forget")
def forget(
    context: typer.Context,
    place: Annotated[str, typer.Argument(metavar="PLACE", help="The folder or s3://bucket/prefix.")],
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Note that no backups lie at a place any more, so that a purge does not look for them there. Deletes nothing.

    \b
    hindlake backup forget /mnt/old-disk/hindlake
    """
    from ..memory_store.files.backups import backup_url
    from ..memory_store.files.backups import forget as forget_place

    session = Session(context, home, None, json)
    url = backup_url(place)
    was_known = forget_place(session.lake, url)
    said = f"purges don't look for backups in {url} any more" if was_known else f"no backup was made to {url}"
    session.answer({"url": url, "was_known": was_known}, lambda: session.line(said))


def _size(count: int) -> str:
    """Bytes as people say them."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
