"""Schema version 4: what a session's file holds, and how a line's id is made.

Idea: text is kept once, by line. A line's id says all that a search filters by, so a default
search is one range of ids and needs no join: `group << 50 | seq << 24 | line number`, the group
being the row's role, plus 4 when the row is an echo.
Invariant: views `messages`, `lines` and `threads` are the contract; the tables behind are not.
Trap: the index holds `index_text(line)`, not the line: CJK characters and emoji stand apart there,
because `unicode61` takes a run of the former as one word and drops the latter. Deleting from the
index needs the same text. `rebuild` would index the plain lines.
Measured (1,550 rows, 33,851 lines, code and logs): 2.6 bytes of file per byte of text, 13 times
the time of plain inserts into one table; with triggers it was 97 times.
"""

from __future__ import annotations

from openmem.context.rows import KINDS, ROLES

VERSION = 4
LINE_BITS = 24
SEQ_BITS = 26
GROUP_SHIFT = LINE_BITS + SEQ_BITS
LAST_LINE = (1 << LINE_BITS) - 1
LAST_SEQ = (1 << SEQ_BITS) - 1
ECHO_GROUP = len(ROLES)
TOKENIZER = "unicode61 remove_diacritics 2"

THREAD_KINDS = ("main", "sub-agent", "side")


def group_of(role: str, echo: bool) -> int:
    """Return the group of a row's lines."""
    return ROLES.index(role) + (ECHO_GROUP if echo else 0)


def base_id(group: int, seq: int) -> int:
    """Return the id before a row's first line; its lines are the next ones."""
    return group << GROUP_SHIFT | seq << LINE_BITS


def group_range(group: int) -> tuple[int, int]:
    """Return the first and the last id that a line of the group can have."""
    return group << GROUP_SHIFT, ((group + 1) << GROUP_SHIFT) - 1


def ranges_of(roles: tuple[str, ...], include_echo: bool) -> list[tuple[int, int]]:
    """Return the ranges of line ids of these roles, neighbouring ones joined."""
    groups = sorted(group_of(role, False) for role in set(roles))
    if include_echo:
        groups += sorted(group_of(role, True) for role in set(roles))
    ranges: list[tuple[int, int]] = []
    for group in groups:
        first, last = group_range(group)
        if ranges and ranges[-1][1] + 1 == first:
            ranges[-1] = (ranges[-1][0], last)
        else:
            ranges.append((first, last))
    return ranges


# SQLite reads the text of every view each time a file is opened: they are kept short.
def _names(values: tuple[str, ...], column: str) -> str:
    width = max(map(len, values))
    padded = "".join(value.ljust(width) for value in values)
    return f"rtrim(substr('{padded}', {column} * {width} + 1, {width}))"


def _utc(column: str) -> str:
    return f"strftime('%Y-%m-%dT%H:%M:%SZ', {column}, 'unixepoch')"


# The id before a row's lines. A row that repeats another one's content in a rewritten history has
# no lines of its own; its role and echo are the other one's, which follow from the content.
_BASE = (
    f"(((role + {ECHO_GROUP} * echo) << {GROUP_SHIFT}) + (coalesce(source, seq) << {LINE_BITS}))"
)

COUNTERS = (
    "rows",
    "bytes",
    "prompt_tokens",
    "trims",
    "busts",
    "cache_read_tokens",
    "cache_creation_tokens",
    "input_tokens",
    "output_tokens",
)
_COUNTERS = ", ".join(f"{name} INTEGER NOT NULL DEFAULT 0" for name in COUNTERS)

STATEMENTS = (
    # One row: what is known of the session, and sums, so that an overview reads one page a file.
    f"""CREATE TABLE session (id INTEGER PRIMARY KEY CHECK (id = 1), session_id TEXT NOT NULL,
    agent TEXT NOT NULL DEFAULT '', cwd TEXT NOT NULL DEFAULT '', bank TEXT NOT NULL DEFAULT '',
    last_seq INTEGER NOT NULL DEFAULT 0, fail_opens INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL, last_at INTEGER NOT NULL, {_COUNTERS})""",
    f"""CREATE TABLE thread (id INTEGER PRIMARY KEY, fingerprint BLOB NOT NULL UNIQUE,
    kind INTEGER NOT NULL, agent_id TEXT NOT NULL, parent INTEGER, model TEXT NOT NULL DEFAULT '',
    created_at INTEGER NOT NULL, last_at INTEGER NOT NULL, {_COUNTERS})""",
    # prev: seq of the row before in the chain, NULL for the first. source: see `_BASE`.
    """CREATE TABLE row (seq INTEGER PRIMARY KEY, fingerprint BLOB NOT NULL UNIQUE,
    content_key BLOB, digest BLOB NOT NULL, thread INTEGER NOT NULL, prev INTEGER,
    role INTEGER NOT NULL, kind INTEGER NOT NULL, name TEXT, line_count INTEGER NOT NULL,
    size INTEGER NOT NULL, in_context INTEGER NOT NULL DEFAULT 1, trimmed_at_seq INTEGER,
    trimmed_at INTEGER, created_at INTEGER NOT NULL, echo INTEGER NOT NULL, masked INTEGER NOT NULL,
    source INTEGER)""",
    # Reminders are known again by their text, wherever in the thread a client renders them.
    f"CREATE INDEX row_system ON row (thread, digest) WHERE role = {ROLES.index('system')}",
    "CREATE TABLE line (id INTEGER PRIMARY KEY, text TEXT NOT NULL)",
    f"""CREATE VIRTUAL TABLE lines_fts USING fts5 (text, content='line', content_rowid='id',
    columnsize=0, tokenize='{TOKENIZER}')""",
    """CREATE TABLE blob (seq INTEGER NOT NULL, id TEXT NOT NULL, media TEXT NOT NULL,
    size INTEGER NOT NULL, PRIMARY KEY (seq, id)) WITHOUT ROWID""",
    """CREATE TABLE events (id INTEGER PRIMARY KEY, at TEXT NOT NULL, kind TEXT NOT NULL,
    version TEXT NOT NULL, location TEXT, error TEXT, tokens_before INTEGER, tokens_after INTEGER,
    dropped INTEGER, model TEXT, thread_root TEXT, trimmed INTEGER, input_tokens INTEGER,
    cache_read_tokens INTEGER, cache_creation_tokens INTEGER, output_tokens INTEGER,
    breakpoints INTEGER, breakpoint_at TEXT, prefix_kept INTEGER, prefix_bytes INTEGER,
    bust TEXT)""",
    f"""CREATE VIEW messages AS SELECT seq, lower(hex(row.fingerprint)) AS fingerprint,
    lower(hex(thread.fingerprint)) AS thread, {_names(ROLES, "role")} AS role,
    {_names(KINDS, "row.kind")} AS kind, name,
    (SELECT coalesce(group_concat(text, char(10)), '') FROM line
    WHERE line.id > {_BASE} AND line.id <= {_BASE} + {LAST_LINE}) AS text,
    (SELECT group_concat(blob.id) FROM blob WHERE blob.seq = coalesce(source, row.seq)) AS blob_id,
    in_context, trimmed_at_seq, {_utc("trimmed_at")} AS trimmed_at,
    {_utc("row.created_at")} AS created_at, echo, masked, size, source,
    lower(hex(content_key)) AS content_key, lower(hex(digest)) AS digest
    FROM row JOIN thread ON thread.id = row.thread""",
    f"""CREATE VIEW lines AS SELECT id, (id >> {LINE_BITS}) & {LAST_SEQ} AS message_seq,
    id & {LAST_LINE} AS line_no,
    {_names(ROLES, f"(id >> {GROUP_SHIFT}) % {ECHO_GROUP}")} AS role, text,
    id >= {ECHO_GROUP << GROUP_SHIFT} AS echo FROM line""",
    f"""CREATE VIEW threads AS SELECT lower(hex(fingerprint)) AS thread,
    {_names(THREAD_KINDS, "kind")} AS kind, agent_id,
    (SELECT lower(hex(fingerprint)) FROM thread AS up WHERE up.id = thread.parent) AS parent, model,
    {_utc("created_at")} AS created_at, {_utc("last_at")} AS last_at, {", ".join(COUNTERS)}
    FROM thread""",
)
OUR_NAMES = frozenset(
    {"session", "thread", "row", "line", "lines_fts", "blob", "events"}
    | {"messages", "lines", "threads", "row_system"}
)
