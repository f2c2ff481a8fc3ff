"""Log lines on standard error: one JSON object a line, or words; switched on by `HINDLAKE_LOG_FORMAT`."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TextIO

from ..capture.masking import Mask
from ..settings import Settings
from . import otel
from .events import LOGGER

#: Fields that may quote what others said.
_FREE = ("says", "reason")


class _Handler(logging.StreamHandler[TextIO]):
    """Writes to what standard error is when a line comes."""

    def __init__(self, formatter: logging.Formatter) -> None:
        logging.Handler.__init__(self)
        self.setFormatter(formatter)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        """Standard error as it is now."""
        return sys.stderr


class Collector(logging.Handler):
    """Keeps lines as values: those of a worker are told by the process that started it."""

    def __init__(self) -> None:
        super().__init__()
        #: One a line, as `tell_again` takes them
        self.lines: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        self.lines.append(line_of(record) | {"level": record.levelno})


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def __init__(self) -> None:
        super().__init__()
        self._mask = Mask()

    def values(self, record: logging.LogRecord) -> dict[str, Any]:
        """What the line says; secrets in what is free text are masked."""
        line = {"time": _time(record), "level": record.levelname.lower(), **line_of(record)}
        return line | {name: self._mask.text(line[name])[0] for name in _FREE if name in line}

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        return json.dumps(self.values(record), ensure_ascii=False, default=str)


class TextLines(JsonLines):
    """The same for people: time, level, event, then name=value."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line = self.values(record)
        time, level, event = (line.pop(name) for name in ("time", "level", "event"))
        pairs = [f"{name}={_word(value)}" for name, value in (line | line.pop("counts", {})).items()]
        return " ".join([time, f"{level:<7}", event, *pairs])


def start(settings: Settings) -> None:
    """Print lines as the settings ask for, or no more. Any number of times."""
    logger = logging.getLogger("hindlake")
    for handler in [one for one in logger.handlers if isinstance(one, _Handler)]:
        logger.removeHandler(handler)
        logger.propagate = True
        logger.setLevel(logging.NOTSET)
    if settings.log.format == "off":
        return
    logger.addHandler(_Handler(JsonLines() if settings.log.format == "json" else TextLines()))
    logger.propagate = False
    logger.setLevel(settings.log.level.upper())


def line_of(record: logging.LogRecord) -> dict[str, Any]:
    """A record as values. What is not an event is a message, whose errors are told by their class alone."""
    line: dict[str, Any] | None = getattr(record, "hindlake", None)
    if line is None:
        arguments = record.args if isinstance(record.args, tuple) else ()
        named = tuple(type(one).__name__ if isinstance(one, BaseException) else one for one in arguments)
        line = {"event": "message", "says": record.msg % named if named else str(record.msg)}
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
    return otel.ids() | line


@contextmanager
def collected(level: int) -> Iterator[list[dict[str, Any]]]:
    """Keep what a block tells, for `tell_again` in the process that wants it."""
    collector, before = Collector(), LOGGER.level
    LOGGER.addHandler(collector)
    LOGGER.setLevel(level)
    try:
        yield collector.lines
    finally:
        LOGGER.removeHandler(collector)
        LOGGER.setLevel(before)


def tell_again(lines: Sequence[dict[str, Any]], host: str, pid: int) -> None:
    """Tell what a worker has told."""
    for line in lines:
        level = line["level"]
        if LOGGER.isEnabledFor(level):
            kept = {name: value for name, value in line.items() if name != "level"}
            LOGGER.log(level, "%s", line["event"], extra={"hindlake": kept | {"host": host, "pid": pid}})


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _word(value: object) -> str:
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return json.dumps(text, ensure_ascii=False) if not text or any(sign in text for sign in ' "=\n') else text
