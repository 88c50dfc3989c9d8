"""What is looked for, where, and what was found; plain values."""

from __future__ import annotations

from dataclasses import dataclass

from openmem.base.errors import Usage
from openmem.base.policy import Policy
from openmem.context.rows import ROLES

DEFAULT_ROLES = ("user", "tool")
CONTEXT_LIMIT = 5
LIMIT_LIMIT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A search by words (`text`) or by a regular expression (`pattern`), never both.

    `roles`: empty for all. `in_context`: None for both. `context`: neighbours before and after
    each hit, 0 to 5. `session_id`: sanitised; "" for all in scope. `include_echo`: also what
    openmem itself said. `group`: with a pattern, count its captures too. `is_hybrid`: rank by
    words and vectors together, where there are vectors.
    """

    text: str = ""
    pattern: str = ""
    roles: tuple[str, ...] = DEFAULT_ROLES
    in_context: bool | None = None
    context: int = 0
    limit: int = 8
    session_id: str = ""
    include_echo: bool = False
    group: bool = False
    is_hybrid: bool = False

    def checked(self) -> Query:
        """Return the query itself. Usage when a value is out of range; the message names it."""
        if self.text and self.pattern:
            raise Usage("give words or a pattern, not both.")
        for role in self.roles:
            if role not in ROLES:
                raise Usage(f"{role!r} is not a role; there are {', '.join(ROLES)}.")
        if not 0 <= self.context <= CONTEXT_LIMIT:
            raise Usage(f"context is {self.context}; it can be 0 to {CONTEXT_LIMIT}.")
        if not 1 <= self.limit <= LIMIT_LIMIT:
            raise Usage(f"limit is {self.limit}; it can be 1 to {LIMIT_LIMIT}.")
        return self

    @property
    def wanted_roles(self) -> tuple[str, ...]:
        return self.roles or ROLES


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which sessions may be read. `workspace_key`: of this workspace; None: of no known one.

    `policy`: whose links say which workspace a session's folder is part of; None for no links.
    """

    workspace_key: str | None = None
    all_workspaces: bool = False
    policy: Policy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A row near a hit. `excerpt`: its first lines, whole."""

    seq: int
    role: str
    kind: str
    name: str
    excerpt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A row that was found. `excerpt`: lines that match, whole, in order; "…" where some are left
    out. A line of more than 2,000 characters is cut round its match.

    `matched_terms`: which of the query's words it holds; empty for a pattern. `similarity`: the
    cosine to the query, None where vectors did not find it.
    """

    session_id: str
    seq: int
    role: str
    kind: str
    name: str
    in_context: bool
    excerpt: str
    before: tuple[Neighbour, ...] = ()
    after: tuple[Neighbour, ...] = ()
    blob_ids: tuple[str, ...] = ()
    matched_terms: tuple[str, ...] = ()
    created_at: str = ""
    agent: str = ""
    cwd: str = ""
    similarity: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorState:
    """How the vectors of the sessions searched stand, in rows. `problem`: why they did not rank."""

    filled: int = 0
    pending: int = 0
    skipped: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The best hits and exact counts under the same filters.

    `total_matches`: rows with any of the words, or with a match of the pattern; a word that is in
    nearly every row is not counted when another one is not. `line_matches`: lines with every
    word, or lines that match the pattern. `mode`: "lexical", "literal" when a word was only
    found inside of others, or "hybrid"; counts are by words then, too. `vectors`: None where no
    model is named. `timed_out`: counts are of what was reached in time. `groups`: captures
    of a pattern with their number of lines, the most frequent ones; `group_count`: of how many.
    """

    hits: tuple[Hit, ...] = ()
    total_matches: int = 0
    line_matches: int = 0
    mode: str = "lexical"
    skipped: tuple[str, ...] = ()
    timed_out: bool = False
    groups: tuple[tuple[tuple[str, ...], int], ...] = ()
    group_count: int = 0
    sessions_searched: int = 0
    vectors: VectorState | None = None
