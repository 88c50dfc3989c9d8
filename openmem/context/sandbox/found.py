"""What a search with a pattern has found so far, ready to be said at any moment."""

from __future__ import annotations

import re
import time

from openmem.context.sandbox.spoken import say

GROUP_LIMIT = 200
GROUPS_HELD = 100_000
SHOWN_LINES = 50
SHOWN_CHARACTERS = 2_000
_LEAD_CHARACTERS = 500
_GAP = "…"
_SNAPSHOT_SECONDS = 0.2


class Found:
    """Counts, the newest rows with their lines, and counts by capture.

    Lines of one row come together, the last one first; the rows of a file in no order.
    """

    def __init__(self, wanted_rows: int) -> None:
        self._wanted_rows = wanted_rows
        self._rows = 0
        self._lines = 0
        self._hits: list[dict[str, object]] = []
        self._session_id = ""
        self._file_rows: dict[int, list[tuple[int, str]]] = {}
        self._seq = -1
        self._groups: dict[tuple[str, ...], int] = {}
        self._long_lines = 0
        self._skipped: list[str] = []
        self._said_at = time.monotonic()

    def begin_file(self, session_id: str) -> None:
        self._hits = self._hits_so_far()
        self._session_id, self._file_rows, self._seq = session_id, {}, -1

    def add_line(self, seq: int, number: int, line: str, place: int) -> None:
        """Count a matching line of the current file. `place`: where in it the match begins."""
        self._lines += 1
        room = self._wanted_rows - len(self._hits)
        if seq != self._seq:
            self._seq = seq
            self._rows += 1
            if room > 0:
                self._file_rows[seq] = []
                if len(self._file_rows) > 2 * room + 64:
                    newest = sorted(self._file_rows, reverse=True)[:room]
                    self._file_rows = {seq: self._file_rows[seq] for seq in newest}
        shown = self._file_rows.get(seq)
        if shown is not None:
            shown.insert(0, (number, _cut(line, place)))
            del shown[SHOWN_LINES:]

    def add_group(self, match: re.Match[str]) -> None:
        """Count a line under what the pattern captured in it."""
        key = tuple("" if value is None else value for value in match.groups())
        if key in self._groups or len(self._groups) < GROUPS_HELD:
            self._groups[key] = self._groups.get(key, 0) + 1

    def add_long_line(self) -> None:
        self._long_lines += 1

    def skip(self, why: str) -> None:
        self._skipped.append(why)

    def say_now_and_then(self) -> None:
        """Say the state when that was not done lately; it costs nothing otherwise."""
        if time.monotonic() - self._said_at > _SNAPSHOT_SECONDS:
            self.say(is_final=False)

    def say(self, *, is_final: bool, timed_out: bool = False) -> None:
        groups = sorted(self._groups.items(), key=lambda item: (-item[1], item[0]))
        say(
            {
                "final": is_final,
                "timed_out": timed_out,
                "rows": self._rows,
                "lines": self._lines,
                "hits": self._hits_so_far(),
                "groups": groups[:GROUP_LIMIT],
                "group_count": len(groups),
                "long_lines": self._long_lines,
                "skipped": self._skipped,
            }
        )
        self._said_at = time.monotonic()

    def _hits_so_far(self) -> list[dict[str, object]]:
        hits = list(self._hits)
        for seq in sorted(self._file_rows, reverse=True):
            lines = self._file_rows[seq]
            hits.append({"session_id": self._session_id, "seq": seq, "lines": lines})
        return hits[: self._wanted_rows]


def _cut(line: str, place: int) -> str:
    """Return a line whole, or the part of a very long one in which the match is."""
    if len(line) <= SHOWN_CHARACTERS:
        return line
    room = SHOWN_CHARACTERS - 2 * len(_GAP)
    begin = max(min(place - _LEAD_CHARACTERS, len(line) - room), 0)
    end = begin + room
    return (_GAP if begin else "") + line[begin:end] + (_GAP if end < len(line) else "")
