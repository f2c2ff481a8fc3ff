"""Whose the rows are that a settle has given their places, so that a run is not refused for what it did itself."""

from __future__ import annotations

from bisect import bisect_right


class Placed:
    """The run, and what it had read, of each row that one settle has placed; kept as ranges."""

    def __init__(self) -> None:
        self._first: list[int] = []
        self._last: list[int] = []
        self._own: list[tuple[str, int | None]] = []

    def add(self, seq: int, own: tuple[str, int | None]) -> None:
        """Note a row; `seq` only grows."""
        if self._own and self._own[-1] == own and self._last[-1] == seq - 1:
            self._last[-1] = seq
        else:
            self._first.append(seq)
            self._last.append(seq)
            self._own.append(own)

    def get(self, seq: int) -> tuple[str, int | None] | None:
        """Whose a row is; None if it was there before."""
        place = bisect_right(self._first, seq) - 1
        return self._own[place] if place >= 0 and seq <= self._last[place] else None
